"""What an engine must say of itself, so that an index can be exported to it and it can be asked.

Words go by their number, which is their line in `vocabulary.txt`, from 0: names with dots are refused by
some engines, and others take only numbers.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

FIELD = "words"
"""The field, or the vector, that holds the weights."""

_KEYS = uuid.UUID("5f0b9dd5-6a0b-5b5c-9d0c-5f2a3f5f0c7e")


@dataclass(frozen=True)
class Made:
    """How the documents were made.

    Attributes:
        model: identity of the model that encoded them.
        scheme: how weights became whole numbers, see `lexlip.sparse.quantize`.
        words: the vocabulary.
    """

    model: str
    scheme: str
    words: Sequence[str]


@dataclass(frozen=True)
class Document:
    """A photo: its id, and the numbers and whole weights of its words."""

    id: str
    numbers: list[int]
    weights: list[int]

    @property
    def key(self) -> str:
        """The id as every engine takes it: a UUID, the same each time."""
        return str(uuid.uuid5(_KEYS, self.id))


@dataclass(frozen=True)
class Request:
    """An HTTP request: its path below the host, and its JSON."""

    path: str
    body: Any


@dataclass(frozen=True)
class Found:
    """A hit as an engine answers it."""

    id: str
    score: float
    model: str
    scheme: str


class OtherEngine(ABC):
    """An engine to which an index is exported.

    Attributes:
        name: on the command line.
        versions: of the server, that the files are for.
        bits: significant bits of a weight that it keeps.
        ending: of the names of the files with documents.
        folder: in which these files lie.
        batch: documents in a file; the file is also the body of one request.
        host: where a server is if nothing else was said.
    """

    name: ClassVar[str]
    versions: ClassVar[str]
    bits: ClassVar[int] = 24  # float32
    ending: ClassVar[str] = ".json"
    folder: ClassVar[str] = ""
    batch: ClassVar[int] = 1000
    host: ClassVar[str] = ""

    @abstractmethod
    def settings(self, made: Made, target: str) -> dict[str, str]:
        """Return the files that make an index named `target`, by name."""

    @abstractmethod
    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        """Return one file of documents."""

    @abstractmethod
    def commands(self, target: str, host: str) -> list[str]:
        """Return the shell commands that load the files into a server."""

    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        """Return files with the query to use, by name.

        Args:
            query: whole weights by a word's number.
            k: hits.
            made: how the documents were made.
            target: the index.
        """
        return {}


class AskedEngine(OtherEngine):
    """An engine that answers over plain HTTP."""

    @abstractmethod
    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        """Return the request for the k best documents.

        Args:
            query: whole weights by a word's number.
            k: hits.
            target: the index.
        """

    @abstractmethod
    def found(self, answer: Any) -> list[Found]:
        """Return the hits in the JSON of an answer, best first.

        Raises:
            ValueError, KeyError, TypeError: it is no such answer.
        """

    def key_header(self, key: str) -> dict[str, str]:
        """Return the header that carries an API key."""
        return {"Authorization": f"Bearer {key}"}

    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        return {"query.json": pretty(self.request(query, k, target).body)}


def pretty(value: Any) -> str:
    """Return JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def compact(value: Any) -> str:
    """Return JSON for programs."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def found(fields: Mapping[str, Any], score: Any) -> Found:
    """Return a hit of the stored fields of a document.

    Raises:
        ValueError, KeyError, TypeError: they are not those that were exported.
    """
    texts = [fields[name] for name in ("id", "model", "scheme")]
    if not all(isinstance(text, str) for text in texts) or isinstance(score, bool):
        raise ValueError("a hit without id, model and scheme")
    return Found(texts[0], float(score), texts[1], texts[2])
