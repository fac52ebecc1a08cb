"""Run in two processes: one fails while the other waits for it; then both sum gradients.

The arguments are the places where the first one waits; both print how each case ended. The gradients, summed
during and after the backward pass, are printed as JSON in the last line.
"""

import json
import os
import sys

import torch
from torch import Tensor, nn

import lexlip.training.distributed as module
from lexlip.errors import LexLIPError
from lexlip.training.distributed import Processes

STEPS = 4


class Toy(nn.Module):
    """`often` has a gradient in every step; `nowhere` never; the others in some steps or processes."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("nowhere", "often", "first_only", "turns", "shared", "last"):
            setattr(self, name, nn.Parameter(torch.ones(3)))

    def forward(self, rank: int, step: int) -> Tensor:
        total = (rank + 1) * (self.often.sum() + 2 * self.last.sum()) + self.shared.square().sum()
        if rank == 0:
            total = total + 5 * self.first_only.sum()
        if step % 2:
            total = total + 7 * self.turns.sum() + self.shared.sum()
        return total


def gradients(processes: Processes, overlap: bool, parts: int) -> list[dict[str, list[float] | None]]:
    toy, found = Toy(), []
    for step in range(STEPS):
        for part in range(parts):
            if overlap and part == parts - 1:
                processes.overlap()
            (toy(processes.rank, step) / parts).backward()
        processes.sum_gradients(toy.parameters())
        found.append({n: None if p.grad is None else p.grad.tolist() for n, p in toy.named_parameters()})
        toy.zero_grad(set_to_none=True)
    return found


def two_backward_passes(processes: Processes) -> str:
    toy = Toy()
    processes.overlap()
    toy(processes.rank, 0).backward()
    processes.sum_gradients(toy.parameters())
    processes.overlap()
    toy(processes.rank, 0).backward()
    try:
        toy(processes.rank, 0).backward()
    except RuntimeError as error:
        return str(error)
    return ""


def fail(where: str) -> None:
    try:
        with Processes("cpu") as processes:
            processes.wait()
            if processes.rank == 1:
                raise LexLIPError("this one fails")
            if where == "numbers":
                processes.sum([1.0])
            elif where == "rows":
                processes.gather(nn.Parameter(torch.ones(3)))
            else:
                processes.same_weights(nn.Linear(2, 2))
    except LexLIPError as error:
        print(f"{where}: {error}", file=sys.stderr)
        sys.exit(2)


def main(places: list[str]) -> None:
    torch.set_num_threads(1)
    *ports, os.environ["MASTER_PORT"] = os.environ["PORTS"].split()
    for where, port in zip(places, ports, strict=True):
        child = os.fork()
        if not child:
            os.environ["MASTER_PORT"] = port
            fail(where)
        print(where, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    module.BUCKET_AHEAD = 4  # numbers: two parameters a bucket
    with Processes("cpu") as processes:
        found = {
            f"{'during' if overlap else 'after'} {parts}": gradients(processes, overlap, parts)
            for overlap in (False, True)
            for parts in (1, 2)
        }
        early = [] if processes._ahead is None else [len(bucket) for bucket in processes._ahead.buckets]
        refused = two_backward_passes(processes)
        everyone = processes.collect((found, early, refused))
        if processes.first:
            print(json.dumps(everyone))


if __name__ == "__main__":
    main(sys.argv[1:])
