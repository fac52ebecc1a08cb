import random
from itertools import groupby

from lexlip.retrieval.photo import Dated
from lexlip.search.by_date import ByDate, Run, by_date


def drawn(number: int) -> list[Dated]:
    """Photos of a few days, so that many share a date; some know none."""
    generator = random.Random(number)
    dates = [None, *(f"20{year}-0{month}-01T0{month}:00:00" for year in (18, 19) for month in range(1, 6))]
    photos = []
    for place in range(number):
        date = generator.choice(dates)
        photos.append(Dated(f"{place:03}.jpg", date, date is not None and generator.random() < 0.3))
    return photos


def ordered(photos: list[Dated]) -> list[Dated]:
    """By date, the newest first; those of the same one by id; those without one last."""
    dated = [photo for photo in photos if photo.date]
    days = sorted({photo.date for photo in dated if photo.date}, reverse=True)
    return [photo for day in days for photo in dated if photo.date == day] + [p for p in photos if not p.date]


def rows(found: ByDate) -> list[Dated]:
    each = zip(found.ids, found.dates.tolist(), found.by_file.tolist(), strict=True)
    return [Dated(id, date.decode() or None, by_file) for id, date, by_file in each]


def test_photos_come_by_date() -> None:
    for number in (0, 1, 2, 300):
        photos = drawn(number)
        assert rows(by_date(photos)) == ordered(photos)
        assert by_date(photos).dated == sum(photo.date is not None for photo in photos)


def test_the_oldest_may_come_first() -> None:
    photos = drawn(300)
    turned = rows(by_date(photos).turned())
    dates = [photo.date for photo in turned]
    dated = [date for date in dates if date]
    assert dates == sorted(dated) + [None] * (len(dates) - len(dated))
    assert sorted(turned) == photos


def test_some_of_them() -> None:
    photos = drawn(300)
    some = random.Random(1).sample(photos, 40)
    found = by_date(photos).only([*(photo.id for photo in some), "nosuch.jpg"])
    assert rows(found) == ordered(sorted(some))
    assert rows(by_date(photos).only([])) == []


def test_months_are_those_of_the_photos() -> None:
    for number in (0, 300):
        photos = ordered(drawn(number))
        dated = [photo for photo in photos if photo.date]
        expected, first = [], 0
        for month, group in groupby(dated, lambda photo: str(photo.date)[:7]):
            each = list(group)
            expected.append(Run(month, first, len(each), sum(photo.by_file for photo in each)))
            first += len(each)
        assert list(by_date(drawn(number)).months()) == expected
