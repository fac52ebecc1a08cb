"""Damaged files: of each kind of index, and of a model."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

from anserini_bridge import read_metadata
from anserini_bridge.metadata import write_metadata

from .contract import Attack, Broken, NotRun, Workplace
from .disk_errors import same, state_of
from .documents import State, read
from .prepare import KINDS, index_of
from .processes import Ended, check_end, invoke

QUERIES = ("two red circles", "a blue square", "three green triangles at the top", "yellow")
SHORT = {"impact": 6, "flat": 2, "hnsw": 0, "bm25": 2}  # tries of a short campaign
DAMAGES = (
    "flip",
    "flip",
    "flip",
    "many flips",
    "zeros",
    "cut",
    "empty",
    "delete",
    "other",
    "append",
    "folder",
)


def of_index(kind: str, random: Random, place: Workplace) -> None:
    """Damage one file of an index; then search, check, optimize and update it."""
    library = place.folder / "library"
    shutil.copytree(place.prepared / "library", library)
    index = library / ".lexlip"
    if kind != "impact":
        shutil.rmtree(index)
        shutil.copytree(index_of(place.prepared, kind), index)
    whole = state_of(library)
    right = _answers(index)
    file = _in_turn(_files(index), place)
    other = _counterpart(file, index, place.prepared / "indexes" / "other" / kind, random)
    what = f"{damage(random, file, other)} {file.relative_to(index)}"

    wrong = _search(index, right, f"{what}: search")
    found = _verify(index, what)
    if wrong and not found:
        raise Broken(
            f"{what}: a search answers {wrong}, and {no_verify() or 'doctor --verify finds nothing'}"
        )
    if kind == "impact":
        for arguments in (["optimize", "--index", index], ["index", library, "--index", index, "--update"]):
            _change(arguments, index, whole, what)


def _change(arguments: list[object], index: Path, whole: State | str, what: str) -> None:
    """Let a command change a damaged index: it must notice, or leave it as good as it should be."""
    before = {path for path in index.rglob("*") if path.is_file()}
    ended = invoke(*arguments)
    name = f"{what}: lexlip {arguments[0]}"
    check_end(ended, name, 0, 2)
    if ended.code == 0:
        try:
            held = read(index)
        except Exception as error:
            if _verify(index, what):
                return
            raise Broken(f"{name} ends with 0, and the index cannot be read: {error}") from error
        if not same(held, whole) and (before != {path for path in index.rglob("*") if path.is_file()}):
            raise Broken(f"{name} ends with 0 and has written damage anew, with checksums that fit")


def of_model(random: Random, place: Workplace) -> None:
    """Damage one file of a model; then search with it and index with it."""
    model = place.folder / "model"
    shutil.copytree((place.prepared / "words" / "best").resolve(), model)
    index = place.folder / "index"
    shutil.copytree(index_of(place.prepared, "impact"), index)
    metadata, root = read_metadata(index), place.prepared / "library"
    place_of_all = {"model": str(model), "source": str(root), "root": f"{root}/", "relative": False}
    write_metadata(index, replace(metadata, extra={**metadata.extra, **place_of_all}))
    right = _answers(index)
    file = _in_turn(_files(model), place)
    what = f"{damage(random, file, None)} {file.name} of the model"
    wrong = _search(index, right, f"{what}: search")
    again = invoke("index", place.prepared / "others", "--index", place.folder / "new", "--model", model)
    check_end(again, f"{what}: index", 0, 2)
    if wrong and again.code == 0 and not _doctor_of_model(model):
        raise Broken(f"{what}: a search answers {wrong}, and neither index nor doctor notices")


def damage(random: Random, file: Path, other: Path | None) -> str:
    """Damage a file; return what was done to it."""
    kind = random.choice(DAMAGES)
    data = bytearray(file.read_bytes())
    if kind == "other":
        if other is None:
            kind = "delete"
        else:
            shutil.copy(other, file)
            return "another file of its kind instead of"
    if kind in ("flip", "many flips") and data:
        places = [random.randrange(len(data)) for _ in range(1 if kind == "flip" else 20)]
        for place in places:
            data[place] ^= 1 << random.randrange(8)
        kind = f"flipped a bit at {places[0]} of" if kind == "flip" else "flipped 20 bits of"
    elif kind == "zeros":
        start = random.randrange(len(data) + 1)
        data[start : start + 64] = bytes(len(data[start : start + 64]))
        kind = f"zeros from {start} of"
    elif kind == "cut":
        data = data[: random.randrange(len(data) + 1)]
        kind = f"cut to {len(data)} bytes"
    elif kind == "append":
        data += random.randbytes(random.choice([1, 8, 5000]))
        kind = "appended to"
    elif kind in ("delete", "folder"):
        file.unlink()
        if kind == "folder":
            file.mkdir()
            return "a folder instead of"
        return "deleted"
    else:
        data, kind = bytearray(), "emptied"
    file.write_bytes(data)
    return kind


def _counterpart(file: Path, index: Path, other: Path, random: Random) -> Path | None:
    """Return a file of the same kind: of another index, or of another segment."""
    name = file.name
    alike = [path for path in _files(other) if path.suffix == file.suffix] if other.exists() else []
    alike += [path for path in _files(index) if path.suffix == file.suffix and path.name != name]
    return random.choice(alike) if alike else None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "write.lock")


def _in_turn(files: list[Path], place: Workplace) -> Path:
    """Return the file of this try, so that as many tries as there are files damage each."""
    return files[place.number % len(files)]


def _answers(index: Path) -> list[str]:
    """Return what an intact index answers."""
    found = []
    for query in QUERIES:
        ended = invoke("search", query, "-k", 30, "--index", index, "--json")
        if ended.code:
            raise Broken(f"without damage a search ends with {ended.code}: {ended.stderr[-300:]}")
        found.append(_hits(ended))
    return found


def _search(index: Path, right: list[str], what: str) -> str:
    """Search; return "" if all answers are right, or refused with a sentence, and what is wrong otherwise."""
    wrong = ""
    for query, hits in zip(QUERIES, right, strict=True):
        ended = invoke("search", query, "-k", 30, "--index", index, "--json")
        check_end(ended, what, 0, 2)
        if ended.code == 0 and _hits(ended) != hits:
            wrong = f"{query!r} otherwise than before"
    return wrong


def _hits(ended: Ended) -> str:
    return json.dumps([(hit["id"], round(hit["score"], 5)) for hit in json.loads(ended.stdout)["hits"]])


@cache
def no_verify() -> str | None:
    """Return why damage cannot be looked for here, or None."""
    known = "--verify" in invoke("doctor", "--help").stdout
    return None if known else "lexlip doctor has no --verify here, which would find it"


def _verify(index: Path, what: str) -> bool:
    """Return whether `lexlip doctor --verify` finds damage; False where it does not exist."""
    if no_verify() is not None:
        return False
    ended = invoke("doctor", "--index", index, "--verify", "--model", "mini")
    check_end(ended, f"{what}: doctor --verify", 0, 1)
    return ended.code == 1


def _doctor_of_model(model: Path) -> bool:
    ended = invoke("doctor", "--model", model, "--index", "none")
    check_end(ended, "doctor --model", 0, 1)
    return ended.code == 1


def verified(random: Random, place: Workplace) -> None:
    """Flip a bit of the data of an index: `lexlip doctor --verify` finds it, or it does not matter."""
    if missing := no_verify():
        raise NotRun(missing)
    kind = random.choice(KINDS)
    index = place.folder / "index"
    shutil.copytree(index_of(place.prepared, kind), index)
    right = _answers(index)
    if _verify(index, "an intact index"):
        raise Broken(f"doctor --verify finds damage in an intact index ({kind})")
    data = index / json.loads((index / "index.json").read_text())["directory"]
    files = [path for path in _files(data) if path.stat().st_size]
    file = random.choice(files)
    bits = bytearray(file.read_bytes())
    place_of_bit = random.randrange(len(bits))
    bits[place_of_bit] ^= 1 << random.randrange(8)
    file.write_bytes(bits)
    what = f"flipped a bit at {place_of_bit} of {file.relative_to(index)} ({kind})"
    if not _verify(index, what) and _search(index, right, what):
        raise Broken(f"{what}: a search answers otherwise than before, and doctor --verify finds nothing")


def _of(kind: str) -> Attack:
    def attack(random: Random, place: Workplace) -> None:
        os.chdir(place.folder)
        of_index(kind, random, place)

    return Attack(
        f"damage.{kind}", attack, tries=60 if kind == "impact" else 30, short=SHORT[kind], seconds=90
    )


ATTACKS = (
    *map(_of, KINDS),
    Attack("damage.model", of_model, tries=24, short=0, seconds=90),
    Attack("damage.verify", verified, tries=30, short=2, seconds=90),
)
