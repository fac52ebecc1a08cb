"""Run in two processes: trains as `lexlip pretrain` does, and one of them is killed after a step."""

import os
import signal
import sys
from typing import Any

import torch

from lexlip.cli import main
from lexlip.training.log import Log


def die(killed: int, last: int) -> None:
    """Kill this process after step `last` if it is the process `killed`."""
    log_step = Log.step

    def step(self: Log, number: int, *arguments: Any) -> None:
        log_step(self, number, *arguments)
        if (number, self.processes.rank) == (last, killed):
            os.kill(os.getpid(), signal.SIGKILL)

    Log.step = step  # type: ignore[method-assign]


if __name__ == "__main__":
    torch.set_num_threads(1)
    die(int(sys.argv[1]), 7)
    main(["pretrain", *sys.argv[2:]], prog_name="lexlip")
