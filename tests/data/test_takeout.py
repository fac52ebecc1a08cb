import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lexlip.data import open_source
from lexlip.data.facts import Facts, read_embedded
from lexlip.data.files import LARGEST_CAPTIONS, LEADS_OUT, by_the_clock
from lexlip.data.folder import walk
from lexlip.data.side_files import read_xmp
from lexlip.data.takeout import key_of_json, keys_of_photo, read_takeout
from tests.data.pictures import encode, jpeg, write
from tests.data.test_facts import exif, gps, xmp

LYON = (45.7597, 4.8422)


def takeout(**told: Any) -> bytes:
    """A JSON file as Google writes it."""
    usual = {
        "title": "IMG_1.jpg",
        "description": "",
        "imageViews": "3",
        "creationTime": {"timestamp": "1741885510", "formatted": "Thu, 13 Mar 2025 17:05:10 UTC"},
        "photoTakenTime": {"timestamp": "1561976400", "formatted": "1 Jul 2019, 10:20:00 UTC"},
        "geoData": {"latitude": 0.0, "longitude": 0.0, "altitude": 0.0},
        "url": "https://photos.google.com/photo/AF1",
    }
    return json.dumps(usual | told).encode()


def facts(folder: Path, photo: str = "IMG_1.jpg") -> Facts:
    source = open_source(folder)
    return source.header([item.id for item in source.items].index(photo))


NAMES = """
    IMG_1.jpg = IMG_1.jpg.json
    IMG_1.jpg = IMG_1.jpg.JSON
    IMG_1.jpg = IMG_1.jpg.supplemental-metadata.json
    20030616.jpg = 20030616.json
    20030616.jpg = 20030616.supplemental-metadata.json
    MVIMG_20191230_232926.jpg = MVIMG_20191230_232926.jpg.supplemental-metadat.json
    Screenshot_20231027_123303_Facebook.jpg = Screenshot_20231027_123303_Facebook.jpg.supple.json
    05yqt21kruxwwlhhgrwrdyb6chhwszi9bqmzu16 2.jpg = 05yqt21kruxwwlhhgrwrdyb6chhwszi9bqmzu16 2.jpg..json
    05yqt21kruxwwlhhgrwrdyb6chhwszi9bqmzu16w0 2.jpg = 05yqt21kruxwwlhhgrwrdyb6chhwszi9bqmzu16w0 2.jp.json
    😀😃😄😁😆😅😂🤣🥲☺️😊😇🙂🙃😉😌😍🥰😘😗😙😚😋😛.jpg = 😀😃😄😁😆😅😂🤣🥲☺️😊😇🙂🙃😉😌😍🥰😘😗😙😚😋.json
    IMG_1(1).jpg = IMG_1.jpg(1).json
    IMG_1(1).jpg = IMG_1(1).jpg.json
    IMG_1(12).jpg = IMG_1.jpg.supplemental-metadata(12).json
    Screenshot_20231027_1233_Facebook(1).jpg = Screenshot_20231027_1233_Facebook.jpg.supple(1).json
    photographs_of_the_wedding_of_anna_and_bob_xxxxx(94).jpg = photographs_of_the_wedding_of_anna_and_bob_xxx(94).json
    13039_327707840323_537645323_9470255_27214_n(1).jpg = 13039_327707840323_537645323_9470255_27214_n.j(1).json
    IMG_1-edited.jpg = IMG_1.jpg.json
    IMG_1-bearbeitet(1).jpg = IMG_1.jpg.supplemental-metadata(1).json
    IMG_1-modifié.jpg = IMG_1.jpg.json
    Zürich.jpg = Zürich.jpg.json
"""  # noqa: E501 (names are long)


@pytest.mark.parametrize("names", NAMES.strip().splitlines())
def test_names(names: str, tmp_path: Path) -> None:
    photo, side = names.strip().split(" = ")
    title = re.sub(r"\(\d+\)", "", photo)
    write(tmp_path / "a" / photo, jpeg())
    write(tmp_path / "a" / side, takeout(title=title, description="a boat"))
    write(tmp_path / "b" / side, takeout(description="a car"))
    assert facts(tmp_path, f"a/{photo}").captions == ("a boat",)
    assert open_source(tmp_path).left == {"beside": 1, "other": 1}
    assert open_source(tmp_path / "a" / photo).header(0).captions == ("a boat",)


@pytest.mark.parametrize(
    ("photo", "side"),
    [
        ("IMG_12.jpg", "IMG_1.json"),
        ("IMG_1.jpg", "IMG_1.jpg(1).json"),
        ("IMG_1(1).jpg", "IMG_1.jpg.json"),
        ("IMG_1(1).jpg", "IMG_1.jpg.supplemental-metadata(2).json"),
        ("IMG_1.jpg", "IMG_1.jpg.metadata.json"),
        ("IMG_1.jpg", "IMG_1.png.json"),
        ("IMG_1.jpg", ".json"),
    ],
)
def test_names_that_are_of_another_photo(photo: str, side: str) -> None:
    assert key_of_json(side) not in set(keys_of_photo(photo))


def test_a_long_name_is_composed_before_it_is_cut(tmp_path: Path) -> None:
    name = "Frühstück_mit_Käthe_und_Jürgen_auf_der_großen_Brücke.jpg"
    write(tmp_path / unicodedata.normalize("NFD", name), jpeg())
    write(tmp_path / f"{name[:46]}.json", takeout(title=name, description="a boat"))
    assert open_source(tmp_path).header(0).captions == ("a boat",)
    assert walk(tmp_path).left == {"beside": 1}


LONG = "photographs_of_the_wedding_of_anna_and_bob_in_paris"
EMOJI = "😀😃😄😁😆😅😂🤣🥲☺️😊😇🙂🙃😉😌😍🥰😘😗😙😚😋"


@pytest.mark.parametrize(
    ("photo", "title", "of_it"),
    [
        (f"{LONG}_1.jpg", f"{LONG}_1.jpg", True),
        (f"{LONG}_2.jpg", f"{LONG}_1.jpg", False),
        (f"{LONG}_1.jpg", f"{LONG}_12.jpg", False),
        (f"{LONG}_1.jpg", f"{LONG}_1", True),
        (f"{LONG}_1(2).jpg", f"{LONG}_1.jpg", True),
        (f"{LONG}_1(2).jpg", f"{LONG}_1(2).jpg", True),
        (f"{LONG}_1-edited.jpg", f"{LONG}_1.heic", True),
        (f"{LONG}_2-edited.jpg", f"{LONG}_1.heic", False),
        (f"{LONG}_1.2.jpg", f"{LONG}_1.2", True),
        (f"{LONG}_a_b_c_d.jpg", f"{LONG}_a&b%c/d.jpg", True),
        (f"{LONG}_é.jpg", f"{LONG}_e\u0301.jpg", True),
        (f"{LONG[:47]}.jpg", f"{LONG}_1.jpg", True),  # the photo's name is cut off, too
        (f"{LONG[:46]}.heic", f"{LONG}_1.heic", True),
        (f"{LONG[:47]}(3).jpg", f"{LONG}_1.jpg", True),
        (f"{LONG[:46]}x.jpg", f"{LONG}_1.jpg", False),
        (f"{LONG[:46]}.jpg", f"{LONG}_1.jpg", False),
        (f"{EMOJI}😛.jpg", f"{EMOJI}😛😝😜.jpg", True),
        (f"{EMOJI}😝.jpg", f"{EMOJI}😛😝😜.jpg", False),
        (f"{LONG}_1.jpg", "\ud83d", False),
        (f"{LONG}_1.jpg", 3, False),
    ],
)
def test_photos_whose_names_begin_alike_do_not_share_what_is_of_one(
    photo: str, title: object, of_it: bool, tmp_path: Path
) -> None:
    number = "(2)" if "(2)" in photo else "(3)" if "(3)" in photo else ""
    beginning = EMOJI if photo.startswith("😀") else LONG[:46]
    write(tmp_path / photo, jpeg())
    write(tmp_path / f"{beginning}{number}.json", takeout(title=title, description="a boat"))
    source = open_source(tmp_path)
    assert len(source.sides(0)) == 1
    assert source.header(0).captions == (("a boat",) if of_it else ())
    assert (source.header(0).taken is None) is not of_it


def test_nothing_is_looked_for_in_folders_without_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def keys(photo: str) -> Iterator[str]:
        asked.append(photo)
        return keys_of_photo(photo)

    monkeypatch.setattr("lexlip.data.folder.keys_of_photo", keys)
    for name in ("a/IMG_1.jpg", "b/IMG_1.jpg", "IMG_1.jpg"):
        write(tmp_path / name, jpeg())
    write(tmp_path / "a/IMG_1.jpg.json", takeout(description="a boat"))
    assert facts(tmp_path, "a/IMG_1.jpg").captions == ("a boat",)
    assert facts(tmp_path, "b/IMG_1.jpg").captions == facts(tmp_path).captions == ()
    assert set(asked) == {"a/IMG_1.jpg"}


def test_an_edited_copy_shares_the_json_of_its_original(tmp_path: Path) -> None:
    for name in ("IMG_1.jpg", "IMG_1-bearbeitet.jpg", "IMG_1(1).jpg", "IMG_1-bearbeitet(1).jpg"):
        write(tmp_path / name, jpeg())
    write(tmp_path / "IMG_1.jpg.json", takeout(description="a boat"))
    write(tmp_path / "IMG_1.jpg(1).json", takeout(description="a car"))
    assert walk(tmp_path).photos == ["IMG_1-bearbeitet(1).jpg", "IMG_1-bearbeitet.jpg"]
    assert walk(tmp_path).left == {"beside": 4}
    assert facts(tmp_path, "IMG_1-bearbeitet.jpg").captions == ("a boat",)
    assert facts(tmp_path, "IMG_1-bearbeitet(1).jpg").captions == ("a car",)


def test_what_it_says(tmp_path: Path, local_clock: Callable[[str], None]) -> None:
    local_clock("Europe/Paris")
    write(tmp_path / "IMG_1.jpg", jpeg())
    place = {"latitude": LYON[0], "longitude": LYON[1], "altitude": 170.0}
    people = [{"name": "Anna"}, {"name": "Bob  B."}, {"name": ""}, {}, "Eve", {"name": 3}, {"name": "Anna"}]
    write(tmp_path / "IMG_1.jpg.json", takeout(description="A boat,\nours", geoDataExif=place, people=people))
    found = facts(tmp_path)
    photo = open_source(tmp_path).photo(0)[1]
    assert (found.taken, found.place) == ("2019-07-01T12:20:00", LYON)
    assert (found.captions, found.keywords) == (("A boat, ours",), ("Anna", "Bob B."))
    assert (photo.taken, photo.place, photo.captions) == (found.taken, found.place, found.captions)


@pytest.mark.parametrize("seconds", [1561976400, 1561976400.5, "1561976400.5", "1561976400"])
def test_times_may_be_fractions(seconds: object, tmp_path: Path) -> None:
    write(tmp_path / "IMG_1.jpg", jpeg())
    write(tmp_path / "IMG_1.jpg.json", takeout(photoTakenTime={"timestamp": seconds}))
    assert facts(tmp_path).taken == by_the_clock(1561976400)


def test_each_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    def parse(data: bytes, read: Callable[[bytes], Any]) -> Any:
        parsed.append(data)
        return read(data)

    for name, read in (("read_takeout", read_takeout), ("read_xmp", read_xmp)):
        monkeypatch.setattr(f"lexlip.data.facts.{name}", partial(parse, read=read))
    write(tmp_path / "IMG_1.jpg", jpeg())
    write(tmp_path / "IMG_1.jpg.json", said := takeout(description="of Google"))
    write(tmp_path / "IMG_1.xmp", packet := xmp(""))
    assert facts(tmp_path).captions == ("a boat", "ein Boot", "of Google")
    assert parsed == [packet, said]
    assert read_embedded(Image.new("RGB", (2, 2)), [said, packet]).captions == (
        "a boat",
        "ein Boot",
        "of Google",
    )
    assert parsed[2:] == [said, packet]


def test_the_photo_and_xmp_come_first(tmp_path: Path) -> None:
    place = {"latitude": LYON[0], "longitude": LYON[1]}
    said = takeout(description="of Google", geoData=place, people=[{"name": "Anna"}])
    with_date = exif({}, {0x9003: "2001:02:03 04:05:06"}).tobytes()
    write(tmp_path / "IMG_1.jpg", encode(Image.new("RGB", (40, 30)), exif=with_date))
    write(tmp_path / "IMG_1.jpg.json", said)
    write(tmp_path / "IMG_2.jpg", encode(Image.new("RGB", (40, 30)), exif=gps()))
    write(tmp_path / "IMG_2.jpg.json", said)
    write(tmp_path / "IMG_2.xmp", xmp('xmp:CreateDate="2014-05-03T10:20:30"'))
    first, second = facts(tmp_path), facts(tmp_path, "IMG_2.jpg")
    assert (first.taken, first.place) == ("2001-02-03T04:05:06", LYON)
    assert second.taken == "2014-05-03T10:20:30"
    assert second.place == pytest.approx((48.137361, 11.5755), abs=1e-5)
    assert second.captions == ("a boat", "ein Boot", "of Google")
    assert second.keywords == ("sea", "holidays 2019", "Anna")


@pytest.mark.parametrize(
    "odd",
    [
        {"photoTakenTime": {}},
        {"photoTakenTime": {"timestamp": "0"}},
        {"photoTakenTime": {"timestamp": 0}},
        {"photoTakenTime": {"timestamp": "soon"}},
        {"photoTakenTime": {"timestamp": "9" * 30}},
        {"photoTakenTime": {"timestamp": None}},
        {"photoTakenTime": {"timestamp": "1561976400" * 1000}},
        {"photoTakenTime": {"timestamp": ["1"]}},
    ],
)
def test_no_time(odd: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "IMG_1.jpg", jpeg())
    write(tmp_path / "IMG_1.jpg.json", takeout(description="a boat", **odd))
    found = facts(tmp_path)
    assert (found.taken, found.captions) == (None, ("a boat",))


@pytest.mark.parametrize(
    "odd",
    [
        {"geoData": None},
        {"geoData": [1, 2]},
        {"geoData": {"latitude": 45.0}},
        {"geoData": {"latitude": "north", "longitude": 4.0}},
        {"geoData": {"latitude": 91.0, "longitude": 4.0}},
        {"geoData": {"latitude": float("nan"), "longitude": 4.0}},
        {"geoData": {"latitude": 10**400, "longitude": 4.0}},
        {"people": None, "description": "a boat"},
        {"people": {"name": "Anna"}},
        {"geoDataExif": {"latitude": None, "longitude": None}},
    ],
)
def test_no_place(odd: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "IMG_1.jpg", jpeg())
    write(tmp_path / "IMG_1.jpg.json", takeout(**{"description": "a boat"} | odd))
    found = facts(tmp_path)
    assert (found.place, found.captions, found.keywords) == (None, ("a boat",), ())


def test_other_json_is_no_side_file(tmp_path: Path) -> None:
    others = (
        "[]",
        "3",
        "null",
        '{"title": "a"}',
        '{"photoTakenTime": {}}',
        '{"title": 1, "photoTakenTime": 2}',
    )
    for number, other in enumerate((*others, " " * (LARGEST_CAPTIONS + 1))):
        write(tmp_path / f"{number}.jpg", jpeg())
        write(tmp_path / f"{number}.json", other)
    source = open_source(tmp_path)
    assert {source.header(number).captions for number in range(len(source))} == {()}
    assert source.skipped == []


def test_broken_json_is_named(tmp_path: Path) -> None:
    for name, broken in (("a", b"{"), ("b", b""), ("c", b"\xff"), ("d", b'{"a":' * 10**5), ("e", b"\0")):
        write(tmp_path / f"{name}.jpg", jpeg())
        write(tmp_path / f"{name}.jpg.json", broken)
    write(tmp_path / "none.json", "{")  # beside no photo
    source = open_source(tmp_path)
    assert [skip.id for skip in source.skipped] == ["."]  # of other kinds
    for number in [*range(5), *range(5)]:
        assert source.photo(number)[1].captions == ()
    assert [(skip.id, skip.reason[:8]) for skip in source.skipped[1:]] == [
        (f"{name}.jpg.json", "no JSON:") for name in "abcde"
    ]


def test_a_link_to_json_elsewhere_is_named_if_it_is_beside_a_photo(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret", takeout(description="secret"))
    write(tmp_path / "photos/a.jpg", jpeg())
    for name in ("a.jpg.json", "other.json"):
        (tmp_path / "photos" / name).symlink_to(secret)
    (tmp_path / "photos/lost.json").symlink_to(tmp_path / "nowhere")
    source = open_source(tmp_path / "photos")
    assert (source.left, source.unlisted) == ({"beside": 1, "other": 2}, [])
    assert source.header(0).captions == ()
    assert ("a.jpg.json", LEADS_OUT) in source.skipped


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="this user may read everything")
def test_json_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", jpeg())
    write(tmp_path / "a.jpg.json", takeout()).chmod(0)
    source = open_source(tmp_path)
    source.header(0)
    assert source.skipped == [("a.jpg.json", "Permission denied")]


def test_what_is_of_takeout() -> None:
    assert read_takeout(b"\xef\xbb\xbf" + takeout()) is not None
    assert read_takeout(b'{"title": "an album", "date": {"timestamp": "1"}}') is None
    with pytest.raises(ValueError, match=r"^no JSON: "):
        read_takeout(b"<x/>")
