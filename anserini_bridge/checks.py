"""What every searcher checks, and says, alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anserini_bridge.errors import BadVectors, IndexMismatch
from anserini_bridge.metadata import IndexMetadata


def state_of(metadata: IndexMetadata) -> str:
    """Return the name of a state of an index; another state of it has another one."""
    return f"{metadata.created} {metadata.directory} {metadata.commit or metadata.documents}"


def made_anew(path: Path) -> IndexMismatch:
    """Return the error of a searcher whose index was made anew with another model or in another way."""
    return IndexMismatch(f"the index at {path} was made in another way now: open it again")


def check_settings(k: int, threads: int, alpha: float) -> None:
    """Check the settings of a search; BadVectors: one is invalid."""
    for name, value in (("k", k), ("threads", threads)):
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise BadVectors(f"{name} is {value!r}: give a whole number of at least 1")
    if not 0 < alpha <= 1:
        raise BadVectors(f"alpha is {alpha!r}: give a number above 0 and at most 1")


def check_allowed(allowed: NDArray[np.bool_], size: int) -> None:
    """Check which of `size` documents may be found; BadVectors: it is of another type or length."""
    if allowed.dtype != np.bool_ or allowed.shape != (size,):
        raise BadVectors(
            f"allowed is {allowed.dtype} {list(allowed.shape)}: give bool [{size}], as the index has in this"
            " state"
        )


def check_same_state(allowed: str, searched: str) -> None:
    """Check that documents that may be found are of the state that is searched; BadVectors: they are not."""
    if allowed != searched:
        raise BadVectors("the allowed documents are of another state of the index: prepare them again")


def check_one_row(rows: int) -> None:
    """Check that there is one query; BadVectors: there is not."""
    if rows != 1:
        raise BadVectors(f"there are {rows} queries: give one row")
