"""Listings are compared with lists made of the files themselves: of their EXIF dates and their times."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lexlip.errors import DataError
from lexlip.retrieval.filters import Filters
from lexlip.search.cursors import StaleCursor
from lexlip.search.photo_search import PhotoSearch
from tests.conftest import write_photos
from tests.search.indexes import change_header, index_bm25, index_words

DATE, EXIF = 0x9003, 0x8769  # DateTimeOriginal, and where it is
NUMBER = 40


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of several years in folders; those of each third are dated by their files alone."""
    folder = tmp_path_factory.mktemp("album")
    for number in range(NUMBER):
        path = folder / ("2019/july", "old", "")[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        if number % 3:
            exif.get_ifd(EXIF)[DATE] = f"20{18 + number % 2}:0{1 + number % 9}:{1 + number % 28:02d} 12:00:00"
        Image.new("RGB", (40 + number, 30), (number, 90, 200)).save(path, exif=exif)
        path.with_suffix(".txt").write_text(f"photo number {number % 4}\n")
        written = datetime(2017 + number % 3, 1 + number % 12, 3, number % 24).timestamp()
        os.utime(path, (written, written + 0.75))
    return folder


def of_files(album: Path, oldest: bool = False) -> list[tuple[str, str, str]]:
    """Id, date and what says so, of all photos, by their dates."""
    found = []
    for path in sorted(album.rglob("*.jpg")):
        with Image.open(path) as image:
            taken = image.getexif().get_ifd(EXIF).get(DATE)
        id = path.relative_to(album).as_posix()
        if taken:
            found.append((id, datetime.strptime(taken, "%Y:%m:%d %H:%M:%S").isoformat(), "camera"))
        else:
            written = datetime.fromtimestamp(path.stat().st_mtime)
            found.append((id, written.isoformat(timespec="seconds"), "file"))
    found.sort()
    return sorted(found, key=lambda one: one[1], reverse=not oldest)


@pytest.fixture(scope="module")
def search(
    album: Path, tmp_path_factory: pytest.TempPathFactory, model_folder: Path
) -> Iterator[PhotoSearch]:
    with PhotoSearch(index_words(model_folder, album, tmp_path_factory.mktemp("index"))) as search:
        yield search


def listed(search: PhotoSearch, k: int = 1000, **how: Any) -> list[tuple[str, str | None, str]]:
    """All pages."""
    found, page = [], search.listed(k, **how)
    found += page.photos
    while page.cursor:
        page = search.listed(k, cursor=page.cursor, **how)
        found += page.photos
    assert page.total == len(found)
    return [(photo.id, photo.date, photo.dated) for photo in found]


@pytest.mark.parametrize("k", [1, 7, NUMBER, 1000])
def test_pages_hold_every_photo_once_newest_first(search: PhotoSearch, album: Path, k: int) -> None:
    expected = of_files(album)
    assert {by for _, _, by in expected} == {"camera", "file"}
    assert listed(search, k) == expected


def test_the_oldest_may_come_first(search: PhotoSearch, album: Path) -> None:
    found = listed(search, 9, order="oldest")
    assert [date for _, date, _ in found] == [date for _, date, _ in of_files(album, oldest=True)]
    assert sorted(found) == sorted(of_files(album))


@pytest.mark.parametrize(
    ("filters", "is_meant"),
    [
        (Filters(folder="2019"), lambda id, date, by: id.startswith("2019/")),
        (Filters(after="2019-03"), lambda id, date, by: by == "camera" and date >= "2019-03"),
        (Filters(before="2018"), lambda id, date, by: by == "camera" and date < "2019"),
        (Filters(after="2019-03", file_dates=True), lambda id, date, by: date >= "2019-03"),
        (Filters(before="2018", file_dates=True), lambda id, date, by: date < "2019"),
        (Filters(caption="number 3"), lambda id, date, by: int(Path(id).stem) % 4 == 3),
        (Filters(folder="old", after="2019"), lambda id, date, by: id.startswith("old/") and date >= "2019"),
    ],
    ids=range(7),
)
def test_filters_hold(search: PhotoSearch, album: Path, filters: Filters, is_meant: Any) -> None:
    expected = [one for one in of_files(album) if is_meant(*one)]
    assert len(expected) > 3
    assert listed(search, 4, filters=filters) == expected
    timeline = search.timeline(filters)
    assert sum(month.photos for month in timeline.months) == len(expected)


def test_a_search_counts_what_the_list_counts(search: PhotoSearch, album: Path) -> None:
    for after, before in (("2017", "2017-06"), ("2017-10-03", "2018"), ("2019", None)):
        expected = [one for one in of_files(album) if after <= one[1] and one[1] < f"{before or '9'}~"]
        assert ("file" in {by for _, _, by in expected}) == (before is not None)
        how = {"filters": Filters(after, before, file_dates=True), "sort": "date"}
        answer = search.text("two dogs in snow", NUMBER, **how)  # type: ignore[arg-type]
        found = [(hit.id, hit.date, hit.dated) for hit in answer.hits]
        assert set(found) == set(expected)
        assert [date for _, date, _ in found] == sorted((str(date) for _, date, _ in found), reverse=True)
        assert answer.by_file_time == sum(by == "file" for _, _, by in found)
        similar = search.similar("2.jpg", NUMBER, **how)  # type: ignore[arg-type]
        assert {hit.id for hit in similar.hits} == {id for id, _, _ in expected} - {"2.jpg"}


def test_a_photo_has_what_a_hit_has(search: PhotoSearch) -> None:
    hits = {hit.id: hit for hit in search.text("two dogs in snow", 1000).hits}
    for photo in search.listed(1000).photos:
        hit = hits[photo.id]
        for name in ("key", "path", "width", "height", "taken", "date", "dated", "version"):
            assert getattr(photo, name) == getattr(hit, name)
        assert photo.taken == (photo.date if photo.dated == "camera" else None)


def test_months_have_their_photos_and_where_they_begin(search: PhotoSearch, album: Path) -> None:
    expected = of_files(album)
    timeline = search.timeline()
    assert [month.month for month in timeline.months] == list(dict.fromkeys(d[:7] for _, d, _ in expected))
    assert (timeline.undated, timeline.undated_cursor) == (0, None)
    for month in timeline.months:
        mine = [one for one in expected if one[1].startswith(month.month)]
        assert (month.photos, month.by_file_time) == (len(mine), sum(by == "file" for _, _, by in mine))
        page = search.listed(len(mine), cursor=month.cursor)
        assert [(photo.id, photo.date, photo.dated) for photo in page.photos] == mine
        assert page.photos[0].key == month.key


def test_a_cursor_is_of_its_listing_alone(search: PhotoSearch) -> None:
    cursor = search.listed(3).cursor
    assert cursor is not None
    for how in ({"filters": Filters(folder="old")}, {"order": "oldest"}):
        with pytest.raises(StaleCursor, match="of another query"):
            search.listed(3, cursor=cursor, **how)  # type: ignore[arg-type]
    with pytest.raises(StaleCursor, match="of another query"):
        search.text("two dogs", 3, cursor=cursor)
    with pytest.raises(StaleCursor, match="the photos have changed"):
        search.listed(3, cursor=f"3.{'0' * 16}.{cursor.rpartition('.')[2]}")
    with pytest.raises(DataError, match="is no cursor"):
        search.listed(3, cursor="next")
    assert search.listed(3, cursor=cursor.replace("3.", "100.", 1)).photos == []


def test_why_none_is_listed(search: PhotoSearch) -> None:
    found = search.listed(3, Filters(folder="nosuch"))
    assert (found.photos, found.total, found.cursor) == ([], 0, None)
    assert found.unmet == "no photo is in the folder nosuch; folders are 2019, old, 2019/july"
    assert search.timeline(Filters(folder="nosuch")).months == []


def test_photos_without_any_date_come_last(album: Path, tmp_path: Path, model_folder: Path) -> None:
    """Those in a tar, of which nobody stores when they were written."""
    import tarfile

    with tarfile.open(tmp_path / "photos.tar", "w") as tar:
        for path in sorted(album.rglob("*.jpg")):
            tar.add(path, path.relative_to(album).as_posix())
    with PhotoSearch(index_words(model_folder, tmp_path, tmp_path / "index")) as search:
        files = [(f"photos.tar/{id}", date, by) for id, date, by in of_files(album)]
        undated = sorted(id for id, _, by in files if by == "file")
        expected = [one for one in files if one[2] == "camera"] + [(id, None, "unknown") for id in undated]
        assert listed(search, 7) == expected
        timeline = search.timeline()
        assert timeline.undated == len(undated)
        assert [photo.id for photo in search.listed(3, cursor=timeline.undated_cursor).photos] == undated[:3]


def test_an_index_of_captions_lists_its_photos(album: Path, tmp_path: Path) -> None:
    with PhotoSearch(index_bm25(album, tmp_path / "index")) as search:
        assert listed(search) == of_files(album)


def test_an_index_without_a_table_is_too_old(tmp_path: Path, model_folder: Path) -> None:
    index = index_words(model_folder, write_photos(tmp_path / "photos"), tmp_path / "index")
    change_header(index, extra={"root": f"{tmp_path / 'photos'}/", "relative": False})
    with PhotoSearch(index, model=str(model_folder)) as search:
        for ask in (search.listed, search.timeline):
            with pytest.raises(DataError, match="is too old to list its photos: index again"):
                ask()  # type: ignore[operator]
