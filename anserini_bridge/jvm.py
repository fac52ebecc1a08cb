"""The one Java virtual machine of a process: starts it, loads classes and translates Java's exceptions."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

from anserini_bridge.errors import BridgeError, CorruptIndex, IndexLocked, IndexVersion, JVMConflict
from anserini_bridge.memory_limits import address_space, address_space_left, spare_address_space
from anserini_bridge.runtime import find_jar, find_java, lucene_version

_JAVA_FOLDER = Path(__file__).parent / "java"
_IMPACT_JAR = _JAVA_FOLDER / "impact.jar"  # made by java/build.sh
_DAMAGE = (
    "CorruptIndexException",
    "EOFException",
    "FileNotFoundException",
    "IndexNotFoundException",
    "NoSuchFileException",
)
_JAVA_ITSELF = 400e6  # bytes of address space that Java takes without its heap, with few options (350 MB)
_SMALLEST_HEAP, _LARGEST_HEAP = 64 << 20, 8 << 30
one_at_a_time = threading.RLock()
"""Hold it to call instance methods of Java, see `java_class`."""

# Python may collect garbage while it is held; searchers are then closed, which takes it once more
_lock = threading.RLock()
_classes: dict[str, Any] = {}
_owner: int | None = None  # id of the process in which Java runs


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
        return BridgeError(f"the index at {path} was closed: open it again")
    if kind == "OutOfMemoryError":
        return BridgeError(
            f"Java ran out of memory at {path} ({message}): pass a smaller k or memory_mb,"
            " or raise the limit with the environment variable JAVA_TOOL_OPTIONS=-Xmx8g"
        )
    return BridgeError(
        f"Lucene failed at {path} ({kind}: {message}):"
        " check permissions and free disk space, or build the index anew"
    )
