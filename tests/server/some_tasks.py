"""Tasks for a process of its own, in tests."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lexlip.errors import DataError


def make_some_tasks(name: str) -> dict[str, Callable[..., Any]]:
    def greet(who: str, progress: Callable[[Any], None]) -> str:
        return f"{name} greets {who}"

    def count(to: int, progress: Callable[[Any], None]) -> int:
        for number in range(to):
            progress(number)
        return to

    def pid(progress: Callable[[Any], None]) -> int:
        return os.getpid()

    def modules(progress: Callable[[Any], None]) -> list[str]:
        return sorted(sys.modules)

    def wait(seconds: float, progress: Callable[[Any], None]) -> int:
        time.sleep(seconds)
        return os.getpid()

    def refuse(progress: Callable[[Any], None]) -> None:
        raise DataError("no such photo")

    def fail(progress: Callable[[Any], None]) -> None:
        raise ZeroDivisionError("by zero")

    def read(path: str, progress: Callable[[Any], None]) -> str:
        return Path(path).read_text()

    def crash(progress: Callable[[Any], None]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    found = locals()
    return {key: value for key, value in found.items() if callable(value)}
