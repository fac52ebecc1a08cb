"""Does a search find photos by what they show, and by the words that people gave them, in one ranking?

    python tools/studies/one_box.py PHOTOS.tar WORK [SHARE …]

A quarter of the photos gets its first caption as the name of its file, a quarter as a caption beside it, a
quarter as the name of its folder; a quarter has none. In four indexes, each photo is once of each kind. Each
is asked for with its first caption, and with its last. The table has R@10 in percent: by what photos show
alone, by given words alone, and by both, with each share of the words that must be there.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from lexlip.indexing.api import index as build_index
from lexlip.retrieval.given_words import phrases
from lexlip.search import named_photos
from lexlip.search.photo_search import PhotoSearch

MODEL = "mini"
KINDS = ("name", "caption", "folder", "none")
DEPTH = 10


def main(tar: Path, work: Path, shares: list[float]) -> None:
    ways = ["by what they show", "by given words", *(f"by both, {share:g} of the words" for share in shares)]
    found = {(which, way): Counter[str]() for which in ("first", "last") for way in ways}
    for turn in range(len(KINDS)):
        photos, index = work / f"photos-{turn}", work / f"index-{turn}"
        kinds, captions = lay_out(tar, photos, turn)
        if not index.exists():
            build_index(photos, index, MODEL, progress=True)
        with PhotoSearch(index) as search:
            for which, place in (("first", 0), ("last", -1)):
                for id, texts in tqdm(captions.items(), desc=f"{which} captions"):
                    ids = [content(search, texts[place]), given(search, texts[place])]
                    for share in shares:
                        named_photos.LEAST_NAMED = share
                        ids.append([hit.id for hit in search.text(texts[place], DEPTH).hits])
                    for way, each in zip(ways, ids, strict=True):
                        found[which, way][kinds[id]] += id in each
    for which in ("first", "last"):
        print(f"\n| asked with the {which} caption | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
        for way in ways:
            recalls = [100 * found[which, way][kind] / len(captions) for kind in KINDS]
            print(f"| {way} | {' | '.join(f'{recall:.1f}' for recall in recalls)} |")


def lay_out(tar: Path, folder: Path, turn: int) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Write the photos as people keep them; return the kind and the captions of each by id."""
    kinds: dict[str, str] = {}
    captions: dict[str, list[str]] = {}
    with tarfile.open(tar) as file:
        members = {member.name: member for member in file}
        keys = sorted(name.removesuffix(".json") for name in members if name.endswith(".json"))
        for number, key in enumerate(keys):
            texts = json.loads(read(file, members[f"{key}.json"]))["captions"]
            kind = KINDS[(number + turn) % len(KINDS)]
            said = texts[0].replace("/", " ").strip(" .")[:180]
            id = {"name": f"{said}.jpg", "folder": f"{said}/{key}.jpg"}.get(kind, f"{key}.jpg")
            kinds[id], captions[id] = kind, texts
            path = folder / id
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                picture = next(members[name] for name in (f"{key}.jpg", f"{key}.webp") if name in members)
                Image.open(io.BytesIO(read(file, picture))).save(path, quality=95)
                if kind == "caption":
                    path.with_suffix(".txt").write_text(texts[0], encoding="utf-8")
    return kinds, captions


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [*map(float, sys.argv[3:])] or [named_photos.LEAST_NAMED])
