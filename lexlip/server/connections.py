"""Connections: how many may be open, and how long each may keep the server waiting.

An application sees a connection only once the head of a request has come. Silence before that, and answers
that nobody takes, are noticed here.
"""

from __future__ import annotations

import asyncio
import errno
import json
import math
import socket
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from lexlip.server.problems import KIND, Problem, busy

if TYPE_CHECKING:
    from fastapi import FastAPI

MOST = 1000  # connections, half of them of one client; fewer where fewer files may be open
AT_ONCE = 16  # that are accepted before the first of them is counted
QUEUE = 2048  # that the system holds until they are accepted
IN_FLIGHT = 4 * AT_ONCE  # that may be accepted and not yet counted, or closed and not yet gone
GRACE = 5  # seconds that running requests have when the server ends

HEAD = 10.0  # seconds for the head of a request, from the connection or the last answer on
SPILL = 1_000_000  # bytes of a body that are read after its answer
TAKING = 30.0  # seconds in which a client takes at least
LEAST = 30_000  # bytes of an answer
QUIET = 60.0  # seconds between lines about connections

_NO_HTTP = Problem(
    400,
    "this is no HTTP: check the address (%20 for a space, %C3%B6 for ö), Host, Content-Length and chunks; a"
    " head has at most 65,536 bytes",
)
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def make_server(application: FastAPI) -> uvicorn.Server:
    """Return what speaks HTTP for an application, whatever parsers and event loops are installed."""
    config = uvicorn.Config(
        application,
        http=Connection,
        loop="asyncio",
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        backlog=AT_ONCE,
        timeout_graceful_shutdown=GRACE,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """A server whose connections are bounded."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state: Connections = Connections((_files_allowed() - IN_FLIGHT) // 2)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        asyncio.get_running_loop().set_exception_handler(self._note)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(QUEUE)  # uvicorn's `backlog` is this, and how many are accepted at once

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say in one line that no connection can be accepted; asyncio tries again, and would say it often."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _OUT_OF_FILES and "accept" in context["message"]:
            self.server_state.say(f"no connection can be accepted now: {error.strerror}")
        else:
            loop.default_exception_handler(context)


class Connections(ServerState):
    """All connections of a server, of which at most so many may be open."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = max(2, min(MOST, most))
        self._open: set[Connection] = set()
        self._by_client: dict[str, set[Connection]] = defaultdict(set)
        self._quiet_until, self._unsaid = -math.inf, 0

    def enter(self, connection: Connection) -> bool:
        """Let a connection in; where there are too many, close the one that has said nothing for longest.

        Returns:
            Whether there is room: not if the server is at work for all of them.
        """
        of_client = self._by_client[connection.address]
        for some, most, whose in (
            (of_client, self.most // 2, f"of {connection.address}"),
            (self._open, self.most, "in all"),
        ):
            if len(some) < most:
                continue
            self.say(f"more than {most} connections {whose}: those that say nothing are closed")
            waiting = [one for one in some if not one.is_at_work()]
            if not waiting:
                return False
            first = min(waiting, key=lambda one: (one.unsent() > 0, one.since))
            self.leave(first)
            first.transport.abort()
        self._open.add(connection)
        self._by_client[connection.address].add(connection)
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection, if it is still known."""
        self._open.discard(connection)
        of_client = self._by_client[connection.address]
        of_client.discard(connection)
        if not of_client:
            del self._by_client[connection.address]

    def say(self, what: str) -> None:
        """Print a line, unless there was one in the last minute."""
        now = time.monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        more = f" ({self._unsaid:,} more such events since the last line)" if self._unsaid else ""
        self._quiet_until, self._unsaid = now + QUIET, 0
        print(what + more, file=sys.stderr, flush=True)


class Connection(H11Protocol):
    """A connection that is closed when its client keeps the server waiting.

    Attributes:
        address: of the client.
        since: when it began to wait for a request.
    """

    server_state: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address, self.since = "", self.loop.time()
        self._spilled, self._unsent_before = 0, math.inf
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it in, or answer that there are too many."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.server_state.enter(self):
            self._look()
        else:
            transport.write(_refusal(busy("other connections")))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
        self.server_state.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; of a body that is already answered, only a little."""
        if self._is_answered() and self.conn.their_state is h11.SEND_BODY:
            self._spilled += len(data)
            if self._spilled > SPILL:
                self.transport.close()
                return
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; where an answer has begun, end the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_refusal(_NO_HTTP))
        self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # its answer would come after this one
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since, self._spilled, self._unsent_before = self.loop.time(), 0, math.inf
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Go on with an answer: the client takes it."""
        self._unsent_before = math.inf
        super().resume_writing()

    def is_at_work(self) -> bool:
        """Return whether a client waits for the server, and not the server for the client."""
        return not (self._is_answered() or self.cycle.more_body or self.flow.write_paused)

    def unsent(self) -> int:
        """Return how many bytes of answers the client has yet to take."""
        return self.transport.get_write_buffer_size()

    def _is_answered(self) -> bool:
        """Return whether the next thing to come is a request."""
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        """Close the connection if the client keeps the server waiting for too long; else look again later."""
        wait, unsent = HEAD, self.unsent()
        if unsent:
            if unsent > self._unsent_before - LEAST:
                self.transport.abort()
                return
            wait, self._unsent_before = TAKING, unsent
        elif self._is_answered():
            wait = self.since + HEAD - self.loop.time()
            if wait <= 0:
                self.transport.close()
                return
        self._timer = self.loop.call_later(wait, self._look)


def _refusal(problem: Problem) -> bytes:
    """Return an answer after which a connection is closed."""
    body = json.dumps(problem.body)
    fields = {
        "Content-Type": KIND,
        "Content-Length": str(len(body)),
        "Connection": "close",
        **problem.headers,
    }
    first = f"HTTP/1.1 {problem.status} {problem.body['title']}"
    lines = [first, *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", body]).encode()


def _files_allowed() -> int:
    """Let this process open as many files as connections need, and return how many it may open."""
    wanted = 2 * MOST + IN_FLIGHT
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
