"""Clients that hold a server up, or send what is no HTTP.

python -m tools.campaign.connections FILES OPTION...   # `lexlip serve` with few files and little patience
"""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from urllib.parse import urlsplit

from lexlip.bench.endurance import KINDS, holding

from .contract import Broken, Place, attack
from .mutations import mutate
from .prepare import index_of
from .processes import printed, serving

PATIENCE = 20.0  # seconds: for a search, and for what the server should have closed after one or two
UPLOAD = 1_000_000  # bytes of a picture
LINES = 4  # that a try may add to the log
HOST = b"Host: localhost\r\n"
CHUNKED = HOST + b"Transfer-Encoding: chunked\r\n"
CHUNK = b"10000\r\n" + bytes(65536) + b"\r\n"
JSON = b"Content-Type: application/json\r\n"
HEADS = (
    b"GET /api/search?q=red HTTP/1.1\r\n" + CHUNKED + b"\r\n",
    b"GET /api/status HTTP/1.0\r\n" + CHUNKED + b"\r\n",
    b"POST /api/search HTTP/1.1\r\n" + JSON + CHUNKED + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"POST /api/search HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n" + HOST + b"\r\n",
)


class Server:
    """A running server, by its address and the number of its process."""

    def __init__(self, address: str, pid: int) -> None:
        self.address, self._pid = address, pid
        self._where = (str(urlsplit(address).hostname), urlsplit(address).port or 0)

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(self._where, timeout=PATIENCE)
        client.sendall(sent)
        return client

    def check_search(self, beside: str) -> None:
        """Check that a search is answered."""
        asking = http.client.HTTPConnection(*self._where, timeout=PATIENCE)
        try:
            asking.request("GET", "/api/search?q=two+red+circles&k=5")
            status = asking.getresponse().status
        except OSError as error:
            raise Broken(f"beside {beside} a search is not answered: {error!r}") from None
        finally:
            asking.close()
        if status != 200:
            raise Broken(f"beside {beside} a search has the status {status}")

    def files(self) -> int:
        """Return how many files it has open."""
        return len(os.listdir(f"/proc/{self._pid}/fd"))  # noqa: PTH208


@contextmanager
def _serving(place: Place, files: int = 400) -> Iterator[Server]:
    """Serve the prepared index with so many files; in the end, the log must be short and tell of no fault."""
    command = [sys.executable, "-m", __name__, files, "--index", index_of(place.prepared, "impact")]
    limits = ["--port", "0", "--max-seconds", "2", "--max-upload", UPLOAD / 1e6]
    with serving([*command, *limits], place.folder) as (address, process):
        server = Server(address, process.pid)
        yield server
        server.check_search("nothing else")
        log = printed(place.folder)
        lines = log.splitlines()[1:]
        if re.search(r"Traceback|fault|error", log, re.IGNORECASE) or len(lines) > LINES:
            raise Broken(f"the server has printed {len(lines)} lines: {' '.join(lines[:3])[:400]}")


def _rest(client: socket.socket, what: str) -> bytes:
    """Return what comes until the server closes a connection."""
    parts = []
    with suppress(ConnectionError):
        try:
            while part := client.recv(1 << 20):
                parts.append(part)
        except TimeoutError:
            raise Broken(f"{what} is still connected after {PATIENCE:g} s") from None
    return b"".join(parts)


@attack("connections.held", 10, 1, 180)
def held(random: Random, place: Place) -> None:
    """Open more connections than there are files: searches go on, and those that say nothing are closed."""
    files = random.choice([400, 450, 500])

    async def hold(server: Server) -> None:
        async with holding(server.address, round(files * random.uniform(0.4, 0.5))):
            for _ in range(8):
                await asyncio.to_thread(server.check_search, f"{files} clients that say nothing")
                await asyncio.sleep(random.uniform(0, 0.5))

    with _serving(place, files) as server:
        asyncio.run(hold(server))
        begun = {kind: KINDS[kind] for kind in ("silent", "half_head", "slow_body")}
        begun["body of GET"] = b"GET /api/status HTTP/1.1\r\nContent-Length: 9\r\n" + HOST + b"\r\n"
        clients = {kind: server.connect(sent) for kind, sent in begun.items()}
        for kind, client in clients.items():
            with client:
                _rest(client, kind)


@attack("connections.endless-bodies", 10, 1, 180)
def endless_bodies(random: Random, place: Place) -> None:
    """Send a body that does not end: it is refused, and not read on."""
    with _serving(place) as server:
        for _ in range(5):
            line = random.choice([b"POST /api/search", b"PUT /api/x", b"GET /api/status"])
            kind = random.choice([b"application/json", b"image/jpeg", b"text/plain"])
            head = line + b" HTTP/1.1\r\nContent-Type: " + kind + b"\r\n" + CHUNKED + b"\r\n"
            with server.connect(head) as client:
                with suppress(OSError):
                    for number in range(1600):
                        client.sendall(CHUNK)
                        if number > 600:  # 40 MB: more than the system holds for both of them
                            raise Broken(f"{line.decode()}: 40 MB of a body were read")
                if not re.match(rb"HTTP/1.1 [24]\d\d", _rest(client, "an endless body")):
                    raise Broken(f"{line.decode()} with an endless body has no answer")


@attack("connections.nobody-reads", 5, 0, 180)
def nobody_reads(random: Random, place: Place) -> None:
    """Ask for more than the system holds, and do not take it: the connection ends."""
    asked = 600 * (b"GET /api/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n")
    with _serving(place) as server, ExitStack() as clients:
        server.check_search("nothing else")
        before = server.files()
        for _ in range(random.randrange(3, 6)):
            clients.enter_context(server.connect(asked))
        until = time.monotonic() + 2 * PATIENCE
        while True:
            time.sleep(0.5)
            server.check_search("clients that take no answer")
            if server.files() <= before:
                return
            if time.monotonic() > until:
                raise Broken("who takes no answer stays connected")


@attack("connections.nonsense", 20, 0, 180)
def nonsense(random: Random, place: Place) -> None:
    """Send what is no HTTP, at the beginning or later, and hang up: the log says nothing of it."""
    more = [b'5\r\n{"q":\r\n', b"0\r\n\r\n", b"zz\r\n", b"\r\n", bytes(9), random.randbytes(3000)]
    with _serving(place) as server:
        for _ in range(150):
            parts = [random.choice(HEADS), *random.choices([*HEADS, *more], k=random.randrange(4))]
            if random.random() < 0.3:
                parts = [mutate(random, part) for part in parts]
            with server.connect() as client:
                client.settimeout(random.uniform(0.001, 0.02))
                for part in parts:
                    with suppress(OSError):  # it is closed, or there is no answer yet
                        client.sendall(part)
                        client.recv(1 << 16)


def _serve_hastily(files: int, options: list[str]) -> None:
    from lexlip.cli import main
    from lexlip.server import connections

    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    connections.HEAD = connections.TAKING = 1.0
    main(["serve", *options])


if __name__ == "__main__":
    _serve_hastily(int(sys.argv[1]), sys.argv[2:])
