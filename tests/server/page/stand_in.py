"""A stand-in for the index of `lexlip serve`: the same answers, by brute force over photos that are drawn.

It shows what a real index reaches only with hours of work or bad luck: 28,000 hits, a server that is slow,
stopped, or updating its index, names of files that attack.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from PIL import Image, ImageDraw

from lexlip.data.nearness import distance
from lexlip.queries.query_language import read_negations
from lexlip.retrieval.answer import id_of, key_of
from lexlip.retrieval.circle import Circle, circle_of
from lexlip.server.access import Access, Limits
from lexlip.server.application import make_application
from lexlip.server.bodies import ByDate, Download, MapPart, Narrowed, Page, TownsPart
from lexlip.server.downloads import sheet_of, zip_photos
from lexlip.server.follower import Follower
from lexlip.server.photo_files import Sent
from lexlip.server.problems import Problem, busy
from lexlip.server.served_index import ServedIndex, Threads
from tests.server.serving import running

NEAR = re.compile(r"near:(\S+)")
SMALL_WORDS = set("a an the in on of with and at to is are two der".split())
GERMAN = {"dog": "Hund", "grass": "Gras", "garden": "Garten", "red": "rot"}
"""How words are shown of a sentence that begins with "der"."""


def german(q: str) -> dict[str, str]:
    return GERMAN if q.startswith("der ") else {}


@dataclass
class Photo:
    id: str
    words: dict[str, float]
    width: int = 1200
    height: int = 800
    taken: str | None = None
    written: str | None = None
    """When its file was, if it is not known when it was taken."""
    camera: str | None = None
    captions: list[str] = field(default_factory=list)
    keywords: list[str] = field(default_factory=list)
    place: tuple[float, float] | None = None
    text: list[str] = field(default_factory=list)
    text_places: list[list[int]] = field(default_factory=list)

    @property
    def date(self) -> str | None:
        return self.taken or self.written

    @property
    def dated(self) -> str:
        return "camera" if self.taken else "file" if self.written else "unknown"

    def when_and_where(self) -> dict[str, Any]:
        latitude, longitude = self.place or (None, None)
        return {"date": self.date, "dated": self.dated, "latitude": latitude, "longitude": longitude}

    def picture(self, width: int) -> bytes:
        """Two colours and a disc, the same for the same id."""
        ratio = self.width / self.height if self.width and self.height else 4 / 3
        return drawn(width, max(1, round(width / ratio)), sum(map(ord, self.id)) * 47 % 360)


@cache
def drawn(width: int, height: int, hue: int) -> bytes:
    image = Image.new("RGB", (width, height), f"hsl({hue}, 30%, 72%)")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, height * 0.6, width, height), fill=f"hsl({hue}, 35%, 38%)")
    disc = (width * 0.6, height * 0.2, width * 0.8, height * 0.6)
    draw.ellipse(disc, fill=f"hsl({hue}, 60%, 88%)")
    body = BytesIO()
    image.save(body, "WEBP", method=0)
    return body.getvalue()


def circle_in(given: dict[str, Any]) -> Circle | None:
    """What is near, by a field of the sentence or by a filter."""
    field = NEAR.search(given.get("q") or "")
    near = field[1] if field else given.get("near")
    return circle_of(near, given.get("within")) if near else None


def far(circle: Circle, place: tuple[float, float] | None) -> float:
    return distance(*place, circle.latitude, circle.longitude) if place else math.inf


def is_in(circle: Circle, place: tuple[float, float] | None) -> bool:
    return far(circle, place) <= circle.kilometres


@dataclass
class Collection:
    photos: list[Photo]
    knows_words: bool = True
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
    albums_of: dict[str, list[str]] = field(default_factory=dict)
    """By album the ids of its photos."""
    towns_known: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Where towns are, largest first."""
    writable: bool = True
    """Whether albums can be changed."""
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

    def by_sentence(self, text: str, adjust: list[str], page: Page) -> dict[str, Any]:
        return self.ask(page)

    def by_words(self, terms: dict[str, float], without: list[str], page: Page) -> dict[str, Any]:
        return self.ask(page)

    def by_photo(self, key: str, page: Page) -> dict[str, Any]:
        return self.ask(page)

    def by_picture(self, data: bytes, page: Page) -> dict[str, Any]:
        """Two words, which the width and the height of the picture choose."""
        width, height = Image.open(BytesIO(data)).size
        words = list(self.postings)
        return self.ask(page, terms={words[width % len(words)]: 0.8, words[height % len(words)]: 0.5})

    def ask(self, page: Page, **words: Any) -> dict[str, Any]:
        time.sleep(self.delay)
        if page.k > self.limit:
            raise Problem(422, "k is too large")
        if self.busy:
            self.busy -= 1
            raise busy("searches")
        return self.search({**page.model_dump(exclude_none=True), **words})

    def query(
        self, q: str, adjust: list[str], terms: dict[str, float] | None = None
    ) -> tuple[dict, list, list]:
        """Terms, words left out, unknown words: each word of the sentence weighs less than the one before."""
        sentence, marks = [], []
        for token in NEAR.sub("", q).split():
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
            "terms": terms if self.knows_words else {},
            "hits": [self.hit(start + place + 1, *hit) for place, hit in enumerate(page)],
            "ms": {"search": 1.0},
            "unknown": unknown if self.knows_words else [],
            "without": without,
            "cursor": str(start + k) if start + k < len(found) else None,
            "well": self.well,
            "cut": self.cut,
            "suggestions": sorted(often, key=lambda word: -often[word])[:6] if self.knows_words else [],
            "negations": negations,
            "meant": {word: [one["word"] for one in self.near(word)[:3]] for word in unknown},
            "foreign": self.foreign,
            "shown_in": "de" if german(given.get("q", "")) else "",
            "translations": german(given.get("q", "")),
            "unmet": "" if found else self.unmet,
            "by_file_time": sum(self.photos[place].dated == "file" for _, place, _ in page),
        }

    def found(self, terms: dict[str, float], without: list[str], given: dict[str, Any]) -> list[tuple]:
        """Score, place and words of all hits; those of the last question are kept for its further pages."""
        names = ("after", "before", "folder", "caption", "near", "within", "album", "sort", "file_dates")
        asked = (
            [given.get(name) for name in names],
            circle_in(given),
            list(self.albums_of.get(given.get("album", ""), [])),
        )
        question = terms, without, asked, self.cut, self.snapshot
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
            found.sort(key=lambda hit: self.date(self.photos[hit[1]], given), reverse=True)
        if given.get("sort") == "place":
            circle = circle_in(given)
            if circle is None:
                raise Problem(400, "a distance is from a place")
            found.sort(key=lambda hit: far(circle, self.photos[hit[1]].place))
        return found

    @staticmethod
    def date(photo: Photo, given: dict[str, Any]) -> str:
        """By which a photo is found."""
        return (photo.date if given.get("file_dates") else photo.taken) or ""

    def allowed(self, photo: Photo, given: dict[str, Any]) -> bool:
        date = self.date(photo, given)
        after, before, folder = given.get("after"), given.get("before"), given.get("folder")
        text = " ".join([*photo.captions, *photo.keywords]).lower().split()
        return (
            (not after or date >= after)
            and (not before or ("" < date[: len(before)] <= before))
            and (not folder or photo.id.startswith(f"{folder}/"))
            and (not (album := given.get("album")) or photo.id in self.albums_of[album])
            and ((circle := circle_in(given)) is None or is_in(circle, photo.place))
            and all(word in text for word in (given.get("caption") or "").lower().split())
        )

    def hit(self, rank: int, score: float, place: int, words: dict[str, float]) -> dict[str, Any]:
        photo = self.photos[place]
        shares = words if self.knows_words else {}
        return {
            **{"rank": rank, "id": photo.id, "path": f"/photos/{photo.id}", "score": score, "words": shares},
            **{"probability": None, "key": key_of(photo.id), "width": photo.width, "height": photo.height},
            **{"taken": photo.taken, "version": "1", "duplicates": []},
            **photo.when_and_where(),
        }

    def albums(self) -> dict[str, Any]:
        listed = [{"name": name, "photos": len(ids)} for name, ids in sorted(self.albums_of.items())]
        return {"writable": self.writable, "albums": listed}

    def change_album(self, name: str, add: list[str], remove: list[str]) -> dict[str, Any]:
        if "/" in name or ":" in name:
            raise Problem(400, f"{name!r} is no name for an album")
        before, gone = self.albums_of.get(name, []), set(map(id_of, remove))
        ids = [id for id in dict.fromkeys([*before, *map(id_of, add)]) if id not in gone]
        self.albums_of = {**self.albums_of, name: ids}
        if not ids:
            del self.albums_of[name]
        return self.albums()

    def by_date(self, asked: Narrowed) -> list[Photo]:
        """All photos that are meant, newest first; those without a date last."""
        given = asked.model_dump(exclude_none=True)
        found = [photo for photo in self.photos if self.allowed(photo, given)]
        return sorted(found, key=lambda photo: photo.date or "", reverse=True)

    def listed(self, asked: ByDate) -> dict[str, Any]:
        time.sleep(self.delay)
        if asked.k > self.limit:
            raise Problem(422, "k is too large")
        found, start = self.by_date(asked), int(asked.cursor or 0)
        end = start + asked.k
        return {
            "photos": [self.dated(photo) for photo in found[start:end]],
            "total": len(found),
            "cursor": str(end) if end < len(found) else None,
            "unmet": "" if found else self.unmet,
        }

    def dated(self, photo: Photo) -> dict[str, Any]:
        return {
            **{"key": key_of(photo.id), "id": photo.id, "path": f"/photos/{photo.id}", "width": photo.width},
            **{"height": photo.height, "taken": photo.taken, "date": photo.date},
            **{"dated": photo.dated, "version": "1"},
        }

    def timeline(self, asked: Narrowed) -> dict[str, Any]:
        months: dict[str, dict[str, Any]] = {}
        for place, photo in enumerate(self.by_date(asked)):
            month = (photo.date or "")[:7]
            about = {"month": month, "photos": 0, "by_file_time": 0, "key": key_of(photo.id)}
            one = months.setdefault(month, {**about, "cursor": str(place)})
            one["photos"] += 1
            one["by_file_time"] += not photo.taken
        undated = months.pop("", {"photos": 0, "cursor": None})
        return {
            **{"months": list(months.values()), "undated": undated["photos"]},
            "undated_cursor": undated["cursor"],
        }

    def on_map(self, asked: MapPart) -> dict[str, Any]:
        """Photos by the cell of the grid that they are in, by brute force."""
        given = asked.model_dump(exclude_none=True)
        cells: dict[tuple[int, int], list[tuple[float, float]]] = {}
        wide, high = (asked.east - asked.west) / asked.columns, (asked.north - asked.south) / asked.rows
        for photo in self.photos:
            north, east = photo.place or (math.inf, math.inf)
            there = asked.west <= east <= asked.east and asked.south <= north <= asked.north
            if there and self.allowed(photo, given):
                cells.setdefault((east // wide, north // high), []).append((north, east))
        spots = []
        for places in cells.values():
            norths, easts = zip(*places, strict=True)
            box = [min(easts), min(norths), max(easts), max(norths)]
            middle = sum(norths) / len(places), sum(easts) / len(places)
            spots.append({"photos": len(places), "latitude": middle[0], "longitude": middle[1], "box": box})
        return {"spots": sorted(spots, key=lambda spot: -spot["photos"])}

    def towns(self, asked: TownsPart) -> dict[str, Any]:
        inside = [
            {"name": name, "latitude": north, "longitude": east}
            for name, (north, east) in self.towns_known.items()
            if asked.south <= north <= asked.north and asked.west <= east <= asked.east
        ]
        return {"towns": inside[: asked.limit]}

    def named(self, key: str) -> Photo:
        if id_of(key) not in self.by_id:
            raise Problem(404, "there is nothing here")
        return self.by_id[id_of(key)]

    def photo(self, key: str) -> dict[str, Any]:
        photo = self.named(key)
        return {
            **{"key": key, "id": photo.id, "path": f"/photos/{photo.id}", "width": photo.width},
            **{"height": photo.height, "taken": photo.taken, "camera": photo.camera},
            **{"captions": photo.captions, "keywords": photo.keywords, "text": photo.text},
            **photo.when_and_where(),
            **{"place": "Lyon, France" if photo.place else None},
            **{"text_places": photo.text_places, "version": "1"},
            "albums": [name for name, ids in self.albums_of.items() if photo.id in ids],
            "words": dict(sorted(photo.words.items(), key=lambda pair: -pair[1])) if self.knows_words else {},
        }

    def explain(self, key: str, q: str, adjust: list[str], language: str = "") -> dict[str, Any]:
        photo, terms = self.named(key), self.query(q, adjust)[0]
        own = german(q)
        rows = [
            {"word": word, "query": weight, "photo": there, "product": weight * there}
            for word, weight in terms.items()
            if (there := photo.words.get(word))
        ]
        rows.sort(key=lambda row: -row["product"])
        return {"score": sum(row["product"] for row in rows), "rows": rows, "translations": own}

    def thumbnail(self, key: str, width: int, known: str) -> Sent:
        return Sent("1", key, self.named(key).picture(64 if width == 320 else width), "image/webp")

    def original(self, key: str, known: str) -> Sent:
        return self.thumbnail(key, 1200, known)

    def download(self, asked: Download) -> Iterator[bytes]:
        def read(id: str) -> Any:
            photo = self.by_id[id]
            dated = SimpleNamespace(date=photo.date)
            about = SimpleNamespace(id=id, path=id, taken=photo.taken, dated=dated, offset=0)
            return about, photo.picture(64)

        ids = map(id_of, asked.keys)
        return zip_photos(ids, read) if asked.form == "zip" else sheet_of(asked.query, ids, read)

    def places(self, key: str, words: str = "") -> dict[str, Any]:
        """Each word is strongest at a place of its own."""
        rows = columns = 7
        names = list(dict.fromkeys([*self.named(key).words, *filter(None, words.split(","))]))
        grid = {}
        for word in names:
            x, y = sum(map(ord, word)) % columns, len(word) % rows
            grid[word] = [
                max(0.0, 1 - ((column - x) ** 2 + (row - y) ** 2) / 8)
                for row in range(rows)
                for column in range(columns)
            ]
        return {"rows": rows, "columns": columns, "box": [0.0, 0.0, 1.0, 1.0], "words": grid}

    def words(self, prefix: str, near: str, limit: int, language: str = "") -> dict[str, Any]:
        counts, own = self.frequencies(), GERMAN if language == "de" else {}
        if near:
            return {"words": self.near(near)[:limit]}
        names = {word: own.get(word, word) for word in counts}
        begun = [word for word, name in names.items() if name.lower().startswith(prefix)]
        found = sorted(begun, key=lambda word: -counts[word])[:limit]
        return {"words": [{"word": word, "photos": counts[word], "shown": names[word]} for word in found]}

    def near(self, typed: str) -> list[dict[str, Any]]:
        counts = self.frequencies()
        found = sorted(counts, key=lambda w: (-len(set(w) & set(typed)) + abs(len(w) - len(typed)), w))
        return [{"word": word, "photos": counts[word], "shown": word} for word in found]

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
            "by_file_time": sum(photo.dated == "file" for photo in self.photos),
            "located": sum(photo.place is not None for photo in self.photos),
            "captioned": sum(bool(photo.captions or photo.keywords) for photo in self.photos),
        }

    def status(self) -> dict[str, Any]:
        return {
            **{"index": ".lexlip", "documents": len(self.photos), "model": "mini", "words": self.knows_words},
            **{"kind": "impact" if self.knows_words else "dense", "snapshot": self.snapshot},
            **{"update": self.update, "limits": {"k": self.limit, "download_photos": 5000}},
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
            written=f"{2013 + place % 3}-11-05T08:00:00" if place % 10 else None,
            camera="Pixel 8" if place % 2 else None,
            captions=[f"a caption of photo {place}"] if place % 4 == 0 else [],
        )
        for place in range(number)
    ]


class StandIn:
    """A served index that answers as one collection after another."""

    limits = Limits()
    health = ServedIndex.health
    reply, reply_slowly, sent = ServedIndex.reply, ServedIndex.reply_slowly, ServedIndex.sent

    def __init__(self) -> None:
        self.collection, self.address = Collection([]), ""
        self.follower: Any = Follower(self.reply, self.reply, self.reply)
        self._searching = self.seeing = self.sending = self.waiting = Threads("calls", 32, 1000)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.collection, name)

    def show(self, collection: Collection) -> str:
        """Return the page's address, with these photos behind it."""
        self.collection = collection
        return self.address

    def follow(self, watch: bool) -> None:
        """There is nothing to follow."""

    def close(self) -> None:
        self._searching.close()


@contextmanager
def standing_in(port: int = 0) -> Iterator[StandIn]:
    """Serve collections for the block, and note in each what is asked."""
    stand_in = StandIn()
    application = make_application(stand_in, Access())

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked = f"{scope['method']} {scope['path']}?{scope['query_string'].decode()}"
            stand_in.collection.asked.append(asked)
        await application(scope, receive, send)

    with running(noting, port) as address:
        stand_in.address = f"{address}/"
        yield stand_in
