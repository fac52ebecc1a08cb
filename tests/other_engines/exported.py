"""An index of random weights, and exports of it read back by nothing of the project's."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactWriter

WORDS = [f"w{number}" if number % 7 else f"a.b{number}" for number in range(300)]  # some with a dot


def random_rows(documents: int, seed: int = 0, largest: int = 700) -> csr_matrix:
    """Weights as photos have them: many small ones, few large; 24 words each, but the last has none."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((documents, len(WORDS)), dtype=np.int32)
    for row in rows[:-1]:
        columns = rng.choice(len(WORDS), 24, replace=False)
        row[columns] = np.maximum(1, largest * rng.random(24) ** 3)
    return csr_matrix(rows)


def ids_of(documents: int) -> list[str]:
    return [f"trip/été {number}.jpg" for number in range(documents)]


def write_index(folder: Path, rows: csr_matrix, encoder: str = "tiny@1", scheme: str = "unit") -> Path:
    settings = {"quantization": {"scheme": scheme, "scale": 1000}, "topk": 24, "normalize": True}
    with ImpactWriter(folder, WORDS, encoder=encoder, **settings) as writer:
        writer.add(ids_of(rows.shape[0]), rows)
    return folder


def exported(folder: Path, engine: str) -> list[dict[str, Any]]:
    """The documents: id, model, scheme, key, and words as {number: weight}."""
    files = sorted(folder.rglob("documents-*"))
    return [one for path in files for one in parsed(path.read_text(encoding="utf-8"), engine)]


def parsed(text: str, engine: str) -> list[dict[str, Any]]:
    """The documents of one file."""
    found = []
    if engine in ("opensearch", "elasticsearch"):
        lines = [json.loads(line) for line in text.splitlines()]
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            found.append({**source, "key": action["index"]["_id"]})
    elif engine == "qdrant":
        for point in json.loads(text)["points"]:
            vector = point["vector"]["words"]
            words = dict(zip(vector["indices"], vector["values"], strict=True))
            found.append({**point["payload"], "words": words, "key": point["id"]})
    elif engine == "milvus":
        found += json.loads(text)["data"]
    elif engine == "solr":
        for one in json.loads(text):
            pairs = (pair.split("|") for pair in one["words"].split())
            found.append({**one, "words": {number: int(weight) for number, weight in pairs}})
    elif engine == "vespa":
        for line in map(json.loads, text.splitlines()):
            found.append({**line["fields"], "key": line["put"].rpartition(":")[2]})
    elif engine == "pgvector":
        assert text.endswith("\n")
        for line in text[:-1].split("\n"):
            key, id, model, scheme, vector = (unescaped(field) for field in line.split("\t"))
            found.append({"key": key, "id": id, "model": model, "scheme": scheme, "words": sparse(vector)})
    return [{**one, "words": {int(n): w for n, w in one["words"].items()}} for one in found]


def unescaped(field: str) -> str:
    """A field of PostgreSQL's COPY."""
    characters = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    return re.sub(r"\\(.)", lambda match: characters[match[1]], field)


def sparse(text: str) -> dict[int, int]:
    """A `sparsevec` of pgvector, whose words are counted from 1, as {number from 0: weight}."""
    match = re.fullmatch(r"\{((?:\d+:\d+(?:,(?=\d)|(?=\})))*)\}/(\d+)", text)
    assert match is not None, text
    pairs = [tuple(map(int, pair.split(":"))) for pair in match[1].split(",") if pair]
    numbers = [number for number, _ in pairs]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= int(match[2]) for number in numbers)
    assert int(match[2]) == len(WORDS)
    return {number - 1: weight for number, weight in pairs}


def best(
    documents: list[dict[str, Any]], query: dict[int, int], k: int
) -> list[tuple[dict[str, Any], float]]:
    """Brute force: the documents that share a word with a query, best first."""
    scores = [
        (one, sum(weight * one["words"].get(number, 0) for number, weight in query.items()))
        for one in documents
    ]
    shared = [pair for pair in scores if pair[1] > 0]
    return sorted(shared, key=lambda pair: -pair[1])[:k]


def check_hits(hits: list[tuple[str, float]], documents: list[dict[str, Any]], query: dict[int, int]) -> None:
    """Ids and scores are those of brute force, whatever the order of equal ones."""
    every = best(documents, query, len(documents))
    assert [score for _, score in hits] == [score for _, score in every[:10]]
    scores = {one["id"]: score for one, score in every}
    assert all(scores[id] == score for id, score in hits)


SIZES = pytest.mark.parametrize(
    ("documents", "asked"), [(400, 10), pytest.param(20_000, 100, marks=pytest.mark.slow)]
)


def queries(number: int) -> list[dict[int, int]]:
    """With weights up to 1000, as unit vectors have them."""
    rng = np.random.default_rng(7)
    return [
        dict(zip(rng.choice(len(WORDS), 12, replace=False).tolist(), weights, strict=True))
        for weights in rng.integers(1, 1001, (number, 12)).tolist()
    ]
