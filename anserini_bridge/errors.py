"""Errors of the bridge: each message is one sentence that names the bad value and says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self


class FixableError(Exception):
    """An error that the user can fix; also the base of every such error of `lexlip`."""


class BridgeError(FixableError):
    """Base of every error that this package raises on purpose.

    ::

        BridgeError
        ├── NoJava                    no Java runtime that is new enough
        ├── NoJar                     no jar with Lucene, or Anserini's is not installed
        ├── JVMConflict               Java already runs in this process, or ran before a fork
        ├── IndexNotFound             the path is missing, or holds no index of ours
        ├── IndexVersion              written in a format, or by a Lucene, that cannot be read here
        ├── IndexMismatch             the index was made with other settings
        │   └── VocabularyMismatch    ... with another vocabulary
        ├── CorruptIndex              files of the index are missing or damaged
        ├── IndexLocked               another process is writing
        ├── BadVectors                ids, vectors or a vocabulary that cannot be indexed or searched
        └── UnknownId                 no document has that id
    """

    @staticmethod
    def closed(path: Path) -> BridgeError:
        """Return the error for a searcher of the index at path that was closed."""
        return BridgeError(f"the index at {path} was closed: open it again")


class NoJava(BridgeError):
    """No Java runtime that is new enough was found."""


class NoJar(BridgeError):
    """The jar with Lucene was not found, or that of Anserini, which is needed for more."""


class JVMConflict(BridgeError):
    """The one Java virtual machine of this process cannot be used."""


class IndexNotFound(BridgeError):
    """The path is missing, or it is not an index."""


class IndexVersion(BridgeError):
    """The index is too new or too old to be read here."""


class IndexMismatch(BridgeError):
    """The index was made with settings other than those given."""


class VocabularyMismatch(IndexMismatch):
    """The index was made with another vocabulary."""


class CorruptIndex(BridgeError):
    """Files of the index are missing or damaged."""

    @classmethod
    def at(cls, path: Path, damage: Iterable[object]) -> Self:
        """Return the error for an impact index that is damaged in some places, which can be repaired."""
        first, *others = damage
        more = f" and {len(others)} more" if others else ""
        return cls(
            f"the index at {path} is damaged, and nothing was changed ({first}{more}): see all with"
            f" `lexlip doctor --index {path} --verify`, and encode only that again with"
            f" `lexlip index --index {path} --update --repair`"
        )


class IndexLocked(BridgeError):
    """Another process is writing to the index."""

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the error for the index at path."""
        return cls(f"another process is writing to the index at {path}: wait until it has finished")


class BadVectors(BridgeError):
    """Ids, vectors or a vocabulary cannot be indexed or searched."""


class UnknownId(BridgeError):
    """No document has the id."""

    @classmethod
    def at(cls, path: Path, id: str) -> Self:
        """Return the error for an id that the index at path does not hold."""
        return cls(
            f"the index at {path} holds no document with the id {id!r}: give one of those that ids() returns"
        )
