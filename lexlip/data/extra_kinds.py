"""Kinds of photos that a package of its own reads, which people choose to install: RAW files, and JPEG XL."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from lexlip.errors import EXTRAS


class Kind(NamedTuple):
    """A kind of files, its endings, and the module that reads it."""

    name: str
    endings: tuple[str, ...]
    module: str

    def lacks_package(self) -> str:
        """Return what to say of such a file if the module is not installed; else ""."""
        return "" if is_installed(self.module) else self.advice

    @property
    def advice(self) -> str:
        return f"to read {self.name}s, {EXTRAS[self.module]}"


RAW = Kind(
    "RAW file",
    (".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw"),
    "rawpy",
)
JPEG_XL = Kind("JPEG XL file", (".jxl",), "pillow_jxl")
KINDS = (RAW, JPEG_XL)


@cache
def is_installed(module: str) -> bool:
    return find_spec(module) is not None


def lacks_package(name: str) -> str:
    """Return what to say of a file of such a name if it needs a package that is not installed; else ""."""
    return next((kind.lacks_package() for kind in KINDS if name.lower().endswith(kind.endings)), "")
