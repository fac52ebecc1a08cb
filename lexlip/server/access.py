"""Who may ask, and for how much: names of this server, the origin of a page, the token, limits."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from lexlip.errors import ConfigError
from lexlip.server.problems import Problem

LOCAL = ("localhost", "127.0.0.1", "::1")
MIN_TOKEN = 12
MOST_CLIENTS = 10_000
SUGGESTED = 8  # words of an answer
STATES = 3  # of the index before the newest, whose cursors still work


@dataclass(frozen=True)
class Limits:
    """Each is an option of `lexlip serve`, and shows in `/api/status`."""

    k: int = 1000  # hits of one answer
    query: int = 1000  # characters of a query, with what adjusts it and its filters
    upload_bytes: int = 30_000_000  # of a picture that searches; other bodies may have a hundredth of it
    upload_pixels: int = 100_000_000  # of such a picture
    seconds: float = 30.0  # for a body to arrive, and for a picture to be decoded and encoded
    requests: int = 64  # searches at once, running and waiting; pictures are limited apart
    rate: float = 0.0  # requests in a second by one client, on average; 0 is unlimited
    download_photos: int = 5000  # of one zip
    download_bytes: int = 20_000_000_000  # of their files
    thumbnail_bytes: int = 1_000_000_000  # of all thumbnails on disk
    idle: float = 300.0  # seconds after which the process with the image model ends


class Access:
    """The rules for one server.

    Args:
        host: where it listens.
        token: what callers must know; None lets in all who reach the server.
        names: further names by which browsers may address it.
        rate: requests in a second by one client; 0 is unlimited.

    Raises:
        ConfigError: other machines reach the server without a token, or the token is short.
    """

    def __init__(
        self, host: str = "127.0.0.1", token: str | None = None, names: tuple[str, ...] = (), rate: float = 0
    ) -> None:
        if token is None and not is_local(host):
            raise ConfigError(
                f"with --host {host} other machines reach the photos: give a --token, or set LEXLIP_TOKEN"
            )
        if token is not None and (len(token) < MIN_TOKEN or not token.isascii()):
            raise ConfigError(f"the token is not safe: give at least {MIN_TOKEN} ASCII characters")
        self.names = {name.lower() for name in (*LOCAL, host, *names)}
        self._digest = None if token is None else _digest(token)
        self._cookie = "" if self._digest is None else f"lexlip-{self._digest[:8]}"
        self._rate, self._clients = rate, OrderedDict[str, tuple[float, float]]()

    def check_host(self, host: str, address: str | None) -> None:
        """Refuse names that are not this server's: a page elsewhere may have made a name lead here.

        Args:
            host: the header.
            address: at which the connection came in; that of IPv4 may be written as one of IPv6.
        """
        name = _name(host)
        if name not in self.names and name != (address and address.removeprefix("::ffff:")):
            raise Problem(400, "this server does not answer to that name: start it with --allow-host NAME")

    def check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse what a page of another site makes a browser send."""
        origin = headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()
        elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if elsewhere or (foreign and method not in ("GET", "HEAD")):
            raise Problem(403, "this call came from a page of another site")

    def is_known(self, headers: Mapping[str, str]) -> bool:
        """Return whether a caller has shown the token, in a header or in the cookie."""
        if self._digest is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self._digest)

    def is_token(self, given: str) -> bool:
        """Return whether this is the token."""
        return self._digest is not None and _same(_digest(given), self._digest)

    def cookie(self, secure: bool) -> str:
        """Return the cookie that shows the token from now on; `secure` if the page came over HTTPS."""
        return f"{self._cookie}={self._digest}; Path=/; HttpOnly; SameSite=Strict" + "; Secure" * secure

    def check_rate(self, client: str) -> None:
        """Count a request of a client, and refuse too many; up to four seconds' worth may come at once."""
        if not self._rate:
            return
        now, most = time.monotonic(), max(1.0, 4 * self._rate)
        left, then = self._clients.pop(client, (most, now))
        left = min(most, left + (now - then) * self._rate)
        self._clients[client] = (max(0.0, left - 1), now)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        if left < 1:
            wait = {"Retry-After": str(max(1, round(1 / self._rate)))}
            raise Problem(429, f"more than {self._rate:g} requests a second: wait a moment", wait)


def is_local(host: str) -> bool:
    """Return whether only this machine reaches a server that listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and (not name.count(":") or name.endswith("]")):
        host = name
    return host.strip("[]").lower()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
