"""The one further process of a server, for what needs the image model: spawned on demand, ended when idle."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from lexlip.server.problems import Problem

Progress = Callable[[Any], None]
PATIENCE = 3.0  # seconds for a process that was killed to be gone


@dataclass
class _Running:
    """A process, with those who wait for its answers by the number of their call."""

    process: BaseProcess
    connection: Connection
    sending: threading.Lock = field(default_factory=threading.Lock)
    waiting: dict[int, tuple[Future[Any], Progress | None]] = field(default_factory=dict)
    listener: threading.Thread | None = None


class ModelProcess:
    """Calls functions in a process of their own; safe to use from several threads.

    What crashes there, or takes too long, ends those calls alone; the next call starts a new process.

    Args:
        make_tasks: called in the process, once; returns the tasks by name. Each is called with its arguments
            and with a function that reports progress. Importable, as the process is spawned: Java and
            threads do not survive a fork.
        arguments: for `make_tasks`.
        idle: seconds without a call after which the process ends.
    """

    def __init__(
        self,
        make_tasks: Callable[..., dict[str, Callable[..., Any]]],
        arguments: tuple[Any, ...],
        idle: float,
    ) -> None:
        self._make_tasks, self._arguments, self._idle = make_tasks, arguments, idle
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._running: _Running | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        running = self._running
        return None if running is None else running.process.pid

    def call(
        self, task: str, *arguments: Any, seconds: float | None = None, progress: Progress | None = None
    ) -> Any:
        """Return what a task returns; tasks of one name run one after another.

        Raises:
            Problem: 503, the process died; 504, the task took more than `seconds`, and was ended.
            FixableError: the task's own.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise Problem(503, "the server is stopping")
            running = self._running or self._start()
            number = next(self._numbers)
            running.waiting[number] = future, progress
        with running.sending, suppress(OSError):  # it has just died; who listens to it says so
            running.connection.send((number, task, arguments))
        try:
            return future.result(seconds)
        except Late:
            running.process.kill()
            raise Problem(504, f"that took more than {seconds:g} seconds") from None

    def close(self) -> None:
        """End the process, and whatever runs in it: an index stays as it was."""
        with self._lock:
            self._closed = True
            running = self._running
        if running is not None:
            running.process.kill()
            assert running.listener is not None
            running.listener.join(2 * PATIENCE)

    def _start(self) -> _Running:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        arguments = (there, self._make_tasks, self._arguments)
        process = context.Process(target=_serve, args=arguments, name="lexlip model")
        process.start()
        there.close()
        self._running = running = _Running(process, here)
        running.listener = threading.Thread(target=self._listen, args=(running,), daemon=True)
        running.listener.start()
        return running

    def _listen(self, running: _Running) -> None:
        """Give answers to those who wait for them; when that ends, so do the process and the waiting."""
        try:
            while self._take(running):
                pass
        finally:
            with self._lock:
                self._forget(running)
                left, running.waiting = running.waiting, {}
            running.process.kill()
            running.process.join(PATIENCE)
            running.connection.close()
            for future, _ in left.values():
                future.set_exception(Problem(503, "the process with the image model ended: try again"))

    def _take(self, running: _Running) -> bool:
        """Give the next answer to who waits for it; return whether there may be more.

        There are none once the process has ended, or was idle for long.
        """
        try:
            if not running.connection.poll(self._idle):
                with self._lock:
                    if not running.waiting:
                        self._forget(running)
                    return bool(running.waiting)
            number, kind, value = running.connection.recv()
        except (EOFError, OSError):
            return False
        with self._lock:
            future, progress = running.waiting[number] if kind == "progress" else running.waiting.pop(number)
        if kind == "error":
            future.set_exception(value)
        elif kind == "value":
            future.set_result(value)
        elif progress is not None:
            progress(value)
        return True

    def _forget(self, running: _Running) -> None:
        if self._running is running:
            self._running = None


def _serve(
    connection: Connection,
    make_tasks: Callable[..., dict[str, Callable[..., Any]]],
    arguments: tuple[Any, ...],
) -> None:
    """Run tasks as they come, those of one name in a thread of their own, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    multiprocessing.set_start_method("spawn", force=True)  # Java may run here too
    os.nice(5)  # searches go first
    sending = threading.Lock()
    threads: dict[str, ThreadPoolExecutor] = {}
    tasks = make_tasks(*arguments)

    def send(number: int, kind: str, value: Any) -> None:
        try:
            with sending:
                connection.send((number, kind, value))
        except OSError:
            os._exit(1)  # nobody listens any more

    def run(number: int, task: str, given: tuple[Any, ...]) -> None:
        try:
            value = tasks[task](*given, progress=lambda value: send(number, "progress", value))
        except Exception as error:
            send(number, "error", _sendable(error))
        else:
            send(number, "value", value)

    while True:
        try:
            number, task, given = connection.recv()
        except (EOFError, OSError):  # the server was killed
            os._exit(0)
        threads.setdefault(task, ThreadPoolExecutor(1)).submit(run, number, task, given)


def _sendable(error: Exception) -> Exception:
    """Return an error as it can be sent: one for the user as it is, a fault of the program by its name."""
    from lexlip.data import UnreadableImage
    from lexlip.errors import FixableError

    if isinstance(error, UnreadableImage):
        return UnreadableImage(str(error))
    if isinstance(error, Problem):
        return error
    if isinstance(error, FixableError):
        return type(error)(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")
