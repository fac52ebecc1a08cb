"""Sources of photos that strangers wrote: tars, tables, split files, folders."""

from __future__ import annotations

import csv
import io
import json
import os
import tarfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from .contract import Broken, Place, attack
from .fuzz_pictures import XMP, pictures, xmp
from .mutations import TEXTS, mutate, mutate_tree, perhaps_mutated, text
from .processes import refusals


def check(spec: Path, split: str | None = None) -> None:
    """List a source and read all of it: errors are for users, and what comes can be stored."""
    from lexlip.data import open_source

    with refusals():
        source = open_source(spec, split=split)
        for number, item in enumerate(source.items):
            if any("\n" in caption or not caption.strip() for caption in item.captions):
                raise Broken(f"{item.id!r} has the captions {item.captions}")
            with refusals():
                source.photo(number, 32)
                source.header(number)
        source.captioned()
        for skip in source.skipped:
            if not skip.reason or "Traceback" in skip.reason:
                raise Broken(f"the reason is {skip.reason!r}")


@cache
def _jpeg() -> bytes:
    return pictures()[0][1]


def _photos(folder: Path) -> None:
    for number in range(2):
        (folder / f"{number}.jpg").write_bytes(_jpeg())


@attack("fuzz.tars", 800, 50, 30)
def tars(random: Random, place: Place) -> None:
    path = place.folder / "a.tar"
    path.write_bytes(perhaps_mutated(random, _tar(random), 0.7))
    check(path)


def _tar(random: Random) -> bytes:
    """Return a tar of photos with captions, and some hostile members."""
    file = io.BytesIO()
    form = random.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
    kinds = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
    photo = {".jpg": _jpeg(), ".txt": b"two dogs", ".json": b'{"caption": "a dog"}'}
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for number in range(3):
            for suffix, data in photo.items():
                data = mutate(random, data, 2) if random.random() < 0.3 else data
                _member(tar, f"{number:05d}{suffix}", data)
        for _ in range(random.randrange(4)):
            names = ["../up.jpg", "/abs.jpg", "00000.jpg", "a" * 300 + ".jpg", f"{text(random)}.jpg", ".jpg"]
            kind = random.choice(kinds)
            tree = json.dumps(mutate_tree(random, {"caption": "x", "captions": ["y", "z"]})).encode()
            try:
                _member(tar, random.choice(names), _jpeg() if kind == tarfile.REGTYPE else b"", kind)
                _member(tar, "00001.json", tree)
            except (ValueError, UnicodeError):  # not a name that this format takes
                continue
    return file.getvalue()


def _member(tar: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, "00000.jpg"
    tar.addfile(info, io.BytesIO(data))


@attack("fuzz.tables", 1000, 75, 30)
def tables(random: Random, place: Place) -> None:
    _photos(place.folder)
    rows = [["image", "caption", "split"], ["0.jpg", "two dogs", "train"]]
    rows += [["0.jpg", "a cat", "val"], ["1.jpg", "x", ""]]
    for _ in range(random.randrange(4)):
        rows.insert(random.randrange(len(rows)), [text(random) for _ in range(random.randrange(5))])
    written = io.StringIO()
    writer = csv.writer(written, delimiter=random.choice("\t,;|"), quoting=random.choice([0, 1]))
    writer.writerows([[cell.replace("\0", "") for cell in row] for row in rows])
    path = place.folder / f"table{random.choice(['.tsv', '.csv', '.txt'])}"
    path.write_bytes(perhaps_mutated(random, written.getvalue().encode("utf-8", "surrogatepass"), 0.7))
    check(path, split=random.choice([None, None, "train", text(random)]))


@attack("fuzz.split-files", 800, 50, 30)
def split_files(random: Random, place: Place) -> None:
    _photos(place.folder)
    image = {"filepath": "", "split": "train", "sentences": [{"raw": "two dogs"}]}
    tree = {"dataset": "flickr8k", "images": [{"filename": f"{number}.jpg", **image} for number in range(2)]}
    for _ in range(random.choice([1, 2])):
        tree = mutate_tree(random, tree)
    path = place.folder / "dataset.json"
    path.write_bytes(perhaps_mutated(random, json.dumps(tree).encode(), 0.4))
    check(path, split=random.choice([None, "train", "test"]))


@attack("fuzz.folders", 300, 50, 30)
def folders(random: Random, place: Place) -> None:
    """List and read a folder with odd names, links, pipes and side files."""
    folder = place.folder / "photos"
    folder.mkdir()
    _photos(folder)
    for _ in range(random.randint(1, 6)):
        with suppress(OSError, UnicodeEncodeError, ValueError):  # not a name that this file system takes
            _add_odd_entry(random, folder)
    check(folder)


def _add_odd_entry(random: Random, folder: Path) -> None:
    suffix = random.choice([".jpg", ".JPG", ".png", ".txt", ".xmp", ""])
    name = f"{text(random)[:60]}{suffix}".replace("/", "_")
    path = folder / name.replace("\0", "") if name.strip("\0.") else folder / "plain.jpg"
    kind = random.randrange(11)
    if kind == 9:
        data = mutate(random, random.choice(pictures())[1])
        same = random.choice(["0.jpg", "0.DNG", "0-edited.jpg", "IMG_E0001.JPG", "IMG_0001.HEIC", "0.mov"])
        (folder / same).write_bytes(random.choice([data, data[: len(data) // 2], b"", _jpeg()]))
    elif kind == 10:
        (folder / random.choice(["0.xmp", "1.jpg.xmp"])).write_bytes(xmp(random))
    elif kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to(random.choice(["/dev/zero", "/dev/null", ".", "..", "missing", "/proc/self/mem"]))
    elif kind == 2:
        path.mkdir()
    elif kind == 3:
        texts = "\n".join(TEXTS[:40]).encode("utf-8", "surrogatepass")
        (folder / "0.txt").write_bytes(mutate(random, texts))
    elif kind == 4:
        (folder / "0.jpg.xmp").write_bytes(mutate(random, XMP.encode()))
        (folder / "1.xmp").symlink_to(random.choice(["/dev/zero", "missing"]))
    elif kind == 5:
        (folder / "a").mkdir()
        (folder / "a" / "b").symlink_to(folder)
    else:
        path.write_bytes(b"" if kind == 6 else mutate(random, random.choice(pictures())[1]))
