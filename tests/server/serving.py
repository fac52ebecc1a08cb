"""Servers for tests: real ones, on a free port."""

import faulthandler
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from lexlip.server.access import Access, Limits
from lexlip.server.application import make_application
from lexlip.server.connections import make_server
from lexlip.server.model_process import make_server_tasks, make_tasks
from lexlip.server.photo_addresses import where_photos_are
from lexlip.server.running import listen, open_server_search
from lexlip.server.served_index import ServedIndex
from lexlip.server.served_server import ServedServer


@dataclass
class Serving:
    """A server that runs in a thread.

    Attributes:
        served: its index.
        client: asks it.
    """

    served: ServedIndex
    client: httpx2.Client

    @property
    def address(self) -> str:
        """Where its page is."""
        return f"{self.client.base_url}/"

    def get(self, path: str, **options: Any) -> Any:
        """Return the JSON of a call that succeeds."""
        answer = self.client.get(f"/api{path}", **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, code: int = 200, **options: Any) -> Any:
        answer = self.client.post(f"/api{path}", **options)
        assert answer.status_code == code, answer.text
        return answer.json()

    def search(self, query: str, **options: Any) -> Any:
        return self.get("/search", params={"q": query, **options})

    def updated(self, seconds: float = 120) -> str:
        """Wait for the end of an update; return what it says."""
        until(lambda: not self.get("/status")["update"]["running"], seconds)
        return str(self.get("/status")["update"]["message"])


class ModelHere:
    """Runs the tasks of a server's model in this process, as one of their own takes seconds to start."""

    pid = None

    def __init__(self, tasks: dict[str, Callable[..., Any]]) -> None:
        self._tasks = tasks

    def call(self, task: str, *arguments: Any, seconds: float | None = None, progress: Any = print) -> Any:
        return self._tasks[task](*arguments, progress=progress)

    def close(self) -> None:
        """Leave nothing behind."""


@contextmanager
def running(application: Any, port: int = 0) -> Iterator[str]:
    """Give the address of a server that runs in a thread for the block."""
    listening = listen("127.0.0.1", port)
    server = make_server(application)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        if thread.is_alive():
            faulthandler.dump_traceback(sys.__stderr__)
        assert not thread.is_alive(), "the server does not end: stderr says where each thread is"


@contextmanager
def serving(
    index: Path,
    limits: Limits | None = None,
    token: str | None = None,
    names: tuple[str, ...] = (),
    rate: float = 0,
    watch: bool = False,
    port: int = 0,
    own_process: bool = False,
) -> Iterator[Serving]:
    """Serve an index for the block; the image model has a process of its own only on request."""
    limits = limits or Limits()
    served = ServedIndex(index, limits=limits)
    if not own_process:
        tasks = make_tasks(str(index), None, "cpu", limits.upload_pixels)
        served.model = ModelHere(tasks)  # type: ignore[assignment]
    access = Access(token=token, names=names, rate=rate)
    with answering(served, make_application(served, access, watch), port) as server:
        yield server


@contextmanager
def serving_server(address: str, photos: Sequence[str] = ()) -> Iterator[Serving]:
    """Serve an index on a server for the block, with --photos as the command takes it."""
    folders, addresses = where_photos_are(tuple(map(str, photos)))
    search = open_server_search(address, "mini", "cpu", folders)
    served = ServedServer(search, "mini", "cpu", None, folders, addresses)
    served.follower._every = 0.1
    served.model = ModelHere(make_server_tasks(address, "mini", "cpu", 10**8))  # type: ignore[assignment]
    origin = "" if addresses is None else addresses.origin
    with answering(served, make_application(served, Access(), pictures_from=origin)) as server:
        yield server


@contextmanager
def answering(served: ServedIndex, application: Any, port: int = 0) -> Iterator[Serving]:
    with (
        running(application, port) as address,
        httpx2.Client(base_url=address, timeout=300) as client,
    ):
        yield Serving(served, client)


def until(condition: Callable[[], object], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def problem(answer: httpx2.Response, status: int) -> str:
    """Check that an answer is a problem document; return its sentence."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) == {"type", "title", "status", "detail"}
    assert body["status"] == status
    assert "Traceback" not in body["detail"]
    assert not body["detail"].endswith(".")
    return str(body["detail"])
