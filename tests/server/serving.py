"""Servers for tests: real ones, on a free port."""

import faulthandler
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from lexlip.server.access import Access, Limits
from lexlip.server.application import make_application
from lexlip.server.connections import make_server
from lexlip.server.model_process import make_tasks
from lexlip.server.running import listen
from lexlip.server.served_index import ServedIndex


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

    def __init__(self, index: Path, limits: Limits) -> None:
        self._tasks = make_tasks(str(index), None, "cpu", limits.upload_pixels)

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
        served.model = ModelHere(index, limits)  # type: ignore[assignment]
    application = make_application(served, Access(token=token, names=names, rate=rate), watch)
    with (
        running(application, port) as address,
        httpx2.Client(base_url=address, timeout=120) as client,
    ):
        yield Serving(served, client)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
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
