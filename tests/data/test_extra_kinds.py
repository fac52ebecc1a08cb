import io
from pathlib import Path

import pytest
from PIL import Image

from lexlip.data import UnreadableImage, decode, extra_kinds, open_source
from lexlip.data.extra_kinds import is_installed, lacks_package
from lexlip.data.facts import decode_with_facts
from lexlip.data.files import OutOfReach
from lexlip.data.images import SUFFIXES
from tests.data.made_raw import drawing
from tests.data.test_raw import difference

needs_jxl = pytest.mark.skipif(not is_installed("pillow_jxl"), reason="pillow-jxl-plugin is not installed")
START = b"\xff\x0a" + bytes(30)


def exif(turn: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112], tags[0x010F] = turn, "Acme"
    return tags.tobytes()


def jxl(picture: Image.Image, **how: object) -> bytes:
    import pillow_jxl  # noqa: F401 (Pillow can write them from now on)

    file = io.BytesIO()
    picture.save(file, "JXL", **how)
    return file.getvalue()


def test_endings_that_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra_kinds, "is_installed", lambda module: False)
    assert lacks_package("a/b.CR2") == "to read RAW files, pip install 'lexlip[raw]'"
    assert lacks_package("b.jxl") == "to read JPEG XL files, pip install 'lexlip[jxl]'"
    assert lacks_package("jxl") == lacks_package("dng.jpg") == ""
    assert all(ending in SUFFIXES for kind in extra_kinds.KINDS for ending in kind.endings)
    monkeypatch.setattr(extra_kinds, "is_installed", lambda module: module == "rawpy")
    assert lacks_package("b.cr2") == ""


def test_without_the_package_a_jpeg_xl_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.jxl", "b.jpg"):
        (tmp_path / name).write_bytes(START)
    monkeypatch.setattr(extra_kinds, "is_installed", lambda module: False)
    source = open_source(tmp_path)
    for number in range(2):
        with pytest.raises(OutOfReach, match=r"lexlip\[jxl\]"):
            source.image(number)


@needs_jxl
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA"])
def test_a_jpeg_xl_is_read(mode: str) -> None:
    picture = drawing()
    read = decode(jxl(picture.convert(mode), lossless=True))
    assert difference(read, picture.convert(mode).convert("RGB")) < 1


@needs_jxl
def test_a_jpeg_xl_is_turned_once(tmp_path: Path) -> None:
    """Its decoder turns it by what the picture itself says, and then EXIF has nothing to say."""
    picture = drawing(60, 40)
    _, facts = decode_with_facts(jxl(picture, exif=exif(6)))
    assert (facts.width, facts.height, facts.camera) == (60, 40, "Acme")
    picture.save(tmp_path / "a.jpg", quality=95, exif=exif(6))
    of_jpeg, facts = decode_with_facts(jxl(Image.open(tmp_path / "a.jpg"), lossless_jpeg=True))
    assert (facts.width, facts.height, facts.camera) == (40, 60, "Acme")
    assert difference(of_jpeg, picture.transpose(Image.Transpose.ROTATE_270)) < 4


@needs_jxl
def test_a_damaged_jpeg_xl_is_named() -> None:
    whole = jxl(drawing())
    for data in (START, whole[: len(whole) // 2], whole[:20] + bytes(200), whole[:9] + b"\xff" * 99):
        with pytest.raises(UnreadableImage):
            decode(data)
