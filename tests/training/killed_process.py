"""Run in several processes: trains as `lexlip pretrain` does, and one of them is killed after step 7.

The arguments are its rank, -1 for none, and the command line's. Under torchrun, if HAPPENED is set, its
agent, the parent, is killed too: a whole node dies, and only once, as the file of that name then exists.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from lexlip.cli import main
from lexlip.training.log import Log

LAST = 7


def die(killed: int, happened: Path | None) -> None:
    log_step = Log.step

    def step(self: Log, number: int, *arguments: Any) -> None:
        log_step(self, number, *arguments)
        if (number, self.processes.rank) == (LAST, killed):
            if happened is not None:
                if happened.exists():
                    return
                happened.touch()
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    Log.step = step  # type: ignore[method-assign]


if __name__ == "__main__":
    torch.set_num_threads(1)
    node = os.environ.get("HAPPENED")
    die(int(sys.argv[1]), None if node is None else Path(node))
    main(["pretrain", *sys.argv[2:]], prog_name="lexlip")
