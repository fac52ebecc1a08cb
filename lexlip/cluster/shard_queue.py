"""Hands shards to the actors of a cluster until all are made, or have failed too often."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from lexlip.cluster.session import cause_of
from lexlip.cluster.shard_indexer import ShardIndexer, ShardWork
from lexlip.errors import DataError

TRIES = 3  # of a shard, each on another actor if there is one
LOOK = 0.5  # seconds between looks at the actors


class ShardQueue:
    """Actors, and the shards that wait for them.

    An actor takes one processor; or one GPU, if the cluster has any and the device is not "cpu".

    Args:
        settings: all arguments of `ShardIndexer` but the last, `threads`.
        device: see `lexlip.device.pick_device`.
        total: shards of the whole index, for the progress bar.
        progress: show one.

    Raises:
        DataError: the cluster has no room.
    """

    def __init__(self, settings: tuple[Any, ...], device: str, total: int, progress: bool) -> None:
        import ray

        has = ray.cluster_resources()
        gpus = 0 if device == "cpu" else int(has.get("GPU", 0))
        self._room = gpus or int(has.get("CPU", 0))
        if not self._room:
            raise DataError("the cluster has no processor for work: add machines with `ray start --address`")
        options: dict[str, Any] = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": 1}
        options |= {"scheduling_strategy": "SPREAD", "max_concurrency": 2}  # one to work, one to tell
        made: Any = ray.remote(**options)(ShardIndexer)
        self._start: Callable[[], Any] = lambda: made.remote(*settings, None if gpus else 1)
        self._total, self._progress = total, progress

    def run(self, works: Sequence[ShardWork]) -> dict[int, str]:
        """Make all shards; return why by the number of those that failed."""
        import ray
        from ray.exceptions import RayActorError, RayError

        started = time.perf_counter()
        waiting = list(range(len(works)))
        tried: dict[int, list[int]] = {number: [] for number in waiting}  # by shard the actors that failed
        reasons: dict[int, str] = {}
        actors = dict(enumerate(self._start() for _ in range(min(self._room, len(works)))))
        running: dict[Any, tuple[int, int]] = {}  # by answer the actor and the shard
        photos = dict.fromkeys(actors, 0)
        with tqdm(
            total=self._total,
            initial=self._total - len(works),
            desc="index",
            unit="shard",
            disable=None if self._progress else True,
            delay=1,
        ) as bar:
            while waiting or running:
                busy = {actor for actor, _ in running.values()}
                for actor in actors.keys() - busy:
                    number = _next(waiting, tried, actor, actors)
                    if number is not None:
                        waiting.remove(number)
                        running[actors[actor].index.remote(works[number])] = actor, number
                ready, _ = ray.wait(list(running), timeout=LOOK)
                if not ready and not bar.disable:
                    _look(actors, photos, bar, started)
                for answer in ready:
                    actor, number = running.pop(answer)
                    try:
                        ray.get(answer)
                        reasons.pop(number, None)
                        bar.update()
                    except RayError as error:
                        reasons[number] = str(cause_of(error) or _plain(error))
                        tried[number].append(actor)
                        if len(tried[number]) < TRIES:
                            waiting.append(number)
                        else:
                            bar.update()
                        if isinstance(error, RayActorError):
                            del actors[actor]
                            new = max([*photos, actor]) + 1
                            actors[new], photos[new] = self._start(), 0
        return reasons


def _next(
    waiting: Sequence[int], tried: Mapping[int, list[int]], actor: int, actors: Collection[int]
) -> int | None:
    """Return a shard for an actor: one that it has not failed, unless all have failed it."""
    return next((n for n in waiting if actor not in tried[n] or set(actors) <= set(tried[n])), None)


def _look(actors: dict[int, Any], photos: dict[int, int], bar: tqdm, started: float) -> None:
    """Show how many photos were encoded; an actor that does not say so has those it last said."""
    import ray
    from ray.exceptions import RayError

    asked = {actor.done.remote(): number for number, actor in actors.items()}
    for answer in ray.wait(list(asked), num_returns=len(asked), timeout=LOOK)[0]:
        try:
            photos[asked[answer]] = ray.get(answer)
        except RayError:
            continue
    total = sum(photos.values())
    rate = total / (time.perf_counter() - started)
    bar.set_postfix_str(f"{total:,} photos, {rate:.0f} photos/s")


def _plain(error: Exception) -> str:
    from ray.exceptions import RayActorError

    if isinstance(error, RayActorError):
        return "the process or the machine that indexed it died"
    return str(error).strip().rpartition("\n")[2]
