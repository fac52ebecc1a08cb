import gzip
from pathlib import Path

import pytest

from lexlip.data import Item, Skipped, caption_tables, open_source
from lexlip.data.caption_tables import read_caption_lines, read_captions_alone
from lexlip.errors import DataError
from tests.data.pictures import jpeg, write, write_tar

TWO = [Item("a.jpg", ("a dog", "two dogs")), Item("sub/b.png", ("a cat, asleep",))]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "sub" / "b.png", jpeg())
    return tmp_path


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
        ("t.csv", 'id,text,image\n1,a dog,a.jpg\n2,two dogs,a.jpg\n3,"a cat, asleep",sub/b.png\n'),
        (
            "results.csv",
            "image_name| comment_number| comment\n"
            "a.jpg| 0| a dog\na.jpg| 1| two dogs\nsub/b.png| 0| a cat, asleep\n",
        ),
    ],
)
def test_variants(photos: Path, name: str, text: str) -> None:
    source = open_source(write(photos / name, text))
    assert source.items == TWO
    assert source.skipped == []
    assert source.path(1) == f"{photos}/sub/b.png"
    source.image(1)


def test_a_comma_in_the_first_caption(photos: Path) -> None:
    table = write(photos / "t.csv", "sub/b.png,a cat, asleep\na.jpg,a dog, awake, barks\n")
    captions = [item.captions for item in open_source(table).items]
    assert captions == [("a cat, asleep",), ("a dog, awake, barks",)]


CAPTIONS = [f"caption {number}" for number in range(6)]


def test_a_quote_that_is_not_closed_costs_one_row(photos: Path) -> None:
    """Whatever follows: the end, a further one, cells over several lines, or quotes in the midst."""
    table = write(
        photos / "t.csv",
        'image,caption\r\na.jpg,"caption 0"\r\na.jpg,"lost\r\na.jpg,"caption\r\n1"\r\na.jpg,"lost, too\r\n'
        'a.jpg,caption 2\r\na.jpg,"lost ""once"" more\r\na.jpg,caption 3\r\na.jpg,a 5" pipe\r\n'
        'a.jpg,"Stop" says the sign\r\na.jpg,"lost at the end\r\na.jpg,caption 4\r\na.jpg,caption 5\r\n',
    )
    (item,), skipped = open_source(table).items, open_source(table).skipped
    assert item.captions == (*CAPTIONS[:4], 'a 5" pipe', "Stop says the sign", *CAPTIONS[4:])
    assert skipped == [Skipped(f"t.csv:{line}", "a quote is not closed") for line in (3, 6, 8, 12)]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_cell_that_is_too_long_costs_one_row(photos: Path, name: str) -> None:
    between = "\t" if name == "t.tsv" else ","
    rows = [("image", "caption"), ("a.jpg", "a dog"), ("a.jpg", "x" * 131_073), ("a.jpg", "two dogs")]
    source = open_source(write(photos / name, "\n".join(between.join(row) for row in rows)))
    assert source.items[0].captions == ("a dog", "two dogs")
    assert source.skipped == [Skipped(f"{name}:3", "a cell has more than 131,072 characters")]


def test_quotes_in_a_tsv_are_only_quotes(photos: Path) -> None:
    table = write(photos / "t.tsv", 'a.jpg\t"Stop" says the sign\na.jpg\tthe 5" pipe\n')
    assert open_source(table).items[0].captions == ('"Stop" says the sign', 'the 5" pipe')


def test_splits(photos: Path) -> None:
    table = write(photos / "t.csv", "image,caption,split\na.jpg,a dog,restval\nsub/b.png,a cat,val\n")
    assert [item.id for item in open_source(table, split="train").items] == ["a.jpg"]
    assert [item.id for item in open_source(table, split="val").items] == ["sub/b.png"]
    assert len(open_source(table)) == 2
    with pytest.raises(DataError, match="has no split 'test': it has train, val"):
        open_source(table, split="test")
    with pytest.raises(DataError, match="has no split 'val': it has no splits"):
        open_source(write(table, "a.jpg,a dog\n"), split="val")


def test_rows_and_photos_that_are_missing(photos: Path) -> None:
    table = write(
        photos / "t.csv",
        "image| comment_number| comment\na.jpg| 4   A dog .\na.jpg| 0| a dog\nno.jpg| 0| x\n",
    )
    source = open_source(table)
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert source.skipped == [Skipped("t.csv:2", "a column is missing"), Skipped("no.jpg", "no such file")]


def test_photos_elsewhere(photos: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "tables" / "t.tsv", f"a.jpg\ta dog\n{photos}/sub/b.png\ta cat\n")
    source = open_source(table, images=photos)
    assert [source.path(0), source.path(1)] == [f"{photos}/a.jpg", f"{photos}/sub/b.png"]


def test_photos_in_tars(tmp_path: Path) -> None:
    write_tar(tmp_path / "photos-0.tar", {"a.jpg": jpeg(), "a.txt": b"not this"})
    source = open_source(write(tmp_path / "t.tsv", "a.jpg\ta dog\n"))
    assert source.items == [Item("a.jpg", ("a dog",))]
    assert source.read(0) == jpeg()


def test_errors(photos: Path) -> None:
    table = photos / "t.csv"
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


def test_captions_of_a_table_or_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("9\t0\ttwo  dogs\tfrom here\n9\t1\ta bike\tfrom there\n")
    (tmp_path / "a.csv").write_text("image,caption\nb.jpg,a café\n")
    (tmp_path / "a.txt").write_text("two dogs\nand, a cat\n")
    assert read_captions_alone(tmp_path / "a.tsv") == ["two dogs", "a bike"]
    assert read_captions_alone(tmp_path / "a.csv") == ["a café"]
    assert read_captions_alone(str(tmp_path / "a.txt")) == ["two dogs", "and, a cat"]


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
    monkeypatch.setattr(caption_tables, "LARGEST_TABLE", 60)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_caption_lines(tmp_path / name)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_caption_lines(tmp_path / "nothing.txt")
