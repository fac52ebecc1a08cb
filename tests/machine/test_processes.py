import multiprocessing
import os
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest

from lexlip.machine.processes import in_own_process, worker_context


def where() -> tuple[int, str]:
    return os.getpid(), multiprocessing.get_start_method()


def die() -> None:
    os._exit(9)


def fail() -> None:
    raise ValueError("a reason")


def test_a_function_runs_in_a_process_of_its_own_that_starts_workers_as_this_one_does() -> None:
    pid, method = in_own_process(where)
    assert pid != os.getpid()
    assert method == multiprocessing.get_start_method()


def test_each_call_has_a_new_process() -> None:
    assert in_own_process(where)[0] != in_own_process(where)[0]


def test_errors_come_back() -> None:
    with pytest.raises(ValueError, match="a reason"):
        in_own_process(fail)
    with pytest.raises(BrokenProcessPool):
        in_own_process(die)


def test_workers_are_spawned_beside_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jnius", sys)
    assert worker_context().get_start_method() == "spawn"
    monkeypatch.delitem(sys.modules, "jnius")
    assert worker_context().get_start_method() == multiprocessing.get_start_method()
