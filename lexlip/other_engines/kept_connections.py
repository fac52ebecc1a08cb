"""Connections to a server that are kept: making one, with TLS above all, takes longer than most answers."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from http.client import HTTPConnection, HTTPSConnection
from urllib.error import URLError
from urllib.parse import urlsplit


class KeptConnections:
    """Connections to the host of an address; of several threads each has one of its own while it asks."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._idle: list[HTTPConnection] = []

    def __del__(self) -> None:
        for connection in self._idle:
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float,
        most: int,
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer, or the first `most` bytes of it.

        A connection that was kept, and that the server has closed meanwhile, is replaced: so a request may
        come twice, and must do no harm then.

        Args:
            method, body, headers: of the request.
            path: of the request, below that of the address.
            seconds: without a byte.
            most: bytes of an answer.

        Raises:
            URLError: there is no connection.
            OSError, HTTPException: it broke off.
        """
        while self._idle:
            with suppress(IndexError, ConnectionError):  # another thread took it; the server closed it
                return self._ask(self._idle.pop(), method, path, body, headers, most)
        return self._ask(self._connect(seconds), method, path, body, headers, most)

    def _ask(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        most: int,
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, self._url.path + path, body, dict(headers))
            response = connection.getresponse()
            data = response.read(most)
        except BaseException:
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._idle.append(connection)
        else:
            connection.close()
        return response.status, data

    def _connect(self, seconds: float) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            connection = HTTPConnection(host, port, timeout=seconds)
        else:
            connection = HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise URLError(error) from error
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """The authorities, which take longer to read than many requests."""
        return ssl.create_default_context()
