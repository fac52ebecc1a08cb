"""Requests to the server's application and messages to the agent's tools that no client should send."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import threading
from contextlib import chdir
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from .contract import Broken, Place, attack
from .fuzz_commands import NEAR
from .fuzz_pictures import pictures
from .mutations import hostile_json, mutate, mutate_tree, perhaps_mutated, text
from .prepare import give_towns, index_of, made_once
from .processes import LEXLIP, environment

Headers = list[tuple[bytes, bytes]]
HOST = (b"host", b"127.0.0.1")
PATHS = (
    *("/api/search", "/api/explain/{}", "/api/words", "/api/telling-words", "/api/facets", "/api/status"),
    *("/api/photos/{}", "/api/photos/{}/thumbnail", "/api/photos/{}/original", "/api/photos/{}/places"),
    *("/", "/{}", "/api/{}", "/assets/{}", "/api/openapi.json"),
)
METHODS = "GET GET GET POST POST HEAD PUT OPTIONS DELETE X".split()
KEYS = (
    "q k cursor adjust after before folder caption min_score prefix word width near within album sort group"
    " content_only limit"
).split()
HEADERS = (
    b"host origin cookie authorization range accept if-none-match content-length content-encoding"
    b" sec-fetch-site if-modified-since x-forwarded-for accept-encoding"
).split()
JSON_TYPES = (b"application/json", b"application/json", b"text/plain", b"", b"application/json; charset=x")
SEARCH: dict[str, Any] = {"q": "two red circles", "k": 5, "adjust": ["+red"], "offset": 0, "min_score": 0}
SEARCH["filters"] = {"after": "2014"}
OF_PHOTOS: tuple[dict[str, Any], ...] = (
    {"keys": ["MC5qcGc", "MS5qcGc", "AAAA", "MC5qcGc"]},  # 0.jpg, 1.jpg; to download
    {"add": ["MC5qcGc", "MS5qcGc"], "remove": ["MS5qcGc"]},  # to an album, and from it
)
TOOLS = "search similar explain show_photo status x".split()
SECONDS = 20
STARTING = 240  # that the process with the image model may take to start


class Server:
    """The application, with an event loop that runs in a thread."""

    def __init__(self, index: Path, folders: tuple[str, ...] = ()) -> None:
        from lexlip.server.access import Access
        from lexlip.server.application import make_application
        from lexlip.server.served_index import ServedIndex

        self._served = ServedIndex(index, folders=folders)
        self.app: Any = make_application(self._served, Access())
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        described = (path for path in self.app.openapi()["paths"] if "update" not in path)
        self.paths = sorted({*PATHS, *(re.sub(r"{\w+}", "{}", path) for path in described)})

    def ask(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers | None = None,
        body: bytes = b"",
        seconds: float = SECONDS,
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """Return status, headers and body of an answer; TimeoutError: none comes."""
        asked = self._ask(method, path, query, headers or [HOST], body)
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(asked, seconds), self.loop).result()

    def close(self) -> None:
        """End the thread, and close the index."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._served.close()

    async def _ask(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": path, "raw_path": quote(path).encode(), "root_path": "",
            "query_string": query.encode("utf-8", "surrogatepass"), "headers": headers,
            "client": ("127.0.0.1", 9), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        parts = [body[:7], body[7:]]
        start: dict[str, Any] = {}
        answered = bytearray()

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.sleep(3600)
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                answered.extend(message.get("body", b""))

        await self.app(scope, receive, send)
        return start["status"], {name.lower(): value for name, value in start["headers"]}, bytes(answered)


@cache
def _server(prepared: Path) -> Server:
    """Return a server that has answered a picture, for which it starts a process."""
    with chdir(prepared):  # where that process starts too; the folder of a try is removed
        give_towns(prepared)
        library = made_once(prepared / "served", lambda folder: shutil.copytree(prepared / "library", folder))
        server = Server(library / ".lexlip")  # whose albums change
        headers = [HOST, (b"content-type", b"image/jpeg")]
        status, _, content = server.ask("POST", "/api/search", "", headers, pictures()[0][1], STARTING)
    if status != 200:
        raise Broken(f"a search with a picture has the status {status}: {content[:300]!r}")
    return server


@attack("fuzz.requests", 1500, 75, 90)
def requests(random: Random, place: Place) -> None:
    """Send a request: it is answered, or refused with a problem document, and never ends in a fault."""
    server = _server(place.prepared)
    hole = random.choice(["MC5qcGc", "0.jpg", "..", "AAAA", "%00", "circles", text(random)[:300]])
    path = random.choice(server.paths).replace("{}", hole)
    path = path.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    method, query = random.choice(METHODS), _query(random)
    body, kind = _body(random) if method in ("POST", "PUT") else (b"", b"")
    headers = [HOST, *([(b"content-type", kind)] if kind else [])]
    for _ in range(random.choice([0, 0, 1, 2])):
        value = text(random).replace("\n", "").replace("\r", "").encode("latin-1", "replace")
        headers.append((random.choice(HEADERS), value[:900]))
    what = f"{method} {ascii(path)[:120]}?{ascii(query)[:200]}"
    try:
        status, answered, content = server.ask(method, path, query, headers, body)
    except TimeoutError:
        raise Broken(f"{what}: no answer after {SECONDS} s") from None
    kind = answered.get(b"content-type", b"")
    if status >= 500:
        raise Broken(f"{what}: status {status}: {content[:300]!r}")
    if status >= 400 and method != "HEAD":
        if kind != b"application/problem+json" or b"Traceback" in content:
            raise Broken(f"{what}: status {status} is no problem document: {content[:200]!r}")
        json.loads(content)
    if kind.startswith(b"application/json") and content:
        json.loads(content, parse_constant=_refuse_number)


def _refuse_number(name: str) -> None:
    raise Broken(f"the JSON of an answer holds {name}, which is none")


def _query(random: Random) -> str:
    usual = ["5", "-1", "nan", "dog", "newest", "place", "circles", "20km", random.choice(NEAR)]
    values = [random.choice([text(random)[:2000], *usual]) for _ in range(3)]
    quoted = [quote(value.encode("utf-8", "surrogatepass")) for value in values]
    query = "&".join(f"{random.choice(KEYS)}={value}" for value in quoted)
    return perhaps_mutated(random, query.encode(), 0.2).decode("latin-1")


def _body(random: Random) -> tuple[bytes, bytes]:
    kind = random.randrange(4)
    if kind == 0:
        picture = random.choice(pictures())[1]
        return mutate(random, picture), random.choice([b"image/jpeg", b"image/png", b"image/"])
    tree = {**SEARCH, random.choice(["like", "terms"]): {"dog": 1}} if kind == 1 else SEARCH
    tree = random.choice([tree, *OF_PHOTOS])
    if random.random() < 0.2:
        return json.dumps(tree).encode(), b"application/json"
    if random.random() < 0.2:
        return hostile_json(random, tree), random.choice(JSON_TYPES)
    data = json.dumps(mutate_tree(random, tree)).encode()
    return mutate(random, data) if kind == 3 else data, random.choice(JSON_TYPES)


@attack("fuzz.messages", 5, 0, 120)
def messages(random: Random, place: Place) -> None:
    """Send an agent's server many damaged messages; it must still answer a right one."""
    begin = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    lines = [_message(1, "initialize", begin), _message(None, "notifications/initialized", {})]
    lines += [_damaged_call(random, number) for number in range(2, 60)]
    lines.append(_message(1000, "tools/call", {"name": "search", "arguments": {"query": "two red circles"}}))
    process = subprocess.Popen(
        [*LEXLIP, "mcp", "--index", str(index_of(place.prepared, "impact"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.folder,
        env=environment(place.folder),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        process.stdin.write(b"".join(line + b"\n" for line in lines))
        process.stdin.flush()
        answers = (json.loads(line) for line in process.stdout)
        right = next((answer for answer in answers if answer.get("id") == 1000), None)
    finally:
        timer.cancel()
        process.kill()
        errors = process.communicate()[1].decode(errors="replace").strip()
    if right is None or "result" not in right:
        raise Broken(f"the right message at the end is answered with {str(right)[:300]}: {errors[-300:]}")
    if "Traceback" in errors:
        raise Broken(f"a tool failed: {errors.splitlines()[-1][:300]}")


def _damaged_call(random: Random, number: int) -> bytes:
    arguments = {"query": text(random), "id": random.choice(["0.jpg", text(random)])}
    call = {"name": random.choice(TOOLS), "arguments": {**arguments, "k": random.choice([1, 0, 10**9])}}
    tree = json.loads(_message(number, "tools/call", call))
    if random.random() < 0.1:
        return hostile_json(random, tree)
    return perhaps_mutated(random, json.dumps(mutate_tree(random, tree)).encode(), 0.3).replace(b"\n", b" ")


def _message(number: int | None, method: str, params: Any) -> bytes:
    named = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **named, "method": method, "params": params}).encode()
