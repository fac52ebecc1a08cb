"""Sources of photos that strangers wrote: tars, tables, split files, folders."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tarfile
from functools import cache
from pathlib import Path
from random import Random

from .contract import Attack, Broken, Workplace
from .fuzz_pictures import XMP, pictures
from .mutations import TEXTS, mutate, mutate_tree, text
from .processes import check_end, invoke, shown


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


def kinds(random: Random, place: Workplace) -> None:
    """Index a source of each kind, with the options that it takes, and update it; others are refused."""
    os.chdir(place.folder)
    photos = sorted((place.prepared / "others").glob("*.jpg"))
    source, options, number = _SOURCES[place.number % len(_SOURCES)](photos)
    made = ["index", source, *options, "--index", "index"]
    ended = invoke(*made, "--model", place.prepared / "words" / "best", "--json")
    what = f"lexlip {shown(made)}"
    check_end(ended, what, 0)
    again = invoke(*made, "--update", "--json")
    check_end(again, f"{what} --update", 0)
    for one in (ended, again):
        if json.loads(one.stdout)["photos"] != number:
            raise Broken(f"{what}: {json.loads(one.stdout)['photos']} photos, not {number}")
    if json.loads(again.stdout)["added"]:
        raise Broken(f"{what} --update: photos are added again")
    hits = json.loads(invoke("search", "two red circles", "--index", "index", "-k", 99, "--json").stdout)[
        "hits"
    ]
    missing = [hit["path"] for hit in hits if source.startswith("photos") and not Path(hit["path"]).is_file()]
    if not hits or missing:
        raise Broken(f"{what}: a search has {len(hits)} hits; not there: {missing[:3]}")
    wrong = (
        ["--images", "photos"] if "--images" not in options and "table" not in source else ["--split", "x"]
    )
    check_end(invoke(*made, *wrong, "--anew"), f"{what} {shown(wrong)}", 0, 2)


def _a_folder(photos: list[Path]) -> _Given:
    shutil.copytree(photos[0].parent, "photos")
    Path("photos", ".hidden").mkdir()
    shutil.copy(photos[0], "photos/.hidden")
    Path("photos", "shots").mkdir()
    shutil.copy(photos[0], "photos/shots/a b.jpg")
    return "photos", ["--exclude", "shots/", "--include", ".hidden/"], len(photos) + 1


def _a_photo(photos: list[Path]) -> _Given:
    shutil.copy(photos[0], "photos.jpg")
    return "photos.jpg", [], 1


def _a_tar(photos: list[Path]) -> _Given:
    _pack("a.tar", photos)
    return "a.tar", [], len(photos)


def _tars(photos: list[Path]) -> _Given:
    for number in range(3):
        _pack(f"a-{number}.tar", photos[3 * number : 3 * number + 3])
    return "a-{0..2}.tar", [], 9


def _a_folder_of_tars(photos: list[Path]) -> _Given:
    Path("tars").mkdir()
    _pack("tars/a.tar", photos[:4])
    _pack("tars/b.tar", photos[4:6])
    return "tars", [], 6


def _a_table(photos: list[Path], suffix: str = ".tsv", mark: str = "\t") -> _Given:
    shutil.copytree(photos[0].parent, "photos")
    lines = [f"{photo.name}{mark}two dogs" for photo in photos]
    Path(f"table{suffix}").write_text("\n".join([f"image{mark}caption", *lines]) + "\n")
    return f"table{suffix}", ["--images", "photos"], len(photos)


def _a_table_of_commas(photos: list[Path]) -> _Given:
    return _a_table(photos, ".csv", ",")


def _a_split_file(photos: list[Path]) -> _Given:
    _pack("a.tar", photos)
    images = [
        {"filename": one.name, "split": ["train", "val"][number % 2], "sentences": [{"raw": "two dogs"}]}
        for number, one in enumerate(photos)
    ]
    Path("table.json").write_text(json.dumps({"dataset": "flickr8k", "images": images}))
    return "table.json", ["--images", "a.tar", "--split", "val"], len(photos) // 2


def _scenes(photos: list[Path]) -> _Given:
    return "scenes:5:1", [], 5


def _pack(tar: str, photos: list[Path]) -> None:
    with tarfile.open(tar, "w") as file:
        for photo in photos:
            file.add(photo, photo.name)
            file.add(photo.with_suffix(".txt"), f"{photo.stem}.txt")


_Given = tuple[str, list[str], int]  # a source, its options, and how many photos it has
_SOURCES = (
    *(_a_folder, _a_photo, _a_tar, _tars, _a_folder_of_tars, _a_table, _a_table_of_commas, _a_split_file),
    _scenes,
)

ATTACKS = (
    Attack("fuzz.kinds-of-sources", kinds, tries=27, short=3, seconds=90),
    Attack("fuzz.tars", tars, tries=800, short=50, seconds=30),
    Attack("fuzz.tables", tables, tries=1000, short=75, seconds=30),
    Attack("fuzz.split-files", split_files, tries=800, short=50, seconds=30),
    Attack("fuzz.folders", folders, tries=300, short=50, seconds=30),
)
