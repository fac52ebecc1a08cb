"""The processes that train together: a single one, or those that torchrun started.

Each process encodes its share of a batch. A loss that compares the whole batch gathers the vectors of all
processes, with their gradient. Every process computes its share of each loss. The shares add up to the loss
that one process would have with the whole batch, and so do the gradients.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lexlip.device import pick_device
from lexlip.errors import ConfigError

PATIENCE = timedelta(hours=3)  # how long the other processes wait while the first one validates
BUCKET = 2**25  # numbers that are summed over processes at a time: 128 MiB


class Processes:
    """This process among those that train together.

    Attributes:
        rank: number of this process.
        world: number of processes.
        device: where this process computes.
    """

    def __init__(self, device: str) -> None:
        """Join the processes that torchrun's environment variables describe; without them there is only one.

        Args:
            device: "auto", or a torch device; with several processes "cuda" means one GPU per process.

        Raises:
            ConfigError: this machine has no such device.
        """
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.device = pick_device(device)
        if self.device.type == "cuda" and self.world > 1 and self.device.index is None:
            self.device = pick_device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
        if self.device.type == "cuda" and self.device.index is not None:
            torch.cuda.set_device(self.device)
        self._started = self.world > 1 and not dist.is_initialized()
        if self._started:
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=PATIENCE)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def close(self) -> None:
        """Leave the process group."""
        if self._started:
            dist.destroy_process_group()

    def part(self, batch: int) -> slice:
        """Return this process's rows of a batch.

        Raises:
            ConfigError: there are more processes than rows.
        """
        if batch < self.world:
            raise ConfigError(f"optim.batch={batch} is fewer than the {self.world} processes; raise it")
        return slice(batch * self.rank // self.world, batch * (self.rank + 1) // self.world)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return sums over all processes."""
        if self.world == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        sums: list[float] = total.tolist()
        return sums

    def gather(self, rows: Tensor) -> tuple[Tensor, int]:
        """Return the rows of all processes by rank, and the number of this process's first row.

        The gradient of `rows` is the sum of the gradients that all processes have for them.

        Args:
            rows: [n, ...]; n may differ between processes.
        """
        if self.world == 1:
            return rows, 0
        counts = torch.zeros(self.world, dtype=torch.int64, device=rows.device)
        counts[self.rank] = len(rows)
        dist.all_reduce(counts)
        sizes: list[int] = counts.tolist()
        start = sum(sizes[: self.rank])
        gathered: Tensor = _Gather.apply(rows, sizes, start)  # type: ignore[no-untyped-call]
        return gathered, start

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients of all processes.

        A parameter without a gradient in this process counts as 0. One without a gradient in any process
        stays without, so that optimizers skip it.
        """
        if self.world == 1:
            return
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        with_one = self.sum([float(parameter.grad is not None) for parameter in learning])
        pending: list[Tensor] = []
        size = 0
        for parameter, processes in zip(learning, with_one, strict=True):
            if not processes:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            pending.append(parameter.grad)
            size += parameter.numel()
            if size >= BUCKET:
                _sum_together(pending)
                pending, size = [], 0
        if pending:
            _sum_together(pending)

    def same_weights(self, module: nn.Module) -> None:
        """Give all processes the weights and buffers of the first process."""
        if self.world > 1:
            for tensor in module.state_dict().values():
                dist.broadcast(tensor, 0)

    def collect(self, value: Any) -> list[Any]:
        """Return the values of all processes, by rank."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.world > 1:
            dist.barrier()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], start: int) -> Tensor:
        ctx.rows = slice(start, start + len(rows))
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].contiguous()
        dist.all_reduce(grad)
        return grad[ctx.rows], None, None


def _sum_together(tensors: list[Tensor]) -> None:
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))
