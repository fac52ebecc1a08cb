"""Single flipped bits, which a search or a resumed training must notice by itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import BridgeError, ImpactSearcher, ImpactWriter
from anserini_bridge.bm25 import Bm25Searcher, write_bm25_index
from anserini_bridge.errors import CorruptIndex

from .contract import Attack, Broken, Workplace
from .documents import SETTINGS, WORDS
from .kills_of_commands import losses
from .prepare import KINDS, index_of, sharded
from .processes import Ended, check_end, invoke

SEARCHES: tuple[tuple[str, ...], ...] = (
    ("two red circles",),
    ("a blue square", "--captions"),
    ("yellow", "--caption", "yellow"),
)
DOCUMENTS = 20_000  # of which Lucene's files are so large that they are checked in blocks
KEPT = 8  # steps of training after which it is interrupted


def of_index(kind: str, random: Random, place: Workplace) -> None:
    """Flip a bit of an index, and search it in several ways."""
    whole = sharded(place.prepared) / ".lexlip" if kind == "shards" else index_of(place.prepared, kind)
    index = place.folder / "index"
    shutil.copytree(whole, index)
    what = flip(random, place, index)
    right = _answers(whole, kind)
    for search, wanted in zip(_searches(kind), right, strict=True):
        ended = invoke("search", *search, "-k", 30, "--index", index, "--json")
        check_end(ended, what, 0, 2)
        if ended.code == 0 and _hits(ended) != wanted:
            raise Broken(f"{what}: {search} has other hits, and nothing says why")


def of_model(random: Random, place: Workplace) -> None:
    """Flip a bit of the model that searches."""
    model, index = place.folder / "model", index_of(place.prepared, "impact")
    whole = (place.prepared / "words" / "best").resolve()
    shutil.copytree(whole, model)
    what = flip(random, place, model)
    search = ("search", "two red circles", "-k", 30, "--index", index, "--json", "--model")
    ended = invoke(*search, model)
    check_end(ended, what, 0, 2)
    if ended.code == 0 and _hits(ended) != _hits(invoke(*search, whole)):
        raise Broken(f"{what}: a search has other hits, and nothing says why")


def of_checkpoint(random: Random, place: Workplace) -> None:
    """Flip a bit of an interrupted training: it goes on with the same losses, or not at all."""
    whole = interrupted(place.prepared)
    shutil.copytree(whole, place.folder / "run", symlinks=True)
    what = flip(random, place, (place.folder / "run" / "last").resolve())
    ended = invoke("pretrain", place.prepared / "tiny.yaml", "out=run", "--resume")
    check_end(ended, what, 0, 2)
    found, wanted = losses(place.folder / "run"), losses(place.prepared / "words")
    if ended.code == 0 and found != wanted:
        raise Broken(f"{what}: after --resume the losses are {found}, not {wanted}")


def of_blocks(random: Random, place: Workplace) -> None:
    """Flip a bit in one of Lucene's large files, which are checked as they are read."""
    whole = _large(place.prepared)
    name = random.choice(["words", "texts"])
    ask, index = {"words": _ask_words, "texts": _ask_texts}[name], place.folder / name
    shutil.copytree(whole / name, index)
    what = flip(random, place, index, least=2**20)
    try:
        found = ask(index)
    except CorruptIndex:
        return
    except BridgeError as error:
        raise Broken(f"{what}: the error is no CorruptIndex: {error}") from error
    if found != _right(whole / name, ask):
        raise Broken(f"{what}: a search has other hits, and nothing says why")


def flip(random: Random, place: Workplace, folder: Path, least: int = 1) -> str:
    """Flip a bit of a file with that many bytes at least; each try takes the next one."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size >= least)
    file = files[place.number % len(files)]
    data = bytearray(file.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    return f"flipped a bit at {at} of {file.relative_to(folder)}"


def _searches(kind: str) -> tuple[tuple[str, ...], ...]:
    return SEARCHES if kind == "impact" else (SEARCHES[0], SEARCHES[0])


@cache
def _answers(index: Path, kind: str) -> list[str]:
    """Return what an intact index answers."""
    found = []
    for search in _searches(kind):
        ended = invoke("search", *search, "-k", 30, "--index", index, "--json")
        check_end(ended, "a search without damage", 0)
        found.append(_hits(ended))
    return found


def _hits(ended: Ended) -> str:
    hits = json.loads(ended.stdout)["hits"]
    return json.dumps(
        [(hit["id"], hit["path"].partition("/index/")[2], round(hit["score"], 5)) for hit in hits]
    )


def interrupted(prepared: Path) -> Path:
    """Return a run that was interrupted; it is made when it is first asked for."""
    from lexlip.training import loop

    folder = prepared / "interrupted" / "run"
    if not folder.exists():
        making = prepared / f"making-run-{os.getpid()}"
        making.mkdir()
        save, here = loop.save_checkpoint, Path.cwd()

        def stop(run: Path, step: int, *rest: object) -> None:
            save(run, step, *rest)  # type: ignore[arg-type]
            if step >= KEPT:
                raise KeyboardInterrupt

        os.chdir(making)
        with patch.object(loop, "save_checkpoint", stop):
            invoke("pretrain", prepared / "tiny.yaml", "out=run")
        os.chdir(here)
        making.rename(folder.parent)
    return folder


def _large(prepared: Path) -> Path:
    """Return a folder with indexes of words and of texts; it is made when it is first asked for."""
    folder = prepared / "large"
    if not folder.exists():
        making = prepared / f"making-large-{os.getpid()}"
        rng = np.random.default_rng(0)
        ids = [rng.bytes(40).hex() for _ in range(DOCUMENTS)]
        vectors = rng.integers(1, 999, (DOCUMENTS, len(WORDS))) * (rng.random((DOCUMENTS, len(WORDS))) < 0.9)
        with ImpactWriter(making / "words", WORDS, **SETTINGS) as writer:
            writer.add(ids, csr_matrix(vectors))
        texts = [" ".join(rng.choice(WORDS, 20)) for _ in range(DOCUMENTS)]
        write_bm25_index(making / "texts", ids, texts)
        making.rename(folder)
    return folder


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
def _right(index: Path, ask: Callable[[Path], object]) -> object:
    return ask(index)


def _of(kind: str) -> Attack:
    def attack(random: Random, place: Workplace) -> None:
        of_index(kind, random, place)

    return Attack(f"flips.{kind}", attack, tries=30, short=int(kind in ("impact", "bm25")), seconds=90)


ATTACKS = (
    *map(_of, (*KINDS, "shards")),
    Attack("flips.model", of_model, tries=30, short=1, seconds=90),
    Attack("flips.checkpoint", of_checkpoint, tries=30, short=1, seconds=90),
    Attack("flips.blocks", of_blocks, tries=30, short=0, seconds=90),
)
