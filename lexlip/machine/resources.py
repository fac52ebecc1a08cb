"""The machine that this process runs on: cores, memory, further processes, and how to describe it."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from anserini_bridge.memory_limits import address_space, container_memory, memory_left
from lexlip.errors import ConfigError

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    import torch

Result = TypeVar("Result")

LEAST, TORCH = (220, 1000), (1000, 5000)
"""MB of memory and of address space that a search takes at least, with the packaged model and with torch."""

NEEDED = {
    **dict.fromkeys(("index", "demo", "keywords"), (350, 1100)),
    **dict.fromkeys(("evaluate", "lexicon", "package", "pretrain", "table"), TORCH),
}
"""By command the same, where it is more."""

BYTES_A_PIXEL = 512  # of a GPU's memory, to encode a photo; large encoders take a quarter of it
BYTES_A_TEXT = 4_000_000  # to encode a caption, with its vector over a whole vocabulary
PHOTOS_ON_CPU, TEXTS_ON_CPU = 8, 256  # encoded at a time; more take more memory, and no less time
PHOTOS_ON_GPU, TEXTS_ON_GPU = 256, 512  # at most: from there on a GPU is busy

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # options of mallopt, from glibc's malloc.h
_NEVER, _GROWTH = 2**31 - 1, 2**28  # bytes


def cores() -> int:
    """Return how many processor cores this process may use; LEXLIP_CORES says so if it is set."""
    if (given := os.environ.get("LEXLIP_CORES", "")).isdigit() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def of_torchrun(variable: str, usual: int = 0) -> int:
    """Return what torchrun says in an environment variable; ConfigError: it is no whole number."""
    given = os.environ.get(variable) or usual
    try:
        return int(given)
    except ValueError:
        raise ConfigError(
            f"{variable} is '{given}', where torchrun sets a whole number: unset it to train in one process"
        ) from None


def check_memory(what: str, memory: int, addresses: int) -> None:
    """Check that limits allow what something takes, in MB: libraries, or the system, would end it.

    ConfigError: they allow less memory, or less address space.
    """
    if address_space() < addresses * 1e6:
        raise ConfigError(
            f"{what} needs {addresses} MB of address space, and {address_space() / 1e6:.0f} MB are allowed:"
            f" raise the limit with `ulimit -v {addresses}000`, or lift it with `ulimit -v unlimited`"
        )
    if container_memory() < memory * 1e6:
        raise ConfigError(
            f"{what} needs {memory} MB of memory, and this container or control group allows"
            f" {container_memory() / 1e6:.0f} MB: allow it more, such as with `docker run --memory 1200m`"
        )


def photos_at_a_time(device: torch.device, size: int) -> int:
    """Return how many photos of size x size pixels to encode at a time.

    It is a power of two, by the memory of a GPU that is free, or that this process may still have.
    """
    most = PHOTOS_ON_GPU if device.type == "cuda" else PHOTOS_ON_CPU
    return fitting(_free_bytes(device), BYTES_A_PIXEL * size**2, most)


def texts_at_a_time(device: torch.device) -> int:
    """Return how many captions to encode at a time, as `photos_at_a_time` does."""
    most = TEXTS_ON_GPU if device.type == "cuda" else TEXTS_ON_CPU
    return fitting(_free_bytes(device), BYTES_A_TEXT, most)


def fitting(free: float, each: int, most: int) -> int:
    """Return the largest power of two, 1 to `most`, of things of `each` bytes that take half of `free`."""
    number = int(max(1, min(most, free / (2 * each))))
    return 1 << (number.bit_length() - 1)


def _free_bytes(device: torch.device) -> float:
    """Return the bytes that this process can still have; of a GPU those that torch keeps for it included."""
    if device.type != "cuda":
        return memory_left()
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def keep_freed_memory() -> None:
    """Reuse the memory of freed tensors for as long as the process lives.

    glibc returns blocks of more than 32 MB to the system at once and requests them again for the next
    batch. The system must then clear every page, which can take half of the time when a batch of photos is
    encoded. Other C libraries are not changed, nor is anything where address space is limited.
    """
    if address_space() < math.inf:
        return
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _GROWTH)):
            libc.mallopt(option, value)


def memory_mb() -> float:
    """Return the memory that this process holds, pages of mapped files included, in MB (10^6 bytes).

    Outside Linux it is the most that the process has held.
    """
    return _own_mb("VmRSS")


def peak_memory_mb() -> float:
    """Return the most memory that this process has held, in MB (10^6 bytes)."""
    return _own_mb("VmHWM")


def _own_mb(field: str) -> float:
    """Return a field of `status_mb`; elsewhere the peak, which a child inherits, or NaN on Windows."""
    if (found := status_mb(field)) is not None:
        return found
    try:
        import resource
    except ModuleNotFoundError:
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def status_mb(field: str, pid: int | str = "self") -> float | None:
    """Return a field of Linux's /proc/PID/status in MB (10^6 bytes), such as "VmRSS"; elsewhere None."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1e6


def describe() -> dict[str, Any]:
    """Return processor, usable cores, memory in GB (10^9 bytes), system and Python version."""
    return {
        "cpu": _processor(),
        "cores": cores(),
        "memory_gb": round(_memory() / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows."""

    _fields_: ClassVar = [
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 6),
    ]


def _memory() -> int:
    """Return the memory of the machine, in bytes."""
    if sys.platform != "win32":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise ctypes.WinError()
    return int(status.total)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


# ---- further processes ----


def worker_context() -> BaseContext:
    """Return the multiprocessing context for worker processes: the system's default, which forks on Linux.

    A JVM does not survive a fork, so if this process runs one, workers are spawned.
    """
    import multiprocessing

    return multiprocessing.get_context("spawn" if "jnius" in sys.modules else None)


def in_thread(function: Callable[..., Result], *arguments: Any) -> Callable[[], Result]:
    """Begin a function in a thread; return what waits for its end, and returns or raises what it does."""
    made: list[Result] = []
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            made.append(function(*arguments))
        except BaseException as error:  # raised by `end`
            wrong.append(error)

    def end() -> Result:
        thread.join()
        if wrong:
            raise wrong[0].with_traceback(None)
        return made[0]

    thread = Thread(target=run)  # a pool takes longer to load than to use
    thread.start()
    return end


def in_own_process(
    function: Callable[..., Result], *arguments: Any, killed: Exception | None = None
) -> Result:
    """Run a function in a new process in which nothing ran before, and return what it returns.

    The new process starts its own workers by this process's start method. BrokenProcessPool: the system
    killed it, for example because memory ran out; or `killed`.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    if "forkserver" in multiprocessing.get_all_start_methods():
        context: Any = multiprocessing.get_context("forkserver")  # forks from one without threads or a GPU
        context.set_forkserver_preload([function.__module__])
    else:
        context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, _set_start_method, (multiprocessing.get_start_method(),)) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            if killed is None:
                raise
            raise killed from error


def _set_start_method(method: str) -> None:
    """Set the start method, which a process of the forkserver would otherwise inherit as "forkserver"."""
    import multiprocessing

    multiprocessing.set_start_method(method, force=True)
