"""Run by torchrun: trains as `lexlip pretrain` does; the first time, a whole node dies after step 7.

The node is torchrun's agent, this process's parent, and its one process; which rank, the arguments say, and a
file that is there once it happened.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from lexlip.cli import main
from lexlip.training.log import Log


def die(rank: int, happened: Path) -> None:
    log_step = Log.step

    def step(self: Log, number: int, *arguments: Any) -> None:
        log_step(self, number, *arguments)
        if (number, self.processes.rank) == (7, rank) and not happened.exists():
            happened.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    Log.step = step  # type: ignore[method-assign]


if __name__ == "__main__":
    torch.set_num_threads(1)
    die(int(sys.argv[1]), Path(sys.argv[2]))
    main(["pretrain", *sys.argv[3:]], prog_name="lexlip")
