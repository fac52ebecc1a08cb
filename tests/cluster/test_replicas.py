"""Replicas answer as one process does, and come back."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lexlip.cluster.replicas import FileGiver, ReplicaGroups, ShardPlace, ShardUnavailable, copied
from lexlip.cluster.session import cause_of, connected
from lexlip.cluster.shard_updating import update_shards
from lexlip.errors import ConfigError, FixableError
from lexlip.search.engines.shard import files_of, read_sharded
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.impact import ShardedStage
from tests.cluster.conftest import add_photos, processors_taken, sharded_index, write_tars
from tests.cluster.test_shard_indexing import answers_of

Run = Callable[..., Result]


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """A process hangs in the `with` block, without dying."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def search_in(index: Path, **how: Any) -> PhotoSearch:
    stage: Any = ShardedStage(index, shards=ReplicaGroups(index, read_sharded(index), **how))
    return PhotoSearch.of(stage)


@pytest.mark.usefixtures("cluster")
def test_replicas_answer_as_one_process_does(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr("lexlip.cluster.replicas.FREED", 1.0)
    with processors_taken(but=1) as has:
        why = f"need 2 processors, and {has - 1} of the cluster's {has} are taken"
        with pytest.raises(ConfigError, match=why):
            search_in(index)


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
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
@pytest.mark.slow
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


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_a_replica_that_hangs_is_asked_once(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = sharded_index(tmp_path, model_folder, tars=1)
    with search_in(index, replicas=2) as far, PhotoSearch(index) as near:
        right = answers_of(near)
        assert answers_of(far) == right
        shards = far.stage.searcher.shards
        (_, hung), (_, other) = shards.members()[0]
        asked, send = [0, 0], ReplicaGroups._send

        def counting(*arguments: Any) -> Any:
            member, answer = send(*arguments)
            asked[shards._shards[0][0].members.index(member)] += 1
            return member, answer

        monkeypatch.setattr(ReplicaGroups, "_send", counting)
        with stopped(hung):
            assert answers_of(far) == answers_of(far) == right
            assert (asked[0], asked[1] > 20) == (1, True)
        end = time.monotonic() + 60
        while asked[0] < 10:  # it goes on, and is asked again
            assert time.monotonic() < end
            assert answers_of(far) == right
        monkeypatch.setattr("lexlip.cluster.replicas.PATIENCE", 2.0)
        with stopped(hung), stopped(other), pytest.raises(ShardUnavailable, match=r"the shard 00\.tar"):
            answers_of(far)
        monkeypatch.setattr("lexlip.cluster.replicas.PATIENCE", 60.0)
        assert answers_of(far) == right


@pytest.mark.usefixtures("cluster")
def test_a_copy_that_cannot_be_made_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, model_folder: Path, cache_home: Path
) -> None:
    import ray
    from ray.exceptions import RayError

    index = sharded_index(tmp_path, model_folder, tars=1)
    metadata = read_sharded(index)
    files = files_of(metadata, metadata.shards[0])
    folder = index / metadata.directory / metadata.shards[0]["folder"]
    actor: Any = ray.remote(FileGiver)
    giver = actor.options(num_cpus=0).remote()
    served = cache_home / "lexlip" / "served" / "index"

    def refused(files: dict[str, str], folder: Path = folder) -> str:
        with pytest.raises(FixableError) as error:
            copied(ShardPlace(str(folder), files, "version", "index"), giver)
        assert list(served.iterdir()) == []
        return str(cause_of(error.value) if isinstance(error.value, RayError) else error.value)

    last = next(reversed(files))
    assert refused({**files, f"{last}/below": ""}).startswith(f"cannot write {served}/version on ")
    said = refused(files, tmp_path / "nowhere")
    assert f" cannot read {tmp_path}/nowhere/" in said
    assert "cannot write" not in said
    assert "is not as it was indexed" in refused({**files, last: "another"})
    copy = copied(ShardPlace(str(folder), files, "version", "index"), giver)
    assert list(served.iterdir()) == [copy]
    assert {name: (copy / name).read_bytes() for name in files} == {
        name: (folder / name).read_bytes() for name in files
    }


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
