import codecs
import itertools
import unicodedata
from pathlib import Path

import pytest

from lexlip.data import Skipped, open_source
from lexlip.data.texts import Beside, decode_text, lines_of
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
    assert source.side(0) == f"{tmp_path}/Zürich.XMP"
