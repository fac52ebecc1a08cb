import unicodedata
from collections.abc import Callable
from datetime import datetime
from itertools import islice

import pytest

from lexlip.words.file_names import Names, date_in, file_name, numbered


@pytest.mark.parametrize(
    ("photo", "name"),
    [
        ("/photos/größe 東京 🐕.jpg", "größe 東京 🐕.jpg"),
        ("/photos/two\nlines.jpg", "two_nlines.jpg"),
        ("/photos/\u202egpj.elif.jpg", "_u202egpj.elif.jpg"),
        ("/photos/some.tar/a\\b:c*.jpg", "a_b_c_.jpg"),
        ("/photos/CON.jpg", "_CON.jpg"),
        ("/photos/com1 .tar.jpg", "_com1 .tar.jpg"),
        ("/photos/console.jpg", "console.jpg"),
        ("/photos/ends. .", "ends"),
        ("/photos/..", "photo"),
        ("/photos/.jpg", ".jpg"),
    ],
)
def test_names_that_every_system_can_have(photo: str, name: str) -> None:
    assert file_name(photo) == name


def test_long_names_are_cut_before_their_ending() -> None:
    for letter in "a東":
        name = file_name(f"/photos/{letter * 80}{letter * 170}.jpeg")
        assert name.endswith(f"{letter}.jpeg")
        assert 195 < len(name.encode()) <= 200
    assert len(file_name(f"/photos/a.{'b' * 250}")) == 200


def test_numbers_stand_before_the_ending() -> None:
    assert list(islice(numbered("a.b.jpg"), 3)) == ["a.b.jpg", "a.b (2).jpg", "a.b (3).jpg"]
    assert list(islice(numbered("a"), 2)) == ["a", "a (2)"]


def test_no_two_names_are_the_same_on_any_system() -> None:
    names = Names("missing.txt")
    given = ["a/dog.jpg", "b/Dog.JPG", "c/dog.jpg", "d/dog (2).jpg", "e/Missing.txt", "f/a:b", "f/a?b"]
    taken = [names.take(photo) for photo in given]
    assert taken == [
        *("dog.jpg", "Dog (2).JPG", "dog (3).jpg", "dog (2) (2).jpg", "Missing (2).txt", "a_b", "a_b (2)")
    ]
    composed, decomposed = "e/\u00fc.jpg", "f/u\u0308.jpg"
    assert len({unicodedata.normalize("NFC", names.take(photo)) for photo in (composed, decomposed)}) == 2


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("a/IMG-20190704-WA0003.jpg", "2019-07-04T00:00:00"),
        ("IMG_20190704_153012.jpg", "2019-07-04T15:30:12"),
        ("PXL_20210704_153012123.MP.jpg", "2021-07-04T15:30:12"),
        ("20190704_153012(1).jpg", "2019-07-04T15:30:12"),
        ("20190704153012.jpg", "2019-07-04T15:30:12"),
        ("Screenshot_20190704-153012_Maps.png", "2019-07-04T15:30:12"),
        ("Screenshot 2019-07-04 at 15.30.12.png", "2019-07-04T15:30:12"),
        ("Screenshot 2019-07-04 at 3.30.12\u202fPM.png", "2019-07-04T15:30:12"),
        ("Screenshot 2019-07-04 at 12.30.12 AM.png", "2019-07-04T00:30:12"),
        ("signal-2019-07-04-15-30-12.jpg", "2019-07-04T15:30:12"),
        ("signal-2019-07-04-153012.jpg", "2019-07-04T15:30:12"),
        ("photo_2019-07-04_15-30-12.jpg", "2019-07-04T15:30:12"),
        ("2019-07-04T15:30:12.jpg", "2019-07-04T15:30:12"),
        ("12345678 2019.07.04.jpg", "2019-07-04T00:00:00"),
        ("20190704_253012.jpg", "2019-07-04T00:00:00"),
        ("20190704_1530123.jpg", "2019-07-04T00:00:00"),
        ("20200229.jpg", "2020-02-29T00:00:00"),
        ("20190229_153012.jpg", None),
        ("10000000.jpg", None),
        ("20191399.jpg", None),
        ("19690704.jpg", None),
        (f"IMG_{datetime.now().year + 1}0704_153012.jpg", f"{datetime.now().year + 1}-07-04T15:30:12"),
        (f"IMG_{datetime.now().year + 2}0704_153012.jpg", None),
        ("000020190704.jpg", None),
        ("201907041.jpg", None),
        ("2019-0704.jpg", None),
        ("2019-07-04/boat.jpg", None),
        ("\u0662\u0660\u0661\u0669\u0660\u0667\u0660\u0664.jpg", None),
        ("", None),
    ],
)
def test_dates_in_names(name: str, date: str | None) -> None:
    assert date_in(name) == date


def test_the_names_of_a_pixel_s_photos_are_by_the_clock_of_utc(local_clock: Callable[[str], None]) -> None:
    local_clock("America/New_York")
    assert date_in("2021/PXL_20210704_013012123.MP.jpg") == "2021-07-03T21:30:12"
    assert date_in("2021/PXL_20210104_013012123~2.jpg") == "2021-01-03T20:30:12"
    assert date_in("PXL_20210704.jpg") == "2021-07-04T00:00:00"
    assert date_in("PXL_2021/IMG_20210704_013012123.jpg") == "2021-07-04T01:30:12"
