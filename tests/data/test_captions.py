import codecs
import gzip
import itertools
import unicodedata
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped, captions, open_source
from lexlip.data.captions import Beside, decode_text, lines_of, read_caption_lines
from lexlip.errors import DataError
from tests.data.pictures import jpeg, write, write_tar

TEXT = "zwei Hündchen\r\n犬 🐕\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_text_is_decoded_by_its_mark(encoding: str) -> None:
    assert decode_text(TEXT.encode(encoding)) == TEXT


@pytest.mark.parametrize(("order", "mark"), [("be", codecs.BOM_UTF16_BE), ("le", codecs.BOM_UTF16_LE)])
def test_both_orders_of_bytes(order: str, mark: bytes) -> None:
    assert decode_text(mark + TEXT.encode(f"utf-16-{order}")) == TEXT
    with pytest.raises(ValueError, match=rf"^not UTF-16-{order.upper()} at byte 4$"):
        decode_text(mark + "a".encode(f"utf-16-{order}") + b"b")


def test_other_encodings_are_named() -> None:
    with pytest.raises(ValueError, match=r"^not UTF-8 at byte 6$"):
        decode_text(TEXT.encode("latin-1", "ignore"))
    with pytest.raises(ValueError, match=r"^not UTF-8: it has zero bytes$"):
        decode_text("two dogs".encode("utf-16-le"))
    assert decode_text(b"") == ""


def test_lines_end_at_three_marks_only() -> None:
    others = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    assert lines_of(f"a{others}b\nc\r\nd\re\n\n") == [f"a{others}b", "c", "d", "e", "", ""]


def test_files_beside_a_photo() -> None:
    names = ["a.TXT", "a.txt", "b.Xmp", "É.txt", unicodedata.normalize("NFD", "Ü.TXT"), "no suffix"]
    beside = Beside(names)
    for stem, suffix, name in [
        ("a", ".txt", "a.txt"),
        ("b", ".xmp", "b.Xmp"),
        ("b", ".txt", None),
        (unicodedata.normalize("NFD", "É"), ".txt", "É.txt"),
        ("Ü", ".txt", unicodedata.normalize("NFD", "Ü.TXT")),
    ]:
        assert beside.find(stem, suffix) == name
    both = [unicodedata.normalize(form, "é.txt") for form in ("NFC", "NFD")]
    for name in both:
        assert Beside(both).find(name.removesuffix(".txt"), ".txt") == name


@pytest.mark.parametrize(("photo", "text"), itertools.product(("NFC", "NFD"), repeat=2))
def test_captions_beside_photos_in_folders_and_tars(tmp_path: Path, photo: str, text: str) -> None:
    """Names may be composed otherwise, suffixes in any case, texts in UTF-16 and with odd separators."""
    name = unicodedata.normalize(photo, "Été/Zürich.JPG")
    other = unicodedata.normalize(text, "Été/Zürich.TXT")
    files = {
        name: jpeg(),
        other: "two dogs\u2028in snow\x0bnow\x85ok\r\nZürich".encode("utf-16"),
        "b.jpg": jpeg(),
        "b.txt": "Hündin\n".encode("latin-1"),
    }
    for file, data in files.items():
        write(tmp_path / "photos" / file, data)
    write_tar(tmp_path / "tars" / "a.tar", {**files, "c.JSON": b'{"caption": "a cat"}', "c.jpg": jpeg()})
    folder, tar = open_source(tmp_path / "photos"), open_source(tmp_path / "tars")
    captions = {name: ("two dogs in snow now ok", "Zürich"), "b.jpg": ()}
    assert {item.id: item.captions for item in folder.items} == captions
    assert folder.skipped == [Skipped("b.txt", "not UTF-8 at byte 1")]
    of_tar = {item.id.removeprefix("a.tar/"): item.captions for item in tar.items}
    assert of_tar == {**captions, "c.jpg": ("a cat",)}
    assert tar.skipped == [Skipped("a.tar/b.txt", "not UTF-8 at byte 1")]
    assert folder.read(0) == tar.read(0) == jpeg()


def test_captions_beside_a_photo_that_is_given_alone(tmp_path: Path) -> None:
    write(tmp_path / unicodedata.normalize("NFD", "Zürich.jpg"), jpeg())
    write(tmp_path / "Zürich.Txt", "two dogs")
    write(tmp_path / "Zürich.XMP", "")
    source = open_source(next(tmp_path.glob("*.jpg")))
    assert source.items[0].captions == ("two dogs",)
    assert source.sides(0) == [f"{tmp_path}/Zürich.XMP"]


TWO = [Item("a.jpg", ("a dog", "two dogs")), Item("sub/b.png", ("a cat, asleep",))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "a.jpg\ta dog\na.jpg\ttwo dogs\nsub/b.png\ta cat, asleep\n"),
        ("t.tsv", "filename\tcaption\na.jpg\ta dog\na.jpg\ttwo dogs\nsub/b.png\ta cat, asleep\n"),
        ("t.tsv", "a.jpg\t0\ta dog\na.jpg\t1\ttwo dogs\nsub/b.png\t0\ta cat, asleep\n"),
        ("t.tsv", "a.jpg#0\ta dog\nsub/b.png#0\ta cat, asleep\na.jpg#1\ttwo dogs\n"),
        ("Flickr8k.token.txt", "a.jpg#0\ta dog\na.jpg#1\ttwo dogs\nsub/b.png#0\ta cat, asleep\n"),
        ("t.csv", 'a.jpg,a dog\na.jpg,two dogs\nsub/b.png,"a cat, asleep"\n'),
        ("t.csv", "a.jpg,a dog\na.jpg,two dogs\nsub/b.png,a cat, asleep\n"),
        ("t.csv", "\na.jpg,0,a dog\na.jpg,1,two dogs\nsub/b.png,0,a cat, asleep\n"),
        ("t.csv", "\ufeffFilePath,Title\r\na.jpg,a dog\r\n\r\na.jpg,two dogs\r\nsub/b.png,a cat, asleep\r\n"),
        ("t.csv", "filepath\ttitle\na.jpg\ta dog\na.jpg\ttwo dogs\nsub/b.png\ta cat, asleep\n"),
        ("t.csv", '\ufeffimage;caption\r\na.jpg;a dog\r\na.jpg;"two dogs"\r\nsub/b.png;"a cat, asleep"\r\n'),
        ("t.csv", "image;caption\ra.jpg;a dog\ra.jpg;two dogs\rsub/b.png;a cat, asleep\r"),
        ("t.csv", 'id,text,image\n1,a dog,a.jpg\n2,two dogs,a.jpg\n3,"a cat, asleep",sub/b.png\n'),
        (
            "results.csv",
            "image_name| comment_number| comment\n"
            "a.jpg| 0| a dog\na.jpg| 1| two dogs\nsub/b.png| 0| a cat, asleep\n",
        ),
    ],
)
def test_variants(two_photos: Path, name: str, text: str) -> None:
    source = open_source(write(two_photos / name, text))
    assert source.items == TWO
    assert source.skipped == []
    assert source.path(1) == f"{two_photos}/sub/b.png"
    source.image(1)


def test_a_comma_in_the_first_caption(two_photos: Path) -> None:
    table = write(two_photos / "t.csv", "sub/b.png,a cat, asleep\na.jpg,a dog, awake, barks\n")
    captions = [item.captions for item in open_source(table).items]
    assert captions == [("a cat, asleep",), ("a dog, awake, barks",)]


def test_semicolons_without_a_header_are_of_the_caption(two_photos: Path) -> None:
    table = write(two_photos / "t.csv", "a.jpg,a dog; it barks\nsub/b.png,a cat; asleep\n")
    assert [item.captions for item in open_source(table).items] == [("a dog; it barks",), ("a cat; asleep",)]
    table = write(two_photos / "t.csv", 'image;caption\na.jpg;a dog; it barks\nsub/b.png;"a cat; asleep"\n')
    assert [item.captions for item in open_source(table).items] == [("a dog; it barks",), ("a cat; asleep",)]


CAPTIONS = [f"caption {number}" for number in range(6)]


def test_a_quote_that_is_not_closed_costs_one_row(two_photos: Path) -> None:
    """Whatever follows: the end, a further one, cells over several lines, or quotes in the midst."""
    table = write(
        two_photos / "t.csv",
        'image,caption\r\na.jpg,"caption 0"\r\na.jpg,"lost\r\na.jpg,"caption\r\n1"\r\na.jpg,"lost, too\r\n'
        'a.jpg,caption 2\r\na.jpg,"lost ""once"" more\r\na.jpg,caption 3\r\na.jpg,a 5" pipe\r\n'
        'a.jpg,"Stop" says the sign\r\na.jpg,"lost at the end\r\na.jpg,caption 4\r\na.jpg,caption 5\r\n',
    )
    (item,), skipped = open_source(table).items, open_source(table).skipped
    assert item.captions == (*CAPTIONS[:4], 'a 5" pipe', "Stop says the sign", *CAPTIONS[4:])
    assert skipped == [Skipped(f"t.csv:{line}", "a quote is not closed") for line in (3, 6, 8, 12)]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_cell_that_is_too_long_costs_one_row(two_photos: Path, name: str) -> None:
    between = "\t" if name == "t.tsv" else ","
    rows = [("image", "caption"), ("a.jpg", "a dog"), ("a.jpg", "x" * 131_073), ("a.jpg", "two dogs")]
    source = open_source(write(two_photos / name, "\n".join(between.join(row) for row in rows)))
    assert source.items[0].captions == ("a dog", "two dogs")
    assert source.skipped == [Skipped(f"{name}:3", "a cell has more than 131,072 characters")]


def test_quotes_in_a_tsv_are_only_quotes(two_photos: Path) -> None:
    table = write(two_photos / "t.tsv", 'a.jpg\t"Stop" says the sign\na.jpg\tthe 5" pipe\n')
    assert open_source(table).items[0].captions == ('"Stop" says the sign', 'the 5" pipe')


def test_splits(two_photos: Path) -> None:
    table = write(two_photos / "t.csv", "image,caption,split\na.jpg,a dog,restval\nsub/b.png,a cat,val\n")
    assert [item.id for item in open_source(table, split="train").items] == ["a.jpg"]
    assert [item.id for item in open_source(table, split="val").items] == ["sub/b.png"]
    assert len(open_source(table)) == 2
    with pytest.raises(DataError, match="has no split 'test': it has train, val"):
        open_source(table, split="test")
    with pytest.raises(DataError, match="has no split 'val': it has no splits"):
        open_source(write(table, "a.jpg,a dog\n"), split="val")


def test_rows_and_photos_that_are_missing(two_photos: Path) -> None:
    table = write(
        two_photos / "t.csv",
        "image| comment_number| comment\na.jpg| 4   A dog .\na.jpg| 0| a dog\nno.jpg| 0| x\n",
    )
    source = open_source(table)
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert source.skipped == [Skipped("t.csv:2", "a column is missing"), Skipped("no.jpg", "no such file")]


def test_photos_elsewhere(two_photos: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "tables" / "t.tsv", f"a.jpg\ta dog\n{two_photos}/sub/b.png\ta cat\n")
    source = open_source(table, images=two_photos)
    assert [source.path(0), source.path(1)] == [f"{two_photos}/a.jpg", f"{two_photos}/sub/b.png"]


def test_photos_in_tars(tmp_path: Path) -> None:
    write_tar(tmp_path / "photos-0.tar", {"a.jpg": jpeg(), "a.txt": b"not this"})
    source = open_source(write(tmp_path / "t.tsv", "a.jpg\ta dog\n"))
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert source.read(0) == jpeg()


def test_errors(two_photos: Path) -> None:
    table = two_photos / "t.csv"
    for text, reason in [
        ("", "names no photos: each needs a file name and a caption"),
        ("image,label\na.jpg,3\n", "no column named caption: it has image, label"),
        ("url,caption\nhttp://x/a.jpg,a\n", "no column named image: it has url, caption"),
        ("no.jpg,a dog\n", r"none of the 1 photos .* \(the first is no\.jpg\)"),
        ("x" * 200_000, "line 1 cannot be read: a cell has more than 131,072 characters"),
    ]:
        with pytest.raises(DataError, match=reason):
            open_source(write(table, text))
    with pytest.raises(DataError, match="is not UTF-8 at byte 8"):
        open_source(write(table, b"a.jpg,un\xe9\n"))


LINES = "\ufefftwo dogs\r\n\n  a café \n\t\na bike"


def test_a_caption_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_bytes(LINES.encode())
    (tmp_path / "captions.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    for name in ("captions.txt", "captions.txt.gz"):
        assert read_caption_lines(tmp_path / name) == ["two dogs", "a café", "a bike"]
    (tmp_path / "captions.txt").write_bytes(b"")
    assert read_caption_lines(tmp_path / "captions.txt") == []


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("latin.txt", b"caf\xe9\n", r"latin\.txt is not UTF-8 at byte 3"),
        ("plain.gz", b"two dogs\n", r"plain\.gz cannot be unpacked"),
        ("short.gz", gzip.compress(b"two dogs", mtime=0)[:-9], r"short\.gz cannot be unpacked"),
        ("long.txt", b"two dogs\n" * 9, "long"),
        (
            "bomb.gz",
            gzip.compress(b"two dogs\n" * 9, mtime=0),
            r"bomb\.gz has more than 60 bytes: give fewer captions",
        ),
    ],
)
def test_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, message: str
) -> None:
    monkeypatch.setattr(captions, "LARGEST_TABLE", 60)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_caption_lines(tmp_path / name)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_caption_lines(tmp_path / "nothing.txt")
