import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from anserini_bridge import read_header
from lexlip.data import Given, open_library
from lexlip.errors import DataError
from lexlip.retrieval.collection import describe_collection, given_again
from lexlip.server import follower as module
from lexlip.server.follower import Follower, UpdateStatus, commit_of, is_ignored, watched_places
from tests.conftest import write_photos
from tests.server.conftest import indexed_now


class Updates:
    """Updates that a test ends when it likes."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.begun: list[bool] = []
        self.refreshed = 0
        self.end: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.progress: Callable[[tuple[int, int]], None]

    async def update(self, prune: bool, progress: Callable[[tuple[int, int]], None]) -> str:
        self.begun.append(prune)
        self.progress = progress
        end = await self.end.get()
        if isinstance(end, Exception):
            raise end
        return end

    async def refresh(self) -> None:
        self.refreshed += 1


def followed(test: Callable[[Follower, Updates], Awaitable[None]]) -> Callable[..., None]:
    """Run a test on an event loop, with a follower of an index in a folder of its own."""

    def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "AGAIN", 0.1)

        async def main() -> None:
            updates = Updates(tmp_path)

            async def look() -> object:
                return commit_of(tmp_path)

            follower = Follower(look, updates.update, updates.refresh, 0.05)
            try:
                await asyncio.wait_for(test(follower, updates), 30)
            finally:
                await follower.close()

        asyncio.run(main())

    return run


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def commit(index: Path) -> None:
    (index / "new").write_text("two")
    os.replace(index / "new", index / "index.json")  # noqa: PTH105


@followed
async def test_an_update_runs_and_the_search_moves_on(follower: Follower, updates: Updates) -> None:
    follower.start()
    assert follower.status.running
    await until(lambda: updates.begun)
    updates.progress((3, 7))
    await until(lambda: follower.status.done)
    assert follower.status == UpdateStatus(True, 3, 7)
    await updates.end.put("7 added")
    await until(lambda: not follower.status.running)
    assert follower.status == UpdateStatus(False, 3, 7, "7 added")
    assert updates.refreshed == 1


@followed
async def test_who_asks_meanwhile_gets_one_more_update(follower: Follower, updates: Updates) -> None:
    follower.start()
    await until(lambda: updates.begun)
    follower.start(prune=True)
    follower.start()
    for message in ("first", "second"):
        await updates.end.put(message)
    await until(lambda: not follower.status.running)
    assert updates.begun == [False, True]
    assert follower.status.message == "second"


@followed
async def test_an_update_that_fails_says_why(follower: Follower, updates: Updates) -> None:
    for error in (
        DataError("the folder is gone"),
        RuntimeError("ZeroDivisionError: no"),
        OSError(24, "full"),
    ):
        follower.start()
        await updates.end.put(error)
        await until(lambda: not follower.status.running)
        assert str(error) in follower.status.message
    follower.start()
    await updates.end.put("fine")
    await until(lambda: follower.status.message == "fine")


@followed
async def test_a_commit_of_another_process_is_seen(follower: Follower, updates: Updates) -> None:
    (updates.index / "index.json").write_text("one")
    follower.follow()
    await asyncio.sleep(0.2)
    assert updates.refreshed == 0
    commit(updates.index)
    await until(lambda: updates.refreshed)
    await asyncio.sleep(0.2)
    assert updates.refreshed == 1


@followed
async def test_a_state_that_cannot_be_shown_yet_is_said_and_tried_again(
    follower: Follower, updates: Updates
) -> None:
    (updates.index / "index.json").write_text("one")
    fine = updates.refresh

    async def fail() -> None:
        raise DataError("a replica did not start")

    follower._refresh = fail
    follower.follow()
    await asyncio.sleep(0.2)
    assert follower.status.message == ""
    commit(updates.index)
    await until(lambda: "not shown yet: a replica did not start" in follower.status.message)
    follower._refresh = fine
    await until(lambda: "is shown now" in follower.status.message)
    assert updates.refreshed == 1


@followed
async def test_changes_of_photos_begin_updates_and_others_do_not(
    follower: Follower, updates: Updates
) -> None:
    photos = updates.index / "photos"
    index = photos / "index"
    index.mkdir(parents=True)
    follower.watch(lambda: [photos], lambda path: path.is_relative_to(index))
    await until(lambda: updates.begun)  # what changed before it watched
    await updates.end.put("")
    await until(lambda: not follower.status.running)
    (index / "segment").write_text("of ours")
    await asyncio.sleep(1.5)
    assert len(updates.begun) == 1
    for number in range(20):  # one update for all
        (photos / f"{number}.jpg").write_text("new")
        await asyncio.sleep(0.02)
    await until(lambda: len(updates.begun) == 2)
    await updates.end.put("")
    await asyncio.sleep(1.5)
    assert len(updates.begun) == 2


@followed
async def test_a_folder_that_comes_back_is_watched_again(follower: Follower, updates: Updates) -> None:
    photos = updates.index / "photos"
    follower.watch(lambda: [photos], lambda path: False)
    await until(lambda: "cannot be watched" in follower.status.message)
    photos.mkdir()
    await until(lambda: updates.begun)
    await updates.end.put("")
    photos.rename(updates.index / "elsewhere")
    await until(lambda: "cannot be watched" in follower.status.message)
    photos.mkdir()
    await until(lambda: len(updates.begun) == 2)


def test_a_source_is_found_where_it_is_now(tmp_path: Path, model_folder: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    index = indexed_now(model_folder, photos, photos / "index")
    moved = photos.rename(tmp_path / "moved")
    extra = read_header(moved / "index").extra
    assert len(open_library(given_again(extra, moved / "index"))) == 6
    assert watched_places(moved / "index", extra) == [moved]
    assert not index.exists()


def test_all_folders_are_watched(tmp_path: Path) -> None:
    one, other = write_photos(tmp_path / "one", 1), write_photos(tmp_path / "other", 1)
    source = open_library(Given((str(one), str(other))))
    extra = describe_collection(source, tmp_path / "index", 0.0)
    assert watched_places(tmp_path / "index", extra) == [one, other]


@pytest.mark.parametrize("name", ["a.tar", "train-{000..002}.tar", "*.tar", "deeper*/*.tar", "table.tsv"])
def test_the_folder_of_a_file_is_watched(tmp_path: Path, name: str) -> None:
    extra = {"source": f"{tmp_path}/{name}", "relative": False}
    assert watched_places(tmp_path, extra) == [tmp_path]


def test_an_old_index_does_not_say(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too old to say what it was made of"):
        watched_places(tmp_path, {})


def test_changes_of_indexes_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    index, other = tmp_path / "index", tmp_path / "other"
    for folder in (index, other):
        (folder / "data-1").mkdir(parents=True)
        (folder / "index.json").touch()
    ignored = [
        *(index / "index.json", index / "thumbnails" / "ab" / "x.webp", other / "data-1" / "x", other / "y"),
        *(tmp_path / ".hidden", tmp_path / ".git" / "photo.jpg", tmp_path / "photo.jpg.tmp"),
    ]
    assert [path for path in ignored if not is_ignored(path, index)] == []
    for path in (tmp_path / "photo.jpg", tmp_path / "folder", tmp_path / "a" / "b" / "photo.txt"):
        assert not is_ignored(path, index)


def test_the_name_of_what_is_watched_hides_no_change(tmp_path: Path) -> None:
    index = tmp_path / "index"
    for place in (tmp_path / "here" / ".." / "photos", tmp_path / ".photos"):
        assert not is_ignored(place / "2019" / "photo.jpg", index, [tmp_path / "other", place])
        assert is_ignored(place / ".trash" / "photo.jpg", index, [place])
        assert is_ignored(place / ".hidden", index, [place])
        assert not is_ignored(place / ".hidden" / "photo.jpg", index, [place], hidden=True)
        assert is_ignored(index / "data-1" / "x", index, [place])
    places = [tmp_path, tmp_path / ".photos"]
    for order in (places, places[::-1]):
        assert not is_ignored(tmp_path / ".photos" / "photo.jpg", index, order)
        assert is_ignored(tmp_path / ".others" / "photo.jpg", index, order)


def test_changes_below_a_place_that_is_named_by_the_folder_above_count(tmp_path: Path) -> None:
    from watchfiles import watch

    (tmp_path / ".photos").mkdir()
    (tmp_path / "here").mkdir()
    place = tmp_path / "here" / ".." / ".photos"
    changes = watch(place, rust_timeout=100, yield_on_timeout=True, watch_filter=None)
    next(changes)
    (place / "photo.jpg").touch()
    found = next(filter(None, changes))
    assert [is_ignored(Path(path), tmp_path / "index", [place]) for _, path in found] == [False] * len(found)
