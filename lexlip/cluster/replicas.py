"""The shards of an index on a cluster: a group of replicas for each, which take over from one another.

A replica is an actor with a JVM of its own. Ray starts it again, on another machine if need be, when its
process or its machine has died. Until it is back, the other replicas of the group answer; a call that was
lost is asked again, as calls change nothing.

A shard never changes; the shard of a tar that has changed is another version. All replicas of all shards open
the versions of another state of the index beside those that are searched; only then is it searched. If one of
them cannot, the old state stays everywhere. Every call says which version it is for, so no answer mixes two
states, whatever dies meanwhile.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anserini_bridge import BridgeError, start_jvm
from anserini_bridge.jvm import SMALL_GARBAGE
from anserini_bridge.storage import METADATA_FILE, replace_folder
from lexlip.cluster.session import cause_of
from lexlip.data.files import cache_folder
from lexlip.errors import ConfigError, DataError, FixableError, writing
from lexlip.search.cursors import digest
from lexlip.search.engines.shard import OpenShard, ShardedMetadata, files_of, version_of, wrong_files

START = 300.0  # seconds that replicas have to open a state of the index, copies included
TRY = 10.0  # seconds after which another replica is asked
PATIENCE = 30.0  # seconds after which a call fails, if no replica of the shard answers
REST = 1.0  # seconds for which a replica that failed is asked last
PAUSE = 0.1  # seconds between two rounds through a group, or two looks at a cluster
FREED = 10.0  # seconds in which a cluster has the processors back of those that ended
PIECE = 1 << 26  # bytes of a file that are sent at a time


class ShardPlace(NamedTuple):
    """Where a shard lies."""

    folder: str
    files: dict[str, str]  # checksums, by path in the folder
    version: str  # tells it from every other shard and every other state of it
    of_index: str  # stands for the index, so that two indexes' copies are kept apart


class FileGiver:
    """An actor on the machine where the server runs: it reads the files of shards for the replicas."""

    def read(self, file: str, start: int) -> bytes:
        """Return up to PIECE bytes of a file, or raise DataError."""
        with _reading(file), Path(file).open("rb") as opened:
            opened.seek(start)
            return opened.read(PIECE)


class NotOpen(NamedTuple):
    """The answer of a replica that does not have a version open, as it was started anew."""

    version: str


class Replica:
    """An actor of Ray that answers for a shard, one call at a time, while it may open another version.

    Args:
        giver: a `FileGiver` from which shards are copied to this machine's disk, into
            $XDG_CACHE_HOME/lexlip/served; None opens them where they lie.
    """

    def __init__(self, giver: Any = None) -> None:
        self._giver = giver
        self._open: dict[str, OpenShard] = {}
        start_jvm(SMALL_GARBAGE)

    def open(self, place: ShardPlace) -> tuple[str, int]:
        """Open a version, if it is not open yet; return the machine and the process."""
        import ray

        if place.version not in self._open:
            folder = Path(place.folder) if self._giver is None else copied(place, self._giver)
            with _reading(folder):
                if not (folder / METADATA_FILE).is_file():
                    raise DataError(
                        f"{socket.gethostname()} does not see {folder}: put the index where all machines see"
                        " it, or give --copy"
                    )
                self._open[place.version] = OpenShard(folder, place.files[METADATA_FILE])
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def keep(self, versions: Collection[str]) -> None:
        """Close all other versions."""
        for version in self._open.keys() - set(versions):
            self._open.pop(version).close()

    def call(self, version: str, method: str, *arguments: Any) -> Any:
        """Return what `OpenShard.ask` returns, or the error for the user that it raised."""
        shard = self._open.get(version)
        if shard is None:
            return NotOpen(version)
        try:
            return shard.ask(method, *arguments)
        except FixableError as error:
            return error


@contextmanager
def _reading(what: str | Path) -> Iterator[None]:
    """Turn an error of the operating system into one sentence, which names this machine."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{socket.gethostname()} cannot read {what}: {error.strerror or error}") from error


def copied(place: ShardPlace, giver: Any) -> Path:
    """Return the folder of this machine's own copy of a shard, which is made or renewed if it must be.

    Raises:
        DataError: it cannot be written here, or not be read where it lies; nothing of it is left here.
        BridgeError: what arrived is not what was indexed.
    """
    with writing(f"a copy of the index on {socket.gethostname()}"):
        home = cache_folder() / "served"
    folder = home / place.of_index / place.version
    if not wrong_files(folder, place.files):
        return folder
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")  # another replica may copy it too
    shutil.rmtree(temporary, ignore_errors=True)
    elsewhere = "; XDG_CACHE_HOME, set where Ray is started, names another place"
    try:
        with writing(f"{folder} on {socket.gethostname()}", elsewhere):
            for name in place.files:
                _copy(giver, f"{place.folder}/{name}", temporary / name)
            if wrong := wrong_files(temporary, place.files):
                raise BridgeError(
                    f"{place.folder}/{wrong[0]} is not as it was indexed:"
                    " `lexlip index --update --repair` mends the index"
                )
            if wrong_files(folder, place.files):
                replace_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _copy(giver: Any, file: str, to: Path) -> None:
    import ray

    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("wb") as written:
        while piece := ray.get(giver.read.remote(file, written.tell())):
            written.write(piece)


class ShardUnavailable(BridgeError):
    """No replica of a shard answers."""


class _Member:
    """A replica that is asked last while it hangs, and for a while after it failed."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start, self._resting = start, 0.0
        self._owed: Any = None  # an answer that is overdue: it comes when the replica goes on
        self.actor = start()

    def rest(self, error: Exception | None = None) -> None:
        """Ask it last for a while; one that Ray gave up is started anew."""
        from ray.exceptions import ActorDiedError

        now, gone = time.monotonic(), isinstance(error, ActorDiedError)
        if gone and self._resting < now:
            self.actor = self._start()
        self._resting = now + (TRY if gone else REST)

    def hang(self, answer: Any) -> None:
        """Ask it last until it gives an answer that is overdue, or its process dies."""
        if self._owed is None:
            self._owed = answer

    def rests(self) -> float:
        """Return for how many more seconds it is asked last: 0 for none, infinity while it hangs."""
        import ray

        owed = self._owed
        if owed is not None:
            if not ray.wait([owed], timeout=0)[0]:
                return math.inf
            self._owed = None
        return max(self._resting - time.monotonic(), 0.0)

    def open(self, place: ShardPlace) -> Any:
        """Begin to open a version, while others are searched."""
        return self.actor.open.options(concurrency_group="beside").remote(place)

    def keep(self, versions: Sequence[str]) -> None:
        """Close all other versions."""
        self.actor.keep.options(concurrency_group="beside").remote(versions)


class _Group:
    """The replicas of a tar's shard, on different machines as far as there are."""

    def __init__(self, tar: str, replicas: int, giver: Any) -> None:
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.tar = tar
        self.versions: Counter[str] = Counter()  # that are searched, with the number of states
        self._spread = placement_group([{"CPU": 1}] * replicas, strategy="SPREAD")
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": -1, "concurrency_groups": {"beside": 1}}
        actor: Any = ray.remote(**options)(Replica)
        places = [PlacementGroupSchedulingStrategy(self._spread, number) for number in range(replicas)]

        def starter(place: Any) -> Callable[[], Any]:
            return lambda: actor.options(scheduling_strategy=place).remote(giver)

        self.members = [_Member(starter(place)) for place in places]

    def used(self) -> None:
        """Close the versions that are not searched any more; without any the replicas end."""
        from ray.util.placement_group import remove_placement_group

        versions = [version for version, states in self.versions.items() if states]
        if not versions:
            remove_placement_group(self._spread)
            return
        for member in self.members:
            member.keep(versions)


class _Groups:
    """The groups of all shards of an index, by tar; states share them. For arguments see `ReplicaGroups`."""

    def __init__(self, index: Path, replicas: int, copy: bool) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.index, self.replicas = index.absolute(), replicas
        self.by_tar: dict[str, _Group] = {}
        self.lock = threading.Lock()
        self.giver: Any = None
        if copy:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
            actor: Any = ray.remote(FileGiver)
            self.giver = actor.options(scheduling_strategy=here, num_cpus=0, max_restarts=-1).remote()

    def take(self, metadata: ShardedMetadata) -> list[tuple[_Group, ShardPlace]]:
        """Return the shards of a state, once all replicas have them open; an error changes nothing."""
        places = {shard["tar"]: self._place(metadata, shard) for shard in metadata.shards}
        check_room(len(places.keys() - self.by_tar.keys()), len(self.by_tar), self.replicas)
        with self.lock:
            for tar in places.keys() - self.by_tar.keys():
                self.by_tar[tar] = _Group(tar, self.replicas, self.giver)
            shards = [(self.by_tar[tar], place) for tar, place in places.items()]
            for group, place in shards:
                group.versions[place.version] += 1
        try:
            open_all(shards)
        except BaseException:
            self.release(shards)
            raise
        return shards

    def release(self, shards: Sequence[tuple[_Group, ShardPlace]]) -> None:
        """Give the shards of a state back."""
        import ray

        with self.lock:
            for group, place in shards:
                group.versions[place.version] -= 1
                if not group.versions[place.version]:
                    group.used()
                if not group.versions.total():
                    del self.by_tar[group.tar]
            if not self.by_tar and self.giver is not None:
                ray.kill(self.giver)

    def _place(self, metadata: ShardedMetadata, shard: Any) -> ShardPlace:
        files = files_of(metadata, shard)
        folder = self.index / metadata.directory / shard["folder"]
        return ShardPlace(str(folder), files, version_of(shard, files), digest(str(self.index)))


class ReplicaGroups:
    """See `lexlip.search.engines.shards.Shards`; several threads may ask.

    Args:
        index, metadata: the folder of the sharded index, and what it says about itself.
        replicas: of each shard, on different machines as far as there are.
        copy: each replica copies its shard to its machine's own disk.
        groups: those of another state of the index, which are shared.

    Raises:
        ConfigError, DataError, BridgeError: the cluster is too small, or a replica cannot open its shard.
    """

    def __init__(
        self,
        index: Path,
        metadata: ShardedMetadata,
        replicas: int = 1,
        copy: bool = False,
        groups: _Groups | None = None,
    ) -> None:
        self._turns = itertools.count()
        self._groups = groups or _Groups(index, replicas, copy)
        self._shards = self._groups.take(metadata)

    def at(self, metadata: ShardedMetadata) -> ReplicaGroups:
        return ReplicaGroups(self._groups.index, metadata, groups=self._groups)

    def members(self, seconds: float = START) -> list[list[tuple[str, int]]]:
        """Return the machine and the process of every replica of each shard, once all have it open."""
        found = iter(open_all(self._shards, seconds))
        return [[next(found) for _ in group.members] for group, _ in self._shards]

    def ask(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        turn = next(self._turns)
        asked = {number: self._send(number, turn, method, given) for number, given in arguments.items()}
        return [
            self._answer(number, turn, method, arguments[number], *sent) for number, sent in asked.items()
        ]

    def close(self) -> None:
        self._groups.release(self._shards)

    def _send(self, shard: int, turn: int, method: str, given: tuple[Any, ...]) -> tuple[_Member, Any]:
        group, place = self._shards[shard]
        order = [group.members[(turn + step) % len(group.members)] for step in range(len(group.members))]
        member = min(order, key=_Member.rests)  # the first that does not rest
        return member, member.actor.call.remote(place.version, method, *given)

    def _answer(
        self, shard: int, turn: int, method: str, given: tuple[Any, ...], member: _Member, answer: Any
    ) -> Any:
        """Return what a replica answers; ask others of the group until one does."""
        import ray
        from ray.exceptions import GetTimeoutError, RayError, RayTaskError

        group, place = self._shards[shard]
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = ray.get(answer, timeout=min(TRY, max(0.0, deadline - time.monotonic())))
            except RayTaskError:  # a fault of the program, which another replica has too
                raise
            except GetTimeoutError:
                member.hang(answer)
            except RayError as error:
                member.rest(error)
            else:
                if isinstance(found, FixableError):
                    raise found
                if not isinstance(found, NotOpen):
                    return found
                member.open(place)
                member.rest()
            if time.monotonic() > deadline:
                raise ShardUnavailable(
                    f"no replica of the shard {group.tar} answers: try again in a few seconds"
                )
            if all(one.rests() for one in group.members):
                time.sleep(PAUSE)
            turn += 1
            member, answer = self._send(shard, turn, method, given)


def open_all(shards: Sequence[tuple[_Group, ShardPlace]], seconds: float = START) -> list[tuple[str, int]]:
    """Let replicas open shards; return their machines and processes, once all have; raise what one says."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    asked = [(member, place) for group, place in shards for member in group.members]
    deadline = time.monotonic() + seconds
    found: dict[int, tuple[str, int]] = {}
    why = "not in time"
    while len(found) < len(asked):
        begun = {n: member.open(place) for n, (member, place) in enumerate(asked) if n not in found}
        for number, answer in begun.items():
            try:
                found[number] = ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
            except GetTimeoutError:
                break
            except RayError as error:
                if (cause := cause_of(error)) is not None:
                    raise cause from None
                why = str(error).strip().partition("\n")[0]
                asked[number][0].rest(error)
        if len(found) < len(asked):
            if time.monotonic() > deadline:
                raise ShardUnavailable(f"a replica did not start ({why}): see `ray status`")
            time.sleep(PAUSE)
    return [found[number] for number in range(len(asked))]


def check_room(new: int, open: int, replicas: int) -> None:
    """Raise ConfigError if a cluster has too few processors for the replicas of new and open shards."""
    import ray

    deadline = time.monotonic() + FREED
    total, needs = (new + open) * replicas, new * replicas
    while True:
        has, free = (int(of.get("CPU", 0)) for of in (ray.cluster_resources(), ray.available_resources()))
        if has < total:
            raise ConfigError(
                f"{new + open} shards in {replicas} replicas need {total} processors, and the cluster has"
                f" {has}: add machines, or give fewer --replicas"
            )
        if free >= needs:
            return
        if time.monotonic() > deadline:
            raise ConfigError(
                f"{new} shards in {replicas} replicas need {needs} processors, and {has - free} of the"
                f" cluster's {has} are taken (see `ray status`): add machines, or give fewer --replicas"
            )
        time.sleep(PAUSE)
