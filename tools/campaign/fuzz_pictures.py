"""Pictures that are damaged, truncated or bombs: each is decoded, or refused as unreadable."""

from __future__ import annotations

import io
import runpy
import struct
import zlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from random import Random
from typing import Any

from .contract import Broken, Place, attack
from .mutations import mutate, text
from .processes import ROOT, refusals

XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:subject><rdf:Bag><rdf:li>dog</rdf:li>'
    "</rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"
)
XMP_EXIF = "http://ns.adobe.com/exif/1.0/"
DEGREES = (
    *("45,45.5N", "0,0N", "nanN", "1e999N", "-91S", "N", "", "45", "45/0N", "0," * 400 + "1N", "٤٥N", "1_0W"),
    *("45,45,45E", "179.9999999W", "180.1E"),
)
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)
SIZE = (48, 40)  # of the pictures


@cache
def pictures() -> list[tuple[str, bytes]]:
    """Return small intact pictures of every format that can be written here, and the recorded HEICs."""
    from PIL import Image, features

    noise = Image.effect_noise(SIZE, 80)
    colours = Image.merge("RGB", [noise, noise.rotate(90), noise.transpose(Image.Transpose.FLIP_LEFT_RIGHT)])
    exif = Image.Exif()
    exif[0x0112], exif[0x010F], exif[0x8769] = 6, "Maker", {0x9003: "2014:05:03 10:00:00"}
    with_facts = {"exif": exif.tobytes(), "xmp": XMP.encode()}
    made: list[tuple[str, Any, dict[str, Any]]] = [
        ("JPEG", colours, with_facts),
        ("JPEG", colours, {"progressive": True, "quality": 90}),
        ("JPEG", colours.convert("CMYK"), {}),
        ("JPEG", noise, {}),
        ("PNG", colours.convert("RGBA"), {"exif": exif.tobytes()}),
        ("PNG", colours.quantize(16), {"transparency": 3}),
        ("PNG", noise.convert("I;16"), {}),
        ("PNG", noise.convert("1"), {}),
        ("GIF", colours.quantize(32), {"save_all": True, "append_images": [colours.quantize(8)] * 3}),
        ("WEBP", colours, with_facts),
        ("WEBP", colours.convert("RGBA"), {"lossless": True}),
        ("WEBP", colours, {"save_all": True, "append_images": [colours.rotate(9)] * 2}),
        ("TIFF", colours, {"compression": "tiff_lzw"}),
        ("TIFF", colours, {"compression": "tiff_adobe_deflate"}),
        ("TIFF", noise.convert("F"), {}),
        ("TIFF", noise.convert("1"), {"compression": "group4"}),
        ("BMP", colours, {}),
        ("DIB", colours, {}),
        ("PCX", colours.quantize(32), {}),
        ("PPM", colours, {}),
        ("PPM", noise.convert("I"), {}),
        ("TGA", colours.convert("RGBA"), {"compression": "tga_rle"}),
        ("TGA", noise.convert("L"), {}),
        ("JPEG2000", colours, {}),
        ("JPEG2000", colours.convert("RGBA"), {"irreversible": True, "tile_size": (32, 32)}),
        ("JPEG2000", noise, {"no_jp2": True, "codeblock_size": (4, 4)}),
    ]
    plain = {"save_all": True, "append_images": [Image.new("RGB", SIZE, "red"), colours]}
    made += [(form, Image.new("RGB", SIZE), plain) for form in ("GIF", "PNG", "WEBP")]
    if features.check("avif"):
        made.append(("AVIF", colours, with_facts))
    written = []
    for form, picture, options in made:
        file = io.BytesIO()
        picture.save(file, form, **options)
        written.append((form, file.getvalue()))
    if find_spec("pillow_jxl"):
        import pillow_jxl  # noqa: F401 (Pillow can write them from now on)

        for picture, options in ((colours, {}), (colours.convert("RGBA"), {"lossless": True}), (noise, {})):
            file = io.BytesIO()
            picture.save(file, "JXL", **options)
            written.append(("JXL", file.getvalue()))
    heic = sorted((ROOT / "tests" / "data" / "heic").glob("*.hei[cf]"))
    raw = runpy.run_path(str(ROOT / "tests" / "data" / "made_raw.py"))
    for preview in (None, raw["jpeg"](raw["drawing"]())):
        written.append(("RAW", raw["dng"](raw["drawing"](150, 100), preview)))
    return written + [("HEIC", path.read_bytes()) for path in heic if path.stat().st_size < 2e6]


@attack("fuzz.pictures", 5000, 300, 30)
def mutated(random: Random, place: Place) -> None:
    form, data = random.choice(pictures())
    check(random, mutate(random, data, within=random.choice([None, None, 64, 400])), form)


@attack("fuzz.picture-bombs", 120, 16, 30)
def bombs(random: Random, place: Place) -> None:
    """Decode what is small and would become huge, or takes long."""
    make = random.choice(BOMBS)
    check(random, make(random), make.__name__)


@attack("fuzz.picture-facts", 1200, 75, 30)
def facts(random: Random, place: Place) -> None:
    """Decode an intact picture with hostile metadata, inside and beside it."""
    from PIL import Image

    exif = Image.Exif()
    for tag in (0x010F, 0x0110, 0x0112, 0x0132, 0x010E, 0x9C9B):
        words = text(random).encode("utf-8", "replace")
        exif[tag] = random.choice([words, random.randrange(70000), b"\xff" * 9])
    if random.random() < 0.5:
        exif[0x8825] = {1: _letter(random), 2: _degrees(random), 3: _letter(random), 4: _degrees(random)}
    packet = mutate(random, XMP.encode()) if random.random() < 0.7 else LAUGHS.encode() + b"]><x>&j;</x>"
    if random.random() < 0.4:
        packet = xmp(random)
    file, form = io.BytesIO(), random.choice(["JPEG", "PNG", "WEBP", "TIFF"])
    try:
        Image.new("RGB", (9, 8)).save(file, form, exif=exif, xmp=packet)
    except Exception:  # Pillow does not write such metadata
        return
    side = random.choice([b"", packet, mutate(random, packet), b"\xff\xfe" + packet])
    check(random, mutate(random, file.getvalue(), most=1), "hostile metadata", side)


def _letter(random: Random) -> str:
    return random.choice(["N", "S", "E", "W", "n", "?", "", "NN"])


def _degrees(random: Random) -> tuple[Any, ...]:
    """Return degrees, minutes and seconds as EXIF has them, some of which are none."""
    from PIL.TiffImagePlugin import IFDRational

    parts = [0, 1, 45, 90.5, 181, 2**31, IFDRational(1, 0), IFDRational(0, 0), IFDRational(-45, 1)]
    return tuple(random.choice(parts) for _ in range(random.choice([3, 3, 3, 0, 1, 9])))


def xmp(random: Random) -> bytes:
    """Return XMP with a place, thousands of words, or very deep; it may be damaged."""
    kind = random.randrange(5)
    if kind == 0:
        packet = XMP.replace("<rdf:li>dog</rdf:li>", "".join(f"<rdf:li>w{n}</rdf:li>" for n in range(40_000)))
    elif kind == 1:
        depth = random.choice([90, 3000, 100_000])
        packet = XMP.replace("</rdf:RDF>", "<a>" * depth + "</a>" * depth + "</rdf:RDF>")
    else:
        north, east = random.choice(DEGREES), random.choice(DEGREES)
        place = f'xmlns:exif="{XMP_EXIF}" exif:GPSLatitude="{north}" exif:GPSLongitude="{east}"'
        packet = XMP.replace("<rdf:Description", f"<rdf:Description {place}")
    data = packet.encode(random.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    return mutate(random, data) if kind == 4 else data


@attack("fuzz.side-files", 300, 20, 30)
def side_files(random: Random, place: Place) -> None:
    """Write words into hostile XMP and take them out again: what a person wrote stays, or it is no XMP."""
    from PIL import Image

    from lexlip.data.facts import read_embedded
    from lexlip.data.side_files import LONGEST_XMP, with_words

    def read(data: bytes) -> Any:
        return read_embedded(Image.new("RGB", (2, 2)), [data])

    before = xmp(random) if random.random() < 0.8 else mutate(random, random.choice([XMP.encode(), b""]))
    words = [random.choice(["dog", "Dog", "snow", "a&b", text(random).strip()[:60]]) for _ in range(3)]
    words = ["".join(letter for letter in word if letter.isprintable()) for word in words]
    try:
        after = with_words(before, words := [word.strip() for word in words if word.strip()])
        if after is None:
            return
        again = with_words(after, [])
    except ValueError as error:
        if "\n" in str(error) or not str(error):
            raise Broken(f"the error says {str(error)!r}") from error
        return
    if len(after) > LONGEST_XMP or read(after) != read(before):
        raise Broken(f"with the words {words}, {read(before)!s:.200} is read as {read(after)!s:.200}")
    if again is None or (again and read(again) != read(before)):
        raise Broken(f"after the words {words} were taken away, {read(before)!s:.200} is not the same")


def check(random: Random, data: bytes, what: str, side: bytes = b"") -> None:
    """Decode a file: a picture comes, or an `UnreadableImage`."""
    from lexlip.data.facts import decode_with_facts, facts_of_header

    with refusals():
        picture, known = decode_with_facts(data, random.choice([None, 1, 32, 224]), [side])
        if picture.mode != "RGB" or min(picture.size) < 1:
            raise Broken(f"{what}: the picture is {picture.mode} of {picture.size}")
        if min(known.width, known.height) < 1 or known.size != len(data):
            raise Broken(f"{what}: the facts are {known}")
        if known.place and not (
            abs(known.place[0]) <= 90 and abs(known.place[1]) <= 180 and any(known.place)
        ):
            raise Broken(f"{what}: it was taken at {known.place}")
        "".join([*known.captions, *known.keywords, known.camera or ""]).encode()  # else no index stores them
    with refusals():
        facts_of_header(io.BytesIO(data), [side])


def _png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    header = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    parts = [header, *chunks, (b"IEND", b"")]
    body = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def huge(random: Random) -> bytes:
    """Return a picture that claims to be larger than it is, at one place of its header or at all."""
    form, data = random.choice(pictures())
    number = random.choice([1, -1])
    side = random.choice([6_000, 12_000, 15_000, 44_000, 65_500, 2**31 - 1])
    for packed, most in (("<HH", 65_535), (">HH", 65_535), ("<II", side), (">II", side)):
        for size in (SIZE, SIZE[::-1]):
            sides = [min(side, most)] * 2
            data = data.replace(struct.pack(packed, *size), struct.pack(packed, *sides), number)
    if form == "PNG":
        data = data[:29] + struct.pack(">I", zlib.crc32(data[12:29])) + data[33:]
    return data


def text_bomb(random: Random) -> bytes:
    packed = zlib.compress(bytes(random.choice([10**6, 10**8])), 9)
    kind = random.choice([b"zTXt", b"iTXt", b"iCCP"])
    body = b"k\0\1\0\0\0" + packed if kind == b"iTXt" else b"k\0\0" + packed
    return _png(9, 9, *[(kind, body)] * random.choice([1, 5]), (b"IDAT", zlib.compress(bytes(9 * 28))))


def many_scans(random: Random) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (random.choice([800, 2000]), 2000)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    start = data.rindex(b"\xff\xda")
    return data[:start] + data[start:-2] * random.choice([50, 2000]) + data[-2:]


def huge_tiff(random: Random) -> bytes:
    side = random.choice([13_000, 2**31 - 1, 2**32 - 1])
    entries = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, random.choice([1, 5, 8]))]
    entries += [(262, 3, 1, 1), (273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, side), (279, 4, 1, 2**30)]
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0\10\0\0\0" + struct.pack("<H", 9) + packed + bytes(4)


def tiny_blocks(random: Random) -> bytes:
    """Return a JPEG 2000 whose parts take many times the memory of its pixels."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (700, 700)).save(file, "JPEG2000", codeblock_size=(4, 4), num_resolutions=1)
    return file.getvalue()


def ppm_in_python(random: Random) -> bytes:
    kind = random.choice([b"P1", b"P2", b"P3", b"P6"])
    body = random.choice([b"#\n" * 10**6, b"1 " * 10**6, b"9" * 10**6, bytes(10**6)])
    return kind + random.choice([b"\n900 900\n", b"\n9000 9000\n", b"\n"]) + b"200\n" + body


BOMBS: tuple[Callable[[Random], bytes], ...] = (
    *(huge, huge, huge, text_bomb, many_scans, huge_tiff, tiny_blocks, ppm_in_python),
)
