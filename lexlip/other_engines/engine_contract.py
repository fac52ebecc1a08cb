"""What an engine must say of itself, so that an index can be exported to it and it can be asked.

Words go by their number, which is their line in `vocabulary.txt`, from 0: names with dots are refused by
some engines, and others take only numbers.
"""

from __future__ import annotations

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from lexlip.errors import ConfigError

FIELD = "words"
"""The field, or the vector, that holds the weights."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
"""The name of an index; an engine may be stricter."""

ENGINES = {
    "opensearch": "servers:OpenSearch",
    "elasticsearch": "servers:Elasticsearch",
    "solr": "servers:Solr",
    "qdrant": "servers:Qdrant",
    "milvus": "servers:Milvus",
    "vespa": "servers:Vespa",
    "pgvector": "own_loaders:Pgvector",
    "anserini": "own_loaders:Anserini",
}
"""Modules and classes of the engines, by name."""

_KEYS = uuid.UUID("5f0b9dd5-6a0b-5b5c-9d0c-5f2a3f5f0c7e")


@dataclass(frozen=True)
class Made:
    """How the documents were made: model, scheme (see `lexlip.sparse.quantize`) and vocabulary."""

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

    @property
    def named(self) -> dict[str, int]:
        """Weights by the number of the word, as JSON can name it."""
        return dict(zip(map(str, self.numbers), self.weights, strict=True))

    def stored(self, made: Made) -> dict[str, str]:
        """Return what every engine stores beside the words."""
        return {"id": self.id, "model": made.model, "scheme": made.scheme}


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


class EngineError(Exception):
    """An engine says with the status 200 that it could not, or not wholly: the end of a sentence about it."""


class OtherEngine(ABC):
    """An engine to which an index is exported.

    Attributes:
        versions: those of the server that the files are for.
        bits: significant bits of a weight that it keeps.
        ending, folder: of the files with documents.
        batch: documents in a file; the file is also the body of one request.
        names, named: a pattern of the names that an index may have there, beside `NAME`, and how to say it.
        before: what LOAD.txt asks for before it is run.
    """

    name: ClassVar[str]
    versions: ClassVar[str]
    bits: ClassVar[int] = 24  # float32
    ending: ClassVar[str] = ".json"
    folder: ClassVar[str] = ""
    batch: ClassVar[int] = 1000
    names: ClassVar[str] = ".*"
    named: ClassVar[str] = "ASCII letters, digits, '.', '_' and '-', the first a letter or a digit"
    before: ClassVar[str] = "Fill in URL and AUTH"

    def check_name(self, target: str, option: str = "--name") -> None:
        """Raise ConfigError if no index there, or none that `lexlip search --server` names, has this name.

        `option` is where the user has written it.
        """
        if not NAME.fullmatch(target) or not re.fullmatch(self.names, target):
            raise ConfigError(f"{self.name} takes no index named {target!r}: use {self.named} ({option})")

    @abstractmethod
    def settings(self, made: Made, target: str) -> dict[str, str]:
        """Return the files that make an index named `target`, by name."""

    @abstractmethod
    def documents(self, documents: Sequence[Document], made: Made, target: str) -> str:
        """Return one file of documents."""

    @abstractmethod
    def commands(self, target: str, photos: int) -> list[str]:
        """Return the lines of a bash script that loads the files into a server, asks it, and counts.

        It stops with a message at the first request that fails, also where its status is 200.
        """

    @abstractmethod
    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        """Return files with a query, whole weights by a word's number, for k hits; by name."""


def other_engine(name: str) -> OtherEngine:
    """Return the engine of a name in `ENGINES`."""
    module, kind = ENGINES[name].split(":")
    engine: OtherEngine = getattr(import_module(f"lexlip.other_engines.{module}"), kind)()
    return engine


class AskedEngine(OtherEngine):
    """An engine that answers over plain HTTP.

    Attributes:
        root: what paths begin with; an address may have it before the index.
        limit: the setting of the server that says how large a request may be; "": none is known.
        may_pass: statuses of answers that may be others later: there are too many requests; or a node, or a
            proxy before it, has no answer now.
    """

    root: ClassVar[str] = ""
    limit: ClassVar[str] = ""
    may_pass: ClassVar[tuple[int, ...]] = (429, 502, 503, 504)

    @abstractmethod
    def request(self, query: Mapping[int, int], k: int, target: str) -> Request:
        """Return the request for the k best documents for a query, whole weights by a word's number."""

    @abstractmethod
    def found(self, answer: Any) -> list[Found]:
        """Return the hits in the JSON of an answer, best first.

        Raises:
            EngineError: the answer is an error, or was found in only a part of the documents.
            ValueError, KeyError, TypeError, AttributeError: it is no such answer.
        """

    def reason(self, text: str) -> str:
        """Return what an answer, whose status is an error, says for people."""
        return text

    def key_header(self, key: str) -> dict[str, str]:
        """Return the header that carries an API key."""
        return {"Authorization": f"Bearer {key}"}

    def examples(self, query: Mapping[int, int], k: int, made: Made, target: str) -> dict[str, str]:
        return {"query.json": pretty(self.request(query, k, target).body)}


def partial(why: str) -> EngineError:
    """Return the error of an answer that was found in only a part of the documents."""
    return EngineError(f"answered for only a part of its documents ({why}): ask again, or check it")


STOP = """\
stop() { printf '%s\\n' "${answer:0:2000}"; echo "stopped at $1" >&2; exit 1; }"""
"""A function of bash: prints what was answered and where it stopped."""


def curl(host: str, auth: str, error: str) -> list[str]:
    """Return the head of a bash script in which `send METHOD PATH [DATA]` leaves the answer in $answer.

    `auth` are arguments of curl that a server as it is installed needs, and a remark on others; `error` is an
    extended regular expression of answers that are errors though their status is 200.
    """
    return [
        f"URL={host}",
        f"AUTH={auth}",
        "",
        STOP,
        "send() {  # METHOD PATH [DATA]",
        '    answer=$(curl -sS --fail-with-body "${AUTH[@]}" -X "$1" "$URL$2" \\',
        '        -H \'Content-Type: application/json\' ${3:+--data-binary "$3"}) || stop "$*"',
        f'    if grep -Eq \'{error}\' <<< "$answer"; then stop "$*"; fi',
        "}",
        "",
    ]


def count(photos: int) -> str:
    """Return the last line of a script: what to compare."""
    return f'echo "{photos} photos were exported, and the server counts: $answer"'


def pretty(value: Any) -> str:
    """Return JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def compact(value: Any) -> str:
    """Return JSON for programs."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def found(fields: Mapping[str, Any], score: Any) -> Found:
    """Return a hit of the stored fields of a document; ValueError, KeyError, TypeError: they are others."""
    texts = [fields[name] for name in ("id", "model", "scheme")]
    if not all(isinstance(text, str) for text in texts) or isinstance(score, bool):
        raise ValueError("a hit without id, model and scheme")
    return Found(texts[0], float(score), texts[1], texts[2])
