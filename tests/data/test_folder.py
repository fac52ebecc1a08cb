import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lexlip.data import Given, Item, Skipped, Unlisted, UnreadableImage, open_library, open_source
from lexlip.data.folder import FolderSource, holds_index, walk, why_left_out
from lexlip.data.images import SUFFIXES
from lexlip.errors import DataError
from tests.conftest import write_photos
from tests.data.pictures import jpeg, write

from .test_facts import xmp


def ids(root: Path) -> list[str]:
    return [item.id for item in open_source(root).items]


def test_photos_below_a_folder_in_order(tmp_path: Path) -> None:
    for name in ("b.JPG", "a/z.png", "a/b/c.WebP", "a.gif", "a/y.tiff", "c.jpeg", "d.bmp", "e.tif"):
        write(tmp_path / name, jpeg())
    for name in ("notes.md", "a/table.csv", "photo.jpg.part", "jpg"):
        write(tmp_path / name, "no photo")
    source = open_source(str(tmp_path))
    assert [item.id for item in source.items] == [
        "a.gif", "a/b/c.WebP", "a/y.tiff", "a/z.png", "b.JPG", "c.jpeg", "d.bmp", "e.tif"
    ]  # fmt: skip
    others = Skipped(".", "files of other kinds: 1 without a suffix, 1 .csv, 1 .md, 1 .part")
    assert (source.name, source.skipped, len(source)) == (str(tmp_path), [others], 8)
    assert source.path(1) == f"{tmp_path}/a/b/c.WebP"
    assert source.read(1) == jpeg()
    assert source.image(1).size == (40, 30)


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    for name in ("a.jpg", ".b.jpg", "._a.jpg", ".lexlip/thumbs/a.jpg", "c/.git/d.jpg", "c/d.jpg"):
        write(tmp_path / name, jpeg())
    assert ids(tmp_path) == ["a.jpg", "c/d.jpg"]


def test_a_hidden_folder_can_be_given_itself(tmp_path: Path) -> None:
    write(tmp_path / ".photos" / "a.jpg", jpeg())
    assert ids(tmp_path / ".photos") == ["a.jpg"]


def test_captions_lie_beside_the_photo(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "a.txt", "\ufeffA dog .\r\n\r\n  Zwei   Hündchen \n")
    write(tmp_path / "b" / "c.d.png", jpeg())
    write(tmp_path / "b" / "c.d.txt", "a cat")
    write(tmp_path / "b" / "e.jpg", jpeg())
    assert open_source(tmp_path).items == [
        Item("a.jpg", ("A dog .", "Zwei Hündchen")),
        Item("b/c.d.png", ("a cat",)),
        Item("b/e.jpg", ()),
    ]


def test_one_photo(tmp_path: Path) -> None:
    photo = write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "b.jpg", jpeg())
    write(tmp_path / "a.txt", "a dog")
    source = open_source(photo)
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert source.path(0) == str(photo)


def test_names_of_all_kinds(tmp_path: Path) -> None:
    names = sorted(["Übung 1.jpg", "犬.png", "a b\tc.jpg", "#?%&.jpg", "🐕.jpg", "-rf.jpg", "[x]{1..2}*.jpg"])
    for name in names:
        write(tmp_path / name, jpeg())
    source = open_source(tmp_path)
    assert [item.id for item in source.items] == names
    for index in range(len(source)):
        source.image(index)
    assert ids(tmp_path / "[x]{1..2}*.jpg") == ["[x]{1..2}*.jpg"]


def test_a_name_that_is_not_utf8_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    try:
        write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jpg")), jpeg())
        write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9t\xe9/b.jpg")), jpeg())
    except OSError:
        pytest.skip("this file system holds UTF-8 names only")
    source = open_source(tmp_path)
    assert [item.id for item in source.items] == ["a.jpg"]
    assert source.skipped == [
        Skipped("\\xe9t\\xe9", "the name is not UTF-8"),
        Skipped("caf\\xe9.jpg", "the name is not UTF-8"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Python takes names as UTF-8 always")
def test_python_that_takes_names_as_ascii(
    tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """An update would take all photos with other names for lost."""
    write(tmp_path / "photos" / "a.jpg", jpeg())
    write(tmp_path / "photos" / "ü.md", b"no photo")
    ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert run_python("-m", "lexlip", "index", "photos", "--index", "new", **ascii).returncode == 0
    write(tmp_path / "photos" / "ü.jpg", jpeg())
    done = run_python("-m", "lexlip", "index", "photos", "--index", "new", **ascii)
    assert done.returncode == 2
    assert done.stderr == (
        "Error: Python takes names as ascii here, and ü.jpg is none: set PYTHONUTF8=1, or a locale of UTF-8,"
        " such as LC_ALL=C.UTF-8\n"
    )
    found = run_python("-m", "lexlip", "search", "ü", "--index", "new", **ascii)
    assert found.stderr.endswith("Error: 'ü' is not ascii, as Python expects: set PYTHONUTF8=1\n")


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "b" / "a.jpg", jpeg())
    write(tmp_path / "outside" / "c.jpg", jpeg())
    (root / "b" / "loop").symlink_to(root)
    (root / "a-link").symlink_to(root / "b")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "linked.jpg").symlink_to(root / "b" / "a.jpg")
    (root / "gone.jpg").symlink_to(root / "nothing.jpg")
    source = open_source(root)
    assert [item.id for item in source.items] == ["b/a.jpg", "linked.jpg", "out/c.jpg"]
    assert source.skipped == [Skipped("gone.jpg", "a link to nothing")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    os.mkfifo(tmp_path / "b.jpg")
    assert open_source(tmp_path).skipped == [Skipped("b.jpg", "not a file")]


def test_a_folder_that_may_not_be_read_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "locked" / "b.jpg", jpeg())
    (tmp_path / "locked").chmod(0)
    try:
        if os.access(tmp_path / "locked", os.R_OK):
            pytest.skip("this user may read everything")
        assert open_source(tmp_path).skipped == [Skipped("locked", "Permission denied")]
    finally:
        (tmp_path / "locked").chmod(0o700)


def test_an_unreadable_photo_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", "a text")
    write(tmp_path / "b.jpg", "")
    write(tmp_path / "c.jpg", jpeg()[:-100])
    gone = write(tmp_path / "d.jpg", jpeg())
    source = open_source(tmp_path)
    gone.unlink()
    reasons = ["not an image", "empty file", "truncated", "No such file or directory"]
    for index, reason in enumerate(reasons):
        with pytest.raises(UnreadableImage) as caught:
            source.image(index)
        assert caught.value.reason == reason
        assert str(caught.value) == f"{source.path(index)}: {reason}"


def test_tars_among_photos_are_listed_as_skipped(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "b.tar", "")
    assert [skipped.id for skipped in open_source(tmp_path).skipped] == ["b.tar"]


def test_nothing_there(tmp_path: Path) -> None:
    write(tmp_path / "notes.md", "no photo")
    with pytest.raises(DataError, match=r"^no photos below .*: looked for JPEG, PNG, .* and tars; .: fi"):
        open_source(tmp_path)
    write(tmp_path / "hidden" / ".a.jpg", jpeg())
    with pytest.raises(DataError, match=r" and tars; 1 hidden, which --include takes$"):
        open_source(tmp_path / "hidden")
    with pytest.raises(DataError, match=r"nowhere does not exist$"):
        open_source(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"notes\.md is not a folder, a photo, a tar, a table"):
        open_source(tmp_path / "notes.md")


def test_options_that_do_not_apply(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    with pytest.raises(DataError, match="holds its photos itself: split is for tables"):
        open_source(tmp_path, split="val")
    with pytest.raises(DataError, match="holds its photos itself: images is for tables"):
        open_source(tmp_path, images=tmp_path)


def test_home_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "photos" / "a.jpg", jpeg())
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_source("~/photos").path(0) == f"{tmp_path}/photos/a.jpg"


def test_a_relative_folder_has_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "photos" / "a.jpg", jpeg())
    monkeypatch.chdir(tmp_path)
    source = open_source("photos")
    monkeypatch.chdir("/")
    assert source.path(0) == f"{tmp_path}/photos/a.jpg"
    source.read(0)


# ---- what is not listed ----


def test_folders_that_hold_an_index_are_left_out(tmp_path: Path) -> None:
    for name in ("a.jpg", "ix/thumbnails/t.jpg", "ix/data-1/b.jpg", "no/index.json.d/c.jpg", "data-1/d.jpg"):
        write(tmp_path / name, jpeg())
    write(tmp_path / "ix" / "index.json", "{}")
    write(tmp_path / "no" / "index.json", "{}")
    assert walk(tmp_path).photos == ["a.jpg", "data-1/d.jpg", "no/index.json.d/c.jpg"]
    assert [holds_index(tmp_path / name) for name in ("ix", "no", "", "none")] == [True, False, False, False]


def test_files_of_other_kinds_are_counted(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.MOV", "c.mov", "d/e.psd", ".f.mov", "g.docx", "h", "i.txt", "a.txt"):
        write(tmp_path / name, jpeg())
    why = "files of other kinds: 2 .mov, 1 without a suffix, 1 .docx, 1 .psd, 1 .txt"
    assert walk(tmp_path).skipped == [Skipped(".", why)]
    assert walk(tmp_path, lambda name: name == "d/").skipped[0].reason == why.replace(" 1 .psd,", "")
    for number in range(30):
        write(tmp_path / f"x.{number}", "")
    assert walk(tmp_path).skipped[0].reason.endswith(", 15 others")


def test_folders_of_systems_are_left_out_and_named(tmp_path: Path) -> None:
    for name in ("a.jpg", "@eaDir/a.jpg/T.jpg", "b/@eaDir/b.jpg/T.jpg", "#recycle/c.jpg", ".x/d.jpg"):
        write(tmp_path / name, jpeg())
    listing = walk(tmp_path)
    assert listing.photos == ["a.jpg"]
    why = "folders of thumbnails and deleted files, which --include takes: 2 @eaDir/, 1 #recycle/"
    assert listing.skipped == [Skipped(".", why)]
    assert (listing.left["system"], listing.left["hidden"]) == (3, 1)
    everything = walk(tmp_path, included=lambda name: True)
    assert (len(everything.photos), everything.skipped) == (5, [])


@pytest.mark.parametrize("seed", range(8))
def test_every_file_of_a_folder_is_counted_once(tmp_path: Path, seed: int) -> None:
    """Compare with what os.walk finds; a folder that is left out counts as one."""
    random = Random(seed)
    stems = [*"abcde", ".f", "@eaDir", "#recycle", ".hidden", "lost+found", "ü b", "x.y"]
    endings = [*SUFFIXES, *(suffix.upper() for suffix in SUFFIXES)]
    endings += [*(".txt", ".xmp", ".tar", ".mov", ".jpg.xmp", ".json", "", ".d", ".")] * 4
    folders, reached = [tmp_path], [tmp_path]
    for _ in range(150):
        kind = random.randrange(12)
        name = f"{random.choice(stems)}{'' if kind < 2 else random.choice(endings)}"
        path = random.choice(folders) / name
        match kind:
            case _ if path.exists() or path.is_symlink():
                continue
            case 0 | 1:
                path.mkdir()
                folders.append(path)
                if not why_left_out(f"{path.relative_to(tmp_path)}/"):
                    reached.append(path)
            case 2:
                path.symlink_to(random.choice(["nowhere", path.name, "/dev/null", *map(str, reached)]))
            case 3:
                os.mkfifo(path)
            case _:
                path.write_bytes(b"")
    write(tmp_path / "a.jpg", jpeg())
    listing = walk(tmp_path, lambda name: name.endswith("b.png"))
    expected = 0
    for _, below, files in os.walk(tmp_path):
        left_out = {name for name in below if why_left_out(f"{name}/")}
        below[:] = set(below) - left_out
        expected += len(files) + len(left_out)
    assert len(listing.photos) + len(listing.tars) + listing.left.total() == expected


def test_a_broken_xmp_file_is_named_when_it_is_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for photo in ("0.jpg", "in/1.jpg"):
            write(tmp_path / name / photo, jpeg())
    write(tmp_path / "a/in/1.xmp", "<x:xmpmeta")
    write(tmp_path / "b/0.jpg.xmp", '<!DOCTYPE x [<!ENTITY a "b">]><a>&a;</a>')
    write(tmp_path / "b/0.xmp", "")
    source = open_library(Given((str(tmp_path / "a"), str(tmp_path / "b"))))
    assert source.skipped == []
    for _ in range(2):
        for number in range(4):
            source.photo(number)
            source.header(number)
    reasons = dict(source.skipped)
    assert len(source.skipped) == len(reasons) == 3
    assert reasons["a/in/1.xmp"].startswith("no XMP: unclosed token")
    assert reasons["b/0.jpg.xmp"] == "no XMP: it has a DOCTYPE or entities"
    assert reasons["b/0.xmp"].startswith("no XMP: no element found")


def test_an_xmp_file_is_beside_its_photo(tmp_path: Path) -> None:
    for name in ("a.jpg", "a.png", "b.jpg", "c.jpg", "d/a.jpg"):
        write(tmp_path / name, jpeg())
    for name in ("a.xmp", "a.jpg.xmp", "b.XMP", "d.xmp"):
        write(tmp_path / name, "")
    source = open_source(tmp_path)
    sides = {item.id: list(source.sides(number)) for number, item in enumerate(source.items)}
    expected = {"a.jpg": ["a.jpg.xmp", "a.xmp"], "a.png": ["a.xmp"], "b.jpg": ["b.XMP"]}
    assert sides == {item.id: [] for item in source.items} | {
        photo: [f"{tmp_path}/{side}" for side in sides] for photo, sides in expected.items()
    }


def test_a_raw_file_and_its_jpeg_are_one_photo(tmp_path: Path) -> None:
    for name in (
        "a.CR2",
        "a.JPG",
        "b.dng",
        "b.HEIC",
        "c.nef",
        "c.png",
        "d.arw",
        "x/a.cr2",
        "e\u0301.raf",
        "\xe9.jpg",
    ):
        write(tmp_path / name, jpeg())
    for name in ("a.CR2.xmp", "a.xmp", "a.JPG.xmp", "b.dng.xmp", "c.nef.xmp", "z.cr2.xmp"):
        write(tmp_path / name, "")
    listing = walk(tmp_path)
    assert listing.photos == ["a.JPG", "b.HEIC", "c.nef", "c.png", "d.arw", "x/a.cr2", "\xe9.jpg"]
    assert listing.same == {"a.CR2": "a.JPG", "b.dng": "b.HEIC", "e\u0301.raf": "\xe9.jpg"}
    assert listing.left == {"beside": 8, "other": 1}
    source = open_source(tmp_path)
    sides = {item.id: list(source.sides(number)) for number, item in enumerate(source.items)}
    assert {
        photo: [name.removeprefix(f"{tmp_path}/") for name in some] for photo, some in sides.items() if some
    } == {
        "a.JPG": ["a.JPG.xmp", "a.CR2.xmp", "a.xmp"],
        "b.HEIC": ["b.dng.xmp"],
        "c.nef": ["c.nef.xmp"],
    }
    alone = open_source(tmp_path / "a.JPG")
    assert [Path(name).name for name in alone.sides(0)] == ["a.JPG.xmp", "a.CR2.xmp", "a.xmp"]
    assert walk(tmp_path, lambda name: name == "a.JPG").photos[0] == "a.CR2"


def test_an_edited_copy_and_what_it_was_made_of_are_one_photo(tmp_path: Path) -> None:
    edited = ("x/IMG_E1234.JPG", "x/IMG_E2222.HEIC", "a-edited.jpg", "IMG_E7777.png")
    originals = ("x/IMG_1234.HEIC", "x/IMG_1234.DNG", "x/IMG_2222.jpg", "a.jpg", "a.cr2")
    others = (
        "IMG_1234.HEIC",
        "IMG_E12345.jpg",
        "IMG_12345.jpg",
        "x/-edited.jpg",
        "xIMG_E1234.jpg",
        "xIMG_1234.jpg",
    )
    for name in (*edited, *originals, *others):
        write(tmp_path / name, jpeg())
    write(tmp_path / "x/IMG_1234.txt", "our cat")
    write(tmp_path / "x/IMG_1234.HEIC.xmp", "")
    write(tmp_path / "x/IMG_E1234.xmp", "")
    assert walk(tmp_path).photos == sorted([*edited, *others])
    assert walk(tmp_path).left == {"beside": len(originals) + 3}
    source = open_source(tmp_path)
    number = [item.id for item in source.items].index("x/IMG_E1234.JPG")
    for one, at in ((source, number), (open_source(tmp_path / "x/IMG_E1234.JPG"), 0)):
        assert one.items[at].captions == ("our cat",)
        assert [Path(side).name for side in one.sides(at)] == ["IMG_E1234.xmp", "IMG_1234.HEIC.xmp"]
    (tmp_path / "x/IMG_E1234.JPG").unlink()
    assert "x/IMG_1234.HEIC" in walk(tmp_path).photos


def test_what_phones_store_beside_photos_is_counted_so(tmp_path: Path) -> None:
    for name in ("IMG_1.HEIC", "IMG_2.JPG"):
        write(tmp_path / name, jpeg())
    for name in ("IMG_1.MOV", "IMG_2.mp4", "IMG_2.AAE", "IMG_3.MOV", "film.mov", ".IMG_1.MOV"):
        write(tmp_path / name, "")
    listing = walk(tmp_path)
    assert listing.left == {"beside": 3, "other": 2, "hidden": 1}
    assert listing.skipped == [Skipped(".", "files of other kinds: 2 .mov")]


# ---- what cannot be listed ----


def test_a_link_to_itself_hides_nothing_else(tmp_path: Path) -> None:
    for name in ("a.jpg", "sub/b.jpg", "z.jpg"):
        write(tmp_path / name, jpeg())
    for name in ("aloop", "loop.jpg", "loop.d"):
        (tmp_path / name).symlink_to(name)
    source = open_source(tmp_path)
    assert [item.id for item in source.items] == ["a.jpg", "sub/b.jpg", "z.jpg"]
    why = "Too many levels of symbolic links"
    places = [Unlisted("aloop", why), Unlisted("loop.d", why), Unlisted("loop.jpg", why, 1)]
    assert sorted(source.unlisted) == places
    assert source.skipped == [Skipped(place.id, why) for place in places]
    assert walk(tmp_path, lambda name: name.startswith(("aloop/", "loop."))).unlisted == []


def test_a_folder_that_cannot_be_listed_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.jpg", "share/b.jpg", "share/deep/c.jpg"):
        write(tmp_path / name, jpeg())
    scandir = os.scandir

    def fail(path: Path) -> object:
        if Path(path).name == "deep":
            raise OSError(5, "Input/output error")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)
    assert open_source(tmp_path).unlisted == [Unlisted("share/deep", "Input/output error")]


def test_a_link_to_a_folder_of_a_disk_that_is_not_mounted(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    for name in ("disk", "b.jpg", "b.txt"):
        (tmp_path / name).symlink_to("/nowhere/x")
    assert open_source(tmp_path).unlisted == [Unlisted("disk", "a link to nothing")]


# ---- files beside photos ----


def test_files_beside_photos_that_never_end_or_are_huge(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        write(tmp_path / name, jpeg())
    for name in ("a.txt", "a.xmp", "p.tar"):
        os.mkfifo(tmp_path / name)
    with (tmp_path / "b.txt").open("wb") as file:
        file.truncate(20 << 30)
    source = open_source(tmp_path)
    assert [item.captions for item in source.items] == [(), ()]
    assert not source.sides(0)
    assert source.skipped == [
        Skipped("p.tar", "not a file"),
        Skipped(".", "files of other kinds: 1 .txt, 1 .xmp"),
        Skipped("b.txt", "21,474,836,480 bytes: more than 1,048,576"),
    ]


def test_captions_come_from_no_link_that_leads_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, outside = write_photos(tmp_path / "photos", 3), tmp_path / "outside"
    write_photos(outside / "album", 1)
    (outside / "secret").write_text("root:x:0:0\n")
    (outside / "secret.xmp").write_bytes(xmp())
    (photos / "album").symlink_to(outside / "album")  # a link to a folder is followed
    (photos / "0.xmp").symlink_to(outside / "secret.xmp")
    for name in ("0.txt", "1.txt"):
        (photos / name).unlink()
    (photos / "0.txt").symlink_to(outside / "secret")
    (photos / "1.txt").symlink_to("2.txt")
    source = open_source(photos)
    captions = {item.id: item.captions for item in source.items}
    assert captions["0.jpg"] == ()
    assert captions["1.jpg"] == captions["2.jpg"] != ()
    assert captions["album/0.jpg"] != ()
    elsewhere = [Skipped(name, "a link to a file elsewhere") for name in ("0.txt", "0.xmp")]
    assert source.skipped == elsewhere
    assert source.header(0).keywords == ()
    assert source.files()["named"] == 2
    # those that come to their places after the listing are not read, either
    listing = walk(photos)
    (photos / "2.txt").unlink()
    (photos / "2.txt").symlink_to(outside / "secret")
    source = FolderSource(photos, listing, "photos")
    assert [item.captions for item in source.items if item.id == "2.jpg"] == [()]
    assert Skipped("2.txt", "a link to a file elsewhere") in source.skipped
    (photos / "1.xmp").write_bytes(xmp())
    source = open_source(photos)
    assert source.header(1).keywords == ("sea", "holidays 2019")
    (photos / "1.xmp").unlink()
    (photos / "1.xmp").symlink_to(outside / "secret.xmp")
    assert source.header(1).keywords == ()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a.jpg", ""),
        ("2019/07/a.jpg", ""),
        (".a.jpg", "hidden"),
        ("._a.jpg", "hidden"),
        (".Trash-1000/", "hidden"),
        ("a/.thumbnails/b.jpg", "hidden"),
        ("@eaDir/", "system"),
        ("a/@eadir/b.jpg/SYNOPHOTO_THUMB_M.jpg", "system"),
        ("#recycle/", "system"),
        ("$RECYCLE.BIN/", "system"),
        ("$Recycle.Bin/S-1-5/", "system"),
        ("System Volume Information/", "system"),
        ("a/lost+found/", "system"),
        ("@Recycle/", "system"),
        ("Lightroom Previews.lrdata/", "system"),
        ("My.photoslibrary/", ""),
        ("My.photoslibrary/originals/a.heic", ""),
        ("My.photoslibrary/resources/derivatives/a.jpg", "system"),
        ("resources/a.jpg", ""),
        ("#recycle", ""),  # a file
        ("x@eaDir/a.jpg", ""),
        ("recycled bottles/a.jpg", ""),
    ],
)
def test_what_is_left_out(path: str, why: str) -> None:
    assert why_left_out(path) == why
    assert why_left_out(path, lambda _: True) == ""
    assert why_left_out(path, lambda _: False) == why
