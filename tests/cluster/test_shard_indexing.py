"""Shards that a cluster made give the answers of one index, hit by hit and score by score."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lexlip.cluster.shard_indexer import ShardWork
from lexlip.cluster.shard_queue import ShardQueue
from lexlip.data import Scenes
from lexlip.errors import DataError, ModelError
from lexlip.indexing.api import index
from lexlip.models.contract import EncodingSettings
from lexlip.retrieval.filters import Filters
from lexlip.search.answering import How
from lexlip.search.engines.shard import read_sharded
from lexlip.search.photo_map import Box
from lexlip.search.photo_search import PhotoSearch
from tests.cluster.conftest import add_photos, processors_taken, sharded_index, write_tars
from tests.data.test_facts import gps

Run = Callable[..., Result]
QUERIES = ["a dog", "two dogs on the grass", "a red ball -dog", "man^2 +dog", "a dog and a man"]


def answers(folder: Path) -> list[Any]:
    with PhotoSearch(folder) as search:
        return answers_of(search)


def answers_of(search: PhotoSearch, k: int = 50) -> list[Any]:
    """What an index answers, less times and the names of its states."""
    found = [search.text(query, k, suggest=5).to_dict() for query in QUERIES]
    page = search.text("a dog", 4, suggest=5)
    found += [page.to_dict(), search.text("a dog", 4, cursor=page.cursor).to_dict()]
    some = page.hits[0].id
    found += [search.similar(some, 20, group=True).to_dict(), search.words({"dog": 1.0}, 30).to_dict()]
    below: How = {"filters": Filters(folder=some.partition("/")[0], caption="dog")}
    found.append(search.text("a dog", k, **below).to_dict())
    with search.now() as (_, photos):
        known = [photos.facets(), photos.dates(), sorted(photos.paths().items()), photos.read(some)]
    plain = [{name: one[name] for name in one if name not in ("ms", "cursor")} for one in found]
    return [*plain, *known, [one["cursor"] is None for one in found]]


def by_cluster(lexlip: Run, model: Path, *options: object, code: int = 0) -> dict[str, Any]:
    result = lexlip(
        "index", "tars/*.tar", "--ray", "local", "--index", "many", "--model", model, "--json", *options,
        code=code,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_shards_answer_as_one_index_and_a_later_run_indexes_only_what_is_missing(
    lexlip: Run, tmp_path: Path, model_folder: Path
) -> None:
    tars = write_tars(tmp_path / "tars")
    whole = tars[1].read_bytes()
    tars[1].write_bytes(b"no tar at all" * 100)
    done = by_cluster(lexlip, model_folder)
    assert (done["photos"], done["resumed"]) == (14, 0)
    assert [place["id"] for place in done["unlisted"]] == ["01.tar"]
    assert done["unlisted"][0]["reason"].startswith(f"{tars[1]} cannot be read: ")
    assert [shard["tar"] for shard in read_sharded(tmp_path / "many").shards] == ["00.tar", "02.tar"]
    former = read_sharded(tmp_path / "many").directory

    tars[1].write_bytes(whole)
    write_tars(tmp_path / "tars", 1, first=3)
    done = by_cluster(lexlip, model_folder)
    assert (done["photos"], done["unchanged"], done["unlisted"]) == (28, 14, [])
    index("tars/*.tar", "one", model_folder)
    assert answers(tmp_path / "many") == answers(tmp_path / "one")
    folders = {path.name for path in (tmp_path / "many").iterdir()} - {"index.json", "writer.lock"}
    assert folders == {former, read_sharded(tmp_path / "many").directory}  # the one before stays

    written = (tmp_path / "many" / "index.json").read_bytes()
    assert by_cluster(lexlip, model_folder)["unchanged"] == 28
    assert (tmp_path / "many" / "index.json").read_bytes() == written
    assert by_cluster(lexlip, model_folder, "--anew").keys().isdisjoint({"added", "unchanged"})
    assert (tmp_path / "many" / "index.json").read_bytes() != written
    assert answers(tmp_path / "many") == answers(tmp_path / "one")


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_without_free_processors_it_ends_and_with_one_it_makes_all_shards(
    lexlip: Run, tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.cluster.shard_queue.FREED", 3.0)
    write_tars(tmp_path / "tars", 1)
    assert by_cluster(lexlip, model_folder)["photos"] == 7
    write_tars(tmp_path / "tars", 2, first=1)
    written, was = (tmp_path / "many" / "index.json").read_bytes(), answers(tmp_path / "many")
    with processors_taken() as has:
        said = lexlip("index", "--update", "--index", "many", "--ray", "local", code=2).stderr
        assert f"in 3 seconds: {has} of {has} processors are taken; wait for them" in said
        assert "Traceback" not in said
        assert (tmp_path / "many" / "index.json").read_bytes() == written
        assert answers(tmp_path / "many") == was
    with processors_taken(but=1):
        done = by_cluster(lexlip, model_folder)
        assert (done["photos"], done["unchanged"], done["unlisted"]) == (21, 7, [])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_cluster_with_another_model_is_one_sentence(tmp_path: Path, model_folder: Path) -> None:
    (tar,) = write_tars(tmp_path / "tars", 1)
    work = ShardWork(str(tar), str(tar.parent), tar.stat().st_size, str(tmp_path / "shard"))
    settings = EncodingSettings(str(model_folder), "another", "cpu", 32, "unit", 0)
    with pytest.raises(ModelError, match=r"^.* and another where the command runs: install the same on .*$"):
        ShardQueue(settings, 1, False).run([work])


def test_what_it_cannot_do_is_one_sentence(lexlip: Run, tmp_path: Path, model_folder: Path) -> None:
    write_tars(tmp_path / "tars", 1)
    to = ("--ray", "local", "--index", "many", "--model", model_folder)
    assert "--exclude is not for --ray" in lexlip("index", "tars", *to, "--exclude", "x", code=2).stderr
    assert "there is no index many to update" in lexlip("index", "tars", *to, "--update", code=2).stderr
    assert "--ray takes one SOURCE" in lexlip("index", "tars", "tars", *to, code=2).stderr
    assert "no tar matches" in lexlip("index", "nothing/*.tar", *to, code=2).stderr
    assert "not one" in lexlip("index", "tars", *to[:-1], "bm25", code=2).stderr
    assert "no Ray cluster at 'localhost:1'" in lexlip(
        "index", "tars", "--ray", "localhost:1", "--index", "many", "--model", model_folder, code=2
    ).stderr  # fmt: skip
    (tmp_path / "photos").mkdir()
    assert "holds no tars" in lexlip("index", "photos", *to, code=2).stderr
    assert not (tmp_path / "many").exists()


def test_shards_are_explained_by_their_model_and_exported_as_one_index(
    lexlip: Run, tmp_path: Path, model_folder: Path
) -> None:
    many = sharded_index(tmp_path, model_folder, 2)
    by_model = lexlip("explain", "a dog", "--model", model_folder).stdout
    assert lexlip("explain", "a dog", "--index", many).stdout == by_model
    index("tars/*.tar", "one", model_folder, quantization="unit")
    points = []
    for folder in ("many", "one"):
        lexlip("export", "qdrant", "--index", folder, "--output", f"of-{folder}")
        written = [json.loads(path.read_text()) for path in Path(f"of-{folder}").glob("documents-*")]
        points.append(sorted((point for one in written for point in one["points"]), key=lambda p: p["id"]))
    assert points[0] == points[1]
    assert len(points[0]) == 14


def test_captions_of_all_shards_are_searched_together(
    lexlip: Run, tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = sharded_index(tmp_path, model_folder, 2)
    index("tars/*.tar", "one", model_folder, quantization="unit")

    def found(folder: Path) -> list[tuple[str, float]]:
        with PhotoSearch(folder, captions=True) as search:
            return [(hit.id, hit.score) for hit in search.text("a brown dog jumps", 30).hits]

    assert found(many) == found(tmp_path / "one")
    with PhotoSearch(many, captions=True) as search:
        add_photos(tmp_path / "tars" / "01.tar", caption="a zebra")
        assert json.loads(lexlip("index", "--update", "--index", many, "--json").stdout)["added"] == 1
        assert search.refresh()
        assert search.text("zebra", 1).hits[0].id == "01.tar/9.jpg"

    with monkeypatch.context() as patch:
        patch.setattr("lexlip.indexing.bm25.has_anserini", lambda: False)
        write_tars(tmp_path / "tars", 1, first=2)
        assert "of 22 photos cannot be searched" in lexlip("index", "--update", "--index", many).stderr
        with pytest.raises(DataError, match="Anserini was missing"):
            PhotoSearch(many, captions=True)
    lexlip("index", "--update", "--index", many)  # makes up for it
    assert len(found(many)) == 22


def test_places_of_shards_are_those_of_one_index(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def placed(scenes: Scenes, number: int) -> bytes:
        picture = io.BytesIO()
        scenes.image(number).save(picture, "JPEG", exif=gps(t2=(48, 10 * number, 0)) if number else b"")
        return picture.getvalue()

    monkeypatch.setattr("tests.cluster.conftest.jpeg_of", placed)
    many = sharded_index(tmp_path, model_folder, tars=2)
    index(f"{tmp_path}/tars/*.tar", tmp_path / "one", model_folder)
    europe = Box(-10, 35, 30, 70)
    with PhotoSearch(many) as shards, PhotoSearch(tmp_path / "one") as one:
        near = Filters(near="48.4,11.5", within="30km")
        found = [search.text("a dog", 20, filters=near, sort="place").hits for search in (shards, one)]
        assert {hit.id for hit in found[0]} == {hit.id for hit in found[1]}
        assert [hit.latitude for hit in found[0]] == [hit.latitude for hit in found[1]]
        assert len(found[0]) > 3
        assert shards.spots(europe, 4, 4) == one.spots(europe, 4, 4)
        assert sum(spot.photos for spot in one.spots(europe, 4, 4)) > 3
        typed = "/home/me/tars/01.tar/3.jpg"
        assert shards.text(typed).hits[0].id == one.text(typed).hits[0].id == "01.tar/3.jpg"
