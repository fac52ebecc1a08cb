"""The processes that train together: a single one, or those that torchrun started.

Each process encodes its share of a batch. A loss that compares the whole batch gathers the vectors of all
processes, with their gradient. Every process computes its share of each loss. The shares add up to the loss
that one process would have with the whole batch, and so do the gradients, but for dropout, which differs
between processes.

Tensors go through NCCL between GPUs and through Gloo between CPUs. Small numbers of Python's go through a
second group, of Gloo, so that no process waits for its GPU to learn them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lexlip.errors import ConfigError, LexLIPError
from lexlip.machine.device import pick_device
from lexlip.machine.resources import of_torchrun

PATIENCE = timedelta(hours=3)  # how long the other processes wait while the first one validates
BUCKET = 2**25  # gradients that are summed over processes at a time after the backward pass: 128 MiB
BUCKET_AHEAD = 2**23  # and during it: 32 MiB
BACKEND = "LEXLIP_BACKEND"  # the environment variable that names the backend


class Processes:
    """This process among those that train together; a context that they leave together."""

    def __init__(self, device: str) -> None:
        """Join the processes that torchrun's environment variables describe; else there is only one.

        `device` is "auto" or a torch device; with several processes "cuda" means one GPU per process.
        `backend` is "nccl", or "gloo", with which processes may share a GPU; None: what LEXLIP_BACKEND says,
        else nccl for GPUs and gloo for CPUs. ConfigError: this machine has no such device, or no GPU for this
        process, or the backend is not for the device; or the processes do not find each other.
        """
        self.rank, self.world = of_torchrun("RANK"), of_torchrun("WORLD_SIZE", 1)
        self.device = pick_device(device)
        backend = _pick_backend(self.device)
        if self.device.type == "cuda" and self.world > 1 and self.device.index is None:
            self.device = pick_device(f"cuda:{_own_gpu(backend)}")
        if self.device.type == "cuda" and self.device.index is not None:
            torch.cuda.set_device(self.device)
        self._started = self.world > 1 and not dist.is_initialized()
        if self._started:
            try:
                dist.init_process_group(backend, timeout=PATIENCE)
            except (ValueError, dist.DistError) as error:
                raise ConfigError(
                    f"the {self.world} processes that WORLD_SIZE names cannot meet: {error}: start them with"
                    " torchrun, or unset WORLD_SIZE to train in one"
                ) from error
        self._overlapping = False
        self._ahead: _Ahead | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(failed=kind is not None)

    @cached_property
    def _numbers(self) -> Any:
        """The group for numbers of Python's."""
        return dist.new_group(backend="gloo", timeout=PATIENCE)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def close(self, failed: bool = False) -> None:
        """Leave the process group; one that failed does not wait for the others, which then end too."""
        if self._ahead is not None:
            self._ahead.remove()
        if not (self._started and dist.is_initialized()):
            return
        if failed:
            _abort()
        else:
            dist.destroy_process_group()

    def part(self, batch: int) -> slice:
        """Return this process's rows of a batch; ConfigError: there are more processes than rows."""
        if batch < self.world:
            raise ConfigError(f"optim.batch={batch} is fewer than the {self.world} processes; raise it")
        return slice(batch * self.rank // self.world, batch * (self.rank + 1) // self.world)

    def sum(self, values: Sequence[float]) -> list[float]:
        if self.world == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        with _together():
            dist.all_reduce(total, group=self._numbers)
        sums: list[float] = total.tolist()
        return sums

    def gather(self, rows: Tensor) -> tuple[Tensor, int]:
        """Return the rows of all processes by rank, and the number of this process's first row.

        How many rows [n, ...] there are may differ between processes. The gradient of `rows` is the sum of
        the gradients that all processes have for them.
        """
        if self.world == 1:
            return rows, 0
        mine = [0.0] * self.world
        mine[self.rank] = len(rows)
        sizes = [int(size) for size in self.sum(mine)]
        start = sum(sizes[: self.rank])
        gathered: Tensor = _Gather.apply(rows, sizes, start)  # type: ignore[no-untyped-call]
        return gathered, start

    def overlap(self) -> None:
        """Begin to sum gradients during the next backward pass, the last one before `sum_gradients`.

        All processes must call it in the same steps. The first such step shows which parameters have
        gradients; from the second on they are summed as they come.
        """
        self._overlapping = self.world > 1
        if self._ahead is not None:
            self._ahead.open()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients of all processes; a parameter without one here counts as 0.

        One without a gradient in any process stays without, so that optimizers skip it.
        """
        if self.world == 1:
            return
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        begun = [] if self._ahead is None else self._ahead.begun()
        numbers = self.sum([*(float(p.grad is not None) for p in learning), *map(float, begun)])
        with_one = [p for p, processes in zip(learning, numbers, strict=False) if processes]
        for parameter in with_one:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        done: set[nn.Parameter] = set()
        if self._ahead is not None:
            done = self._ahead.finish(sum(map(bool, numbers[len(learning) :])))
        for bucket in _buckets([parameter for parameter in with_one if parameter not in done], BUCKET):
            _sum_together([parameter.grad for parameter in bucket if parameter.grad is not None])
        if self._overlapping and (self._ahead is None or self._ahead.parameters != set(with_one)):
            if self._ahead is not None:
                self._ahead.remove()
            self._ahead = _Ahead(with_one)

    def same_weights(self, module: nn.Module) -> None:
        """Give a module that is to be trained now the weights that it has in the first process."""
        if self._ahead is not None:  # of the phase before
            self._ahead.remove()
            self._ahead = None
        if self.world > 1:
            with _together():
                for tensor in module.state_dict().values():
                    dist.broadcast(tensor, 0)

    def collect(self, value: Any) -> list[Any]:
        """Return the values of all processes, by rank."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        with _together():
            dist.all_gather_object(values, value, group=self._numbers)
        return values

    def wait(self) -> None:
        self.sum([0.0])


class _Ahead:
    """Sums of gradients that begin during a backward pass.

    The parameters, those that had gradients in the last step, are divided into buckets in reverse order,
    which is about the order in which their gradients come. A bucket's sum begins when all its gradients are
    there and those of the buckets before it have begun, so that all processes sum the buckets in one order.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = set(parameters)
        self.buckets = _buckets(list(reversed(parameters)), BUCKET_AHEAD)
        self._bucket_of = {p: number for number, bucket in enumerate(self.buckets) for p in bucket}
        self._awaited: list[set[nn.Parameter]] | None = None
        self._sums: list[tuple[Tensor, dist.Work]] = []
        self._hooks = [p.register_post_accumulate_grad_hook(self._arrived) for p in parameters]

    def open(self) -> None:
        """Take the gradients that come from now on."""
        self._awaited = [set(bucket) for bucket in self.buckets]

    def begun(self) -> list[bool]:
        """Return for each bucket whether its sum has begun here."""
        return [number < len(self._sums) for number in range(len(self.buckets))]

    def finish(self, number: int) -> set[nn.Parameter]:
        """Sum as many buckets as any process has begun, with all gradients there; return their parameters."""
        self._awaited = None
        while len(self._sums) < number:
            self._begin()
        done = self.buckets[:number]
        for bucket, (flat, work) in zip(done, self._sums, strict=True):
            with _together():
                work.wait()
            _split(flat, [parameter.grad for parameter in bucket if parameter.grad is not None])
        self._sums = []
        return {parameter for bucket in done for parameter in bucket}

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _arrived(self, parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter)
        if self._awaited is None:
            return
        number = self._bucket_of[parameter]
        if parameter not in self._awaited[number]:
            raise RuntimeError("a second backward pass came after `overlap`")
        self._awaited[number].remove(parameter)
        while len(self._sums) < len(self.buckets) and not self._awaited[len(self._sums)]:
            self._begin()

    def _begin(self) -> None:
        bucket = self.buckets[len(self._sums)]
        flat = torch.cat([parameter.grad.flatten() for parameter in bucket if parameter.grad is not None])
        with _together():
            work = dist.all_reduce(flat, async_op=True)
        assert work is not None
        self._sums.append((flat, work))


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], start: int) -> Tensor:
        ctx.rows = slice(start, start + len(rows))
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        with _together():
            dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].contiguous()
        with _together():
            dist.all_reduce(grad)
        return grad[ctx.rows], None, None


def _buckets(parameters: Sequence[nn.Parameter], size: int) -> list[list[nn.Parameter]]:
    """Divide parameters into buckets of `size` numbers or a little more, in order."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        if room <= 0:
            buckets.append([])
            room = size
        buckets[-1].append(parameter)
        room -= parameter.numel()
    return buckets


def _sum_together(tensors: list[Tensor]) -> None:
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    with _together():
        dist.all_reduce(flat)
    _split(flat, tensors)


def _split(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    for tensor, total in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))


def _pick_backend(device: torch.device) -> str:
    usual = "nccl" if device.type == "cuda" else "gloo"
    backend = os.environ.get(BACKEND) or usual
    if backend not in ("gloo", usual):
        raise ConfigError(
            f"{BACKEND} is '{backend}'; for the device {device.type} it must be "
            + ("nccl or gloo" if usual == "nccl" else "gloo")
        )
    return backend


def _own_gpu(backend: str) -> int:
    """Return the number of this process's GPU; with Gloo processes may share one."""
    local, gpus = of_torchrun("LOCAL_RANK"), torch.cuda.device_count()
    if not gpus or local < gpus:
        return local
    if backend == "gloo":
        return local % gpus
    raise ConfigError(
        f"process {local} finds no GPU of its own, as there are {gpus}: start {gpus} processes,"
        f" or let them share a GPU with {BACKEND}=gloo"
    )


@contextmanager
def _together() -> Iterator[None]:
    """Say what it means if processes cannot reach one another."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise LexLIPError(
            "another of the processes that train together ended; it has printed why, unless it was killed:"
            " then go on with the same command and --resume"
        ) from error


def _abort() -> None:
    """Break the connections to the others without waiting; without the function they break when this ends."""
    abort = getattr(dist.distributed_c10d, "_abort_process_group", None)
    if abort is not None:
        abort()
