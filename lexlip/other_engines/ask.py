"""Asks another engine over plain HTTP, with nothing but the standard library."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import ssl
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlsplit

from anserini_bridge.given_files import parse_json
from lexlip.errors import ConfigError, DataError
from lexlip.machine.progress import Wait
from lexlip.other_engines.engine_contract import ENGINES, NAME, AskedEngine, EngineError, Found, other_engine
from lexlip.other_engines.kept_connections import KeptConnections
from lexlip.queries.query_language import parse_query
from lexlip.queries.text_queries import TextQueries
from lexlip.retrieval.answer import Answer, Hit
from lexlip.sparse.quantize import UNIT_SCALE, quantize
from lexlip.words.plain_text import readable

TIMEOUT = 30  # seconds without a byte
LARGEST_ANSWER = 2**26  # bytes of an answer
KEY, USER, PASSWORD = "LEXLIP_SERVER_KEY", "LEXLIP_SERVER_USER", "LEXLIP_SERVER_PASSWORD"
_HEAD = 4096  # characters of a page in which its title is looked for
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_STATUS = re.compile(r"\s*(?:Error )?\d{3}\b", re.IGNORECASE)
_ADDRESS = re.compile(r"(?P<engine>[a-z]+)\+(?P<rest>https?://.+)", re.DOTALL)


class ServerError(DataError):
    """A server gives no answer that can be used."""


class Denied(ConfigError):
    """A server refuses a secret, or to answer without one."""


class NoIndex(ServerError):
    """A server has no index of this name; or, if `found`, no such document in it."""

    found = False


class Later(ServerError):
    """A server gives no answer now, and may give one later: it has too much to do, or is not there.

    Attributes:
        what: what happened.
        way_on: what the user may do then; "": there is only waiting.
    """

    def __init__(self, what: str, way_on: str = "") -> None:
        super().__init__(f"{what}: {way_on}" if way_on else what)
        self.what, self.way_on = what, way_on


class Unreachable(Later):
    """There is no connection to a server, or nothing has come by it."""


class AlreadyThere(ServerError):
    """A server has what is to be made, or another version of it."""


class TooLarge(ServerError):
    """A server takes no request that is as large."""


@dataclass(frozen=True)
class Server:
    """An index on a server: how it is asked, the address up to the index, and its name."""

    engine: AskedEngine
    url: str
    index: str

    @classmethod
    def of(cls, address: str) -> Server:
        """Return what an address such as "opensearch+https://host:9200/photos" names.

        Raises:
            ConfigError: it names no engine, host or index, or holds a password.
        """
        asked = [name for name in ENGINES if isinstance(other_engine(name), AskedEngine)]
        example = "write it as opensearch+https://HOST/INDEX"
        split = _ADDRESS.fullmatch(address)
        if split is None or split["engine"] not in asked:
            # An address may hold a password, so it is not repeated.
            raise ConfigError(f"--server names none of {', '.join(asked)}: {example}")
        if "@" in split["rest"]:  # also behind what looks like a path, as a password may hold a slash
            raise ConfigError(
                f"--server holds a name or a password, which others can read: set {USER} and {PASSWORD}"
            )
        engine = other_engine(split["engine"])
        assert isinstance(engine, AskedEngine)
        example = f"write it as {engine.name}+https://HOST{engine.root}/INDEX"
        try:
            parts = urlsplit(split["rest"])
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"--server is no address ({error}): {example}") from None
        before, _, index = parts.path.rstrip("/").rpartition("/")
        named = index and (f"/{index}" != engine.root or before.endswith(engine.root))
        if not parts.hostname or not named or parts.query or parts.fragment:
            raise ConfigError(f"--server names no host and index: {example}")
        if not NAME.fullmatch(index):
            shown = "what" if re.search("[:;=]", index) else f"'{readable(index)}', which"
            raise ConfigError(
                f"--server ends with {shown} is no name of an index (ASCII letters, digits, '.', '_' and '-',"
                f" the first a letter or a digit): {example}"
            )
        if not parts.hostname.isascii():
            raise ConfigError(f"--server names a host that is not ASCII: {example}")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        place = host if port is None else f"{host}:{port}"
        before = before.removesuffix(engine.root)
        return cls(engine, f"{parts.scheme}://{place}{quote(before, safe='/%')}", index)

    def search(self, query: dict[int, int], k: int) -> list[Found]:
        """Return the k best documents for whole weights by a word's number.

        Raises:
            ConfigError, DataError: the server refuses the secret, is not reached, or gives no whole answer.
        """
        if not query:
            return []
        asked = self.engine.request(query, k, self.index)
        with self.understood("the index was made by `lexlip export`"):
            return self.engine.found(self.send("POST", asked.path, json.dumps(asked.body).encode()))

    @contextmanager
    def understood(self, check: str) -> Iterator[None]:
        """Raise ServerError, which says what to check, if a `with` block does not find what it needs."""
        try:
            yield
        except EngineError as error:
            raise ServerError(f"{self.url}: {type(self.engine).__name__} {self._shown(str(error))}") from None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            why = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
            raise ServerError(
                f"{self.url} does not answer as {self.engine.name} does ({self._shown(why)}):"
                f" check the address, and that {check}"
            ) from None

    def send(self, method: str, path: str, body: bytes | None = None, to: str = "search") -> Any:
        """Return the JSON of an answer.

        Args:
            method, path, body: of the request; the body is JSON, or lines of it.
            to: what the right is called that it needs.

        Raises:
            ValueError: the answer is not JSON.
            Denied: the server refuses the secret.
            NoIndex, Later, AlreadyThere, TooLarge, ServerError: it refuses the request, or is not reached.
        """
        return parse_json(self._send(method, path, body, to))

    def _send(self, method: str, path: str, body: bytes | None, to: str) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self._secrets()}
        try:
            status, data = self._connections.ask(method, path, body, headers, TIMEOUT, LARGEST_ANSWER + 1)
        except (OSError, HTTPException) as error:
            raise self._failed(error) from None
        if not 200 <= status < 300:
            raise self._refused(status, data, to, len(body or b""))
        if len(data) > LARGEST_ANSWER:
            too_long = f"{self.url} answers with more than {LARGEST_ANSWER:,} bytes"
            raise ServerError(f"{too_long}: ask for fewer hits")
        return data

    @cached_property
    def _connections(self) -> KeptConnections:
        return KeptConnections(self.url)

    def _failed(self, error: OSError | HTTPException) -> ServerError:
        """Return what to say of a connection without an answer: `Unreachable`, but for TLS that is wrong."""
        connecting = isinstance(error, URLError)
        cause = error.reason if isinstance(error, URLError) else error
        why = _shorten(_without_secrets(str(getattr(cause, "strerror", None) or cause)))
        if isinstance(cause, TimeoutError):
            return Unreachable(
                f"{self.url} has not answered for {TIMEOUT:g} seconds", "ask again, or check it"
            )
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ServerError(
                f"{self.url} has no certificate that is trusted here ({why}): name its authority's file in"
                " SSL_CERT_FILE"
            )
        if connecting and isinstance(cause, ssl.SSLError):
            return ServerError(
                f"{self.url} does not speak https ({why}): if it speaks plain http, write"
                f" {self.engine.name}+http"
            )
        if connecting and not isinstance(cause, ConnectionResetError | BrokenPipeError):
            return Unreachable(f"{self.url} cannot be reached ({why})", "check the address")
        other = "https" if self.url.startswith("http:") else "http"
        return Unreachable(
            f"{self.url} broke the connection off ({why})",
            f"ask again, or write {self.engine.name}+{other} if it speaks {other}",
        )

    def _refused(self, code: int, data: bytes, to: str, sent: int) -> ServerError | Denied:
        """Return what to say of an answer whose status is an error, to a request of so many bytes."""
        if code == 404:
            return self._not_found(data)
        if 300 <= code < 400:  # a secret goes to no other host than the one it is for
            return ServerError(f"{self.url} sends to another address ({code}): give that one")
        if code in (401, 403) and not self._secrets():
            return Denied(f"{self.url} refuses to answer ({code}): set {KEY}, or {USER} and {PASSWORD}")
        text = self._shown(self.engine.reason(data.decode("utf-8", "replace")))
        said = f"({code}: {text})" if text else f"({code})"
        names, secret = (KEY, "key") if os.environ.get(KEY) else (f"{USER} and {PASSWORD}", "password")
        if code == 401:
            return Denied(f"{self.url} refuses this {secret} {said}: check {names}")
        if code == 403:
            return Denied(f"{self.url} gives this {secret} no right to {to} {self.index} {said}")
        if code == 413:
            limit = f"{type(self.engine).__name__}: {self.engine.limit}; " if self.engine.limit else ""
            return TooLarge(
                f"{self.url} takes no request of {sent:,} bytes (413): let it, or the proxy before it, take"
                f" larger ones ({limit}nginx: client_max_body_size)"
            )
        kind = AlreadyThere if code == 409 else Later if code in self.engine.may_pass else ServerError
        return kind(f"{self.url} answers with an error {said}")

    def _not_found(self, data: bytes) -> NoIndex:
        """Return the error for an answer with the status 404: only of a document it says "found"."""
        missing = NoIndex(
            f"{self.url} has no index named {self.index} (404): make it with `lexlip index --server`,"
            " or load an export into it first"
        )
        with suppress(ValueError):
            answer = parse_json(data)
            missing.found = isinstance(answer, dict) and "found" in answer
        return missing

    def _shown(self, text: str) -> str:
        """Return the reason that a server gives, shortened, and without a secret that it repeats.

        Of a page of HTML, such as a proxy answers with, that is its title alone.
        """
        text = _without_secrets(text).lstrip("\ufeff \t\r\n")  # a page may begin with a byte order mark
        if text.startswith("<"):
            title = _TITLE.search(text[:_HEAD])
            text = _STATUS.sub("", _without_secrets(html.unescape(title[1])), count=1) if title else ""
        return _shorten(text)

    def _secrets(self) -> dict[str, str]:
        """Return the headers with what the environment holds for the server.

        Raises:
            ConfigError: it is not what a header can hold.
        """
        key, user, password = (os.environ.get(name, "") for name in (KEY, USER, PASSWORD))
        if key and (user or password):
            raise ConfigError(f"both {KEY} and {USER} are set: unset one")
        if bool(user) != bool(password):
            raise ConfigError(f"only one of {USER} and {PASSWORD} is set: set both")
        if not key and not user:
            return {}
        if ":" in user:
            raise ConfigError(f"{USER} holds a colon, which HTTP lets no name of a user have")
        for name, value in ((USER, user), (PASSWORD, password)):
            if any(unicodedata.category(one) in ("Cc", "Cs") for one in value):
                raise ConfigError(f"{name} holds the end of a line, another control character, or no UTF-8")
        if key and not (key.isascii() and key.isprintable()):
            raise ConfigError(f"{KEY} holds other characters than printable ASCII")
        if key:
            return self.engine.key_header(key)
        return {"Authorization": f"Basic {_basic(user, password)}"}


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _without_secrets(text: str) -> str:
    """Return a text without the secrets of the environment, as they are and as HTML and JSON write them."""
    key, user, password = (os.environ.get(name, "") for name in (KEY, USER, PASSWORD))
    for secret in filter(None, (key, user and _basic(user, password), password)):
        written = {secret, html.escape(secret), html.escape(secret, quote=False)}
        written |= {json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
        for form in sorted(written, key=len, reverse=True):
            text = text.replace(form, "…")
    return text


def _shorten(text: str) -> str:
    """Return a text as one plain line of at most 300 characters."""
    text = readable(" ".join(text.split())[:301])
    return text if len(text) <= 300 else text[:299] + "…"


def search_server(
    address: str,
    sentence: str,
    k: int,
    queries: TextQueries,
    topk: int | None,
    tell: Callable[[str], object] | None = None,
) -> Answer:
    """Answer a sentence with the k photos that another engine finds.

    Args:
        address: see `Server.of`.
        sentence: with marks, as in `lexlip search`; none may leave words out or name a field, and negations
            are text.
        queries: of the model that made the documents.
        topk: words that the query keeps; None keeps all.
        tell: is given a line that says what is waited for, if that takes over two seconds.

    Raises:
        ConfigError, DataError: see `Server`; or another model made the documents, or they are quantised as
            queries here are not.
    """
    server, query = Server.of(address), parse_query(sentence, negations=False)
    if query.without:
        raise ConfigError(f"--server leaves no words out, such as -{query.without[0]}: ask without it")
    if query.narrowed:
        field, value = query.narrowed[0]
        raise ConfigError(f"--server looks at no photo's {field}: ask without {field}:{readable(value)}")
    clock = time.perf_counter()
    vector = quantize(queries.encode_query(query, topk))
    weights = dict(zip(vector.indices.tolist(), vector.data.tolist(), strict=True))
    weights = dict(sorted(weights.items(), key=lambda pair: (-pair[1], pair[0])))
    encoded = time.perf_counter()
    with Wait(tell, f"waiting for {server.url} to answer"):
        hits = server.search(weights, k)
    answered = time.perf_counter()
    for hit in hits:
        if hit.model != queries.identity:
            raise ConfigError(
                f"the documents of {server.index} were made with {hit.model}, but the query with"
                f" {queries.identity}: name the model that made them with --model"
            )
        if hit.scheme == "paper":
            raise ConfigError(
                f"the documents of {server.index} were quantised as paper, which --server does not ask:"
                " index with --quantization unit, and export again"
            )
    words = queries.vocabulary.words
    return Answer(
        query=sentence,
        terms={words[number]: weight / UNIT_SCALE for number, weight in weights.items()},
        hits=[
            Hit(rank, hit.id, hit.id, hit.score / UNIT_SCALE**2, {}) for rank, hit in enumerate(hits, start=1)
        ],
        ms={"encode": 1000 * (encoded - clock), "search": 1000 * (answered - encoded)},
        unknown=queries.unknown(query.plain),
        unread=queries.unread(query),
    )
