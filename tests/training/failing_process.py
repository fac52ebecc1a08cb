"""Run in two processes: at each place that is named, the second one fails while the first waits for it."""

import os
import sys

import torch

from lexlip.errors import LexLIPError
from lexlip.training.distributed import Processes


def main(where: str) -> None:
    try:
        with Processes("cpu") as processes:
            processes.wait()
            if processes.rank == 1:
                raise LexLIPError("this one fails")
            if where == "numbers":
                processes.sum([1.0])
            elif where == "rows":
                processes.gather(torch.nn.Parameter(torch.ones(3)))
            else:
                processes.same_weights(torch.nn.Linear(2, 2))
    except LexLIPError as error:
        print(f"{where}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for where, port in zip(sys.argv[1:], os.environ["PORTS"].split(), strict=True):
        os.environ["MASTER_PORT"] = port
        child = os.fork()
        if not child:
            main(where)
        print(where, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
