"""Sources of photos that strangers wrote: tars, tables, split files, folders."""

from __future__ import annotations

import csv
import io
import json
import os
import tarfile
from functools import cache
from pathlib import Path
from random import Random

from .contract import Attack, Broken, Workplace
from .fuzz_pictures import XMP, pictures
from .mutations import TEXTS, mutate, mutate_tree, text


def tars(random: Random, place: Workplace) -> None:
    data = _tar(random)
    path = place.folder / "a.tar"
    path.write_bytes(mutate(random, data) if random.random() < 0.7 else data)
    check(path)


def tables(random: Random, place: Workplace) -> None:
    _photos(place.folder)
    suffix = random.choice([".tsv", ".csv", ".txt"])
    rows = [
        ["image", "caption", "split"],
        ["0.jpg", "two dogs", "train"],
        ["0.jpg", "a cat", "val"],
        ["1.jpg", "x", ""],
    ]
    for _ in range(random.randrange(4)):
        rows.insert(random.randrange(len(rows)), [text(random) for _ in range(random.randrange(5))])
    written = io.StringIO()
    writer = csv.writer(written, delimiter=random.choice("\t,;|"), quoting=random.choice([0, 1]))
    writer.writerows([[cell.replace("\0", "") for cell in row] for row in rows])
    data = written.getvalue().encode("utf-8", "surrogatepass")
    path = place.folder / f"table{suffix}"
    path.write_bytes(mutate(random, data) if random.random() < 0.7 else data)
    check(path, split=random.choice([None, None, "train", text(random)]))


def split_files(random: Random, place: Workplace) -> None:
    _photos(place.folder)
    images = [
        {"filename": f"{n}.jpg", "filepath": "", "split": "train", "sentences": [{"raw": "two dogs"}]}
        for n in range(2)
    ]
    tree = mutate_tree(random, {"dataset": "flickr8k", "images": images})
    if random.random() < 0.5:
        tree = mutate_tree(random, tree)
    data = json.dumps(tree).encode()
    path = place.folder / "dataset.json"
    path.write_bytes(mutate(random, data) if random.random() < 0.4 else data)
    check(path, split=random.choice([None, "train", "test"]))


def folders(random: Random, place: Workplace) -> None:
    """List and read a folder with odd names, links, pipes and side files."""
    folder = place.folder / "photos"
    folder.mkdir()
    _photos(folder)
    for _ in range(random.randint(1, 6)):
        _odd_entry(random, folder)
    check(folder)


def _odd_entry(random: Random, folder: Path) -> None:
    name = f"{text(random)[:60]}{random.choice(['.jpg', '.JPG', '.png', '.txt', '.xmp', ''])}".replace(
        "/", "_"
    )
    path = folder / name.replace("\0", "") if name.strip("\0.") else folder / "plain.jpg"
    try:
        kind = random.randrange(9)
        if kind == 0:
            os.mkfifo(path)
        elif kind == 1:
            path.symlink_to(random.choice(["/dev/zero", "/dev/null", ".", "..", "missing", "/proc/self/mem"]))
        elif kind == 2:
            path.mkdir()
        elif kind == 3:
            (folder / "0.txt").write_bytes(
                mutate(random, "\n".join(TEXTS[:40]).encode("utf-8", "surrogatepass"))
            )
        elif kind == 4:
            (folder / "0.jpg.xmp").write_bytes(mutate(random, XMP.encode()))
            (folder / "1.xmp").symlink_to(random.choice(["/dev/zero", "missing"]))
        elif kind == 5:
            (folder / "a").mkdir()
            (folder / "a" / "b").symlink_to(folder)
        elif kind == 6:
            path.write_bytes(b"")
        else:
            path.write_bytes(mutate(random, random.choice(pictures())[1]))
    except (OSError, UnicodeEncodeError, ValueError):  # not a name that this file system takes
        pass


def check(spec: Path, split: str | None = None) -> None:
    """List a source and read all of it.

    Raises:
        Broken: an error comes that is not for users, or what comes cannot be stored.
    """
    from lexlip.data import UnreadableImage, open_source
    from lexlip.errors import LexLIPError

    try:
        source = open_source(spec, split=split)
    except LexLIPError as error:
        _one_line(str(error))
        return
    for number in range(len(source.items)):
        item = source.items[number]
        if any("\n" in caption or not caption.strip() for caption in item.captions):
            raise Broken(f"{item.id!r} has the captions {item.captions}")
        try:
            source.photo(number, 32)
            source.header(number)
        except UnreadableImage as error:
            _one_line(error.reason)
    source.captioned()
    for skip in source.skipped:
        _one_line(skip.reason)


def _one_line(reason: str) -> None:
    if not reason or "Traceback" in reason:
        raise Broken(f"the reason is {reason!r}")


@cache
def _jpeg() -> bytes:
    return pictures()[0][1]


def _photos(folder: Path) -> None:
    for number in range(2):
        (folder / f"{number}.jpg").write_bytes(_jpeg())


def _tar(random: Random) -> bytes:
    """Return a tar of photos with captions, and some hostile members."""
    file = io.BytesIO()
    form = random.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        for number in range(3):
            for suffix, data in (
                (".jpg", _jpeg()),
                (".txt", b"two dogs"),
                (".json", b'{"caption": "a dog"}'),
            ):
                _member(
                    tar, f"{number:05d}{suffix}", mutate(random, data, 2) if random.random() < 0.3 else data
                )
        for _ in range(random.randrange(4)):
            name = random.choice(
                ["../up.jpg", "/abs.jpg", "00000.jpg", "a" * 300 + ".jpg", f"{text(random)}.jpg", ".jpg"]
            )
            kind = random.choice(
                [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
            )
            tree = json.dumps(mutate_tree(random, {"caption": "x", "captions": ["y", "z"]})).encode()
            try:
                _member(tar, name, _jpeg() if kind == tarfile.REGTYPE else b"", kind)
                _member(tar, "00001.json", tree)
            except (ValueError, UnicodeError):  # not a name that this format takes
                continue
    return file.getvalue()


def _member(tar: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, "00000.jpg"
    tar.addfile(info, io.BytesIO(data))


ATTACKS = (
    Attack("fuzz.tars", tars, tries=800, short=50, seconds=30),
    Attack("fuzz.tables", tables, tries=1000, short=75, seconds=30),
    Attack("fuzz.split-files", split_files, tries=800, short=50, seconds=30),
    Attack("fuzz.folders", folders, tries=300, short=50, seconds=30),
)
