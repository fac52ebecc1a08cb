"""Processes and machines die under load: replicas take over from one another, and come back."""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from lexlip.bench.serving import running_server
from lexlip.cluster.replicas import ReplicaGroups
from lexlip.cluster.session import connected
from lexlip.cluster.shard_indexing import index_shards
from lexlip.cluster.shard_updating import update_shards
from lexlip.errors import DataError, FixableError
from lexlip.indexing.api import index
from lexlip.search.engines.shard import read_sharded
from lexlip.search.photo_search import PhotoSearch
from tests.cluster.conftest import add_photos, sharded_index, write_tars
from tests.cluster.test_replicas import search_in
from tests.cluster.test_shard_indexing import QUERIES, answers


@pytest.fixture
def two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without processors, and two nodes whose disks are folders apart."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for name in ("a", "b"):
        made.add_node(num_cpus=2, env_vars={"XDG_CACHE_HOME": str(tmp_path / f"disk-{name}")})
    try:
        yield made
    finally:
        made.shutdown()


class Load:
    """Threads that ask without a pause in a `with` block, at the end of which no call may have failed.

    Args:
        ask: asks everything once.
        threads: how many.
    """

    def __init__(self, ask: Callable[[], None], threads: int) -> None:
        self.rounds, self.failed = 0, list[str]()
        self._ask, self._over = ask, threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._ask()
                self.rounds += 1
            except FixableError as error:
                self.failed.append(str(error))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert self.failed == []


@pytest.mark.slow
def test_processes_and_machines_die_under_load(two_machines: Any, tmp_path: Path, model_folder: Path) -> None:
    """No answer is wrong, no call fails, and two replicas of each shard are there again."""
    folder = sharded_index(tmp_path, model_folder, tars=2)
    with PhotoSearch(folder) as near:
        right = {query: hits(near, query) for query in QUERIES}
    wrong: list[str] = []
    with connected(two_machines.address), search_in(folder, replicas=2, copy=True) as far:
        shards = far.stage.searcher.shards
        before = shards.members()
        for group in before:  # on both machines, from disks of their own
            assert len({machine for machine, _ in group}) == 2
        for disk in ("disk-a", "disk-b"):
            copies = list((tmp_path / disk / "lexlip" / "served").glob("*/shard-*/index.json"))
            assert len(copies) == 2

        def ask() -> None:
            wrong.extend(query for query in QUERIES if hits(far, query) != right[query])

        with Load(ask, 3) as load:
            time.sleep(1)
            os.kill(before[0][0][1], signal.SIGKILL)
            again = wait_for(shards, lambda now: before[0][0] not in now[0])
            assert [len(set(group)) for group in again] == [2, 2]

            nodes = {node.node_id: node for node in two_machines.worker_nodes}
            gone = again[0][0][0]
            two_machines.remove_node(nodes[gone])
            two_machines.add_node(num_cpus=2, env_vars={"XDG_CACHE_HOME": str(tmp_path / "disk-c")})
            again = wait_for(shards, lambda now: gone not in {m for group in now for m, _ in group})
            assert [len(set(group)) for group in again] == [2, 2]
            rounds = load.rounds
            time.sleep(2)
            assert load.rounds > rounds
        assert load.rounds > 4
        assert wrong == []


@pytest.mark.slow
def test_a_replica_dies_while_photos_are_added(two_machines: Any, tmp_path: Path, model_folder: Path) -> None:
    """Every answer is of a single state, none fails, and the new state comes although replicas died."""
    folder = sharded_index(tmp_path, model_folder, tars=2)
    states: list[dict[str, Any]] = []
    newest: dict[int, int] = {}  # by thread, of the states that it saw
    wrong: list[str] = []

    def know() -> None:
        with PhotoSearch(folder) as near:
            states.append({query: hits(near, query) for query in QUERIES})

    know()
    with connected(two_machines.address), search_in(folder, replicas=2, copy=True) as far:
        shards = far.stage.searcher.shards

        def ask() -> None:
            seen = newest.setdefault(threading.get_ident(), 0)
            for query in QUERIES:
                found = hits(far, query)
                fitting = [n for n, one in enumerate(states) if one[query] == found]
                if not fitting or fitting[-1] < seen:  # of no state, or of one before that was seen
                    wrong.append(query)
                else:
                    seen = newest[threading.get_ident()] = max(seen, fitting[0])

        with Load(ask, 2) as load:
            for photos in (1, 2, 3):
                add_photos(tmp_path / "tars" / f"{photos % 2:02d}.tar", photos)
                update_shards(folder)
                know()
                (process,) = {one[0][1] for one in shards.members()[photos % 2 : photos % 2 + 1]}
                moving = threading.Thread(target=far.refresh)
                moving.start()
                time.sleep(0.02 * photos)
                os.kill(process, signal.SIGKILL)  # of the shard that gets the photos
                moving.join()
                shards = far.stage.searcher.shards
                assert {query: hits(far, query) for query in QUERIES} == states[-1]
            again = wait_for(shards, lambda now: all(len(set(group)) == 2 for group in now))
            assert len(again) == 2
        assert states[0] != states[1] != states[2] != states[3]
        assert load.rounds > 4
        assert wrong == []


@pytest.mark.slow
def test_a_machine_that_cannot_copy_is_one_sentence(
    two_machines: Any, tmp_path: Path, model_folder: Path
) -> None:
    folder = sharded_index(tmp_path, model_folder, tars=2)
    in_the_way = tmp_path / "disk-b" / "lexlip"
    in_the_way.parent.mkdir()
    in_the_way.touch()

    def said() -> str:
        with pytest.raises(DataError) as error:
            search_in(folder, replicas=2, copy=True)
        return str(error.value)

    with connected(two_machines.address):
        assert re.fullmatch(rf"cannot write {in_the_way}/.* on .*: Not a directory; XDG_CACHE_HOME.*", said())
        in_the_way.unlink()
        metadata = read_sharded(folder)
        missing = folder / metadata.directory / metadata.shards[1]["folder"] / "index.json"
        missing.rename(missing.with_suffix(".away"))
        assert re.fullmatch(rf".* cannot read {missing}: No such file or directory", said())
        missing.with_suffix(".away").rename(missing)
        with search_in(folder, replicas=2, copy=True) as far, PhotoSearch(folder) as near:
            assert [hits(far, query) for query in QUERIES] == [hits(near, query) for query in QUERIES]


def hits(search: PhotoSearch, query: str) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in search.text(query, 10).hits]


def wait_for(shards: ReplicaGroups, there: Callable[[list[list[tuple[str, int]]]], bool]) -> Any:
    """Return the replicas as soon as they are as they should be."""
    end = time.monotonic() + 600
    while True:
        try:
            now = shards.members(10)
            if there(now):
                return now
        except FixableError:
            pass
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_the_server_asks_replicas(tmp_path: Path, model_folder: Path) -> None:
    folder = sharded_index(tmp_path, model_folder, tars=2)
    with (
        running_server(folder, None, ["--ray", "local"]) as (address, _, _),
        httpx2.Client(base_url=address, timeout=60) as client,
    ):
        found = client.get("/api/search", params={"q": "a dog", "k": 10}).json()["hits"]
        picture = client.get(f"/api/photos/{found[0]['key']}/thumbnail", params={"width": 320})
        with PhotoSearch(folder) as near:
            assert [(hit["id"], hit["score"]) for hit in found] == hits(near, "a dog")
        assert picture.headers["content-type"] == "image/webp"

        add_photos(tmp_path / "tars" / "01.tar", 2)
        assert client.post("/api/update", json={}).status_code == 202
        end = time.monotonic() + 600
        while (status := client.get("/api/status").json())["update"]["running"]:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert (status["documents"], status["update"]["message"][:7]) == (16, "2 added"), status
        now = client.get("/api/search", params={"q": "a dog", "k": 10}).json()["hits"]
        with PhotoSearch(folder) as near:
            assert [(hit["id"], hit["score"]) for hit in now] == hits(near, "a dog")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_shard_whose_process_dies_is_made_by_another(tmp_path: Path, model_folder: Path) -> None:
    write_tars(tmp_path / "tars", tars=2)
    killed: list[int] = []

    def kill_one() -> None:
        end = time.monotonic() + 300
        while not killed and time.monotonic() < end:
            killed.extend(indexers()[:1])
            time.sleep(0.1)
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    done = index_shards(tmp_path / "tars", tmp_path / "many", model_folder, "local", workers=0)
    killer.join()
    assert (done.photos, done.unlisted, len(killed)) == (14, [], 1)
    index(tmp_path / "tars", tmp_path / "one", model_folder)
    assert answers(tmp_path / "many") == answers(tmp_path / "one")


def indexers() -> list[int]:
    """The processes that index, of the Ray that this process started."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(path.name)] = (path / "cmdline").read_bytes()
    return [
        pid
        for pid, name in names.items()
        if name.startswith(b"ray::ShardIndexer") and parents.get(parents[pid]) == os.getpid()
    ]
