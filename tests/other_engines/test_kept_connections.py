"""Connections are used again, and replaced once a server has closed them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import URLError

import pytest

from lexlip.other_engines.kept_connections import KeptConnections


@dataclass
class Asked:
    address: str = ""
    connections: list[Any] = field(default_factory=list)
    """Of each request, in their order."""
    fault: str = ""
    together: threading.Barrier | None = None
    """Where requests wait for one another."""


@contextmanager
def answering() -> Iterator[Asked]:
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.connections.append(self.client_address)
            fault = asked.fault
            if asked.together is not None:
                asked.together.wait(10)
            if fault == "closed":
                self.close_connection = True
                return
            self.send_response(404 if fault == "missing" else 200)
            self.send_header("Content-Length", f"{len(body)}")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = fault == "silently"

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    asked.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()


def send(connections: KeptConnections, body: bytes = b"[1]", most: int = 100) -> tuple[int, bytes]:
    return connections.ask("POST", "/photos", body, {}, 10, most)


def test_one_connection_carries_many_requests() -> None:
    with answering() as server:
        connections = KeptConnections(server.address)
        server.fault = "missing"
        assert send(connections, b"{}") == (404, b"{}")  # an error is read to its end, too
        server.fault = ""
        assert [send(connections) for _ in range(4)] == [(200, b"[1]")] * 4
        assert len(server.connections) == 5
        assert len(set(server.connections)) == 1
        del connections


def test_threads_have_connections_of_their_own_which_are_kept() -> None:
    with answering() as server:
        connections, number = KeptConnections(server.address), 6
        for _ in range(3):
            server.together = threading.Barrier(number)  # passed only if all are asked at once
            threads = [threading.Thread(target=send, args=(connections,)) for _ in range(number)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(server.connections) == 3 * number
        assert len(set(server.connections)) == number
        del connections


def test_an_answer_that_is_too_long_is_cut_off() -> None:
    with answering() as server:
        connections = KeptConnections(server.address)
        assert send(connections, b"x" * 1000, 10) == (200, b"x" * 10)
        assert send(connections, b"[2]") == (200, b"[2]")  # not what was left of the first
        assert len(set(server.connections)) == 2
        del connections


def test_a_connection_that_the_server_has_closed_is_replaced() -> None:
    with answering() as server:
        connections = KeptConnections(server.address)
        server.fault = "silently"
        send(connections)
        server.fault = ""
        assert send(connections, b"[2]") == (200, b"[2]")
        assert len(set(server.connections)) == 2
        del connections


def test_a_new_connection_that_breaks_off_is_an_error() -> None:
    with answering() as server:
        connections = KeptConnections(server.address)
        server.fault = "closed"
        with pytest.raises((OSError, HTTPException)):
            send(connections)
        assert len(server.connections) == 1
    with pytest.raises(URLError):
        send(KeptConnections(server.address))
