"""Run in two processes, with or without torchrun: the second one fails while the first waits for it."""

import sys

import torch

from lexlip.errors import LexLIPError
from lexlip.training.distributed import Processes


def main(where: str) -> None:
    torch.set_num_threads(1)
    try:
        with Processes("cpu") as processes:
            processes.wait()
            if processes.rank == 1:
                raise LexLIPError("this one fails")
            if where == "numbers":
                processes.sum([1.0])
            else:
                parameter = torch.nn.Parameter(torch.ones(3))
                processes.gather(parameter) if where == "rows" else processes.same_weights(
                    torch.nn.Linear(2, 2)
                )
    except LexLIPError as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1])
