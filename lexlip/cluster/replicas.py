"""The shards of an index on a cluster: a group of replicas for each, which take over from one another.

Ray starts an actor again, on another machine if need be, when its process or its machine has died. Until it
is back, the other replicas of the group answer; a call that was lost is asked again, as calls change nothing.

Another state of the index is opened by all replicas of all shards beside the state that is searched; only
then is it searched. If one of them cannot, the old state stays everywhere.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anserini_bridge import BridgeError
from lexlip.cluster.replica import FileGiver, NotOpen, Replica, ShardPlace
from lexlip.cluster.session import cause_of
from lexlip.errors import ConfigError, FixableError
from lexlip.search.answering import digest
from lexlip.search.engines.shard import ShardedMetadata, files_of, version_of

START = 300.0  # seconds that replicas have to open a state of the index, copies included
TRY = 10.0  # seconds after which another replica is asked
PATIENCE = 30.0  # seconds after which a call fails, if no replica of the shard answers
REST = 1.0  # seconds for which a replica that failed is asked last
PAUSE = 0.1  # seconds between two rounds through a group, or two looks at a cluster
FREED = 10.0  # seconds in which a cluster has the processors back of those that ended


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
            open_all([(member, place) for group, place in shards for member in group.members])
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
        """Return the machine and the process of every replica of each shard, once all have it open.

        Raises:
            DataError, BridgeError: one cannot open its shard.
        """
        found = iter(
            open_all([(member, place) for group, place in self._shards for member in group.members], seconds)
        )
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


def open_all(asked: Sequence[tuple[_Member, ShardPlace]], seconds: float = START) -> list[tuple[str, int]]:
    """Let replicas open shards; return their machines and processes, once all have.

    Raises:
        DataError, BridgeError: one cannot.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayError

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
        if len(found) < len(asked) and time.monotonic() > deadline:
            raise ShardUnavailable(f"a replica did not start ({why}): see `ray status`")
        if len(found) < len(asked):
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
