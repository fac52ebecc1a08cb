"""Sources of photos that strangers wrote: tars, tables, split files, folders."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tarfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from .contract import Broken, Place, attack
from .fuzz_pictures import XMP, pictures
from .mutations import TEXTS, mutate, mutate_tree, perhaps_mutated, text
from .prepare import pack, with_captions
from .processes import check_end, invoke, must, shown


def check(spec: Path, split: str | None = None) -> None:
    """List a source and read all of it: errors are for users, and what comes can be stored."""
    from lexlip.data import UnreadableImage, open_source
    from lexlip.errors import LexLIPError

    try:
        source = open_source(spec, split=split)
    except LexLIPError as error:
        _check_reason(str(error))
        return
    for number, item in enumerate(source.items):
        if any("\n" in caption or not caption.strip() for caption in item.captions):
            raise Broken(f"{item.id!r} has the captions {item.captions}")
        try:
            source.photo(number, 32)
            source.header(number)
        except UnreadableImage as error:
            _check_reason(error.reason)
    source.captioned()
    for skip in source.skipped:
        _check_reason(skip.reason)


def _check_reason(reason: str) -> None:
    if not reason or "Traceback" in reason:
        raise Broken(f"the reason is {reason!r}")


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
    kind = random.randrange(9)
    if kind == 0:
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


@attack("fuzz.kinds-of-sources", 27, 3, 90)
def kinds(random: Random, place: Place) -> None:
    """Index a source of each kind, with the options that it takes, and update it; others are refused."""
    photos = sorted((place.prepared / "others").glob("*.jpg"))
    source, options, number = place.in_turn(_SOURCES)(photos)
    made = ["index", source, *options, "--index", "index"]
    what = f"lexlip {shown(made)}"
    ended = must(*made, "--model", place.model, "--json")
    again = must(*made, "--update", "--json")
    for one in (ended, again):
        check_end(one, what, 0)
        if json.loads(one.stdout)["photos"] != number:
            raise Broken(f"{what}: {json.loads(one.stdout)['photos']} photos, not {number}")
    if json.loads(again.stdout)["added"]:
        raise Broken(f"{what} --update: photos are added again")
    found = must("search", "two red circles", "--index", "index", "-k", 99, "--json")
    hits = json.loads(found.stdout)["hits"]
    missing = [hit["path"] for hit in hits if source.startswith("photos") and not Path(hit["path"]).is_file()]
    if not hits or missing:
        raise Broken(f"{what}: a search has {len(hits)} hits; not there: {missing[:3]}")
    takes_images = "--images" in options or "table" in source
    wrong = ["--split", "x"] if takes_images else ["--images", "photos"]
    check_end(invoke(*made, *wrong, "--anew"), f"{what} {shown(wrong)}", 0, 2)


_Given = tuple[str, list[str], int]  # a source, its options, and how many photos it has


def _a_folder(photos: list[Path]) -> _Given:
    shutil.copytree(photos[0].parent, "photos")
    for place in (Path("photos", ".hidden"), Path("photos", "shots")):
        place.mkdir()
        shutil.copy(photos[0], place)
    return "photos", ["--exclude", "shots/", "--include", ".hidden/"], len(photos) + 1


def _a_photo(photos: list[Path]) -> _Given:
    shutil.copy(photos[0], "photos.jpg")
    return "photos.jpg", [], 1


def _a_tar(photos: list[Path]) -> _Given:
    pack(Path("a.tar"), with_captions(photos))
    return "a.tar", [], len(photos)


def _tars(photos: list[Path]) -> _Given:
    for number in range(3):
        pack(Path(f"a-{number}.tar"), with_captions(photos[3 * number : 3 * number + 3]))
    return "a-{0..2}.tar", [], 9


def _a_folder_of_tars(photos: list[Path]) -> _Given:
    Path("tars").mkdir()
    pack(Path("tars/a.tar"), with_captions(photos[:4]))
    pack(Path("tars/b.tar"), with_captions(photos[4:6]))
    return "tars", [], 6


def _a_table(photos: list[Path], suffix: str = ".tsv", mark: str = "\t") -> _Given:
    shutil.copytree(photos[0].parent, "photos")
    lines = [f"{photo.name}{mark}two dogs" for photo in photos]
    Path(f"table{suffix}").write_text("\n".join([f"image{mark}caption", *lines]) + "\n")
    return f"table{suffix}", ["--images", "photos"], len(photos)


def _a_table_of_commas(photos: list[Path]) -> _Given:
    return _a_table(photos, ".csv", ",")


def _a_split_file(photos: list[Path]) -> _Given:
    pack(Path("a.tar"), with_captions(photos))
    images = [
        {"filename": one.name, "split": ["train", "val"][number % 2], "sentences": [{"raw": "two dogs"}]}
        for number, one in enumerate(photos)
    ]
    Path("table.json").write_text(json.dumps({"dataset": "flickr8k", "images": images}))
    return "table.json", ["--images", "a.tar", "--split", "val"], len(photos) // 2


def _scenes(photos: list[Path]) -> _Given:
    return "scenes:5:1", [], 5


_SOURCES = (
    *(_a_folder, _a_photo, _a_tar, _tars, _a_folder_of_tars, _a_table, _a_table_of_commas, _a_split_file),
    _scenes,
)
