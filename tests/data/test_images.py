import io
import pickle
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from lexlip.data import images
from lexlip.data.facts import decode_with_facts
from lexlip.data.images import MAX_PIXELS, MOST_PAGES, UnreadableImage, decode, later_pages
from lexlip.errors import DataError, LexLIPError
from tests.data.pictures import encode, jpeg


def halves(size: tuple[int, int] = (64, 32)) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, "red")
    ImageDraw.Draw(image).rectangle((size[0] // 2, 0, *size), fill="blue")
    return image


def near(image: Image.Image, at: tuple[int, int], colour: tuple[int, int, int]) -> bool:
    return image.mode == "RGB" and bool(np.abs(np.subtract(image.getpixel(at), colour)).max() <= 12)


def png_header(width: int, height: int) -> bytes:
    """A PNG of this size, up to where its pixels would begin."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))


PLAIN = ("JPEG2000", "TGA", "PPM", "PCX", "DIB")


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", *PLAIN])
def test_formats(format: str) -> None:
    image = decode(encode(halves(), format))
    assert image.size == (64, 32)
    assert near(image, (8, 16), (255, 0, 0))
    assert near(image, (56, 16), (0, 0, 255))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_modes_without_alpha(mode: str) -> None:
    image = decode(encode(Image.new("RGB", (8, 8), "white").convert(mode), "PNG"))
    assert near(image, (4, 4), (255, 255, 255))


def test_cmyk() -> None:
    assert near(decode(encode(halves().convert("CMYK"), "JPEG")), (8, 16), (255, 0, 0))
    assert near(decode(encode(halves().convert("CMYK"), "TIFF")), (8, 16), (255, 0, 0))


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        *(("JPEG2000", mode) for mode in ("L", "LA", "RGBA", "I;16")),
        *(("TGA", mode) for mode in ("1", "L", "LA", "P", "RGBA")),
        *(("PPM", mode) for mode in ("1", "L", "I", "F")),
        *(("PCX", mode) for mode in ("1", "L", "P")),
        *(("DIB", mode) for mode in ("1", "L", "P", "RGBA")),
    ],
)
def test_modes_of_formats(format: str, mode: str) -> None:
    kinds = {"I;16": np.uint16, "I": np.int32, "F": np.float32}
    steps = np.array([[0, 1], [0, 1]]).repeat(16, axis=0).repeat(16, axis=1)
    image = Image.fromarray((steps * 255).astype(np.uint8)).convert("L" if mode in kinds else mode)
    if mode in kinds:
        image = Image.fromarray((steps * (1 if mode == "F" else 65535)).astype(kinds[mode]))
    found = decode(encode(image, format))
    assert near(found, (4, 8), (0, 0, 0))
    assert near(found, (28, 8), (255, 255, 255))


@pytest.mark.parametrize(("kind", "top"), [("P5", 4095), ("P5", 65535), ("P6", 65535), ("P5", 100)])
def test_a_ppm_of_other_values(kind: str, top: int) -> None:
    values = np.array([[0, top // 2, top]]).repeat(4, axis=0).repeat(3 if kind == "P6" else 1, axis=1)
    pixels = values.astype(">u2" if top > 255 else "u1").tobytes()
    found = decode(f"{kind}\n3 4\n{top}\n".encode() + pixels)
    assert [near(found, (x, 1), (grey, grey, grey)) for x, grey in enumerate((0, 127, 255))] == [True] * 3


@pytest.mark.parametrize(
    "data",
    [
        b"P3\n300 300 255\n" + b"#\n" * 2000,
        b"P3\n3000 3000 255\n" + b"1 2 3 " * 6_000_000,
        b"P6\n3000 3000 127\n" + bytes(27_000_000),
    ],
)
def test_a_ppm_that_would_keep_python_busy_is_refused(data: bytes) -> None:
    assert refusal(data) == "a PPM of this kind would take too long to decode"
    assert decode(b"P3\n# two\n2 1 255\n255 0 0  0 0 255\n").size == (2, 1)


@pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF"])
def test_transparent_parts_are_white(format: str) -> None:
    rgba = halves().convert("RGBA")
    rgba.paste((0, 0, 0, 0), (0, 0, 32, 32))
    options = {"lossless": True} if format == "WEBP" else {}
    image = decode(encode(rgba, format, **options))
    assert near(image, (8, 16), (255, 255, 255))
    assert near(image, (56, 16), (0, 0, 255))


def test_half_transparent_is_mixed_with_white() -> None:
    assert near(decode(encode(Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG")), (1, 1), (127, 127, 127))
    assert near(decode(encode(Image.new("LA", (4, 4), (0, 128)), "PNG")), (1, 1), (127, 127, 127))


@pytest.mark.parametrize("transparency", [0, b"\0\xff"])
def test_transparent_palette(transparency: int | bytes) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([0, 0, 0, 0, 0, 255])
    image.paste(1, (4, 0, 8, 8))
    decoded = decode(encode(image, "PNG", transparency=transparency))
    assert near(decoded, (1, 1), (255, 255, 255))
    assert near(decoded, (6, 1), (0, 0, 255))


def test_grey_of_16_bits_keeps_its_brightness() -> None:
    grey = np.array([[0, 32768, 65535]], dtype=np.uint16).repeat(4, axis=0)
    for format in ("PNG", "TIFF"):
        image = decode(encode(Image.fromarray(grey), format))
        assert [image.getpixel((x, 0)) for x in range(3)] == [(0, 0, 0), (128, 128, 128), (255, 255, 255)]


@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_grey_is_scaled_by_what_is_there(kind: type) -> None:
    """A file does not say of how many bits its values are."""
    for bits in (8, 10, 12, 14, 16) if kind is np.uint16 else (8, 12, 16, 24):
        top = 2**bits - 1
        image = decode(encode(Image.fromarray(np.array([[0, top // 2, top]], dtype=kind)), "TIFF"))
        assert [image.getpixel((x, 0))[0] for x in range(3)] == [0, 127, 255]
        dark = decode(encode(Image.fromarray(np.array([[0, 0, top * 3 // 4]], dtype=kind)), "TIFF"))
        assert dark.getpixel((2, 0))[0] == 191


def test_grey_of_floats() -> None:
    for top in (1.0, 255.0, 4095.0, 65535.0, 5e9):
        grey = np.array([[0, top / 4, top]], dtype=np.float32)
        image = decode(encode(Image.fromarray(grey), "TIFF"))
        assert [image.getpixel((x, 0))[0] for x in range(3)] == [0, 64, 255]


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(orientation: int, format: str) -> None:
    upright = Image.new("RGB", (64, 32), "red")
    upright.paste("blue", (32, 0, 64, 32))
    upright.paste("lime", (0, 16, 32, 32))
    back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = upright.transpose(back[orientation]) if orientation in back else upright
    image = decode(encode(stored, format, exif=exif))
    assert image.size == (64, 32)
    assert near(image, (8, 4), (255, 0, 0))
    assert near(image, (8, 28), (0, 255, 0))
    assert near(image, (56, 16), (0, 0, 255))


def test_the_first_frame_of_an_animation() -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    for format in ("GIF", "WEBP", "PNG", "TIFF", "MPO"):  # MPO: two JPEGs in one file, as phones write them
        image = decode(encode(frames[0], format, save_all=True, append_images=frames[1:]))
        assert near(image, (8, 8), (255, 0, 0))


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "AVIF"])
def test_an_animation_that_begins_with_one_colour(format: str) -> None:
    plain = [Image.new("RGB", (64, 32), colour) for colour in ("black", "white")]
    exif = Image.Exif()
    exif[0x010F] = "Maker"
    data = encode(plain[0], format, save_all=True, append_images=[plain[1], halves()], exif=exif.tobytes())
    picture, facts = decode_with_facts(data)
    assert near(picture, (8, 16), (255, 0, 0))
    assert (facts.width, facts.height) == (64, 32)
    assert facts.camera == ("Maker" if format != "GIF" else None)
    only = decode(encode(plain[0], format, save_all=True, append_images=plain[1:]))
    assert near(only, (8, 16), (0, 0, 0))


def test_not_all_frames_of_a_long_animation_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [Image.new("RGB", (64, 32), (number, 0, 0)) for number in range(0, 200, 20)]
    data = encode(plain[0], "PNG", save_all=True, append_images=[*plain[1:], halves()])
    assert near(decode(data), (8, 16), (255, 0, 0))
    monkeypatch.setattr(images, "MAX_PIXELS", 5 * 64 * 32)
    assert near(decode(data), (8, 16), (0, 0, 0))


def test_jpegs_are_limited_by_what_decoding_at_the_size_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = jpeg((1600, 1200))
    for module, limit in ((images, "MAX_PIXELS"), (Image, "MAX_IMAGE_PIXELS")):
        monkeypatch.setattr(module, limit, 10_000)
    monkeypatch.setattr(images, "MAX_BYTES", 200 * 150 * 6)
    assert decode(data, 150).size == (200, 150)
    assert "1,920,000 pixels of RGB would take" in refusal(data)
    assert "1,920,000 pixels: more than 10,000" in refusal(encode(Image.new("RGB", (1600, 1200)), "PNG"))
    scan = data.index(b"\xff\xda")  # one of several that hold one colour each, for which all is kept
    monkeypatch.setattr(images, "MAX_BYTES", 1_000_000)
    with pytest.raises(UnreadableImage, match="pixels of RGB would take"):
        decode(data[: scan + 4] + b"\1" + data[scan + 5 :], 150)
    monkeypatch.setattr(images, "MAX_SCANNED", 1_000_000)
    with pytest.raises(UnreadableImage, match=r"a JPEG of 1 scan of 1,920,000 pixels would take too long"):
        decode(data, 150)


@pytest.mark.parametrize("size", [(1601, 1201), (1600, 1200), (1333, 777)])
def test_jpeg_2000_is_decoded_smaller(size: tuple[int, int]) -> None:
    data = encode(halves(size), "JPEG2000")
    assert decode(data).size == size
    small = decode(data, 150)
    assert 150 <= min(small.size) <= 2 * 310
    assert near(small, (9, 16), (255, 0, 0))
    assert near(small, (small.width - 9, 16), (0, 0, 255))
    without_copies = encode(halves(size), "JPEG2000", num_resolutions=1)
    assert decode(without_copies, 150).size == size


def test_draft_decodes_smaller_but_never_below_the_size() -> None:
    data = jpeg((1600, 1200))
    assert decode(data).size == (1600, 1200)
    assert decode(data, 150).size == (200, 150)
    assert decode(data, 151).size == (400, 300)
    assert decode(data, 2000).size == (1600, 1200)
    for height in range(97, 997, 41):
        assert min(decode(jpeg((height + 13, height)), 96).size) >= 96
    assert decode(encode(halves(), "PNG"), 8).size == (64, 32)


def refusal(data: bytes) -> str:
    with pytest.raises(UnreadableImage) as caught:
        decode(data)
    return caught.value.reason


def test_no_image() -> None:
    assert refusal(b"") == "empty file"
    assert refusal(b"\0" * 1000) == "not an image"
    assert refusal(b"a text file called .jpg\n" * 100) == "not an image"
    assert (
        refusal(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n") == "not an image"
    )  # never runs Ghostscript


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", *PLAIN])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_truncated(format: str, part: float) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    data = encode(noise, format)
    reason = refusal(data[: int(len(data) * part)])
    assert len(reason) < 100
    if format == "JPEG":
        assert reason == "truncated"


@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_that_lacks_its_end(progressive: bool) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (160, 160, 3), dtype=np.uint8))
    data = encode(noise, "JPEG", progressive=progressive)
    whole = np.asarray(decode(data))
    for lacking in (1, 2, 3, 10):
        found = np.asarray(decode(data[:-lacking]))
        assert np.mean(np.any(found != whole, axis=2)) <= (0 if lacking <= 2 else 0.02)
    assert refusal(data[:-2000]) == "truncated"


def test_damage_never_raises_anything_else() -> None:
    rng = np.random.default_rng(0)
    for format in ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", *PLAIN):
        whole = np.frombuffer(encode(halves(), format), dtype=np.uint8)
        for _ in range(60):
            data = whole.copy()
            data[rng.integers(0, len(data), 8)] = rng.integers(0, 255, 8)
            with suppress(UnreadableImage):
                assert decode(data.tobytes()).mode == "RGB"


def test_a_decompression_bomb_is_refused_by_its_header() -> None:
    assert refusal(png_header(50_000, 50_000)) == f"2,500,000,000 pixels: more than {MAX_PIXELS:,}"


def test_a_large_image_below_the_limit_gives_no_warning() -> None:
    large = png_header(10_000, 10_000)  # Pillow warns from 89 million pixels on
    assert refusal(large) == "truncated"


def test_broken_exif_leaves_the_picture_as_it_is() -> None:
    image = decode(encode(halves(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\xff broken"))
    assert image.size == (64, 32)


def test_warnings_come_back_after_decoding_in_threads() -> None:
    before = list(warnings.filters)
    data = encode(Image.fromarray(np.zeros((256, 256, 3), dtype=np.uint8)), "PNG")
    threads = [threading.Thread(target=lambda: [decode(data) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


def test_the_error() -> None:
    error = UnreadableImage("truncated", "a.jpg")
    assert isinstance(error, DataError)
    assert isinstance(error, LexLIPError)
    assert str(error) == "a.jpg: truncated"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.reason) == ("a.jpg: truncated", "truncated")


MEMORY = """
import os, re, sys
from pathlib import Path
from lexlip.data import isolated as apart, images
def peak():  # of this process, and of what decodes for it: getrusage includes the one that started it
    files = [Path(f"/proc/{pid}/status") for pid in ("self", *(process.pid for process in apart._idle))]
    return sum(int(re.search(r"VmHWM:\\s+(\\d+)", file.read_text())[1]) for file in files)
for line in sys.stdin:
    if os.fork():
        os.wait()
        continue
    small, large = (Path(name).read_bytes() for name in line.rstrip().split("\\t"))
    images.decode(small)  # what decoding loads once
    before = peak()
    images.decode(large)
    print(1024 * (peak() - before), flush=True)
    apart.end()
    os._exit(0)
"""
SIDE = 2500
MODES = [("RGBA", "WEBP"), ("RGB", "WEBP"), ("RGBA", "PNG"), ("LA", "PNG"), ("I;16", "PNG"), ("F", "TIFF")]


MODES += [("RGBA", "TIFF"), ("LA", "TIFF"), ("I;16", "TIFF"), ("I", "TIFF"), ("CMYK", "TIFF"), ("P", "GIF")]
MODES += [("RGB", "JPEG2000"), ("RGBA", "JPEG2000"), ("L", "JPEG2000"), ("I;16", "JPEG2000")]
MODES += [("RGB", "PPM"), ("F", "PPM"), ("I", "PPM"), ("P", "PCX"), ("RGB", "DIB"), ("RGBA", "DIB")]
MODES += [("RGB", "TGA"), ("LA", "TGA"), ("RGBA", "TGA"), ("P", "TGA"), ("YCbCr", "SUBSAMPLED")]
MODES += [("RGB", "AVIF"), ("RGBA", "AVIF"), ("RGB", "PROGRESSIVE"), ("CMYK", "PROGRESSIVE"), ("P", "PNG")]


@pytest.fixture(scope="module")
def measuring() -> Iterator[subprocess.Popen[str]]:
    """A process that is told of a small and a large picture, and tells what memory the large one takes."""
    command = [sys.executable, "-c", MEMORY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize(("mode", "format"), [*MODES, ("RGB", "PNG"), ("L", "PNG"), ("CMYK", "JPEG")])
def test_decoding_takes_no_more_memory_than_is_reckoned(
    mode: str, format: str, measuring: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, dict[str, Any]] = {
        "WEBP": {"lossless": True, "method": 0},
        "TIFF": {"compression": "tiff_adobe_deflate"},
        "AVIF": {"speed": 10},
        "PROGRESSIVE": {"format": "JPEG", "progressive": True, "subsampling": 0},
        "SUBSAMPLED": {"format": "JPEG", "progressive": True, "subsampling": 2},
    }
    for name, side in (("large", SIDE), ("small", 8)):
        how = {"format": format, **options.get(format, {})}
        Image.new(mode, (side, side)).save(tmp_path / name, **how)
    print(tmp_path / "small", tmp_path / "large", sep="\t", file=measuring.stdin, flush=True)
    assert measuring.stdout is not None
    taken = int(measuring.stdout.readline())
    # what is refused as soon as the limit is below it
    data = (tmp_path / "large").read_bytes()
    monkeypatch.setattr(images, "MAX_BYTES", taken - 2**21)
    with pytest.raises(UnreadableImage, match=f"{SIDE**2:,} pixels of .* would take .* GB to decode"):
        decode(data)


def test_a_small_file_of_a_huge_transparent_picture_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGBA", (9000, 9000)).save(buffer, "WEBP", lossless=True, method=0)
    assert len(buffer.getvalue()) < 20_000
    with pytest.raises(UnreadableImage, match=r"81,000,000 pixels of RGBA would take 2\.3 GB to decode"):
        decode(buffer.getvalue())


def test_a_jpeg_of_many_scans_is_refused() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (4000, 4000), "red").save(buffer, "JPEG", progressive=True)
    data = buffer.getvalue()
    decode(data)
    last = b"\xff\xda" + data.split(b"\xff\xda")[-1].removesuffix(b"\xff\xd9")
    with pytest.raises(UnreadableImage, match="a JPEG of 210 scans of 16,000,000 pixels would take too long"):
        decode(data.removesuffix(b"\xff\xd9") + 200 * last + b"\xff\xd9")


# ---- what a small file can make Pillow do ----


def segments(kind: int, body: bytes, number: int) -> bytes:
    """A JPEG with so many segments before the picture."""
    data = encode(halves())
    return data[:2] + number * (bytes((0xFF, kind)) + struct.pack(">H", len(body) + 2) + body) + data[2:]


def test_exif_of_many_parts_is_refused() -> None:
    """Pillow joins them again and again."""
    assert decode(segments(0xE1, b"Exif\0\0" + bytes(60_000), 60)).size == (64, 32)
    assert refusal(segments(0xE1, b"Exif\0\0" + bytes(60_000), 80)) == "its EXIF is too long"
    assert decode(segments(0xE2, bytes(60_000), 300)).size == (64, 32)


def test_a_header_that_never_ends_is_refused() -> None:
    """Pillow reads it byte by byte."""
    data = encode(halves())[:2] + b"\xff" * 3_000_000
    assert refusal(data) == "what precedes the picture is too long"


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_text_that_grows_without_bound_is_refused(kind: bytes) -> None:
    data = encode(halves(), "PNG")
    head = {b"zTXt": b"k\0\0", b"iTXt": b"k\0\1\0\0\0", b"iCCP": b"k\0\0"}[kind]
    body = kind + head + zlib.compress(bytes(1 << 26), 9)
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    assert "too large" in refusal(data[:33] + chunk + data[33:])


def test_pages_of_a_tiff() -> None:
    colours = ["red", "lime", "blue", *["white"] * 30]
    pages = [Image.new("RGB", (40 + number, 30), colour) for number, colour in enumerate(colours)]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
    found = list(later_pages(file.getvalue()))
    assert [page.size for page in found] == [(40 + number, 30) for number in range(1, MOST_PAGES)]
    assert found[0].getpixel((0, 0)) == (0, 255, 0)
    assert list(later_pages(file.getvalue()[:200])) == list(later_pages(jpeg())) == []
    big = io.BytesIO()
    pages[0].save(big, "TIFF", save_all=True, append_images=pages[1:3], big_tiff=True)
    assert len(list(later_pages(big.getvalue()))) == 2
    small = io.BytesIO()
    pages[0].save(small, "TIFF", save_all=True, append_images=pages[1:3], tiffinfo={254: 1})
    assert list(later_pages(small.getvalue())) == []
