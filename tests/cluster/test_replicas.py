"""Replicas answer as one process does, and come back."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lexlip.cluster.replicas import ReplicaGroups
from lexlip.cluster.session import connected
from lexlip.cluster.shard_updating import update_shards
from lexlip.errors import ConfigError, FixableError
from lexlip.search.engines.shard import read_sharded
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.sharded import ShardedStage
from tests.cluster.conftest import add_photos, sharded_index, write_tars
from tests.cluster.test_shard_indexing import answers_of

Run = Callable[..., Result]


def search_in(index: Path, **how: Any) -> PhotoSearch:
    stage: Any = ShardedStage(index, shards=ReplicaGroups(index, read_sharded(index), **how))
    return PhotoSearch.of(stage)


@pytest.mark.usefixtures("cluster")
def test_replicas_answer_as_one_process_does(tmp_path: Path, model_folder: Path) -> None:
    index = sharded_index(tmp_path, model_folder, tars=2)
    with search_in(index) as far, PhotoSearch(index) as near:
        assert answers_of(far) == answers_of(near)
        with pytest.raises(FixableError, match="holds no photo"):
            far.photo("00.tar/none.jpg")
        (one,), (other,) = far.stage.searcher.shards.members()
        assert one[1] != other[1]
        os.kill(one[1], signal.SIGKILL)  # without a second replica the call waits for the new process
        assert answers_of(far) == answers_of(near)
        assert far.stage.searcher.shards.members()[0][0] != one
    with pytest.raises(ConfigError, match="need 6 processors, and the cluster has 2"):
        search_in(index, replicas=3)


@pytest.mark.usefixtures("cluster")
def test_a_new_state_is_searched_once_all_replicas_have_it(tmp_path: Path, model_folder: Path) -> None:
    index = sharded_index(tmp_path, model_folder, tars=1)
    with search_in(index, replicas=2) as far:
        before, processes = answers_of(far), far.stage.searcher.shards.members()
        add_photos(tmp_path / "tars" / "00.tar")
        assert update_shards(index).added == 1
        assert answers_of(far)[:5] == before[:5]
        with far.now() as (held, photos):
            assert far.refresh()
            assert (len(photos), len(held.searcher)) == (7, 7)  # whoever searches still has the old state
            assert photos.get(["00.tar/9.jpg"]) == [None]
            assert not far.refresh()
        with PhotoSearch(index) as near:
            after = answers_of(near)
            assert answers_of(far) == after != before
        assert far.stage.searcher.shards.members() == processes  # the same, which were not started anew
        os.kill(processes[0][0][1], signal.SIGKILL)  # comes back with the new state
        assert answers_of(far) == after
        again = far.stage.searcher.shards.members()
        assert (again[0][1], again[0][0] == processes[0][0]) == (processes[0][1], False)
        assert answers_of(far) == after


@pytest.mark.usefixtures("cluster")
def test_a_state_that_one_replica_cannot_open_is_searched_nowhere(tmp_path: Path, model_folder: Path) -> None:
    index = sharded_index(tmp_path, model_folder, tars=2)
    with search_in(index) as far:
        before = answers_of(far)
        add_photos(tmp_path / "tars" / "01.tar")
        update_shards(index)
        metadata = read_sharded(index)
        changed = index / metadata.directory / metadata.shards[1]["folder"] / "index.json"
        whole = changed.read_bytes()
        changed.write_bytes(whole + b" ")
        with pytest.raises(FixableError, match="is not the shard that was indexed"):
            far.refresh()
        assert answers_of(far)[:5] == before[:5]
        changed.write_bytes(whole)
        write_tars(tmp_path / "tars", 1, first=2)
        update_shards(index)
        with pytest.raises(ConfigError, match="3 shards in 1 replicas need 3 processors"):
            far.refresh()
        assert answers_of(far)[:5] == before[:5]
        (tmp_path / "tars" / "00.tar").unlink()
        update_shards(index, prune=True)
        (tmp_path / "tars" / "02.tar").unlink()
        update_shards(index, prune=True)
        assert far.refresh()
        with PhotoSearch(index) as near:
            assert answers_of(far) == answers_of(near)


@pytest.mark.parametrize(
    ("address", "why"), [("localhost:1", "Connection refused"), ("ray://head", "give local, auto or HOST")]
)
def test_a_cluster_that_is_not_there_is_one_sentence(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why), connected(address):
        pass


def test_an_index_without_shards_is_served_without_ray(lexlip: Run, photos: Path, model_folder: Path) -> None:
    lexlip("index", photos, "--index", "one", "--model", model_folder)
    said = lexlip("serve", "--index", "one", "--ray", "local", code=2).stderr
    assert "--ray searches shards, and one has none" in said
    assert "--replicas is for --ray" in lexlip("serve", "--index", "one", "--replicas", 2, code=2).stderr
