"""Vectors and ids that no program should pass."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix

from anserini_bridge import ImpactSearcher, ImpactWriter

from .contract import Broken, Place, attack
from .documents import SETTINGS, WORDS, State, read, write_in_segments
from .mutations import text
from .processes import refusals

WIDTH = len(WORDS)
NUMBERS = (0, 1, -1, 0.5, 3, 1e300, np.nan, np.inf, -np.inf, 2**31 - 1, 2**31, -(2**31), 2.0**53, 1e-300)
TYPES = "int8 int16 int32 int64 uint32 uint64 float32 float64 bool complex64".split()


def matrix(random: Random, rows: int) -> Any:
    """Return something like a CSR matrix; often broken."""
    rng = np.random.default_rng(random.getrandbits(32))
    columns = random.choice([WIDTH, WIDTH, WIDTH, WIDTH + 1, 1])
    made: Any = csr_matrix(rng.integers(0, 5, (rows, columns)) * (rng.random() < 0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = made.astype(random.choice(TYPES))
        kind = random.randrange(11)
        if kind <= 2 and made.nnz:
            made = made.astype(np.float64)
            made.data[rng.integers(made.nnz)] = random.choice(NUMBERS)
        elif kind == 3 and made.nnz:
            made.indices[rng.integers(made.nnz)] = random.choice([-1, WIDTH, 2**31 - 1, 0])
        elif kind == 4:
            made.indptr[rng.integers(len(made.indptr))] = random.choice([-1, 2**31 - 1, 0, made.nnz + 1])
        elif kind == 5:
            made.data = made.data[:-1]
        elif kind == 6:
            made = random.choice([coo_matrix, csc_matrix])(made)
        elif kind == 7:
            made = random.choice([made.toarray(), None, [[1]], "x", np.zeros(WIDTH), csr_matrix((rows, 0))])
        elif kind == 8 and made.nnz:
            made.indices[:] = made.indices[0]
    return made


def ids_of(random: Random, number: int) -> Any:
    """Return ids; often odd."""
    names: list[Any] = [f"n{row}" for row in range(number)]
    if random.random() < 0.4 and names:
        names[random.randrange(number)] = random.choice([text(random), None, 7, b"x", "a" * 40000, "n0"])
    return names if random.random() < 0.9 else names[:-1]


def _dense(vectors: Any) -> Any:
    """Return vectors that the product has taken as an array; Broken: it should not have taken them."""
    try:
        dense = csr_matrix(vectors)
        dense.check_format(full_check=True)
        weights = dense.toarray()
    except (ValueError, TypeError) as error:
        raise Broken(f"malformed vectors were taken: {error}") from error
    if (weights.real < 0).any() or weights.imag.any():
        raise Broken("negative or complex weights were taken")
    return weights.real.astype(np.int64)


@attack("fuzz.writers", 300, 10, 30)
def writers(random: Random, place: Place) -> None:
    """Hand a writer odd documents: refused, or stored as they are; the rest stays as it was."""
    index, old = place.folder / "index", State.random(random, 30)
    write_in_segments(index, old, 1)
    rows = random.randrange(5)
    vectors, ids = matrix(random, rows), ids_of(random, rows)
    method = random.choice(["add", "upsert", "delete"])
    wanted = old
    with refusals():
        with ImpactWriter(index, WORDS, mode="update", **SETTINGS) as writer:
            getattr(writer, method)(*([ids] if method == "delete" else [ids, vectors]))
        wanted = old.without(ids) if method == "delete" else old.upserted(State(tuple(ids), _dense(vectors)))
    if (found := read(index)) != wanted:
        raise Broken(f"after {method} the index holds {len(found.ids)} documents, and not what it was given")


@cache
def _open(prepared: Path) -> tuple[ImpactSearcher, State]:
    """Return an index of the campaign's own, which stays open."""
    index, state = Path(tempfile.mkdtemp(dir=Path.cwd().parent)) / "index", State.random(Random("open"), 50)
    write_in_segments(index, state)
    return ImpactSearcher(index), state


@attack("fuzz.searchers", 1200, 50, 30)
def searchers(random: Random, place: Place) -> None:
    """Hand a searcher odd queries: refused, or answered as brute force does."""
    searcher, state = _open(place.prepared)
    queries = matrix(random, random.randrange(4))
    how: dict[str, Any] = {"k": random.choice([1, 5, 10**6, 0, -1, 2.5, None, 2**40])}
    if random.random() < 0.2:
        how["alpha"] = random.choice([0, -1, 1.5, float("nan"), 1.0])
        how["threads"] = random.choice([1, 3, 0, "2"])
    if random.random() < 0.2:
        allowed = [np.ones(50, bool), np.ones(3, bool), np.ones(50), np.zeros((50, 1), bool)]
        how["allowed"] = random.choice(allowed)
    with refusals():
        found, scores = searcher.search(queries, **how)
        for query, ids, points in zip(_dense(queries), found, scores, strict=True):
            if (ids, points.tolist()) != state.search(query, int(how["k"])):
                raise Broken(
                    f"a query of {queries.dtype} is answered otherwise than by brute force: {ids[:3]}"
                )


@attack("fuzz.quantize", 800, 50, 30)
def quantized(random: Random, place: Place) -> None:
    """Quantize odd weights: refused, or whole weights that a writer takes."""
    from lexlip.sparse.quantize import quantize
    from lexlip.sparse.top_words import topk

    rng = np.random.default_rng(random.getrandbits(32))
    vectors = csr_matrix(rng.random((3, WIDTH)) * (rng.random((3, WIDTH)) < 0.3)).astype(np.float32)
    for _ in range(random.randrange(4)):
        if vectors.nnz:
            vectors.data[rng.integers(vectors.nnz)] = random.choice([one for one in NUMBERS if one != 1e300])
    kept, scheme = random.choice([None, 1, 5, 10**6]), random.choice(["unit", "paper"])
    with refusals(), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            impacts = quantize(topk(vectors, kept), scheme)  # type: ignore[arg-type]
        except Warning as warning:
            raise Broken(f"weights that cannot be quantized become garbage: {warning}") from warning
        sound = np.isfinite(vectors.data).all() and (vectors.data >= 0).all()
        if sound and impacts.nnz and impacts.data.min() < 1:
            raise Broken(f"weights from 0 to {vectors.data.max()} become {impacts.data.min()}")
