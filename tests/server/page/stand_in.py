"""A stand-in for `lexlip serve`: the same calls and answers, by brute force over photos that are drawn.

It shows what a real index reaches only with hours of work or bad luck: 28,000 hits, a server that is slow,
stopped, or updating its index, names of files that attack.
"""

from __future__ import annotations

import json
import mimetypes
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from PIL import Image, ImageDraw

import lexlip
from lexlip.queries.query_language import read_negations
from lexlip.retrieval.answer import id_of, key_of

PAGE = Path(lexlip.__file__).parent / "server" / "page"
CSP = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:"
SMALL_WORDS = set("a an the in on of with and at to is are two".split())


@dataclass
class Photo:
    id: str
    words: dict[str, float]
    width: int = 1200
    height: int = 800
    taken: str | None = None
    camera: str | None = None
    captions: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)

    def picture(self, width: int) -> Image.Image:
        """Two colours and a disc, the same for the same id."""
        ratio = self.width / self.height if self.width and self.height else 4 / 3
        size = (width, max(1, round(width / ratio)))
        hue = sum(map(ord, self.id)) * 47 % 360
        image = Image.new("RGB", size, f"hsl({hue}, 30%, 72%)")
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, size[1] * 0.6, *size), fill=f"hsl({hue}, 35%, 38%)")
        draw.ellipse(
            (size[0] * 0.6, size[1] * 0.2, size[0] * 0.8, size[1] * 0.6), fill=f"hsl({hue}, 60%, 88%)"
        )
        return image


@dataclass
class Collection:
    photos: list[Photo]
    words: bool = True
    """Whether answers have words: not for dense vectors."""
    cut: float | None = None
    """Scores below it are beyond the honest end."""
    well: float | None = None
    """Scores from it on fit well."""
    limit: int = 1000
    delay: float = 0.0
    """Seconds before a search answers."""
    busy: int = 0
    """So many searches are refused with 503."""
    update: dict[str, Any] = field(
        default_factory=lambda: {"running": False, "done": 0, "total": 0, "message": ""}
    )
    foreign: bool = False
    """Whether sentences do not look like English."""
    unmet: str = ""
    """Why an answer without hits has none."""
    snapshot: str = "1"
    last: tuple = (None, [])
    asked: list[str] = field(default_factory=list)
    """What was asked, as "METHOD path"."""

    @cached_property
    def postings(self) -> dict[str, list[tuple[int, float]]]:
        lists: dict[str, list[tuple[int, float]]] = {}
        for place, photo in enumerate(self.photos):
            for word, weight in photo.words.items():
                lists.setdefault(word, []).append((place, weight))
        return lists

    @cached_property
    def by_id(self) -> dict[str, Photo]:
        return {photo.id: photo for photo in self.photos}

    def frequencies(self) -> dict[str, int]:
        return {word: len(found) for word, found in self.postings.items()}

    def query(
        self, q: str, adjust: list[str], terms: dict[str, float] | None = None
    ) -> tuple[dict, list, list]:
        """Terms, words left out, unknown words: each word of the sentence weighs less than the one before."""
        sentence, marks = [], []
        for token in q.split():
            (marks if token[0] in "+-" or "^" in token else sentence).append(token)
        known = [word for word in map(str.lower, sentence) if word in self.postings]
        unknown = [w for w in sentence if w.lower() not in self.postings and w.lower() not in SMALL_WORDS]
        terms = dict(terms or {word: round(0.9 / (1 + place / 2), 4) for place, word in enumerate(known)})
        heaviest, without = max(terms.values(), default=1.0), []
        for token in [*marks, *adjust]:
            name, _, factor = token.lstrip("+-").partition("^")
            if token[0] == "-":
                without.append(name)
            elif name not in self.postings:
                unknown.append(name)
            elif token[0] == "+":
                terms[name] = heaviest * float(factor or 1)
            elif name in terms:
                terms[name] *= float(factor or 1)
        terms = {word: weight for word, weight in terms.items() if weight > 0}
        return dict(sorted(terms.items(), key=lambda pair: -pair[1])), without, unknown

    def search(self, given: dict[str, Any]) -> dict[str, Any]:
        """Answer as the server does: with `terms` or `like`, `adjust` is not read."""
        base, adjust = given.get("terms"), [] if "q" not in given else given.get("adjust", [])
        if given.get("like"):
            base = self.by_id[id_of(given["like"])].words
        sentence, negations = read_negations(given.get("q", ""))
        terms, without, unknown = self.query(sentence, adjust, base)
        negated = [word for words in negations.values() for word in words]
        without = [*without, *given.get("without", []), *negated]
        found = self.found(terms, without, given)
        start, k = int(given.get("cursor") or 0), int(given.get("k") or 50)
        page = found[start : start + k]
        often: dict[str, int] = {}
        for _, place, _ in found[:30]:
            for word in self.photos[place].words:
                if word not in terms and word not in without:
                    often[word] = often.get(word, 0) + 1
        return {
            "query": given.get("q", ""),
            "terms": terms if self.words else {},
            "hits": [self.hit(start + place + 1, *hit) for place, hit in enumerate(page)],
            "ms": {"search": 1.0},
            "unknown": unknown if self.words else [],
            "without": without,
            "cursor": str(start + k) if start + k < len(found) else None,
            "well": self.well,
            "cut": self.cut,
            "suggestions": sorted(often, key=lambda word: -often[word])[:6] if self.words else [],
            "negations": negations,
            "meant": {word: [one["word"] for one in self.near(word)[:3]] for word in unknown},
            "foreign": self.foreign,
            "unmet": "" if found else self.unmet,
        }

    def found(self, terms: dict[str, float], without: list[str], given: dict[str, Any]) -> list[tuple]:
        """Score, place and words of all hits; those of the last question are kept for its further pages."""
        names = ("after", "before", "folder", "caption", "sort")
        question = terms, without, [given.get(name) for name in names], self.cut, self.snapshot
        if self.last[0] != question:
            self.last = question, self.find(terms, without, given)
        return self.last[1]

    def find(self, terms: dict[str, float], without: list[str], given: dict[str, Any]) -> list[tuple]:
        """All hits, by brute force."""
        scores: dict[int, dict[str, float]] = {}
        for word, weight in terms.items():
            for place, other in self.postings.get(word, []):
                scores.setdefault(place, {})[word] = weight * other
        banned = {place for word in without for place, _ in self.postings.get(word, [])}
        found = [
            (sum(words.values()), place, words)
            for place, words in scores.items()
            if place not in banned and self.allowed(self.photos[place], given)
        ]
        found.sort(key=lambda hit: (-hit[0], hit[1]))
        if given.get("sort") == "date":
            found = [hit for hit in found if self.cut is None or hit[0] >= self.cut]
            found.sort(key=lambda hit: self.photos[hit[1]].taken or "", reverse=True)
        return found

    def allowed(self, photo: Photo, given: dict[str, Any]) -> bool:
        taken = photo.taken or ""
        after, before, folder = given.get("after"), given.get("before"), given.get("folder")
        text = " ".join([*photo.captions, *photo.keywords]).lower().split()
        return (
            (not after or taken >= after)
            and (not before or ("" < taken[: len(before)] <= before))
            and (not folder or photo.id.startswith(f"{folder}/"))
            and all(word in text for word in (given.get("caption") or "").lower().split())
        )

    def hit(self, rank: int, score: float, place: int, words: dict[str, float]) -> dict[str, Any]:
        photo = self.photos[place]
        shares = words if self.words else {}
        return {
            **{"rank": rank, "id": photo.id, "path": f"/photos/{photo.id}", "score": score, "words": shares},
            **{"probability": None, "key": key_of(photo.id), "width": photo.width, "height": photo.height},
            **{"taken": photo.taken, "version": "1", "duplicates": []},
        }

    def photo(self, key: str) -> dict[str, Any]:
        photo = self.by_id[id_of(key)]
        return {
            **{"key": key, "id": photo.id, "path": f"/photos/{photo.id}", "width": photo.width},
            **{"height": photo.height, "taken": photo.taken, "camera": photo.camera},
            **{"captions": photo.captions, "keywords": photo.keywords, "version": "1"},
            "words": dict(sorted(photo.words.items(), key=lambda pair: -pair[1])) if self.words else {},
        }

    def explain(self, key: str, q: str, adjust: list[str]) -> dict[str, Any]:
        photo, terms = self.by_id[id_of(key)], self.query(q, adjust)[0]
        rows = [
            {
                "word": word,
                "query": terms[word],
                "photo": photo.words[word],
                "product": terms[word] * photo.words[word],
            }
            for word in terms
            if word in photo.words
        ]
        rows.sort(key=lambda row: -row["product"])
        return {"score": sum(row["product"] for row in rows), "rows": rows}

    def places(self, key: str, words: list[str]) -> dict[str, Any]:
        """Each word is strongest at a place of its own."""
        rows = columns = 7
        names = list(dict.fromkeys([*self.by_id[id_of(key)].words, *filter(None, words)]))
        grid = {}
        for word in names:
            x, y = sum(map(ord, word)) % columns, len(word) % rows
            grid[word] = [
                max(0.0, 1 - ((column - x) ** 2 + (row - y) ** 2) / 8)
                for row in range(rows)
                for column in range(columns)
            ]
        return {"rows": rows, "columns": columns, "box": [0.0, 0.0, 1.0, 1.0], "words": grid}

    def vocabulary(self, prefix: str, near: str, limit: int) -> dict[str, Any]:
        counts = self.frequencies()
        if near:
            return {"words": self.near(near)[:limit]}
        found = sorted((word for word in counts if word.startswith(prefix)), key=lambda word: -counts[word])
        return {"words": [{"word": word, "photos": counts[word]} for word in found[:limit]]}

    def near(self, typed: str) -> list[dict[str, Any]]:
        counts = self.frequencies()
        found = sorted(counts, key=lambda w: (-len(set(w) & set(typed)) + abs(len(w) - len(typed)), w))
        return [{"word": word, "photos": counts[word]} for word in found]

    def telling(self, limit: int) -> dict[str, Any]:
        best = {word: max(found, key=lambda pair: pair[1])[0] for word, found in self.postings.items()}
        return {
            "words": [
                {"word": word, "photos": len(self.postings[word]), "key": key_of(self.photos[place].id)}
                for word, place in list(best.items())[:limit]
            ]
        }

    def facets(self) -> dict[str, Any]:
        folders: dict[str, int] = {}
        for photo in self.photos:
            parts = photo.id.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                name = "/".join(parts[:depth])
                folders[name] = folders.get(name, 0) + 1
        dates = sorted(photo.taken for photo in self.photos if photo.taken)
        return {
            "folders": [{"folder": name, "photos": many} for name, many in sorted(folders.items())],
            "first": dates[0] if dates else None,
            "last": dates[-1] if dates else None,
            "dated": len(dates),
            "captioned": sum(bool(photo.captions or photo.keywords) for photo in self.photos),
        }

    def status(self) -> dict[str, Any]:
        return {
            **{
                "index": ".lexlip",
                "documents": len(self.photos),
                "kind": "impact" if self.words else "dense",
            },
            **{"model": "mini", "snapshot": self.snapshot, "words": self.words, "update": self.update},
            "limits": {"k": self.limit},
        }


SHAPES = [(1200, 800), (800, 1200), (1200, 900), (1600, 900), (1000, 1000), (900, 1200), (2400, 800), (0, 0)]


def drawn_photos(number: int, *words: str) -> list[Photo]:
    """Photos of all shapes. A word is on every photo, or every second, third … one; heavier on the first."""
    words = words or ("dog", "snow", "play", "sled", "beach", "person")
    return [
        Photo(
            f"{('garden', 'holidays/2014', 'holidays/2019')[place % 3]}/{place:05}.jpg",
            {
                word: round(0.9 - 0.08 * step - 0.4 * place / number, 4)
                for step, word in enumerate(words)
                if place % (step + 1) == 0
            },
            *SHAPES[place % len(SHAPES)],
            taken=f"{2014 + place % 8}-0{1 + place % 9}-11T12:30:00" if place % 5 else None,
            camera="Pixel 8" if place % 2 else None,
            captions=[f"a caption of photo {place}"] if place % 4 == 0 else [],
        )
        for place in range(number)
    ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collection: Collection

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def reply(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            **{"Content-Type": kind, "Content-Length": str(len(body)), "Content-Security-Policy": CSP},
            **{"X-Content-Type-Options": "nosniff", **headers},
        }.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, value: object, status: int = 200, **headers: str) -> None:
        kind = "application/json" if status == 200 else "application/problem+json"
        self.reply(status, kind, json.dumps(value).encode(), **headers)

    def problem(self, status: int, detail: str, **headers: str) -> None:
        self.json(
            {"type": "about:blank", "title": "error", "status": status, "detail": detail}, status, **headers
        )

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        lists = parse_qs(url.query)
        given = {name: values[0] for name, values in lists.items()}
        adjust = lists.get("adjust", [])
        collection = self.collection
        collection.asked.append(f"GET {self.path}")
        parts = url.path.strip("/").split("/")
        if parts[0] != "api":
            return self.file(url.path)
        match parts[1:]:
            case ["search"]:
                self.search({**given, "adjust": adjust})
            case ["photos", key] if id_of(key) in collection.by_id:
                self.json(collection.photo(key))
            case ["photos", key, "thumbnail" | "original" as what] if id_of(key) in collection.by_id:
                width = int(given.get("width", 1200))
                body = BytesIO()
                collection.by_id[id_of(key)].picture(width if what == "original" or width > 320 else 64).save(
                    body, "WEBP", method=0
                )
                self.reply(
                    200, "image/webp", body.getvalue(), Cache_Control="private, max-age=31536000, immutable"
                )
            case ["photos", key, "places"] if id_of(key) in collection.by_id:
                self.json(collection.places(key, given.get("words", "").split(",")))
            case ["explain", key]:
                self.json(collection.explain(key, given.get("q", ""), adjust))
            case ["words"]:
                names = given.get("prefix", ""), given.get("near", "")
                self.json(collection.vocabulary(*names, int(given.get("limit", 10))))
            case ["telling"]:
                self.json(collection.telling(int(given.get("limit", 10))))
            case ["facets"]:
                self.json(collection.facets())
            case ["status"]:
                self.json(collection.status())
            case ["health"]:
                self.json({"status": "ok"})
            case _:
                self.problem(404, "there is nothing here")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        self.collection.asked.append(f"POST {self.path}")
        if self.headers["Content-Type"] == "application/json":
            return self.search(json.loads(body))
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        width, height = Image.open(BytesIO(body)).size
        words = list(self.collection.postings)
        terms = {words[width % len(words)]: 0.8, words[height % len(words)]: 0.5}
        self.search({**given, "terms": terms})

    def search(self, given: dict[str, Any]) -> None:
        time.sleep(self.collection.delay)
        if int(given.get("k", 50)) > self.collection.limit or given.get("q", "-") == "":
            return self.problem(422, "k is too large, or the query is empty")
        if self.collection.busy:
            self.collection.busy -= 1
            return self.problem(
                503, "the server is busy with searches: try again in a second", Retry_After="1"
            )
        self.json(self.collection.search(given))

    def file(self, path: str) -> None:
        file = PAGE / (path.strip("/") or "index.html")
        if not file.is_file() or ".." in path:
            return self.problem(404, "there is nothing here")
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        self.reply(200, kind, file.read_bytes(), Cache_Control="no-cache")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    connections: set[socket.socket]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """A browser that goes away in the middle of an answer is nothing to report."""


@contextmanager
def serving(collection: Collection, port: int = 0) -> Iterator[str]:
    """Serve a collection; gives the page's address."""
    handler = type("Handler", (Handler,), {"collection": collection})
    server = Server(("127.0.0.1", port), handler)
    server.connections = set()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        for connection in list(server.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
