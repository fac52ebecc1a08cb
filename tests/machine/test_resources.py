import ctypes
import multiprocessing
import os
import platform
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest
import torch

from lexlip.errors import ConfigError
from lexlip.machine import resources
from lexlip.machine.resources import (
    fitting,
    in_own_process,
    in_thread,
    photos_at_a_time,
    texts_at_a_time,
    worker_context,
)

ROUNDS = """
import resource, torch
from lexlip.machine.resources import keep_freed_memory
def faults():
    torch.ones(40 * 2**20)  # 160 MB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def in_ten_rounds():
    before = [faults() for _ in range(10)][-1]  # it takes a few until there is room for all
    return [faults() for _ in range(10)][-1] - before
print(in_ten_rounds())
keep_freed_memory()
print(in_ten_rounds())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
@pytest.mark.slow
def test_a_freed_tensors_pages_are_used_again() -> None:
    before, after = map(int, subprocess.check_output([sys.executable, "-c", ROUNDS], text=True).split())
    assert before > 100  # the system clears the same pages again and again
    assert after < before / 10


def test_a_variable_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    there = resources.cores()
    monkeypatch.setenv("LEXLIP_CORES", "3")
    assert resources.cores() == 3
    for nothing in ("", "0", "many"):
        monkeypatch.setenv("LEXLIP_CORES", nothing)
        assert resources.cores() == there


def test_the_memory_of_the_machine() -> None:
    assert resources.describe()["memory_gb"] == round(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1
    )


def test_the_memory_that_windows_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """GlobalMemoryStatusEx is told the size of what it fills, 64 bytes; the total begins at byte 8."""

    def fill(status: Any) -> int:
        place = ctypes.addressof(status._obj)
        assert ctypes.c_uint32.from_address(place).value == 64
        ctypes.c_uint64.from_address(place + 8).value = 17_179_869_184
        return 1

    kernel = type("Kernel", (), {"GlobalMemoryStatusEx": staticmethod(fill)})
    monkeypatch.setattr(resources.sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "windll", type("Libraries", (), {"kernel32": kernel}), raising=False)
    assert resources.describe()["memory_gb"] == 17.2


def test_too_little_memory_is_said_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "container_memory", lambda: 250e6)
    monkeypatch.setattr(resources, "address_space", lambda: 4e9)
    resources.check_memory("it", 250, 4000)
    with pytest.raises(ConfigError, match=r"^it needs 350 MB of memory, and .* allows 250 MB: "):
        resources.check_memory("it", 350, 1000)
    with pytest.raises(ConfigError, match=r"^torch needs 5000 MB of address space.*`ulimit -v 5000000`"):
        resources.check_memory("torch", *resources.TORCH)


def where() -> tuple[int, str]:
    return os.getpid(), multiprocessing.get_start_method()


def die() -> None:
    os._exit(9)


def fail() -> None:
    raise ValueError("a reason")


@pytest.mark.usefixtures("forked")
def test_a_function_runs_in_a_process_of_its_own_that_starts_workers_as_this_one_does() -> None:
    pid, method = in_own_process(where)
    assert pid != os.getpid()
    assert method == multiprocessing.get_start_method()


@pytest.mark.usefixtures("forked")
def test_each_call_has_a_new_process() -> None:
    assert in_own_process(where)[0] != in_own_process(where)[0]


@pytest.mark.usefixtures("forked")
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


@pytest.mark.parametrize(
    ("free", "each", "number"),
    [(0, 10, 1), (19, 10, 1), (160, 10, 8), (319, 10, 8), (320, 10, 16), (10**12, 10, 256)],
)
def test_as_many_as_take_half_of_the_memory(free: int, each: int, number: int) -> None:
    assert fitting(free, each, 256) == number


def test_photos_and_captions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda", 0)
    assert [photos_at_a_time(torch.device("cpu"), size) for size in (224, 384)] == [8, 8]
    assert texts_at_a_time(torch.device("cpu")) == 256
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * 2**30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * 2**30)
    for free, photos, larger, texts in ((23, 256, 128, 512), (3, 64, 16, 512), (0, 16, 4, 128)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free * 2**30, 2**40))
        assert (photos_at_a_time(gpu, 224), photos_at_a_time(gpu, 384), texts_at_a_time(gpu)) == (
            photos,
            larger,
            texts,
        )


def test_in_thread() -> None:
    begun = threading.Event()
    thread = in_thread(lambda: begun.wait(60) and threading.get_ident())
    begun.set()  # it would wait in vain if the function were called in this thread
    assert thread() == thread() != threading.get_ident()
    wrong = in_thread(int, "x")
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            wrong()
