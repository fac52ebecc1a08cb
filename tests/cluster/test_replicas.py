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
from lexlip.errors import ConfigError, FixableError
from lexlip.search.engines.shard import read_sharded
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.sharded import ShardedStage
from tests.cluster.conftest import sharded_index
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
    assert "--watch is not for --ray" in lexlip("serve", "--ray", "local", "--watch", code=2).stderr
