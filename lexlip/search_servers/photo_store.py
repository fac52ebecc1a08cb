"""What differs between the engines that keep photos: how documents are written, counted, listed and found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lexlip.other_engines.ask import Server
from lexlip.search_servers.photo_queries import Condition, Scored

LONGEST = 8000  # characters of a word that can be looked for: Lucene takes terms of 32,766 bytes

Action = tuple[str, dict[str, Any] | None]
"""A key, and the document that it has from now on (see `photo_documents`); None deletes it."""


@dataclass(frozen=True)
class PhotoStore(ABC):
    """An index of one engine.

    Methods raise what `Server.send` does; EngineError: the answer is an error, or of only a part of the
    documents; ValueError, KeyError, TypeError, AttributeError, IndexError: it is none of such an index.
    """

    server: Server

    @property
    @abstractmethod
    def address(self) -> str:
        """Its address without the engine's name and a plus sign."""

    @abstractmethod
    def about(self) -> tuple[Any, str] | None:
        """Return the document with the key ABOUT, and a name of its version; None: there is none.

        NoIndex: there is no index.
        """

    @abstractmethod
    def health(self) -> str:
        """Return "green"; "yellow", if copies of shards are missing; or "red", if shards are."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether it holds no document at all."""

    @abstractmethod
    def make(self, there: bool) -> None:
        """Make it, without documents; or an empty one that is there ready for them."""

    @abstractmethod
    def begin(self, about: dict[str, Any]) -> None:
        """Write the document with the key ABOUT; AlreadyThere: there is one."""

    @abstractmethod
    def megabytes(self) -> float:
        """Return its size without replicas, in 10^6 bytes."""

    @abstractmethod
    def write(self, actions: Sequence[Action]) -> list[str]:
        """Write and delete documents; return the keys of those that the server is too busy for.

        Writing the same again changes nothing. EngineError, DataError: one is refused, others may be written.
        """

    @abstractmethod
    def refresh(self) -> None:
        """Let searches see what was written."""

    @abstractmethod
    def counts(self, conditions: Sequence[Condition]) -> list[int]:
        """Return the number of photos that meet each of some conditions."""

    @abstractmethod
    def listed(
        self, condition: Condition, fields: Sequence[str], number: int, after: Any
    ) -> tuple[list[Any], Any]:
        """Return documents with some fields, in the order of the first of these, and where to go on.

        Args:
            condition: what they meet.
            fields: of each; by the first they are sorted: "id", or "added".
            number: how many.
            after: None, or what the call before returned.
        """

    @abstractmethod
    def best(
        self, query: Sequence[Scored], allowed: Condition | None, number: int, after: Any
    ) -> tuple[list[tuple[str, float]], Any]:
        """Return ids and scores of photos that meet a part of a query, best first, equal ones by id.

        Args: see `listed`; `allowed` is what they must meet, too.
        """

    @abstractmethod
    def terms(self, field: str, pattern: str, number: int) -> dict[str, int]:
        """Return the most frequent values of a field that fit a regular expression, with counts."""

    @abstractmethod
    def first(self, field: str, order: str) -> str | None:
        """Return the first value of a field by an order, "asc" or "desc"; None: no photo has one."""

    @abstractmethod
    def get(self, keys: Sequence[str], fields: Sequence[str]) -> list[Any]:
        """Return documents, or some of their fields; None for those that are not there."""


def score_of(value: Any) -> float:
    """Return the score of a hit; ValueError: it cannot be one."""
    if isinstance(value, bool) or not 0 < value < 2**53:
        raise ValueError(f"a hit has the score {value!r:.20}")
    return float(value)
