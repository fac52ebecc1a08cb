"""Does a search find photos by what they show, and by the words that people gave them, in one ranking?

    python tools/studies/one_box.py PHOTOS.tar WORK [POWER …]

A quarter of the photos gets its first caption as the name of its file, a quarter as a caption beside it, a
quarter as the name of its folder; a quarter has none. Each photo is asked for with its first caption, and
with its last. The table has R@10 in percent: by what photos show alone, by given words alone, and by both,
with each power of their share.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from lexlip.indexing.api import index as build_index
from lexlip.retrieval.given_words import phrases
from lexlip.search import answering
from lexlip.search.photo_search import PhotoSearch

MODEL = "mini"
KINDS = ("name", "caption", "folder", "none")
DEPTH = 10


def main(tar: Path, work: Path, powers: list[int]) -> None:
    captions = lay_out(tar, work / "photos")
    index = work / "index"
    if not index.exists():
        build_index(work / "photos", index, MODEL, progress=True)
    with PhotoSearch(index) as search:
        for which, place in (("first", 0), ("last", -1)):
            asked = {id: texts[place] for id, texts in captions.items()}
            print(f"\n| asked with the {which} caption | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
            show("by what they show", asked, {id: content(search, text) for id, text in asked.items()})
            show("by given words", asked, {id: given(search, text) for id, text in asked.items()})
            for power in powers:
                answering.NAMED_POWER = power
                found = {id: [h.id for h in search.text(text, DEPTH).hits] for id, text in asked.items()}
                show(f"by both, power {power}", asked, found)


def lay_out(tar: Path, folder: Path) -> dict[str, list[str]]:
    """Write the photos as people keep them; return their captions by id."""
    captions: dict[str, list[str]] = {}
    with tarfile.open(tar) as file:
        members = {member.name: member for member in file}
        keys = sorted(name.removesuffix(".json") for name in members if name.endswith(".json"))
        for number, key in enumerate(keys):
            texts = json.loads(read(file, members[f"{key}.json"]))["captions"]
            kind = KINDS[number % len(KINDS)]
            said = texts[0].replace("/", " ").strip(" .")[:180]
            id = {"name": f"{said}.jpg", "folder": f"{said}/{key}.jpg"}.get(kind, f"{key}.jpg")
            captions[id] = texts
            path = folder / id
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                picture = next(members[name] for name in (f"{key}.jpg", f"{key}.webp") if name in members)
                Image.open(io.BytesIO(read(file, picture))).save(path, quality=95)
                if kind == "caption":
                    path.with_suffix(".txt").write_text(texts[0], encoding="utf-8")
    return captions


def read(file: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = file.extractfile(member)
    assert opened is not None
    return opened.read()


def content(search: PhotoSearch, text: str) -> list[str]:
    return [hit.id for hit in search.text(text, DEPTH, content_only=True).hits]


def given(search: PhotoSearch, text: str) -> list[str]:
    with search.now() as (_, photos):
        wanted = phrases(text)
        number, counts = photos.given_counts(wanted)
        weights = [np.log(1 + number / max(count, 0.5)) for count in counts]
        return [id for id, _ in photos.given(wanted, weights, DEPTH)]


def show(name: str, asked: dict[str, str], found: dict[str, list[str]]) -> None:
    """Print a row: in how many percent of the queries the photo is among the first ten, by kind."""
    hits = [(number % len(KINDS), id in found[id]) for number, id in enumerate(asked)]
    shares = [np.mean([hit for kind, hit in hits if kind == wanted]) for wanted in range(len(KINDS))]
    print(f"| {name} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [*map(int, sys.argv[3:])] or [answering.NAMED_POWER])
