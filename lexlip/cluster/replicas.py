"""The shards of an index on a cluster: a group of replicas for each, which take over from one another.

Ray starts an actor again, on another machine if need be, when its process or its machine has died. Until it
is back, the other replicas of the group answer; a call that was lost is asked again, as calls change nothing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from anserini_bridge import BridgeError
from lexlip.cluster.replica import FileGiver, Replica, ShardPlace
from lexlip.cluster.session import cause_of
from lexlip.errors import ConfigError, FixableError
from lexlip.search.engines.shard import ShardedMetadata, files_of
from lexlip.search.paging import digest

START = 300.0  # seconds that replicas have to start, copies included
TRY = 10.0  # seconds after which another replica is asked
PATIENCE = 30.0  # seconds after which a call fails, if no replica of the shard answers
REST = 1.0  # seconds for which a replica that failed is asked last
PAUSE = 0.1  # seconds between two rounds through a group


class ShardUnavailable(BridgeError):
    """No replica of a shard answers."""


class _Member:
    """A replica, and until when it is asked last."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start, self.resting = start, 0.0
        self.actor = start()

    def rest(self, error: Exception) -> None:
        """Ask it last for a while; one that Ray gave up is started anew."""
        from ray.exceptions import ActorDiedError

        now, gone = time.monotonic(), isinstance(error, ActorDiedError)
        if gone and self.resting < now:
            self.actor = self._start()
        self.resting = now + (TRY if gone else REST)


class ReplicaGroups:
    """See `lexlip.search.engines.shards.Shards`; several threads may ask.

    Args:
        index: the folder of the sharded index.
        metadata: what it says about itself.
        replicas: of each shard, on different machines as far as there are.
        copy: each replica copies its shard to its machine's own disk.

    Raises:
        ConfigError: the cluster is too small.
        DataError, BridgeError: a replica cannot open its shard.
    """

    def __init__(self, index: Path, metadata: ShardedMetadata, replicas: int = 1, copy: bool = False) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._tars = [shard["tar"] for shard in metadata.shards]
        self._turns = itertools.count()
        check_room(len(self._tars), replicas)
        giver: Any = None
        if copy:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
            actor: Any = ray.remote(FileGiver)
            giver = actor.options(scheduling_strategy=here, num_cpus=0, max_restarts=-1).remote()
        version = digest(str(index.absolute()), metadata.created, metadata.directory, metadata.files)
        data = index.absolute() / metadata.directory
        self._giver = giver
        self._spread: list[Any] = []
        self._groups = [
            self._group(ShardPlace(str(data / shard["folder"]), files_of(metadata, shard), version), replicas)
            for shard in metadata.shards
        ]
        try:
            self.members()
        except BaseException:
            self.close()
            raise

    def _group(self, place: ShardPlace, replicas: int) -> list[_Member]:
        import ray
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        spread = placement_group([{"CPU": 1}] * replicas, strategy="SPREAD")
        self._spread.append(spread)
        actor: Any = ray.remote(num_cpus=1, max_restarts=-1)(Replica)
        places = [PlacementGroupSchedulingStrategy(spread, number) for number in range(replicas)]
        giver = self._giver
        return [
            _Member(partial(actor.options(scheduling_strategy=one).remote, place, giver)) for one in places
        ]

    def members(self, seconds: float = START) -> list[list[tuple[str, int]]]:
        """Return the machine and the process of every replica of each shard, once all are there.

        Raises:
            DataError, BridgeError: one cannot open its shard.
        """
        import ray
        from ray.exceptions import GetTimeoutError, RayError

        try:
            ready = [[member.actor.ready.remote() for member in group] for group in self._groups]
            found = ray.get([one for group in ready for one in group], timeout=seconds)
        except (RayError, GetTimeoutError) as error:
            if (cause := cause_of(error)) is not None:
                raise cause from None
            why = "in time" if isinstance(error, GetTimeoutError) else str(error).strip().partition("\n")[0]
            raise ShardUnavailable(f"a replica did not start ({why}): see `ray status`") from None
        there = iter(found)
        return [[next(there) for _ in group] for group in self._groups]

    def ask(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        turn = next(self._turns)
        asked = {number: self._send(number, turn, method, given) for number, given in arguments.items()}
        return [
            self._answer(number, turn, method, arguments[number], *sent) for number, sent in asked.items()
        ]

    def close(self) -> None:
        import ray
        from ray.util.placement_group import remove_placement_group

        for spread in self._spread:
            remove_placement_group(spread)
        if self._giver is not None:
            ray.kill(self._giver)

    def _send(self, shard: int, turn: int, method: str, given: tuple[Any, ...]) -> tuple[_Member, Any]:
        group = self._groups[shard]
        now = time.monotonic()
        order = [group[(turn + step) % len(group)] for step in range(len(group))]
        member = min(order, key=lambda one: max(one.resting - now, 0.0))  # the first that does not rest
        return member, member.actor.call.remote(method, *given)

    def _answer(
        self, shard: int, turn: int, method: str, given: tuple[Any, ...], member: _Member, answer: Any
    ) -> Any:
        """Return what a replica answers; ask others of the group until one does."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = ray.get(answer, timeout=min(TRY, max(0.0, deadline - time.monotonic())))
            except RayTaskError:  # a fault of the program, which another replica has too
                raise
            except RayError as error:
                member.rest(error)
            else:
                if isinstance(found, FixableError):
                    raise found
                return found
            if time.monotonic() > deadline:
                raise ShardUnavailable(
                    f"no replica of the shard {self._tars[shard]} answers: try again in a few seconds"
                )
            if all(one.resting > time.monotonic() for one in self._groups[shard]):
                time.sleep(PAUSE)
            turn += 1
            member, answer = self._send(shard, turn, method, given)


def check_room(shards: int, replicas: int) -> None:
    """Raise ConfigError if a cluster has too few processors for replicas, of which each takes one."""
    import ray

    has, needs = int(ray.cluster_resources().get("CPU", 0)), shards * replicas
    if has < needs:
        raise ConfigError(
            f"{shards} shards in {replicas} replicas need {needs} processors, and the cluster has {has}:"
            " add machines, or give fewer --replicas"
        )
