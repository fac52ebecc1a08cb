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


@contextmanager
def serving(
    index: Path,
    limits: Limits | None = None,
    token: str | None = None,
    names: tuple[str, ...] = (),
    rate: float = 0,
    watch: bool = False,
    headers: dict[str, str] | None = None,
    port: int = 0,
) -> Iterator[Serving]:
    """Serve an index for the block."""
    served = ServedIndex(index, limits=limits or Limits())
    listening = listen("127.0.0.1", port)
    application = make_application(served, Access(token=token, names=names, rate=rate), watch)
    server = make_server(application)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx2.Client(base_url=address, timeout=120, headers=headers) as client:
            yield Serving(served, client)
    finally:
        server.should_exit = True
        thread.join(30)
        if thread.is_alive():
            faulthandler.dump_traceback(sys.__stderr__)
        assert not thread.is_alive(), "the server does not end: stderr says where each thread is"


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
