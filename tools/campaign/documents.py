"""Documents with random vectors that the campaign keeps, and what brute force answers.

python -m tools.campaign.documents INDEX OPERATION SEED   # lets a process of its own change an index
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, ImpactSearcher, ImpactWriter

from .contract import Broken

WORDS = [f"w{number}" for number in range(48)]
QUANTIZATION = {"scheme": "unit", "scale": 1000}
SETTINGS: dict[str, Any] = {
    "encoder": "campaign", "quantization": QUANTIZATION, "topk": None, "normalize": True
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class State:
    """What an index holds, or should.

    Attributes:
        ids: in the order in which they were added.
        vectors: int64 [len(ids), V]; few distinct weights, so that many scores tie.
    """

    ids: tuple[str, ...]
    vectors: NDArray[np.int64]

    @classmethod
    def random(cls, random: Random, number: int, first: int = 0) -> State:
        rng = np.random.default_rng(random.getrandbits(32))
        vectors = rng.integers(1, 6, (number, len(WORDS))) * (rng.random((number, len(WORDS))) < 0.15)
        return cls(tuple(f"d{first + row}.jpg" for row in range(number)), vectors.astype(np.int64))

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same documents, whatever their order."""
        if not isinstance(other, State) or sorted(self.ids) != sorted(other.ids):
            return False
        rows, others = (np.argsort(np.array(one.ids, object)) for one in (self, other))
        return bool(np.array_equal(self.vectors[rows], other.vectors[others]))

    __hash__ = None  # type: ignore[assignment]

    def without(self, ids: Sequence[str]) -> State:
        kept = [row for row, id in enumerate(self.ids) if id not in set(ids)]
        return State(tuple(self.ids[row] for row in kept), self.vectors[kept])

    def upserted(self, new: State) -> State:
        """Return the state after an upsert: what is replaced comes last."""
        rest = self.without(new.ids)
        return State(rest.ids + new.ids, np.concatenate([rest.vectors, new.vectors]))

    def search(self, query: NDArray[np.int64], k: int) -> tuple[list[str], list[int]]:
        """Return the k best ids with their scores; equal scores in the order of addition."""
        scores = self.vectors @ query
        best = [row for row in np.argsort(-scores, kind="stable")[:k] if scores[row] > 0]
        return [self.ids[row] for row in best], [int(scores[row]) for row in best]


@dataclass(frozen=True)
class Change:
    """An operation of a writer, with what the index holds before and after it."""

    operation: str
    old: State | None
    new: State
    deleted: tuple[str, ...] = ()
    written: State | None = None

    def apply(self, path: Path) -> None:
        """Let the product do it."""
        if self.operation in ("create", "replace"):
            with ImpactWriter(path, WORDS, **SETTINGS) as writer:
                half = len(self.new.ids) // 2
                for part in (slice(half), slice(half, None)):
                    writer.add(self.new.ids[part], csr_matrix(self.new.vectors[part]))
            return
        with ImpactWriter(path, WORDS, mode="update", **SETTINGS) as writer:
            if self.operation == "optimize":
                writer.optimize()
            if self.deleted:
                writer.delete(self.deleted)
            if self.written is not None:
                writer.upsert(self.written.ids, csr_matrix(self.written.vectors))


OPERATIONS = ("create", "replace", "update", "optimize")


def change(operation: str, seed: int) -> Change:
    """Return an operation that follows from a seed."""
    random = Random(f"change {seed}")
    old = State.random(random, 120)
    return {
        "create": lambda: Change(operation, None, old),
        "replace": lambda: Change(operation, old, State.random(random, 90, 60)),
        "optimize": lambda: Change(operation, old, old),
        "update": lambda: update_of(old, random),
    }[operation]()


def update_of(old: State, random: Random) -> Change:
    """Return an update of a state: documents that go, documents that change, new ones."""
    deleted = tuple(random.sample(old.ids, len(old.ids) // 6))
    fresh = State.random(random, 20, random.randrange(1000, 10**6))
    changed = State.random(random, 10)
    ids = random.sample(old.without(deleted).ids, 10)
    written = fresh.upserted(State(tuple(ids), changed.vectors))
    return Change("update", old, old.without(deleted).upserted(written), deleted, written)


def ones() -> csr_matrix:
    """Return a query of all words."""
    return csr_matrix(np.ones((1, len(WORDS)), np.int64))


def write_in_segments(path: Path, state: State, segments: int = 3) -> None:
    """Write a state in several sessions, each of which makes a segment."""
    for number, rows in enumerate(np.array_split(np.arange(len(state.ids)), segments)):
        mode: Any = "update" if number else "create"
        with ImpactWriter(path, WORDS, mode=mode, **SETTINGS) as writer:
            writer.add([state.ids[row] for row in rows], csr_matrix(state.vectors[rows]))


def read(path: Path) -> State:
    """Return what an index of any words holds, ordered by id."""
    with ImpactSearcher(path) as searcher:
        ids = sorted(searcher.ids())
        vectors = searcher.vectors(ids).toarray() if ids else np.zeros((0, len(searcher.vocabulary)))
        return State(tuple(ids), vectors.astype(np.int64))


def check_one_of(path: Path, states: Sequence[State], random: Random) -> State:
    """Return the state that an index is in.

    Raises:
        Broken: it is in none of these, or a search answers otherwise than brute force.
    """
    found = read(path)
    state = next((state for state in states if found == state), None)
    if state is None:
        raise Broken(f"the index holds {len(found.ids)} documents that are neither the old state nor the new")
    check_answers(path, state, random)
    return state


def check_answers(path: Path, state: State, random: Random, number: int = 8) -> None:
    """Compare searches with brute force."""
    rng = np.random.default_rng(random.getrandbits(32))
    queries = rng.integers(0, 4, (number, len(WORDS))) * (rng.random((number, len(WORDS))) < 0.2)
    with ImpactSearcher(path, WORDS) as searcher:
        found, scores = searcher.search(csr_matrix(queries), k=7)
    for query, ids, points in zip(queries, found, scores, strict=True):
        if (ids, points.tolist()) != state.search(query.astype(np.int64), 7):
            raise Broken(f"a search finds {ids[:3]} …, and brute force {state.search(query, 7)[0][:3]} …")


if __name__ == "__main__":
    try:
        change(sys.argv[2], int(sys.argv[3])).apply(Path(sys.argv[1]))
    except BridgeError as error:
        sys.exit(f"{type(error).__name__}: {error}")
