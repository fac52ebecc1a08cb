import hashlib
import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.fft import dctn

from lexlip.data import UnreadableImage, decode
from lexlip.data.facts import (
    LONGEST_TEXT,
    Embedded,
    Facts,
    decode_with_facts,
    digest,
    facts_of_header,
    fingerprint,
    read_embedded,
)
from lexlip.data.images import quiet
from lexlip.data.side_files import LONGEST_XMP
from lexlip.retrieval.filters import NEAR, distances
from tests.data.pictures import encode

PICTURE = Image.new("RGB", (40, 30), "red")
XMP = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:xmp="http://ns.adobe.com/xap/1.0/" {attributes}>
<dc:subject><rdf:Bag><rdf:li>sea</rdf:li><rdf:li> holidays  2019 </rdf:li></rdf:Bag></dc:subject>
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">a boat</rdf:li><rdf:li xml:lang="de">ein Boot</rdf:li>
</rdf:Alt></dc:description>{more}
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>"""


def xmp(attributes: str = "", more: str = "") -> bytes:
    return XMP.format(attributes=attributes, more=more).encode()


def exif(tags: dict[int, Any], inner: dict[int, Any] | None = None) -> Image.Exif:
    made = Image.Exif()
    made.update(tags)
    if inner:
        made[0x8769] = inner
    return made


def saved(format: str = "JPEG", image: Image.Image = PICTURE, **options: Any) -> Image.Image:
    file = io.BytesIO()
    if isinstance(options.get("exif"), Image.Exif):
        options["exif"] = options["exif"].tobytes()  # TIFF takes no other
    image.save(file, format, **options)
    return Image.open(file)


def iptc(*records: tuple[int, int, bytes]) -> bytes:
    """A JPEG with a Photoshop segment that holds IPTC records."""
    data = b"".join(struct.pack(">BBBH", 0x1C, *kind, len(text)) + text for *kind, text in records)
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(data)) + data + b"\0" * (len(data) % 2)
    body = b"Photoshop 3.0\0" + block
    file = io.BytesIO()
    PICTURE.save(file, "JPEG")
    jpeg = file.getvalue()
    return jpeg[:2] + b"\xff\xed" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def test_nothing() -> None:
    for format in ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "AVIF"):
        assert read_embedded(saved(format)) == Embedded()


# ---- places ----


def gps(**tags: object) -> bytes:
    """EXIF with a GPS folder: of Munich, but for what is given."""
    folder = {1: "N", 2: (48, 8, 14.5), 3: "E", 4: (11, 34, 31.8)} | {int(k[1:]): v for k, v in tags.items()}
    tags_of = Image.Exif()
    tags_of[0x0110] = "Camera"
    tags_of[0x8825] = {tag: value for tag, value in folder.items() if value is not None}
    return tags_of.tobytes()


MUNICH = (48.137361, 11.5755)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_the_place_of_every_format(format: str) -> None:
    found = read_embedded(saved(format, exif=gps()))
    assert found.place == pytest.approx(MUNICH, abs=1e-5)
    assert found.camera == "Camera"


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        ({"t1": "S", "t3": "W"}, (-MUNICH[0], -MUNICH[1])),
        ({"t2": (48.137361, 0, 0), "t4": (11.5755, 0, 0)}, MUNICH),
        ({"t2": (90, 0, 0), "t4": (180, 0, 0)}, (90, 180)),
        ({"t2": (0, 0, 0)}, (0, MUNICH[1])),
        ({"t2": (0, 0, 0), "t4": (0, 0, 0)}, None),  # of devices that do not know where they are
        ({"t2": (90, 0, 1)}, None),
        ({"t4": (181, 0, 0)}, None),
        ({"t1": None}, None),
        ({"t2": None}, None),
        ({"t3": "X"}, None),
        ({"t1": "  n "}, MUNICH),
    ],
)
def test_places(tags: dict[str, object], place: tuple[float, float] | None) -> None:
    found = read_embedded(saved(exif=gps(**tags)))
    assert found.place == (place and pytest.approx(place, abs=1e-5))
    assert found.camera == "Camera"


def test_a_place_that_is_divided_by_zero() -> None:
    whole, zero = struct.pack("<II", 48, 1), struct.pack("<II", 48, 0)
    data = gps(t2=(48, 0, 0))
    little = data[6:8] == b"II" or data[:2] == b"II"
    whole, zero = (whole, zero) if little else (struct.pack(">II", 48, 1), struct.pack(">II", 48, 0))
    assert data.count(whole) == 1
    found = read_embedded(saved(exif=data.replace(whole, zero)))
    assert (found.place, found.camera) == (None, "Camera")


@pytest.mark.parametrize(
    ("latitude", "longitude", "place"),
    [
        ("48,8.241667N", "11,34.53E", MUNICH),
        ("48,8,14.5N", "11,34,31.8E", MUNICH),
        ("33,51.5S", "151,12.6W", (-33.858333, -151.21)),
        ("48.137361", "11.5755", None),  # no side of the Earth
        ("N", "E", None),
        ("48,8x,0N", "11,0E", None),
        ("0,0N", "0,0E", None),
        ("0,0.000001N", "0,0.000001E", None),
        (f"{'0,' * 400}1N", "11,0E", None),  # 60 to the power of 400 is no float
    ],
)
def test_places_of_xmp(latitude: str, longitude: str, place: tuple[float, float] | None) -> None:
    names = 'xmlns:exif="http://ns.adobe.com/exif/1.0/"'
    packet = xmp(f'{names} exif:GPSLatitude="{latitude}" exif:GPSLongitude="{longitude}"')
    expected = place and pytest.approx(place, abs=1e-5)
    assert read_embedded(saved(xmp=packet)).place == expected
    assert read_embedded(saved(), [packet]).place == expected
    elements = f"<exif:GPSLatitude {names}>{latitude}</exif:GPSLatitude>"
    elements += f"<exif:GPSLongitude {names}>{longitude}</exif:GPSLongitude>"
    assert read_embedded(saved(), [xmp("", elements)]).place == expected


def test_a_place_that_cannot_be_is_told() -> None:
    degrees = 'xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="{}" exif:GPSLongitude="{}"'
    right, wrong = xmp(degrees.format("1,0N", "2,0E")), xmp(degrees.format("95,0N", "2,0E"))
    half = xmp('xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="95,0N"')
    for exif, sides, misplaced in (
        (gps(), [], False),
        (gps(t2=(95, 0, 0)), [], True),
        (gps(t2=(0, 0, 0), t4=(0, 0, 0)), [], True),
        (gps(t3="X"), [], True),
        (gps(t2=None, t4=None), [], False),  # of when, and not of where
        (gps(t4=(200, 0, 0)), [right], False),
        (b"", [wrong], True),
        (b"", [half], False),
        (gps(), [wrong], False),
    ):
        assert read_embedded(saved(exif=exif) if exif else saved(), sides).misplaced == misplaced


def test_a_place_beside_a_photo_comes_first() -> None:
    packet = xmp(
        'xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="1,0N" exif:GPSLongitude="2,0E"'
    )
    assert read_embedded(saved(exif=gps()), [packet]).place == (1, 2)
    assert read_embedded(saved(exif=gps(), xmp=packet)).place == pytest.approx(MUNICH, abs=1e-5)


# ---- dates and cameras ----


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_exif_of_every_format(format: str) -> None:
    tags = exif({0x010F: "Canon", 0x0110: "EOS 5D"}, {0x9003: "2019:07:01 12:30:05"})
    found = read_embedded(saved(format, exif=tags))
    assert (found.taken, found.camera) == ("2019-07-01T12:30:05", "Canon EOS 5D")


def test_the_maker_is_not_named_twice() -> None:
    assert read_embedded(saved(exif=exif({0x010F: "NIKON", 0x0110: "Nikon D70"}))).camera == "Nikon D70"


@pytest.mark.parametrize(
    ("inner", "taken"),
    [
        ({0x9004: "2018:01:02 03:04:05"}, "2018-01-02T03:04:05"),
        ({0x9003: "2019:07:01 12:30:05", 0x9004: "2018:01:02 03:04:05"}, "2019-07-01T12:30:05"),
        ({0x9003: "0000:00:00 00:00:00", 0x9004: "2018:01:02 03:04:05"}, "2018-01-02T03:04:05"),
        ({0x9003: "2019:02:30 12:30:05"}, None),
        ({0x9003: "    :  :     :  :  "}, None),
        ({0x9003: "2019-07-01T12:30:05"}, "2019-07-01T12:30:05"),
        ({0x9003: "2019:07:01"}, "2019-07-01T00:00:00"),
    ],
)
def test_dates(inner: dict[int, str], taken: str | None) -> None:
    assert read_embedded(saved(exif=exif({0x0132: "2001:01:01 00:00:00"}, inner))).taken == taken


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("2019:07:01 24:00:00", "2019-07-01T00:00:00"),
        ("2019:07:01 12:30:60", "2019-07-01T12:30:00"),
        ("2019:07:01 12:61:00", "2019-07-01T00:00:00"),
        ("2019: 7: 1  9: 5: 0", "2019-07-01T09:05:00"),
        ("2019/07/01 12:30:05", "2019-07-01T12:30:05"),
        ("2019.07.01", "2019-07-01T00:00:00"),
        ("2019:07:01 afternoon", "2019-07-01T00:00:00"),
        ("2019:07:32 12:30:05", None),
        ("2019:07:011 12:30:05", None),
        ("    :  :     :  :  ", None),
        ("2019-07", None),
    ],
)
def test_a_valid_day_is_kept(written: str, taken: str | None) -> None:
    assert read_embedded(saved(exif=exif({}, {0x9003: written}))).taken == taken
    assert read_embedded(saved(xmp=xmp(f'xmp:CreateDate="{written}"'))).taken == taken


def test_a_date_of_xmp_counts_if_exif_has_none() -> None:
    packet = xmp('xmp:CreateDate="2014-05-03T10:20:30.5+02:00"')
    assert read_embedded(saved(xmp=packet)).taken == "2014-05-03T10:20:30"
    dated = exif({}, {0x9003: "2019:07:01 12:30:05"})
    assert read_embedded(saved(xmp=packet, exif=dated)).taken == "2019-07-01T12:30:05"


def test_a_date_as_an_element() -> None:
    more = (
        '<exif:DateTimeOriginal xmlns:exif="http://ns.adobe.com/exif/1.0/">2014-05-03</exif:DateTimeOriginal>'
    )
    packet = xmp('xmp:CreateDate="2020-01-01"', more)
    assert read_embedded(saved(xmp=packet)).taken == "2014-05-03T00:00:00"


# ---- keywords and captions ----


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_xmp_of_every_format(format: str) -> None:
    if format == "PNG":
        from PIL.PngImagePlugin import PngInfo

        info = PngInfo()
        info.add_itxt("XML:com.adobe.xmp", xmp().decode())
        picture = saved("PNG", pnginfo=info)
    elif format == "TIFF":
        picture = saved("TIFF", tiffinfo={700: xmp()})
    else:
        picture = saved(format, xmp=xmp())
    found = read_embedded(picture)
    assert (found.keywords, found.captions) == (("sea", "holidays 2019"), ("a boat", "ein Boot"))


def test_keywords_of_exif() -> None:
    words = "sea; häfen;sea;".encode("utf-16-le") + b"\0\0"
    assert read_embedded(saved(exif=exif({0x9C9E: words}))).keywords == ("sea", "häfen")


def test_iptc() -> None:
    data = iptc((2, 25, b"sea"), (2, 25, "häfen".encode()), (2, 120, "ein Böotchen".encode("latin-1")))
    found = read_embedded(Image.open(io.BytesIO(data)))
    assert (found.keywords, found.captions) == (("sea", "häfen"), ("ein Böotchen",))


def test_a_file_beside_the_photo_comes_first() -> None:
    dated = exif({0x9C9E: "land".encode("utf-16-le")}, {0x9003: "2019:07:01 12:30:05"})
    found = read_embedded(saved(exif=dated), [xmp('xmp:CreateDate="2014-05-03T10:20:30"')])
    assert found.taken == "2014-05-03T10:20:30"
    assert found.keywords == ("sea", "holidays 2019", "land")


# ---- what is damaged, or made to harm ----

BOMB = """<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">""" + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "packet",
    [
        b"<x:xmpmeta",
        b"\xff\xfe\0",
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        (BOMB + "]>" + XMP.format(attributes="", more="&i;").partition("?>\n")[2]).encode(),
        b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><a>&a;</a>',
        xmp(more="<!-- " + " " * LONGEST_XMP + " -->"),
    ],
)
def test_xmp_that_is_refused(packet: bytes) -> None:
    assert read_embedded(PICTURE, [packet]) == Embedded()


def test_deep_xml_does_no_harm() -> None:
    assert read_embedded(PICTURE, [b"<a>" * 100_000 + b"</a>" * 100_000]) == Embedded()


@pytest.mark.parametrize("damage", [b"\xff" * 30, b"\0" * 30, b"MM\0*\0\0\0\x08\xff\xff", b"II*\0"])
def test_broken_exif(damage: bytes) -> None:
    with quiet():
        assert read_embedded(saved(exif=b"Exif\0\0" + damage)) == Embedded()


def test_broken_iptc() -> None:
    data = iptc((2, 25, b"sea")).replace(b"\x00\x03sea", b"\xff\xffsea")
    assert read_embedded(Image.open(io.BytesIO(data))) == Embedded()


def test_texts_are_bounded() -> None:
    data = iptc((2, 120, b"long " * 10_000))[:]
    (caption,) = read_embedded(Image.open(io.BytesIO(data))).captions or ("",)
    assert len(caption) <= LONGEST_TEXT
    many = "".join(f"<rdf:li>{number}</rdf:li>" for number in range(3000))
    packet = xmp().replace(b"<rdf:li>sea</rdf:li>", many.encode())
    assert len(read_embedded(PICTURE, [packet]).keywords) == 500


def photo(format: str = "JPEG", orientation: int = 1) -> bytes:
    made = Image.Exif()
    made.update({0x0110: "EOS 5D", 0x0112: orientation, 0x8769: {0x9003: "2019:07:01 12:30:05"}})
    noise = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return encode(Image.fromarray(noise).resize((800, 600)), format, exif=made.tobytes())


@pytest.mark.parametrize("size", [None, 100])
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_facts_of_a_photo(format: str, size: int | None) -> None:
    data = photo(format)
    image, facts = decode_with_facts(data, size)
    assert np.array_equal(image, decode(data, size))
    assert facts == Facts(
        width=800,
        height=600,
        taken="2019-07-01T12:30:05",
        camera="EOS 5D",
        size=len(data),
        digest=hashlib.blake2b(data, digest_size=16).hexdigest(),
        fingerprint=fingerprint(image),
    )
    header = facts_of_header(io.BytesIO(data))
    assert header == Facts(width=800, height=600, taken=facts.taken, camera=facts.camera)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_width_and_height_are_upright(format: str, orientation: int) -> None:
    data = photo(format, orientation)
    upright = decode(data).size
    assert upright == ((800, 600) if orientation < 5 else (600, 800))
    facts = decode_with_facts(data, 100)[1]
    header = facts_of_header(io.BytesIO(data))
    assert (facts.width, facts.height) == (header.width, header.height) == upright


def test_a_file_that_is_no_photo() -> None:
    for data in (b"", b"no photo"):
        with pytest.raises(UnreadableImage):
            decode_with_facts(data)
    with pytest.raises(UnreadableImage, match="not an image"):
        facts_of_header(io.BytesIO(b"no photo"))


def test_a_digest_is_of_the_content() -> None:
    assert digest(b"a") == digest(b"a") != digest(b"b")
    assert len(digest(b"a")) == 32


def gradient(seed: int) -> Image.Image:
    """A picture with large soft shapes, as photos have."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((640, 480), Image.Resampling.BICUBIC)


def test_it_is_the_perceptual_hash_by_its_definition() -> None:
    image = gradient(0)
    grey = np.asarray(image.resize((32, 32), Image.Resampling.BOX).convert("L"), dtype=float)
    frequencies = dctn(grey, type=2)
    scale = frequencies[:8, :8].ravel()
    median = sorted(scale[1:])[31]
    assert fingerprint(image) == int("".join("1" if value > median else "0" for value in scale), 2)


def test_a_picture_of_one_colour() -> None:
    assert 0 <= fingerprint(Image.new("RGB", (30, 20), "red")) < 2**64


def test_distances_are_counted_bits() -> None:
    numbers = [int(number) for number in np.random.default_rng(0).integers(0, 2**64, 50, dtype=np.uint64)]
    expected = [bin(numbers[0] ^ other).count("1") for other in numbers]
    assert distances(numbers[0], numbers).tolist() == expected
    assert distances(5, []).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_copies_have_nearly_the_same(seed: int) -> None:
    image = gradient(seed)
    small = decode(encode(image.resize((200, 150)), "JPEG", quality=40))
    assert distances(fingerprint(image), [fingerprint(small)])[0] <= NEAR
    assert distances(fingerprint(image), [fingerprint(gradient(seed + 100))])[0] > 2 * NEAR
