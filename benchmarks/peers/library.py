"""The interface between the benchmark and a library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from scipy.sparse import csr_matrix

from benchmarks.corpus.corpus import Corpus


class Library(ABC):
    """One index of a corpus, in a process of its own.

    What `search_one` and `search_all` do is timed. Converting queries to what the library takes (`native`,
    `batch`), and hits to numbers (`documents`), is not. `threads` build, and search in batches.
    """

    modules: ClassVar[tuple[str, ...]]  # what is imported; if that fails, the library is missing
    pip: ClassVar[str]  # what to install then
    index: ClassVar[str]  # its name; libraries with the same one share it
    dense: ClassVar[bool] = False  # searches the dense vectors
    builds_with_threads: ClassVar[bool] = True  # with at most `threads`; else the library decides how many

    def __init__(self, corpus: Corpus, folder: Path, threads: int) -> None:
        self.corpus, self.folder, self.threads = corpus, folder, threads
        for module in self.modules:
            import_module(module)

    def stage(self, folder: Path) -> None:  # noqa: B027  (most need none)
        """Write the documents to a folder in the format that `build` reads; not timed."""

    @abstractmethod
    def build(self, staged: Path) -> None:
        """Build the index in `self.folder`; timed."""

    @abstractmethod
    def open(self) -> None:
        """Open the index for searching."""

    @abstractmethod
    def native(self, number: int) -> Any:
        """Return a query, by its number, as the library takes it."""

    @abstractmethod
    def search_one(self, query: Any, k: int) -> Any:
        """Return the hits of one query, with their scores."""

    def batch(self, queries: Sequence[Any]) -> Any:
        """Return several queries as the library takes them."""
        return queries

    def search_all(self, batch: Any, k: int) -> Any:
        """Return the hits of several queries, in one call."""
        raise NotImplementedError

    @abstractmethod
    def documents(self, hits: Any) -> list[int]:
        """Return the numbers of the documents that `search_one` found."""

    def set(self, **setting: Any) -> None:
        """Apply the setting of an engine."""
        for name, value in setting.items():
            setattr(self, name, value)

    def versions(self) -> dict[str, str]:
        """Return the versions of what is measured, by name."""
        from importlib.metadata import version

        return {self.pip: version(self.pip)}


def terms_and_weights(rows: csr_matrix) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the terms and the weights of each row of a matrix, [n, V]."""
    terms, weights, ends = rows.indices.tolist(), rows.data.tolist(), rows.indptr.tolist()
    for start, end in pairwise(ends):
        yield terms[start:end], weights[start:end]
