import io
import tarfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lexlip.data import Source, UnreadableImage, decode, extra_kinds, isolated_process, open_source, raw
from lexlip.data.extra_kinds import is_installed
from lexlip.data.facts import decode_with_facts, facts_of_header
from lexlip.data.files import OutOfReach
from tests.data.made_raw import SENSOR_AT, dng, drawing, jpeg
from tests.data.test_facts import xmp

needs_rawpy = pytest.mark.skipif(not is_installed("rawpy"), reason="rawpy is not installed")
WITH_PREVIEW = dng(preview=jpeg(drawing()))
TURNED = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_270, 8: Image.Transpose.ROTATE_90}


def difference(one: Image.Image, other: Image.Image) -> float:
    return float(np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).mean())


def encoded(picture: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


# ---- which files are RAW ----


def test_raw_files_are_known_by_their_content() -> None:
    for start in (
        b"FUJIFILMCCD-RAW 0201",
        b"IIRO\x08\0\0\0",
        b"IIRS\x08\0\0\0",
        b"MMOR\0\0\0\x08",
        b"IIU\0\x18",
    ):
        assert raw.is_raw(io.BytesIO(start))
    assert raw.is_raw(io.BytesIO(b"\0\0\0\x18ftypcrx \0\0\0\1"))
    assert raw.is_raw(io.BytesIO(b"II*\0\x10\0\0\0CR\2\0"))
    file = io.BytesIO(WITH_PREVIEW)
    assert raw.is_raw(file)
    assert file.tell() == 0


def test_what_a_sensor_saw_is_raw_without_the_mark_of_a_dng() -> None:
    version = (50706).to_bytes(2, "little")
    assert WITH_PREVIEW.count(version) == 1
    assert raw.is_raw(io.BytesIO(WITH_PREVIEW.replace(version, (50707).to_bytes(2, "little"))))


def test_other_files_are_not() -> None:
    for kind in ("TIFF", "JPEG", "PNG", "AVIF"):
        assert not raw.is_raw(io.BytesIO(encoded(drawing(), kind)))
    for data in (b"", b"II*\0", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff" + bytes(99)):
        assert not raw.is_raw(io.BytesIO(data))


# ---- what is seen of them ----


@needs_rawpy
def test_a_raw_file_is_its_preview_and_says_what_cameras_write() -> None:
    found, facts = decode_with_facts(WITH_PREVIEW)
    assert difference(found, drawing()) < 2
    header = facts_of_header(io.BytesIO(WITH_PREVIEW))
    for known in (facts, header):
        assert (known.width, known.height) == (768, 512)
        assert (known.taken, known.camera) == ("2021-05-06T07:08:09", "Lexcam One")
    assert (facts.size, header.size) == (len(WITH_PREVIEW), None)


@needs_rawpy
@pytest.mark.parametrize("preview", [None, jpeg(drawing(192, 128))], ids=["none", "tiny"])
def test_a_raw_file_with_no_usable_preview_is_developed(preview: bytes | None) -> None:
    found, facts = decode_with_facts(dng(preview=preview))
    assert (found.size, facts.width, facts.height) == ((384, 256), 384, 256)  # half of what the sensor saw
    assert difference(found, drawing(384, 256)) < 10
    assert (facts.taken, facts.camera) == ("2021-05-06T07:08:09", "Lexcam One")


@needs_rawpy
@pytest.mark.parametrize("orientation", [3, 6, 8])
@pytest.mark.parametrize("preview", [None, jpeg(drawing())], ids=["developed", "preview"])
def test_it_is_upright(preview: bytes | None, orientation: int) -> None:
    found, facts = decode_with_facts(dng(preview=preview, orientation=orientation))
    assert found.size == (facts.width, facts.height)
    assert difference(found, drawing().transpose(TURNED[orientation]).resize(found.size)) < 10


@needs_rawpy
def test_a_preview_that_says_how_it_is_turned_is_believed() -> None:
    exif = Image.Exif()
    exif[0x0112] = 8
    found = decode(dng(preview=jpeg(drawing(), exif=exif), orientation=3))
    assert difference(found, drawing().transpose(TURNED[8])) < 2


@needs_rawpy
def test_keywords_of_its_xmp() -> None:
    packet, other = xmp(), xmp().replace(b"sea", b"of the preview")
    of_both = dng(preview=jpeg(drawing(), xmp=other), xmp=packet)
    long = dng(xmp=packet + b" " * 100_000)  # more than one part of a JPEG holds
    for data in (of_both, long, dng(preview=jpeg(drawing(), xmp=packet))):
        facts = decode_with_facts(data)[1]
        assert (facts.keywords, facts.captions) == (("sea", "holidays 2019"), ("a boat", "ein Boot"))


@needs_rawpy
def test_no_date_is_no_date() -> None:
    assert decode_with_facts(dng(taken=""))[1].taken is None


@pytest.mark.parametrize("mark", [b"IIRO", b"IIRS", b"IIU\0"])
def test_exif_of_olympus_and_panasonic(mark: bytes) -> None:
    told = isolated_process._merged([*isolated_process._tiffs(mark + WITH_PREVIEW[4:])])
    assert (told[0x0110], told.get_ifd(0x8769)[0x9003]) == ("Lexcam One", "2021:05:06 07:08:09")


def test_exif_of_a_cr3() -> None:
    camera, taken = Image.Exif(), Image.Exif()
    camera[0x0110] = "Canon EOS M50"
    taken[0x9003] = "2018:02:21 12:01:03"
    boxes = (name + tags.tobytes()[6:] for name, tags in ((b"CMT1", camera), (b"CMT2", taken)))
    told = isolated_process._merged([*isolated_process._tiffs(b"\0\0\0\x18ftypcrx " + b"".join(boxes))])
    assert (told[0x0110], told.get_ifd(0x8769)[0x9003]) == ("Canon EOS M50", "2018:02:21 12:01:03")


# ---- damage ----


@needs_rawpy
def test_a_raw_file_that_is_cut_short() -> None:
    data = dng()
    for length in range(16, len(data) - 1, len(data) // 13):
        with pytest.raises(UnreadableImage) as caught:
            decode(data[:length])
        assert "\n" not in caught.value.reason


@needs_rawpy
def test_a_raw_file_that_is_cut_short_behind_its_preview() -> None:
    assert difference(decode(WITH_PREVIEW[: SENSOR_AT + 1000]), drawing()) < 2
    with pytest.raises(UnreadableImage):
        decode(WITH_PREVIEW[:5000])


@needs_rawpy
def test_damage_gets_one_clear_sentence() -> None:
    with pytest.raises(
        UnreadableImage, match=r"^a RAW file that cannot be read \(Unsupported file format or not"
    ):
        decode(b"FUJIFILMCCD-RAW 0201" + bytes(1000))
    grey = dng(Image.new("RGB", (768, 512), "black"))
    with pytest.raises(UnreadableImage, match=r"\(data of the sensor are missing or damaged\)$"):
        decode(grey)
    assert difference(decode(WITH_PREVIEW), drawing()) < 2


@needs_rawpy
@pytest.mark.parametrize("seed", range(6))
def test_damaged_bytes_never_stop_the_others(seed: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(WITH_PREVIEW)
    tags = WITH_PREVIEW.index(b"Lexcam One")
    for place in (*random.integers(0, 1000, 3), *(tags + random.integers(-400, 400, 5))):
        data[place] = random.integers(256)
    with suppress(UnreadableImage):
        decode(bytes(data))
    assert decode(WITH_PREVIEW).size == (768, 512)


# ---- where they are ----


def first_pixels(source: Source) -> dict[str, tuple[int, int]]:
    return {item.id: source.image(number).size for number, item in enumerate(source.items)}


@needs_rawpy
def test_in_folders_tars_and_tables(tmp_path: Path) -> None:
    files = {
        "a.dng": WITH_PREVIEW,
        "B.DNG": WITH_PREVIEW,
        "c.NEF": WITH_PREVIEW,  # its content counts
        "jpeg.dng": encoded(drawing(100, 80), "JPEG"),
        "tiff.Dng": encoded(drawing(100, 80), "TIFF"),
        "raw.tif": WITH_PREVIEW,
    }
    expected = {name: (768, 512) if data is WITH_PREVIEW else (100, 80) for name, data in files.items()}
    folder = tmp_path / "photos"
    folder.mkdir()
    with tarfile.open(tmp_path / "photos.tar", "w") as tar:
        for name, data in files.items():
            (folder / name).write_bytes(data)
            tar.add(folder / name, name)
    (tmp_path / "t.csv").write_text("image,caption\n" + "".join(f"{name},a photo\n" for name in files))
    assert first_pixels(open_source(folder)) == expected
    in_tar = first_pixels(open_source(tmp_path / "photos.tar"))
    assert {Path(id).name: size for id, size in in_tar.items()} == expected
    assert first_pixels(open_source(tmp_path / "t.csv", images=folder)) == expected
    assert first_pixels(open_source(folder / "B.DNG")) == {"B.DNG": (768, 512)}


def test_without_rawpy_a_file_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.dng").write_bytes(WITH_PREVIEW)
    (tmp_path / "b.tif").write_bytes(WITH_PREVIEW)
    (tmp_path / "c.jpg").write_bytes(jpeg(drawing(40, 30)))
    monkeypatch.setattr(extra_kinds, "is_installed", lambda module: False)
    source = open_source(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(type(source), "read", pytest.fail)
        for read in (source.image, source.photo):
            with pytest.raises(OutOfReach, match=r"to read RAW files, pip install 'lexlip\[raw\]'$"):
                read(0)
    with pytest.raises(OutOfReach, match=r"lexlip\[raw\]"):
        source.image(1)
    assert source.image(2).size == (40, 30)


@needs_rawpy
def test_the_place_of_a_raw_file() -> None:
    for preview in (jpeg(drawing()), None):
        _, facts = decode_with_facts(dng(preview=preview, place=(48.25, 11.5)))
        assert facts.place == (48.25, 11.5)
        assert (facts.taken, facts.camera) == ("2021-05-06T07:08:09", "Lexcam One")
