"""Each answer is of one state of an index, of any kind, while writers replace and update it."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import update_index
from anserini_bridge.bm25 import Bm25Searcher
from lexlip.data import open_source
from lexlip.indexing.update import update_photos
from lexlip.retrieval import first_stage
from lexlip.search.engines.faiss_index import FaissIndex
from lexlip.search.photo_search import PhotoSearch
from tests.conftest import write_photos
from tests.search.indexes import LISTED, Indexed, index_bm25, index_dense, index_words

SENTENCE = "two dogs play in the snow"
Write = Callable[[Path, Path], Path]
KINDS = ("words", "words and captions", "words and bm25", "hnsw", "bm25")


def writer_of(kind: str, indexed: Indexed, model: Path) -> Write:
    """What makes an index of photos."""
    if kind.startswith("words"):
        return lambda photos, index: index_words(model, photos, index)
    if kind == "bm25":
        return index_bm25
    return lambda photos, index: index_dense(indexed.dense_model, photos, index, ann="hnsw")


def open_search(kind: str, index: Path, indexed: Indexed) -> PhotoSearch:
    also = indexed.bm25 if kind.endswith("and bm25") else None
    return PhotoSearch(index, also=also, captions=kind.endswith("captions"))


def states(folder: Path) -> list[Path]:
    """Folders of the same photos and others: those of each one have names of their own."""
    made = []
    for number in range(3):
        photos = write_photos(folder / f"state{number}", 6)
        for path in list(photos.iterdir()):
            path.rename(photos / f"{number}-{path.name}")
        made.append(photos)
    return made


def check(search: PhotoSearch, kind: str, k: int = 30) -> str:
    """Return the state that an answer is of."""
    answer = search.text(SENTENCE, k, suggest=3)
    own = [hit for hit in answer.hits if "-" in hit.id]  # others are of the second index, which stays
    (state,) = {hit.id.partition("-")[0] for hit in own}
    for hit in own:
        assert Path(hit.path) == Path(hit.path).parents[1] / f"state{state}" / hit.id
        assert hit.width > 0
    if kind not in ("bm25", "words", "words and bm25"):
        assert len(own) == 6
    return state


@pytest.mark.parametrize("kind", KINDS[1:])
def test_answers_while_the_index_is_replaced(
    kind: str, indexed: Indexed, tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.search.photo_search.check_same_photos", lambda *args: None)
    write, folders, index = writer_of(kind, indexed, model_folder), states(tmp_path), tmp_path / "index"
    write(folders[0], index)
    done = False

    def ask(search: PhotoSearch) -> set[str]:
        seen = set()
        while not done:
            seen.add(check(search, kind))
        return seen

    def follow(search: PhotoSearch) -> None:
        while not done:
            search.refresh()

    with open_search(kind, index, indexed) as search, ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, search) for _ in range(2)]
        following = [pool.submit(follow, search) for _ in range(2)]
        try:
            for number in (1, 2, 0, 1, 2):
                write(folders[number], index)
                with open_search(kind, index, indexed) as other:
                    assert check(other, kind) == str(number)
        finally:
            done = True
        seen = set().union(*(one.result() for one in asking))
        assert all(one.result() is None for one in following)
        assert seen <= {"0", "1", "2"}
        assert len(seen) > 1
        search.refresh()
        assert check(search, kind) == "2"


@pytest.mark.parametrize("kind", ["words", "words and captions", "words and bm25"])
def test_answers_while_the_index_is_updated_and_optimized(
    kind: str, indexed: Indexed, photos: Path, tmp_path: Path, model_folder: Path
) -> None:
    """All photos have new names after each update, so that no two states share one."""
    photos = shutil.copytree(indexed.photos, tmp_path / "photos", dirs_exist_ok=True)
    index = index_words(model_folder, photos, tmp_path / "index")
    done = False

    def ask(search: PhotoSearch) -> None:
        while not done:
            answer = search.text(SENTENCE, 30, suggest=2)
            own = [hit for hit in answer.hits if hit.id.startswith("u")]
            assert len({hit.id[:2] for hit in own}) <= 1
            assert all(hit.width > 0 and Path(hit.path).name == hit.id for hit in own)
            if kind == "words":
                assert all(sum(hit.words.values()) == pytest.approx(hit.score) for hit in own)

    also = {"words and captions": {"captions": True}}.get(kind, {})
    with PhotoSearch(index, **also) as search, ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask, search) for _ in range(2)]
        try:
            for number in range(4):
                for path in list(photos.glob("*")):
                    path.rename(photos / f"u{number}{path.name[-5:]}")
                update_photos(open_source(photos), LISTED + number, index, workers=0, prune=True)
                if number % 2:
                    with update_index(index) as writer:
                        writer.optimize()
                search.refresh()
        finally:
            done = True
        for one in asking:
            one.result()


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, before: Callable[[], object]) -> None:
    """Let something happen just before a function is called for the first time."""
    original, left = getattr(owner, name), [before]

    def called(*args: Any, **kwargs: Any) -> Any:
        while left:
            left.pop()()
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opened", [False, True], ids=["open", "refresh"])
def test_an_index_that_is_replaced_between_two_looks(
    kind: str,
    opened: bool,
    indexed: Indexed,
    tmp_path: Path,
    model_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its table, its captions or its vectors are of another state than what was read before."""
    monkeypatch.setattr("lexlip.search.photo_search.check_same_photos", lambda *args: None)
    write, folders, index = writer_of(kind, indexed, model_folder), states(tmp_path), tmp_path / "index"
    for look in ((first_stage, "open_photos"), (FaissIndex, "load"), (Bm25Searcher, "__init__")):
        write(folders[0], index)
        with monkeypatch.context() as patch:
            if not opened:
                once(patch, *look, lambda: write(folders[2], index))
                with open_search(kind, index, indexed) as search:
                    check(search, kind)
                continue
            with open_search(kind, index, indexed) as search:
                write(folders[1], index)
                once(patch, *look, lambda: write(folders[2], index))
                search.refresh()
                check(search, kind)
