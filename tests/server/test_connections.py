import asyncio
import errno
import json
import socket
import threading
from typing import Any

import httpx2
import pytest

from lexlip.server import connections
from lexlip.server.connections import Connections, make_server
from tests.server.serving import running

HEAD = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 30_000_000  # bytes, more than the system holds for a client
THREE_WAIT, FOURTH_CAME = threading.Semaphore(0), threading.Event()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer without a look at the body: at /large `LARGE` bytes, at /wait once a fourth came."""
    if scope["type"] == "http":
        if scope["path"] == "/wait":
            THREE_WAIT.release()
            while not FOURTH_CAME.is_set():
                await asyncio.sleep(0.01)
        body = b"x" * (LARGE if scope["path"] == "/large" else 2)
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def connect(address: str, sent: bytes = b"") -> socket.socket:
    client = socket.socket()
    client.settimeout(30)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # else Linux may hold all of `LARGE`
    client.connect(("127.0.0.1", int(address.rpartition(":")[2])))
    client.sendall(sent)
    return client


def received(client: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection."""
    parts = []
    try:
        while part := client.recv(1 << 20):
            parts.append(part)
    except ConnectionResetError:
        pass
    client.close()
    return b"".join(parts)


def ask(address: str) -> int:
    return httpx2.get(address, timeout=30).status_code


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", 0),
        (HEAD % b"" + b"X-Half: ", 0),
        (HEAD % b"" + b"\r\n", 1),
        (HEAD % b"" + b"\r\n" + HEAD % b"", 1),
        (HEAD % b"" + b"Content-Length: 100\r\n\r\nslow", 1),
    ],
    ids=["silent", "half a head", "idle", "half of the next head", "half a body"],
)
def test_who_says_no_more_is_hung_up_on(sent: bytes, answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD", 0.1)
    with running(application) as address:
        assert received(connect(address, sent)).count(b"HTTP/1.1 200") == answers


def test_who_takes_no_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD", 0.1)
    monkeypatch.setattr(connections, "TAKING", 0.1)
    gone = threading.Event()
    leave = Connections.leave
    monkeypatch.setattr(Connections, "leave", lambda *them: (leave(*them), gone.set()))
    with running(application) as address:
        client = connect(address, HEAD % b"large" + b"\r\n")
        assert gone.wait(30)
        assert len(received(client)) < LARGE


def test_who_takes_an_answer_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD", 0.01)
    with running(application) as address:
        assert len(received(connect(address, HEAD % b"large" + b"Connection: close\r\n\r\n"))) > LARGE


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /two dogs HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /größe HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),  # as curl sends it
        b"GET / HTTP/1.1\r\n\r\n",  # which names no host
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a greeting of TLS\r\n",
        HEAD % b"" + b"Content-Length: -5\r\n\r\n",
        HEAD % b"" + b"X-Long: " + b"x" * 70_000,
    ],
)
def test_what_is_no_http_gets_a_problem_document(sent: bytes) -> None:
    with running(application) as address:
        head, _, body = received(connect(address, sent)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n")
    assert json.loads(body)["detail"].startswith("this is no HTTP: check the address (%20 for a space")


def test_where_there_are_too_many_the_first_that_waits_goes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connections, "MOST", 6)  # three of one client
    with running(application) as address:
        waiting = [connect(address) for _ in range(3)]
        for first in waiting.copy():
            waiting.append(connect(address, HEAD % b"" + b"\r\n"))
            assert waiting[-1].recv(1 << 16).startswith(b"HTTP/1.1 200")
            assert received(first) == b""
        at_work = [connect(address, HEAD % b"wait" + b"Connection: close\r\n\r\n") for _ in range(3)]
        assert all(THREE_WAIT.acquire(timeout=30) for _ in range(3))
        refused = received(connect(address))
        FOURTH_CAME.set()
        assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nContent-Type: application/problem+json\r\n" in refused
        assert refused.endswith(b'"the server is busy with other connections: try again in a second"}')
        assert all(received(client).startswith(b"HTTP/1.1 200") for client in at_work)
        for client in waiting[3:]:
            client.close()
        assert ask(address) == 200
    said = "more than 3 connections of 127.0.0.1: those that say nothing are closed\n"
    assert capfd.readouterr().err == said


def test_one_client_leaves_room_for_others() -> None:
    class Silent:
        def __init__(self, address: str, since: int) -> None:
            self.address, self.since, self.gone = address, since, False
            self.transport = self

        def is_at_work(self) -> bool:
            return False

        def unsent(self) -> int:
            return 0

        def abort(self) -> None:
            self.gone = True

    known = Connections(8)
    some: list[Any] = [Silent(f"192.0.2.{number // 6}", number) for number in range(12)]
    assert all(known.enter(one) for one in some)
    assert [one.since for one in some if not one.gone] == [2, 3, 4, 5, 8, 9, 10, 11]
    other: Any = Silent("192.0.2.9", 12)
    assert known.enter(other)
    assert [one.since for one in some if not one.gone] == [3, 4, 5, 8, 9, 10, 11]


def test_a_body_is_not_read_on_after_its_answer() -> None:
    chunk = b"%x\r\n%s\r\n" % (1 << 16, bytes(1 << 16))
    with running(application) as address:
        client = connect(address, HEAD % b"" + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(1000 * chunk)
        assert received(client).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("answered", [True, False])
def test_what_is_no_http_is_no_fault(answered: bool, capfd: pytest.CaptureFixture[str]) -> None:
    head, wrong = HEAD % b"" + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n"
    with running(application) as address:
        client = connect(address, head if answered else head + wrong)
        if answered:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
            client.sendall(wrong)
        assert received(client).count(b"HTTP/1.1") == (not answered)
        assert ask(address) == 200
    assert capfd.readouterr().err == ""


def test_what_asyncio_says_of_accept_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    server: Any = make_server(application)  # type: ignore[arg-type]
    loop = asyncio.new_event_loop()
    error = OSError(errno.EMFILE, "Too many open files")
    for _ in range(1000):
        context = {"message": "socket.accept() out of system resource", "exception": error}
        server._note(loop, context)
    loop.close()
    assert capfd.readouterr().err == "no connection can be accepted now: Too many open files\n"
    server.server_state._quiet_until = 0.0
    server.server_state.say("again")
    assert capfd.readouterr().err == "again (999 more such events since the last line)\n"
