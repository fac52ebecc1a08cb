"""Why no photo meets filters, of tables of photos that are made here."""

from datetime import datetime
from pathlib import Path

import pytest

from lexlip.data import open_source
from lexlip.data.facts import Facts
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.unmet import NAMED, why_unmet
from tests.data.pictures import jpeg, write
from tests.retrieval.test_photo_table import table

FACTS = {
    "dated/a.jpg": Facts(taken="2014-05-03T10:00:00", keywords=("snow",)),
    "dated/b.jpg": Facts(taken="2016-01-01T00:00:00"),
    "z/y/c.jpg": Facts(keywords=("dog",)),
    "files/d.jpg": Facts(taken="2020-02-03T00:00:00"),
    "files/e.jpg": Facts(state=f"9 {datetime(2021, 3, 4).timestamp():.0f}000000000 1"),
}


@pytest.fixture
def made(tmp_path: Path) -> PhotoTable:
    return table_of(tmp_path, FACTS)


def table_of(folder: Path, facts: dict[str, Facts]) -> PhotoTable:
    for name in facts:
        write(folder / "photos" / name, jpeg())
    source = open_source(folder / "photos")
    return table(source, folder / "index", [facts[item.id] for item in source.items])


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        (Filters(folder="z"), ""),
        (Filters("2021", "2021", "files", file_dates=True), ""),
        (Filters(folder="nosuch"), "no photo is in the folder nosuch; folders are dated, files, z, z/y"),
        (
            Filters("2030", folder="./no\tsuch/"),
            r"no photo is in the folder no\tsuch; folders are dated, files, z, z/y",
        ),
        (
            Filters(folder="/home/me/Photos/Z/y/"),
            "no photo is in the folder home/me/Photos/Z/y; give z/y, as folders begin below the one that was"
            " indexed",
        ),
        (
            Filters("2030"),
            "no photo of this index has such a date; they were taken from 2014-05-03 to 2020-02-03; of 1 only"
            " the file has one",
        ),
        (
            Filters("2030", file_dates=True),
            "no photo of this index has such a date; they were taken from 2014-05-03 to 2021-03-04, 1 of 4 by"
            " the file alone",
        ),
        (
            Filters("2015", "2015", "dated"),
            "no photo in the folder dated has such a date; they were taken from 2014-05-03 to 2016-01-01",
        ),
        (Filters("2014", folder="z"), "no photo in the folder z has a date"),
        (Filters(caption="cat"), "no photo has captions or keywords with all words of 'cat'"),
        (Filters("2015", caption="snow"), "no photo meets all the filters at once: leave one out"),
        (Filters(folder="z", caption="snow"), "no photo meets all the filters at once: leave one out"),
    ],
)
def test_why_no_photo_meets_filters(made: PhotoTable, filters: Filters, says: str) -> None:
    assert why_unmet(made, filters) == says
    assert bool(made.select(filters)) == (not says)


def test_an_index_without_folders_dates_and_captions(tmp_path: Path) -> None:
    with table_of(tmp_path, {"a.jpg": Facts()}) as made:
        assert why_unmet(made, Filters("2030")) == "no photo of this index has a date"
        assert why_unmet(made, Filters(before="2030")) == "no photo of this index has a date"
        assert why_unmet(made, Filters(caption="x")) == "no photo of this index has captions or keywords"
        assert why_unmet(made, Filters(folder="x")) == "no photo is in the folder x; the index has no folders"


def test_what_is_no_date_is_not_told_as_one(tmp_path: Path) -> None:
    """An index may hold anything."""
    with table_of(tmp_path, {"a.jpg": Facts(taken="one day")}) as made:
        assert why_unmet(made, Filters(before="2030")) == "no photo of this index has a date"


def test_of_many_folders_the_uppermost_are_named(tmp_path: Path) -> None:
    names = [f"{letter}/x" for letter in "lkjihgfedcba"]
    with table_of(tmp_path, {f"{name}/1.jpg": Facts() for name in names}) as made:
        says = why_unmet(made, Filters(folder="x"))
    assert says.endswith(f"folders are a, b, c, d, e, f, g, h, i, j and {24 - NAMED} more")
