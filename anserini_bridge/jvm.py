"""The one Java machine of a process: starts it, loads classes, turns Java's exceptions into ours."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import BridgeError, CorruptIndex, IndexLocked, IndexVersion, JVMConflict
from .runtime import find_jar, find_java, lucene_version

_JAVA_FOLDER = Path(__file__).parent / "java"
_lock = threading.Lock()
_owner: int | None = None  # id of the process in which Java runs


def start_jvm() -> None:
    """Starts Java with Lucene on the classpath; does nothing where that has been done.

    Raises NoJava, NoJar, or JVMConflict: another package started Java with another classpath, or this
    process was forked from one in which Java already ran (Java does not survive a fork).
    """
    global _owner
    with _lock:
        if _owner == os.getpid():
            return
        if _owner is not None:
            raise JVMConflict(
                f"Process {os.getpid()} was forked from process {_owner}, where Java already ran: "
                "search only after forking, or start processes with multiprocessing's spawn method."
            )
        if "jnius" in sys.modules:
            _check_classpath()
        else:
            _start()
        _owner = os.getpid()


def _start() -> None:
    import jnius_config

    java = find_java()
    options = [
        "-Xrs",  # leave Ctrl-C to Python
        "--enable-native-access=ALL-UNNAMED",  # no warning when Lucene asks for memory hints
        f"-Djava.util.logging.config.file={_JAVA_FOLDER / 'logging.properties'}",
    ]
    if java.version >= 23:
        options.append("--sun-misc-unsafe-memory-access=allow")  # no warning from Lucene 9
    if sys.platform == "linux":
        options.append("-XX:+UseTransparentHugePages")  # a search looks into many places of its memory
    jnius_config.add_options(*options)
    jnius_config.add_classpath(str(find_jar()), str(_JAVA_FOLDER))
    # Java takes the encoding of file names from the locale when it starts.
    with _environment(JAVA_HOME=str(java.path), LC_ALL="C.UTF-8"):
        import jnius  # noqa: F401  (importing it is what starts Java)


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
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
    import jnius

    classpath = jnius.autoclass("java.lang.System").getProperty("java.class.path")
    if str(_JAVA_FOLDER) not in classpath.split(os.pathsep):
        raise JVMConflict(
            f"Java already runs in this process with the classpath {classpath}: "
            "call anserini_bridge.start_jvm() before importing jnius or pyserini."
        )


def java_class(name: str) -> Any:
    """Returns a Java class, starting Java where needed."""
    start_jvm()
    import jnius

    return jnius.autoclass(name, include_protected=False, include_private=False)


@contextlib.contextmanager
def java_errors(path: Path) -> Iterator[None]:
    """Turns exceptions that Java throws into errors about the index at path."""
    start_jvm()
    import jnius

    try:
        yield
    except jnius.JavaException as error:
        raise _translate(error, path) from error


def _translate(error: Any, path: Path) -> BridgeError:
    kind = (error.classname or "").rsplit(".", 1)[-1]
    message = " ".join((error.innermessage or kind).split())
    if kind == "LockObtainFailedException":
        return IndexLocked(f"Another process is writing to the index at {path}: wait until it has finished.")
    unknown = kind == "IllegalArgumentException" and ("codec" in message or "in the future" in message)
    if kind in ("IndexFormatTooNewException", "IndexFormatTooOldException") or unknown:
        return IndexVersion(
            f"Lucene {lucene_version()} cannot read the index at {path} ({message}): "
            "install the pyserini that wrote it, or build the index again."
        )
    if kind in (
        "CorruptIndexException",
        "EOFException",
        "FileNotFoundException",
        "IndexNotFoundException",
        "NoSuchFileException",
    ):
        return CorruptIndex(f"The index at {path} is damaged ({kind}: {message}): build it again.")
    if kind == "AlreadyClosedException":
        return BridgeError(f"The index at {path} was closed: open it again.")
    if kind == "OutOfMemoryError":
        return BridgeError(
            f"Java ran out of memory at {path} ({message}): pass a smaller k or memory_mb, "
            "or raise the limit with the environment variable JAVA_TOOL_OPTIONS=-Xmx8g."
        )
    return BridgeError(f"Lucene failed at {path} ({kind}: {message}).")
