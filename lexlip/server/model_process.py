"""The one further process of a server, for what needs the image model or takes long, and its tasks.

It is spawned on demand, and ended when idle.
"""

from __future__ import annotations

import io
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
from pathlib import Path
from typing import Any

from PIL import Image

from lexlip.data import UnreadableImage, decode
from lexlip.data.images import open_image, quiet
from lexlip.errors import FixableError
from lexlip.server.problems import Problem

Progress = Callable[[Any], None]
PATIENCE = 3.0  # seconds for a process that was killed to be gone
SIDE = 960  # pixels of a heat map's longer side


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
    if hasattr(os, "nice"):  # Windows has none
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
    if isinstance(error, UnreadableImage):
        return UnreadableImage(str(error))
    if isinstance(error, Problem):
        return error
    if isinstance(error, FixableError):
        return type(error)(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")


# ---- the tasks ----

_SEEING = ("load", "encode", "places", "heat")  # what needs the image model alone


def make_tasks(index: str, model: str | None, device: str, pixels: int) -> dict[str, Callable[..., Any]]:
    """Return the tasks of an index by their names; nothing is loaded yet.

    A picture that somebody sends has at most so many pixels.
    """
    tasks = ModelTasks(Path(index), model, device, pixels)
    return {name: getattr(tasks, name) for name in (*_SEEING, "update")}


def make_server_tasks(address: str, model: str, device: str, pixels: int) -> dict[str, Callable[..., Any]]:
    """Do the same for an index on a server, which is not updated; see `make_tasks`."""
    tasks = ServerTasks(address, model, device, pixels)
    return {name: getattr(tasks, name) for name in _SEEING}


class ModelTasks:
    """See `make_tasks`; each task runs in a thread of its own."""

    def __init__(self, index: Path, model: str | None, device: str, pixels: int) -> None:
        self.index, self.model, self.device, self.pixels = index, model, device, pixels
        self._lock = threading.Lock()
        self._loaded: tuple[str, Any] | None = None

    def _encoder(self) -> Any:
        """Return the model that made the index, which may be another one after it was made anew."""
        header = self._header()
        with self._lock:
            if self._loaded is None or self._loaded[0] != header.encoder:
                self._loaded = header.encoder, self._load(header)
            return self._loaded[1]

    def _header(self) -> Any:
        from anserini_bridge import read_header

        return read_header(self.index)

    def _load(self, header: Any) -> Any:
        from lexlip.search.engines.shard import read_index_of_words
        from lexlip.search.stages.index_model import load_dense_encoder, load_encoder

        if header.kind == "dense":
            return load_dense_encoder(self.index, header, self.model, self.device)
        return load_encoder(self.index, read_index_of_words(self.index), self.model, self.device)

    def load(self, progress: Progress) -> None:
        """Load the model, which takes a few seconds."""
        self._encoder()

    def encode(self, data: bytes, progress: Progress) -> Any:
        """Return a picture as a query of the index."""
        check_pixels(data, self.pixels)
        encoder = self._encoder()
        return encoder.encode_image([decode(data, encoder.config.image.size)])

    def places(self, data: bytes, words: list[str], progress: Progress) -> dict[str, Any]:
        """Return where words are in a photo."""
        _, found = self._places(data, words)
        said = found.to_dict()
        return {name: said[name] for name in ("rows", "columns", "box", "words")}

    def heat(self, data: bytes, word: str, progress: Progress) -> bytes:
        """Return where a word is in a photo, as a PNG to lay over it."""
        from lexlip.explain.heat_map import overlay

        photo, found = self._places(data, [word])
        scale = min(1.0, SIDE / max(photo.size))
        size = max(1, round(photo.width * scale)), max(1, round(photo.height * scale))
        buffer = io.BytesIO()
        overlay(found, word, size).save(buffer, "PNG")
        return buffer.getvalue()

    def update(self, prune: bool, progress: Progress) -> str:
        """Make the index match its photos again; return what was done."""
        from lexlip.cluster.shard_updating import update

        done = update(
            self.index,
            model=self.model,
            device=self.device,
            progress=lambda done, total: progress((done, total)),
            prune=prune,
        )
        numbers = {
            **{"added": done.added, "changed": done.changed, "moved": done.moved, "deleted": done.deleted},
            **{"unchanged": done.unchanged, "kept out of reach": done.kept, "skipped": len(done.skipped)},
            "encoded anew by the new model": done.encoded_anew,
        }
        said = [f"{number:,} {what}" for what, number in numbers.items() if number]
        return ", ".join([*said, f"{done.seconds:.1f} s"])

    def _places(self, data: bytes, words: list[str]) -> tuple[Image.Image, Any]:
        from lexlip.explain.word_places import places

        photo = decode(data, SIDE)
        return photo, places(self._encoder(), photo, words)


class ServerTasks(ModelTasks):
    """See `make_server_tasks`."""

    def __init__(self, address: str, model: str, device: str, pixels: int) -> None:
        from lexlip.search_servers.photo_index import PhotoIndex

        self._server = PhotoIndex.at(address)
        super().__init__(Path(self._server.server.index), model, device, pixels)

    def _header(self) -> Any:
        return self._server.described().metadata

    def _load(self, header: Any) -> Any:
        from lexlip.search.stages.index_model import load_encoder

        return load_encoder(self.index, header, self.model, self.device)


def check_pixels(data: bytes, most: int) -> None:
    """Refuse a picture of too many pixels before it is decoded."""
    try:
        with quiet(), open_image(data) as image:
            pixels = image.width * image.height
    except UnreadableImage:  # who decodes it says what is wrong with it
        return
    if pixels > most:
        raise Problem(413, f"the picture has {pixels:,} pixels: send one of at most {most:,}")
