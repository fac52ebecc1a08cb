"""Tables are made by indexing real files; their answers are compared with plain loops over the photos."""

import itertools
import os
import random
import sqlite3
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anserini_bridge import CorruptIndex, IndexHeader
from anserini_bridge.storage import checksum
from lexlip.data import Source, UnreadableImage, open_source
from lexlip.data.facts import Facts
from lexlip.data.nearness import EARTH
from lexlip.errors import DataError
from lexlip.indexing.table_writer import TableWriter
from lexlip.retrieval.circle import Circle
from lexlip.retrieval.filters import NEAR, Filters, words_of
from lexlip.retrieval.photo import Photo
from lexlip.retrieval.photo_table import PhotoTable, open_photos
from lexlip.retrieval.plain_tables import COLUMNS, FORMAT, row_sum
from tests.data.pictures import jpeg, write, write_tar

PLACES = [None, (48.1, 11.6), (0.5, 179.9), (0.5, -179.9), (89.9, 0.0), (89.9, 180.0)]
DATES = [None, "2013-12-31T23:59:59", "2014-01-01T00:00:00", "2014-05-03T10:00:00", "2014-05-31T23:59:59"]
DATES += ["2014-06-01T00:00:00", "2014-12-31T23:59:59", "2015-01-01T00:00:00"]
WRITTEN = ["", "7 -1 1"] + [
    f"7 {datetime.fromisoformat(date).timestamp():.0f}999999999 1" for date in DATES[1:]
]
"""States of files, of which one lies before 1970."""


def header(name: str | None = "photos-1.sqlite", **extra: object) -> IndexHeader:
    photos = {} if name is None else {"photos": name}
    return IndexHeader(kind="impact", directory="data-1", documents=0, encoder="e", extra={**extra, **photos})


def table(source: Source, index: Path, facts: list[Facts] | None = None) -> PhotoTable:
    """The table of an index's folder that has nothing else."""
    folder = index / "data-1"
    folder.mkdir(parents=True, exist_ok=True)
    with TableWriter(folder, index, source) as writer:
        writer.add(enumerate([Facts()] * len(source) if facts is None else facts))
    return open_photos(index, header(writer.name))


@pytest.fixture
def library(tmp_path: Path) -> tuple[Source, list[Facts]]:
    """Photos in folders, some with dates and texts."""
    generator = random.Random(0)
    facts = []
    names = [
        f"{folder}{n}.jpg" for n, folder in enumerate(["", "a/", "a/b/", "a b/", "a/b c/", "ä/", "a0/"] * 6)
    ]
    for name in names:
        write(tmp_path / "photos" / name, jpeg())
        words = generator.sample(["dog", "Dogs", "a red DOG", "Straße", "hotdog", "snow, snow"], 2)
        write(tmp_path / "photos" / name.replace(".jpg", ".txt"), generator.choice(["", *words]))
    source = open_source(tmp_path / "photos")
    for _ in source.items:
        keywords = tuple(generator.sample(["snow", "dog-sled", "Holidays 2014"], generator.randrange(3)))
        place = generator.choice(PLACES)
        taken, written = generator.choice(DATES), generator.choice(WRITTEN)
        facts.append(Facts(taken=taken, keywords=keywords, place=place, state=written))
    return source, facts


def date_of(fact: Facts, file_dates: bool) -> str:
    """Of a photo that is no part of a tar."""
    if not file_dates:
        return fact.taken or ""
    nanoseconds = int(fact.state.split()[1]) if fact.state else None
    written = "" if nanoseconds is None else datetime.fromtimestamp(nanoseconds // 10**9).isoformat()
    return fact.taken or written


def test_what_is_known_about_a_photo(photos: Path, tmp_path: Path) -> None:
    source = open_source(photos)
    facts = Facts(
        640, 480, "2019-07-01T12:30:00", "EOS", ("a boat", "two dogs"), ("sea",), 9, "ab", 2**64 - 1
    )
    with table(source, tmp_path / "index", [facts] * 6) as made:
        (photo,) = made.get(["1.jpg"])
        assert photo == Photo(
            id="1.jpg",
            path=str(photos / "1.jpg"),
            file=str(photos / "1.jpg"),
            offset=None,
            size=9,
            width=640,
            height=480,
            taken="2019-07-01T12:30:00",
            camera="EOS",
            captions=(*source.items[1].captions, "a boat", "two dogs"),
            keywords=("sea",),
            digest="ab",
            fingerprint=2**64 - 1,
        )
        assert len(made) == 6
        found = made.get(["5.jpg", "none.jpg", "0.jpg", "5.jpg"])
        assert [photo and photo.id for photo in found] == ["5.jpg", None, "0.jpg", "5.jpg"]
        assert made.dates_of(["none.jpg", "0.jpg"]) == [None, ("0.jpg", "2019-07-01T12:30:00", False)]
        assert made.read("3.jpg") == (photos / "3.jpg").read_bytes()


def test_which_ids_are_held_is_known_without_a_file_too(photos: Path, tmp_path: Path) -> None:
    class Elsewhere(PhotoTable):
        def __init__(self) -> None:
            pass

        def get(self, ids: Sequence[str]) -> list[Photo | None]:
            return made.get(ids)

    with table(open_source(photos), tmp_path / "index") as made:
        for one in (made, Elsewhere()):
            assert one.held(["5.jpg", "none.jpg", "a/\0.jpg", "0.jpg"]) == {"5.jpg", "0.jpg"}
            assert one.held([]) == set()


def test_photos_in_tars_are_read_by_their_offset(photos: Path, tmp_path: Path) -> None:
    data = {f"{n}.jpg": (photos / f"{n}.jpg").read_bytes() for n in range(6)}
    tar = write_tar(tmp_path / "tars" / "deep" / "a.tar", data)
    write_tar(tmp_path / "tars" / "b.tar", data)
    with table(open_source(tmp_path / "tars"), tmp_path / "index") as made:
        for name, content in data.items():
            (photo,) = made.get([f"deep/a.tar/{name}"])
            assert photo is not None
            assert (photo.path, photo.file, photo.size) == (f"{tar}/{name}", str(tar), len(content))
            assert tar.read_bytes()[photo.offset :][: photo.size] == content == made.read(photo.id)
        tar.unlink()
        with pytest.raises(UnreadableImage, match="No such file"):
            made.read("deep/a.tar/0.jpg")
    with pytest.raises(UnreadableImage, match="not in the index"):
        table(open_source(photos), tmp_path / "other").read("none.jpg")


def test_photos_of_a_table_lie_anywhere(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("image\tcaption\n0.jpg\ta dog\ny/1.jpg\ta cat\n")
    with table(open_source(tmp_path / "table.tsv", photos), tmp_path / "index") as made:
        assert made.paths() == {"0.jpg": str(photos / "0.jpg"), "y/1.jpg": str(photos / "1.jpg")}


# ---- filters ----


def near(circle: Circle, place: tuple[float, float]) -> bool:
    """By the angle between two vectors."""
    angles = np.radians([(circle.latitude, circle.longitude), place])
    flat = np.cos(angles[:, 0])
    one, other = np.stack([flat * np.cos(angles[:, 1]), flat * np.sin(angles[:, 1]), np.sin(angles[:, 0])], 1)
    return bool(EARTH * np.arccos(np.clip(one @ other, -1, 1)) <= circle.kilometres)


def expected(source: Source, facts: list[Facts], filters: Filters) -> set[str]:
    """By a plain loop."""
    found = set()
    for item, fact in zip(source.items, facts, strict=True):
        day, texts = date_of(fact, filters.file_dates)[:10], [*item.captions, *fact.keywords]
        words = {word for text in texts for word in words_of(text)}
        if filters.after and (not day or day[: len(filters.after)] < filters.after):
            continue
        if filters.before and (not day or day[: len(filters.before)] > filters.before):
            continue
        if filters.folder and Path(filters.folder) not in Path(item.id).parents:
            continue
        if filters.caption and not set(words_of(filters.caption)) <= words:
            continue
        if (circle := filters.circle) and not (fact.place and near(circle, fact.place)):
            continue
        found.add(item.id)
    return found


def test_filters_are_as_a_plain_loop_has_them(library: tuple[Source, list[Facts]], tmp_path: Path) -> None:
    source, facts = library
    dates = [None, "1969", "2013", "2014", "2014-05", "2014-06", "2014-05-03", "2014-05-31", "2015-01-01"]
    folders = [None, "a", "a/", "a/b", "ä", "a b", "b", "a0", "A"]
    captions = [None, "dog", "DOGS", "strasse", "snow dog", "2014 holidays", "sled", "cat", "d_g", "%"]
    sizes = set()
    with table(source, tmp_path / "index", facts) as made:
        for after, before in itertools.product(dates, dates):
            if after and before and after > before:
                continue
            for folder, caption in [(None, None), ("a", None), (None, "dog"), ("a/b", "snow")]:
                for file_dates in (False, True):
                    filters = Filters(after, before, folder, caption, file_dates=file_dates)
                    found = made.select(filters)
                    assert set(found) == expected(source, facts, filters)
                    sizes.add(len(found))
        for folder, caption in itertools.product(folders, captions[:-1]):
            filters = Filters(folder=folder, caption=caption)
            assert set(made.select(filters)) == expected(source, facts, filters)
        for place, within, folder in itertools.product(
            ["48,11.5", "0,180", "0,-179", "90,7", "-90,0"], ["1km", "30km", "200km", "25000km"], ["a", None]
        ):
            filters = Filters(near=place, within=within, folder=folder)
            found = made.select(filters)
            assert set(found) == expected(source, facts, filters)
            sizes.add(len(found))
    assert len(sizes) > 9


def test_places_are_kept_and_replaced(library: tuple[Source, list[Facts]], tmp_path: Path) -> None:
    source, facts = library
    index, ids = tmp_path / "index", [item.id for item in source.items]
    with table(source, index, facts) as made:
        assert [photo and photo.place for photo in made.get(ids)] == [fact.place for fact in facts]
        assert made.facets()["located"] == sum(fact.place is not None for fact in facts)
        known = [(fact.place, id) for fact, id in zip(facts, ids, strict=True) if fact.place]
        assert sorted(map(tuple, made.located(Filters()).tolist())) == sorted(place for place, _ in known)
        of_2019 = made.places(made.select(Filters(after="2019", before="2019"))).values()
        assert sorted(map(tuple, made.located(Filters("2019", "2019")).tolist())) == sorted(of_2019)
        name = made.file.name
    with TableWriter(index / "data-1", index, source, name) as writer:
        writer.add([(0, Facts(place=(1.5, -2.25))), (1, Facts())])
        writer.delete([ids[2]])
    with open_photos(index, header(writer.name)) as made:
        assert made.places(ids) == {
            ids[0]: (1.5, -2.25),
            **{id: fact.place for id, fact in zip(ids[3:], facts[3:], strict=True) if fact.place},
        }


def test_a_table_of_an_older_version_knows_no_places(
    library: tuple[Source, list[Facts]], tmp_path: Path
) -> None:
    source, facts = library
    index = tmp_path / "index"
    with table(source, index, facts) as made:
        file = made.file
    with closing(sqlite3.connect(file)) as older:
        older.execute("DROP INDEX photos_latitude")
        for column in ("latitude", "longitude"):
            older.execute(f"ALTER TABLE photos DROP COLUMN {column}")
        older.create_function("row_sum", len(COLUMNS) - 2, row_sum)
        older.execute(f"UPDATE photos SET sum = row_sum({', '.join(COLUMNS[:-2])})")
        older.execute("UPDATE photos SET width = 7 WHERE id = ?", [source.items[1].id])
        older.execute("PRAGMA user_version = 2")
        older.commit()
    with open_photos(index, header(file.name)) as made:
        assert made.select(Filters(near="48,11.5")) == []
        assert made.facets()["located"] == 0
        assert (len(made.located(Filters())), made.places([source.items[0].id])) == (0, {})
        assert [photo and photo.place for photo in made.get([source.items[0].id])] == [None]
    with TableWriter(index / "data-1", index, source, file.name) as writer:
        writer.add([(0, Facts(place=(48.0, 11.5)))])
    with open_photos(index, header(writer.name)) as made:
        assert made.select(Filters(near="48,11.5")) == [source.items[0].id]
        assert made.get([source.items[2].id]) != [None]
        with pytest.raises(CorruptIndex, match="not as it was written"):  # the damage of before stays known
            made.get([source.items[1].id])


def test_a_place_that_is_damaged(library: tuple[Source, list[Facts]], tmp_path: Path) -> None:
    source, facts = library
    with table(source, tmp_path / "index", facts) as made:
        file = made.file
    for damage in ("latitude = 12", "longitude = 'east'", "latitude = x'00'"):
        with closing(sqlite3.connect(file)) as stranger:
            stranger.execute(f"UPDATE photos SET {damage}")
            stranger.commit()
        with (
            open_photos(tmp_path / "index", header(file.name)) as made,
            pytest.raises(CorruptIndex, match="not as it was written"),
        ):
            made.get([item.id for item in source.items])
    with (
        open_photos(tmp_path / "index", header(file.name)) as made,
        pytest.raises(CorruptIndex, match="could not convert"),
    ):
        made.located(Filters())


def test_facets(library: tuple[Source, list[Facts]], tmp_path: Path) -> None:
    source, facts = library
    with table(source, tmp_path / "index", facts) as made:
        found = made.facets()
    taken = sorted(fact.taken for fact in facts if fact.taken)
    assert (found["first"], found["last"], found["dated"]) == (taken[0][:10], taken[-1][:10], len(taken))
    assert found["by_file_time"] == sum(not fact.taken and bool(fact.state) for fact in facts)
    pairs = zip(source.items, facts, strict=True)
    assert found["captioned"] == sum(bool(item.captions or fact.keywords) for item, fact in pairs)
    assert [row["folder"] for row in found["folders"]] == ["a", "a b", "a/b", "a/b c", "a0", "ä"]
    for row in found["folders"]:
        assert row["photos"] == len(expected(source, facts, Filters(folder=row["folder"])))


def test_names_are_compared_however_they_are_composed(tmp_path: Path) -> None:
    on_disk = [unicodedata.normalize("NFD", name) for name in ("Été/Zürich/1.jpg", "Été/2.jpg", "Étés/3.jpg")]
    for name in on_disk:
        write(tmp_path / "photos" / name, jpeg())
    with table(open_source(tmp_path / "photos"), tmp_path / "index") as made:
        for form in ("NFC", "NFD"):
            folder = unicodedata.normalize(form, "Été")
            assert sorted(made.select(Filters(folder=folder))) == sorted(on_disk[:2])
            assert made.same_name(unicodedata.normalize(form, on_disk[0])) == [on_disk[0]]
        assert made.select(Filters(folder="Ét")) == made.same_name("Été") == []


def test_captions_are_found_by_whole_words_of_any_script(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "a.jpg", jpeg())
    write(tmp_path / "photos" / "a.txt", "एक कुत्ता, un cafe\u0301")
    with table(open_source(tmp_path / "photos"), tmp_path / "index") as made:
        for word, ids in (("कुत्ता", ["a.jpg"]), ("कुत", []), ("त", []), ("café", ["a.jpg"]), ("cafe", [])):
            assert made.select(Filters(caption=word)) == ids


def test_facets_of_photos_without_dates(photos: Path, tmp_path: Path) -> None:
    for text in photos.glob("*.txt"):
        text.unlink()
    with table(open_source(photos), tmp_path / "index") as made:
        none = {"dated": 0, "by_file_time": 0, "captioned": 0, "located": 0}
        assert made.facets() == {"folders": [], "first": None, "last": None, **none}


# ---- dates ----


def test_a_photo_that_knows_no_date_has_that_of_its_file(photos: Path, tmp_path: Path) -> None:
    written = datetime(2011, 5, 6, 7, 8, 9)
    os.utime(photos / "2.jpg", (0, written.timestamp()))
    source = open_source(photos)
    facts = [Facts(state=source.state(number)) for number in range(6)]
    facts[1] = replace(facts[1], taken="2019-07-01T12:30:00")
    facts[3] = Facts()  # as of a file that was gone at once
    with table(source, tmp_path / "index", facts) as made:
        dates = made.dates()
    assert [dated.id for dated in dates] == [f"{number}.jpg" for number in range(6)]
    assert dates[1:4] == [
        ("1.jpg", "2019-07-01T12:30:00", False),
        ("2.jpg", written.isoformat(), True),
        ("3.jpg", None, False),
    ]


def test_a_date_in_a_name_comes_before_that_of_the_file(photos: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("IMG-20190704-WA0003", "20190705_153012", "20191399")):
        (photos / f"{number}.jpg").rename(photos / f"{name}.jpg")
    source = open_source(photos)
    facts = [Facts(state=source.state(number)) for number in range(6)]
    number = next(n for n, item in enumerate(source.items) if item.id.startswith("20190705"))
    facts[number] = replace(facts[number], taken="2018-07-01T12:30:00")
    with table(source, tmp_path / "index", facts) as made:
        dates = {id: (date, by_file) for id, date, by_file in made.dates()}
        day = Filters("2019-07-04", "2019-07-04", file_dates=True)
        assert made.select(day) == ["IMG-20190704-WA0003.jpg"]
        assert made.select(replace(day, file_dates=False)) == []
        assert made.facets()["by_file_time"] == 5
    assert dates["IMG-20190704-WA0003.jpg"] == ("2019-07-04T00:00:00", True)
    assert dates["20190705_153012.jpg"] == ("2018-07-01T12:30:00", False)
    assert dates["20191399.jpg"][0] not in (None, "2019-07-04T00:00:00")


def test_a_photo_in_a_tar_is_dated_by_its_name(photos: Path, tmp_path: Path) -> None:
    data = (photos / "0.jpg").read_bytes()
    write_tar(tmp_path / "a.tar", {"IMG_20190704_153012.jpg": data, "boat.jpg": data})
    with table(open_source(tmp_path / "a.tar"), tmp_path / "index") as made:
        assert [date for _, date, _ in made.dates()] == ["2019-07-04T15:30:12", None]
        assert made.select(Filters("2019", file_dates=True)) == ["a.tar/IMG_20190704_153012.jpg"]


@pytest.mark.parametrize("change", ["ALTER TABLE photos DROP COLUMN state", "UPDATE photos SET state = ''"])
def test_an_older_table_knows_no_files_dates(photos: Path, tmp_path: Path, change: str) -> None:
    source = open_source(photos)
    facts = [Facts(state=source.state(number)) for number in range(6)]
    facts[1] = replace(facts[1], taken="2019-07-01T12:30:00")
    table(source, tmp_path / "index", facts).close()
    file = tmp_path / "index" / "data-1" / "photos-1.sqlite"
    with closing(sqlite3.connect(file)) as older:
        older.execute(change)
        older.execute("PRAGMA user_version = 1")
        older.commit()
    with open_photos(tmp_path / "index", header()) as made:
        dates = ["2019-07-01T12:30:00" if number == 1 else None for number in range(6)]
        assert made.dates() == [(f"{number}.jpg", date, False) for number, date in enumerate(dates)]
        assert made.select(Filters(after="1900", file_dates=True)) == ["1.jpg"]
        assert (made.facets()["dated"], made.facets()["by_file_time"]) == (1, 0)


@pytest.mark.parametrize("column", ["taken", "state"])
def test_dates_that_are_none(photos: Path, tmp_path: Path, column: str) -> None:
    table(open_source(photos), tmp_path / "index").close()
    file = tmp_path / "index" / "data-1" / "photos-1.sqlite"
    with closing(sqlite3.connect(file)) as other:
        for number, value in enumerate(["", "once", "2019-07-01", "1 2", b"1 2 3", 7]):
            other.execute(f"UPDATE photos SET {column} = ? WHERE id = ?", (value, f"{number}.jpg"))
            other.commit()
            with open_photos(tmp_path / "index", header()) as made:
                if isinstance(value, bytes):  # an integer becomes a text in such a column
                    with pytest.raises(CorruptIndex, match="cannot be read"):
                        made.dates()
                    other.execute(f"UPDATE photos SET {column} = '' WHERE id = ?", (f"{number}.jpg",))
                    other.commit()
                else:
                    assert {dated.date for dated in made.dates()} == {None}


# ---- near-duplicates ----


def test_near_duplicates(photos: Path, tmp_path: Path) -> None:
    near = 2**63 + sum(1 << bit for bit in range(NEAR))
    prints = [2**63, near, None, 2**63 - 1, None, near ^ 1 << 40]
    digests = ["a", "b", "c", "d", "c", "e"]
    facts = [Facts(digest=digest, fingerprint=one) for digest, one in zip(digests, prints, strict=True)]
    with table(open_source(photos), tmp_path / "index", facts) as made:
        ids = [f"{number}.jpg" for number in range(6)]
        assert made.group(ids) == [["0.jpg", "1.jpg"], ["2.jpg", "4.jpg"], ["3.jpg"], ["5.jpg"]]
        assert made.group(ids[::-1]) == [["5.jpg", "1.jpg"], ["4.jpg", "2.jpg"], ["3.jpg"], ["0.jpg"]]
        assert made.group(["none.jpg", "2.jpg"]) == [["none.jpg"], ["2.jpg"]]
        assert made.group([]) == []


# ---- an index that moves ----


def test_the_index_moves_with_its_photos(photos: Path, tmp_path: Path) -> None:
    for index in (tmp_path / "all" / "index", tmp_path / "all" / "photos" / "deep" / "index"):
        (tmp_path / "all").mkdir(exist_ok=True)
        if photos.exists():
            photos.rename(tmp_path / "all" / "photos")
        table(open_source(tmp_path / "all" / "photos"), index).close()
        (tmp_path / "all").rename(tmp_path / "moved")
        moved = tmp_path / "moved" / index.relative_to(tmp_path / "all")
        with open_photos(moved, header()) as made:
            assert made.paths()["0.jpg"] == str(tmp_path / "moved" / "photos" / "0.jpg")
            assert made.read("0.jpg") == (tmp_path / "moved" / "photos" / "0.jpg").read_bytes()
        (tmp_path / "moved").rename(tmp_path / "all")


def test_the_index_moves_alone(photos: Path, tmp_path: Path) -> None:
    table(open_source(photos), tmp_path / "index").close()
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "index").rename(tmp_path / "far" / "away" / "index")
    with open_photos(tmp_path / "far" / "away" / "index", header()) as made:
        assert made.paths()["0.jpg"] == str(photos / "0.jpg")


def test_a_folder_behind_a_link_keeps_its_name(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(photos)
    with table(open_source(tmp_path / "link"), tmp_path / "index") as made:
        assert made.paths()["0.jpg"] == str(tmp_path / "link" / "0.jpg")


# ---- readers ----


def test_a_table_that_an_update_deleted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has it open reads on; who comes late reads index.json again."""
    index, source = tmp_path / "index", open_source(photos)
    first = table(source, index)
    second = table(source, index, [Facts(width=7)] * 6)
    assert second.file.name == "photos-2.sqlite"
    first.file.unlink()
    assert first.get(["0.jpg"])[0].width == 0  # type: ignore[union-attr]
    monkeypatch.setattr("lexlip.retrieval.photo_table.read_header", lambda index: header("photos-2.sqlite"))
    with open_photos(index, header("photos-1.sqlite")) as late:
        assert late.get(["0.jpg"])[0].width == 7  # type: ignore[union-attr]
    second.file.unlink()
    with pytest.raises(CorruptIndex, match=r"photos-2.sqlite cannot be read .*: build the index again"):
        open_photos(index, header("photos-2.sqlite"))


def test_a_table_that_is_damaged(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.retrieval.photo_table.read_header", lambda index: header())
    file = table(open_source(photos), tmp_path / "index").file
    whole = file.read_bytes()
    for damaged in (b"no table" * 1000, whole[:3000], b""):
        file.write_bytes(damaged)
        with pytest.raises(CorruptIndex, match="build the index again"):
            open_photos(tmp_path / "index", header())
    file.write_bytes(whole)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CorruptIndex, match=rf"has format 99, not {FORMAT}: build the index again"):
        open_photos(tmp_path / "index", header())


@pytest.mark.parametrize("small", [0, 2**24])
def test_a_flipped_bit_is_found_or_changes_nothing(
    small: int, library: tuple[Source, list[Facts]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a small table the whole is compared when it is opened, of a large one what is read."""
    monkeypatch.setattr("lexlip.retrieval.photo_table._SMALL", small)
    index, ids = tmp_path / "index", [item.id for item in library[0].items]
    file = table(library[0], index, library[1]).file
    whole = replace(header(), files={file.name: checksum(file)})
    monkeypatch.setattr("lexlip.retrieval.photo_table.read_header", lambda index: whole)

    def read() -> list[Any]:
        with open_photos(index, whole) as made:
            return [made.get(ids), made.group(ids)]

    right, data, found = read(), file.read_bytes(), 0
    generator = random.Random(1)
    for _ in range(60):
        bits = bytearray(data)
        bits[generator.randrange(len(bits))] ^= 1 << generator.randrange(8)
        file.write_bytes(bits)
        try:
            assert read() == right
        except CorruptIndex:
            found += 1
        with pytest.raises(CorruptIndex), open_photos(index, whole) as made:
            made.select(Filters(caption="dog"))
    assert found == 60 if small else 0 < found < 60


def test_rows_that_an_update_changes_get_new_checksums(photos: Path, tmp_path: Path) -> None:
    with table(open_source(photos), tmp_path / "index") as made:
        old = made.file.name
    write(photos / "1.txt", "a dog")
    source = open_source(photos)
    with TableWriter(tmp_path / "index" / "data-1", tmp_path / "index", source, old) as writer:
        writer.refresh(range(len(source)), {"2.jpg": "as it is now"})
    with open_photos(tmp_path / "index", header(writer.name)) as made:
        assert [photo.captions for photo in made.get(["1.jpg"]) if photo] == [("a dog",)]
        assert made.listed()["2.jpg"].state == "as it is now"
        assert made.get(["2.jpg"]) != [None]


@pytest.mark.parametrize("damage", ["x'FF'", "'[\"a dog'", "7"])
def test_a_caption_that_is_damaged(photos: Path, tmp_path: Path, damage: str) -> None:
    with table(open_source(photos), tmp_path / "index") as made:
        with closing(sqlite3.connect(made.file)) as connection:
            connection.execute(f"UPDATE photos SET captions = CAST({damage} AS TEXT) WHERE id = '0.jpg'")
            connection.commit()
        for read in (lambda: made.get(["0.jpg"]), made.listed):
            with pytest.raises(CorruptIndex, match=r"photos-1.sqlite cannot be read .*: build the index"):
                read()
        assert made.get(["1.jpg"])[0] is not None


def test_threads_read_side_by_side(library: tuple[Source, list[Facts]], tmp_path: Path) -> None:
    source, facts = library
    ids = [item.id for item in source.items]
    with table(source, tmp_path / "index", facts) as made, ThreadPoolExecutor(8) as pool:
        one, selected = made.get(ids), made.select(Filters(caption="dog"))
        for found in pool.map(lambda _: (made.get(ids), made.select(Filters(caption="dog"))), range(200)):
            assert found == (one, selected)


def test_an_odd_name_of_the_index(photos: Path, tmp_path: Path) -> None:
    with table(open_source(photos), tmp_path / "in dex?mode=rw#%41 ä") as made:
        assert len(made) == 6


# ---- indexes of older versions ----


def test_an_index_without_a_table(photos: Path, tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.jpg": (photos / "0.jpg").read_bytes()})
    root = header(None, root=f"{photos}/", relative=False)
    paths = header(None, paths={"0.jpg": f"{tmp_path}/a.tar/0.jpg"})
    for metadata, path in ((root, photos / "0.jpg"), (paths, tmp_path / "a.tar" / "0.jpg")):
        with open_photos(tmp_path / "index", metadata) as old:
            assert old.get(["0.jpg"]) == [Photo("0.jpg", str(path), str(path))]
            assert old.held(["0.jpg", "../0.jpg"]) == {"0.jpg"}
            assert old.read("0.jpg") == (photos / "0.jpg").read_bytes()
            assert old.dates_of(["0.jpg"]) == [None]
            assert old.group(["0.jpg", "1.jpg"]) == [["0.jpg"], ["1.jpg"]]
            assert old.facets()["folders"] == []
            with pytest.raises(DataError, match="is too old to be filtered: index again without --update"):
                old.select(Filters(after="2014"))


def test_an_older_index_leads_to_its_own_photos_only(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"a")
    extras: list[dict[str, Any]] = [
        {"root": f"{tmp_path}/photos/", "relative": False},
        {"paths": {"a.jpg": f"{tmp_path}/photos/a.jpg"}},
    ]
    for extra in extras:
        with open_photos(tmp_path / "index", header(None, **extra)) as photos:
            assert photos.read("a.jpg") == b"a"
            for id in ("../secret.jpg", f"{tmp_path}/secret.jpg", "photos/../../secret.jpg"):
                assert photos.get([id]) == [None]
                with pytest.raises(UnreadableImage, match="not in the index"):
                    photos.read(id)


def test_a_damaged_schema_is_an_error_of_sqlite(tmp_path: Path) -> None:
    """SQLite's message quotes it, and Python cannot decode that."""
    file = tmp_path / "photos.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE roots (number, absolute, relative)")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE T\xacBLE"))
    with pytest.raises(sqlite3.DatabaseError, match="malformed database schema"):
        PhotoTable(tmp_path, file)
