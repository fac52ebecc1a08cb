"""Hands shards, or other works, to the actors of a cluster until all are made, or have failed too often."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lexlip.cluster.session import cause_of
from lexlip.cluster.shard_indexer import ShardIndexer
from lexlip.errors import DataError
from lexlip.machine.progress import ProgressBar
from lexlip.models.contract import EncodingSettings

TRIES = 3  # of a shard, each on another actor if there is one
LOOK = 0.5  # seconds between looks at the actors
FREED = 60.0  # seconds in which a cluster without a free processor must get one
START = 300.0  # seconds in which a cluster with one must start a process


class ShardQueue:
    """Shards that wait for actors.

    An actor takes one processor; or one GPU, if the cluster has any and the device is not "cpu". There are as
    many as the cluster has, or as there are shards; those for which nothing is free yet start once it is. The
    progress bar counts the shards of the whole index.

    Args:
        settings: for the actors.
        total: what the progress bar counts up to.
        progress: show one.
        actor: the kind of actor, which has a method `index` for a work; and what else it is made with.
        unit: what the progress bar counts.
    """

    def __init__(
        self,
        settings: EncodingSettings,
        total: int,
        progress: bool,
        actor: tuple[Any, ...] = (ShardIndexer,),
        unit: str = "shard",
    ) -> None:
        import ray

        has = ray.cluster_resources()
        gpus = 0 if settings.device == "cpu" else int(has.get("GPU", 0))
        self._of = "GPU" if gpus else "CPU"
        self._room = gpus or int(has.get("CPU", 0))
        if not self._room:
            raise DataError("the cluster has no processor for work: add machines with `ray start --address`")
        options: dict[str, Any] = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": 1}
        options |= {"scheduling_strategy": "SPREAD", "max_concurrency": 2}  # one to work, one to tell
        kind, *more = actor
        made: Any = ray.remote(**options)(kind)
        self._start: Callable[[], Any] = lambda: made.remote(settings, None if gpus else 1, *more)
        self._total, self._progress, self._unit = total, progress, unit

    def run(
        self, works: Sequence[Any], sizes: Sequence[int] = (), take: Callable[[Any], object] | None = None
    ) -> dict[int, str]:
        """Make all shards, which stay in any case; return why by the number of those that failed.

        It is an error if no actor starts, as the cluster has nothing free, or if none has the model.

        Args:
            works: what `index` of the actors is given.
            sizes: of each what the progress bar counts; 1 by default.
            take: is given what `index` returned.
        """
        actors = _Actors(self._start, min(self._room, len(works)), self._of)
        try:
            return self._run(works, sizes or [1] * len(works), take, actors)
        finally:
            actors.end()

    def _run(
        self,
        works: Sequence[Any],
        sizes: Sequence[int],
        take: Callable[[Any], object] | None,
        actors: _Actors,
    ) -> dict[int, str]:
        import ray
        from ray.exceptions import RayActorError, RayError

        started = time.perf_counter()
        waiting = list(range(len(works)))
        tried: dict[int, list[int]] = {number: [] for number in waiting}  # by shard the actors that failed
        reasons: dict[int, str] = {}
        running: dict[Any, tuple[int, int]] = {}  # by answer the actor and the shard
        photos: dict[int, int] = {}  # by actor
        with ProgressBar(
            total=self._total,
            initial=self._total - sum(sizes),
            desc="index",
            unit=self._unit,
            disable=not self._progress,
            delay=1,
        ) as bar:
            while waiting or running:
                busy = {actor for actor, _ in running.values()}
                for actor in actors.ready.keys() - busy:
                    number = _next(waiting, tried, actor, actors.numbers())
                    if number is not None:
                        waiting.remove(number)
                        running[actors.ready[actor].index.remote(works[number])] = actor, number
                ready, _ = ray.wait([*running, *actors.asked], timeout=LOOK)
                actors.check()
                if not ready and not bar.disable:
                    _look(actors.ready, photos, bar, started)
                for answer in ready:
                    if answer in actors.asked:
                        actors.answered(answer)
                        continue
                    actor, number = running.pop(answer)
                    try:
                        made = ray.get(answer)
                    except RayError as error:
                        reasons[number] = str(cause_of(error) or _plain(error))
                        tried[number].append(actor)
                        if len(tried[number]) < TRIES:
                            waiting.append(number)
                        else:
                            bar.update(sizes[number])
                        if isinstance(error, RayActorError):
                            actors.died(actor)
                        continue
                    reasons.pop(number, None)
                    if take is not None:
                        take(made)
                    bar.update(sizes[number])
        return reasons


class _Actors:
    """Actors by number. Ray may have no room for some of them, now or ever, so only `ready` ones get work.

    Each takes one of a resource, `of`, as Ray names it.

    Attributes:
        ready: those that have loaded the model.
        asked: others, by the answer that they owe: to any call at first, then that the model is loaded.
    """

    def __init__(self, start: Callable[[], Any], number: int, of: str) -> None:
        self.ready: dict[int, Any] = {}
        self.asked: dict[Any, tuple[int, Any]] = {}
        self._start, self._of = start, of
        self._loading: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._failures = 0  # to start, one after another
        self._since = time.monotonic()  # when there was one that Ray had started, or at the beginning
        self._limit = START if self._counts()[1] else FREED
        for _ in range(number):
            self._add()

    def _add(self) -> None:
        actor = self._start()
        self.asked[actor.done.remote()] = next(self._numbers), actor

    def numbers(self) -> set[int]:
        """Return the numbers of those that are running."""
        return self.ready.keys() | self._loading.keys()

    def answered(self, answer: Any) -> None:
        """Take one of the answers that were owed; it is an error if no actor can start."""
        import ray
        from ray.exceptions import RayError

        number, actor = self.asked.pop(answer)
        loaded = self._loading.pop(number, None) is not None
        try:
            ray.get(answer)
        except RayError as error:
            self._failures += 1
            if self._failures < TRIES:
                self._add()
            elif not self.ready and not self.asked:
                last = str(error).strip().rpartition("\n")[2]
                raise cause_of(error) or DataError(f"no process can start on the cluster: {last}") from None
        else:
            if loaded:
                self._failures = 0
                self.ready[number] = actor
            else:
                self._loading[number] = actor
                self.asked[actor.open.remote()] = number, actor

    def died(self, number: int) -> None:
        """Start another one for one that was ready."""
        del self.ready[number]
        self._add()

    def check(self) -> None:
        """Raise DataError if Ray has started none for too long."""
        if self.numbers():
            self._since = time.monotonic()
        elif time.monotonic() - self._since > self._limit:
            has, free = self._counts()
            what = "GPUs" if self._of == "GPU" else "processors"
            raise DataError(
                f"no process could start on the cluster in {self._limit:.0f} seconds: {has - free} of {has}"
                f" {what} are taken; wait for them, add machines, or see `ray status`"
            )

    def _counts(self) -> tuple[int, int]:
        """Return how many processors or GPUs the cluster has, and how many of them are free."""
        import ray

        has, free = ray.cluster_resources(), ray.available_resources()
        return int(has.get(self._of, 0)), int(free.get(self._of, 0))

    def end(self) -> None:
        """End all of them, those that Ray has not started too."""
        import ray

        for actor in [*self.ready.values(), *(actor for _, actor in self.asked.values())]:
            ray.kill(actor)


def _next(
    waiting: Sequence[int], tried: Mapping[int, list[int]], actor: int, actors: Collection[int]
) -> int | None:
    """Return a shard for an actor: one that it has not failed, unless all have failed it."""
    return next((n for n in waiting if actor not in tried[n] or set(actors) <= set(tried[n])), None)


def _look(actors: Mapping[int, Any], photos: dict[int, int], bar: ProgressBar, started: float) -> None:
    """Show how many photos were encoded; an actor that does not say so has those it last said."""
    import ray
    from ray.exceptions import RayError

    if not actors:
        bar.set_postfix_str("the cluster has started no process yet")
        return
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
