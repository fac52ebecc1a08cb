"""Large files of Lucene's are compared with checksums block by block, as they are read."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridge_corpus import listed, written
from scipy.sparse import csr_matrix
from skips import needs_anserini

from anserini_bridge import CorruptIndex, ImpactSearcher, update_index
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index

DOCUMENTS, WIDTH = 6_000, 20
LARGE = 2**20  # bytes
WORDS = [f"w{number}" for number in range(WIDTH)]


@pytest.fixture(scope="module")
def ids() -> list[str]:
    return [random.Random(number).randbytes(100).hex() for number in range(DOCUMENTS)]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, ids: list[str]) -> Path:
    rng = np.random.default_rng(0)
    rows = csr_matrix(rng.integers(1, 99, (DOCUMENTS, WIDTH)))
    return written(tmp_path_factory.mktemp("words") / "index", WORDS, ids, rows)


def ask_words(index: Path) -> Any:
    with ImpactSearcher(index) as searcher:
        found = searcher.search(csr_matrix(np.eye(WIDTH, dtype=np.int64)), 100)
        return listed(found), searcher.numbers(found[0][0]).tolist()


def check_flips(folder: Path, ask: Callable[[], Any]) -> set[str]:
    """Flip bits of large files: answers stay, or are refused; return the kinds of files that are refused."""
    right, refused, generator = ask(), set(), random.Random(0)
    large = [path for path in sorted(folder.iterdir()) if path.stat().st_size > LARGE]
    for file in large:
        whole = file.read_bytes()
        for _ in range(3):
            bits = bytearray(whole)
            bits[generator.randrange(len(bits))] ^= 1 << generator.randrange(8)
            file.write_bytes(bits)
            with contextlib.suppress(CorruptIndex):
                assert ask() == right, file
                continue
            refused.add(file.suffix)
        file.write_bytes(whole)
    assert ask() == right
    return refused


def test_flipped_bits_of_an_index_of_words(words: Path) -> None:
    assert ".dvd" in check_flips(words / "data-1" / "lucene", lambda: ask_words(words))


@needs_anserini
def test_flipped_bits_of_an_index_of_texts(tmp_path: Path, ids: list[str]) -> None:
    texts = [f"{WORDS[number % WIDTH]} of all" for number in range(DOCUMENTS)]
    write_bm25_index(tmp_path / "texts", ids, texts)

    def ask() -> Any:
        with Bm25Searcher(tmp_path / "texts") as searcher:
            return listed(searcher.search([*WORDS, "all"], 100))

    assert ".fdt" in check_flips(tmp_path / "texts", ask)


def test_an_update_keeps_the_checksums_of_a_damaged_file(words: Path) -> None:
    """It may not make damage right by computing them anew."""
    (file,) = (words / "data-1" / "lucene").glob("*.dvd")
    bits = bytearray(file.read_bytes())
    bits[len(bits) // 2] ^= 1
    file.write_bytes(bits)
    with contextlib.suppress(CorruptIndex), update_index(words) as writer:
        writer.add(["new"], csr_matrix(([1], ([0], [3])), shape=(1, WIDTH)))
    with pytest.raises(CorruptIndex), ImpactSearcher(words) as searcher:
        searcher.ids()
