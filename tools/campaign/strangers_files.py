"""Files, links and tables that strangers put in the place of photos, and what a server sends of them."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from .contract import Broken, Place, attack
from .fuzz_requests import HOST, Server
from .operations import files_of
from .prepare import give_towns, index_of
from .processes import check_end, invoke, must

SECRET = b"root:x:0:0:a secret beside the photos\n"
ASKED = 40  # requests of one try
CALLS = ("original", "thumbnail", "")


class Photos:
    """A copy of the prepared photos, and an index of them; a folder outside holds what must not be sent."""

    def __init__(self, place: Place, kind: str) -> None:
        self.folder, self.outside = place.folder / "library", place.folder / "outside"
        give_towns(place.prepared)
        shutil.copytree(place.prepared / "library", self.folder)
        self.index = self.folder / ".lexlip"
        if kind == "flat":
            self.index = place.folder / "indexes" / "flat"
            shutil.copytree(index_of(place.prepared, kind), self.index)
        elif kind == "bm25":
            self.index = place.folder / "bm25"
            must("index", self.folder, "--index", self.index, "--model", "bm25")
        self.outside.mkdir()
        (self.outside / "secret").write_bytes(SECRET)
        shutil.copy(place.prepared / "others" / "200.jpg", self.outside / "other.jpg")
        self.indexed = {file.name: file.read_bytes() for file in sorted(self.folder.glob("*.jpg"))}

    def swap(self, random: Random, name: str) -> None:
        """Put another file, or a link, in the place of a photo."""
        other, new = self.outside / random.choice(["secret", "other.jpg"]), self.folder / ".new"
        if random.random() < 0.5:
            new.symlink_to(other)
        else:
            new.write_bytes(other.read_bytes())
        new.replace(self.folder / name)

    def take_back(self, name: str) -> None:
        """Put a photo in its place again."""
        new = self.folder / ".new"
        new.write_bytes(self.indexed[name])
        new.replace(self.folder / name)

    def ask(self, server: Server, name: str, call: str) -> tuple[int, bytes]:
        """Return an answer about a photo, which must not send what was not indexed."""
        from lexlip.retrieval.answer import key_of

        address = f"/api/photos/{key_of(name)}/{call}".rstrip("/")
        status, _, content = server.ask("GET", address)
        what = f"{call or 'what is known'} of {name}"
        if SECRET.strip() in content:
            raise Broken(f"{what} sends a file from outside")
        if status == 200 and call == "original" and content != self.indexed[name]:
            raise Broken(f"{what} is not what was indexed")
        if status not in (200, 404, 410) and b"build the index again" not in content:
            raise Broken(f"{what}: status {status}: {content[:200]!r}")
        return status, content


@contextmanager
def _serving(index: Path, folders: tuple[str, ...] = ()) -> Iterator[Server]:
    """Serve an index; the lines of the log about photos that are not sent are not shown."""
    server = Server(index, folders)
    try:
        with redirect_stderr(io.StringIO()):
            yield server
    finally:
        server.close()


@attack("files.swaps", 30, 1, 90)
def swaps(random: Random, place: Place) -> None:
    """Swap photos for files and links, and take that back: what is sent and kept is what was indexed."""
    from lexlip.server.photo_files import make_thumbnail

    photos = Photos(place, random.choice(["impact", "flat", "bm25"]))
    names, ended = list(photos.indexed), threading.Event()
    changes = Random(random.random())

    def change() -> None:
        while not ended.wait(changes.random() / 500):
            name = changes.choice(names)
            photos.swap(changes, name) if changes.random() < 0.6 else photos.take_back(name)

    if random.random() < 0.5:
        photos.swap(random, random.choice(names))
    with _serving(photos.index) as server:
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for _ in range(ASKED):
                photos.ask(server, random.choice(names), random.choice(CALLS))
        finally:
            ended.set()
            changing.join()
        for name in names:
            photos.take_back(name)
            status, content = photos.ask(server, name, "thumbnail")
            if status == 200 and content != make_thumbnail(photos.indexed[name], 320):
                raise Broken(f"the thumbnail that is kept of {name} is that of something else")


def _stranger_album(random: Random, folder: Path, secret: Path) -> None:
    """Put an album into the folder of albums that no person would make."""
    file = folder / f"{random.choice(['circles', 'a', 'A', 'b.c', 'con', ' x', 'é'])}.txt"
    file.unlink(missing_ok=True)
    kind = random.randrange(9)
    if kind == 0:
        file.symlink_to(secret)
    elif kind == 1:
        file.symlink_to(random.choice(["/dev/zero", "missing", ".", "/proc/self/mem"]))
    elif kind == 2:
        with file.open("wb") as huge:
            huge.truncate(random.choice([2**27 + 1, 2**40]))
    elif kind == 3:
        file.write_bytes(random.choice([b"\xff\xfe0.jpg\n", b"0.jpg\n\x80", b"\xef\xbb\xbf0.jpg\r\n1.jpg"]))
    elif kind == 4:
        os.mkfifo(file)
    elif kind == 5:
        file.mkdir(exist_ok=True)
    elif kind == 6:
        file.write_text(f"../outside/secret\n{secret}\n\0\n0.jpg\n../outside/other.jpg\n")
    elif kind == 7:
        file.write_text("".join(f"{number}.jpg\n" for number in range(300_000)))
    else:
        (folder / ".lock").unlink(missing_ok=True)
        (folder / ".lock").symlink_to(secret)


@attack("files.albums", 40, 2, 120)
def albums(random: Random, place: Place) -> None:
    """Use an index with albums that a stranger made: nothing outside is sent, or changed."""
    photos = Photos(place, "impact")
    folder, outside = photos.index / "albums", photos.outside
    if random.random() < 0.2:
        shutil.rmtree(folder)
        folder.symlink_to(outside)
    else:
        for _ in range(random.randint(1, 3)):
            with suppress(OSError):
                _stranger_album(random, folder, outside / "secret")
    before = files_of(outside)
    names = ("circles", "a", "b.c", "é", "secret", "none")
    for _ in range(3):
        name = random.choice(names)
        more = random.choice([("--add-to", "circles"), ("--album", name), ("--copy-to", "copies")])
        search = ("search", "two red circles", "-k", 9, "--index", photos.index, "--json")
        ended = invoke(*search, "--album", name, *more)
        check_end(ended, f"a search in the album {name} with {' '.join(more)}", 0, 2)
        if ended.code == 0 and not {id for id, *_ in ended.hits} <= photos.indexed.keys():
            raise Broken(f"a search in an album finds {ended.hits}")
    headers = [HOST, (b"content-type", b"application/json")]
    body = json.dumps({"add": ["MC5qcGc"]}).encode()
    with _serving(photos.index) as server:
        asked = [
            ("GET", "/api/albums", "", b""),
            ("GET", "/api/photos", f"album={random.choice(names)}", b""),
        ]
        asked += [
            ("POST", f"/api/albums/{random.choice(names)}", "", body),
            ("GET", "/api/photos/MC5qcGc", "", b""),
        ]
        for method, path, query, data in asked:
            status, _, content = server.ask(method, path, quote(query, "="), headers, data)
            if status >= 500 or SECRET.strip() in content:
                raise Broken(f"{method} {path}?{query}: status {status}: {content[:200]!r}")
    if files_of(outside) != before:
        raise Broken(f"files outside were changed: {files_of(outside)!s:.200}")


LISTED = (
    *(("/api/photos", ""), ("/api/photos", "near=45.1,4.8"), ("/api/timeline", ""), ("/api/facets", "")),
    *(("/api/search", "q=red&near=45.1,4.8&sort=place"), ("/api/search", "q=text:exit"), ("/api/albums", "")),
)
Change = Callable[[Random, sqlite3.Connection, Path], Any]


def _name(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    absolute, climbing = str(secret), "../" * 30 + str(secret)[1:]
    root = random.choice(["root", "NULL", "77", "'a'"])
    rows.execute(f"UPDATE photos SET root = {root}, file = ?", [random.choice([absolute, climbing, "a\0b"])])


def _move_roots(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    root = random.choice(["/", str(secret.parent)])
    rows.execute("UPDATE roots SET absolute = ?, relative = ?", [root, root])
    rows.execute("UPDATE photos SET file = ?", [random.choice(["secret", str(secret)[1:]])])


def _tell_content(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    from lexlip.data.facts import digest
    from lexlip.data.files import state_of

    known = random.choice(["", digest(SECRET)]), random.choice(["", str(state_of(secret))])
    rows.execute("UPDATE photos SET digest = ?, state = ?", known)


def _cut(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    numbers = [0, 1, -1, len(SECRET), 2**40, 2**63 - 1, 1.5, "a", b"\xff", None]
    rows.execute("UPDATE photos SET start = ?, size = ?", [random.choice(numbers) for _ in range(2)])


def _move_place(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    where = [random.choice([None, 0, 45.0, 999.0, "a", b"\xff", float("inf")]) for _ in range(2)]
    rows.execute("UPDATE photos SET latitude = ?, longitude = ?", where)


def _write_text(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    lines = [
        "",
        "[]",
        "{}",
        '[["a",1]]',
        "[" * 10**5,
        '[["a",0,0,9,0,9,9,0,9999]]',
        b"\xff",
        f'[["{"a " * 10**5}"]]',
    ]
    rows.execute("UPDATE texts SET lines = ?, sum = NULL", [random.choice(lines)])


def _take_at(random: Random, rows: sqlite3.Connection, secret: Path) -> None:
    times = ["", "9999-99-99T99:99:99", "0000-00-00T00:00:00", "a", 7, b"\xff", "2019-07-01T24:00:61", None]
    rows.execute("UPDATE photos SET taken = ?, state = ?", [random.choice(times), f"1 {'9' * 20} 1"])


CHANGES: tuple[Change, ...] = (_name, _move_roots, _tell_content, _cut, _move_place, _write_text, _take_at)


@attack("files.tables", 60, 3, 60)
def tables(random: Random, place: Place) -> None:
    """Serve an index that a stranger made, with right sums: nothing from outside is sent or read."""
    from anserini_bridge.metadata import fields_checksum
    from anserini_bridge.storage import checksum

    photos = Photos(place, random.choice(["impact", "flat"]))
    file, secret = photos.index / "index.json", photos.outside / "secret"
    header = json.loads(file.read_text())
    extra = header["extra"]
    table = photos.index / header["directory"] / extra["photos"]
    rows = sqlite3.connect(table)
    for change in random.sample(CHANGES, random.randint(1, len(CHANGES))):
        change(random, rows, secret)
    for name in ("photos", "roots"):
        rows.execute(f"UPDATE {name} SET sum = NULL")
    digests = [digest for (digest,) in rows.execute("SELECT digest FROM photos")]
    rows.commit()
    rows.close()
    header["files"][table.name] = checksum(table)
    _forge_seal(random, extra, table)
    extra["given"]["sources"] = [[str(photos.outside), str(photos.outside), ""]]
    file.write_text(json.dumps({**header, "checksum": fields_checksum(header)}))
    _forge_thumbnails(photos.index, digests, secret)
    folders = (str(photos.folder.resolve()),) if random.random() < 0.5 else ()
    with _serving(photos.index, folders) as server:
        for name in random.sample(sorted(photos.indexed), 5):
            for call in CALLS:
                photos.ask(server, name, call)
        for path, query in LISTED:
            status, _, content = server.ask("GET", path, query)
            if status >= 400 and status != 410 and b"build the index again" not in content:
                raise Broken(f"{path}?{query}: status {status}: {content[:200]!r}")
        headers = [HOST, (b"content-type", b"application/json")]
        status, _, content = server.ask("POST", "/api/update", "", headers, b"{}")
        if status != 409:
            raise Broken(f"an update reads the folders that a stranger named: status {status}: {content!r}")


def _forge_seal(random: Random, extra: dict[str, Any], table: Path) -> None:
    """Leave the seal out, or as it was, or make one without the user's key."""
    from lexlip.retrieval.seal import table_checksum

    if random.random() < 0.3:
        extra.pop("seal", None)
    elif random.random() < 0.7:
        code = random.choice(["", "0" * 64, extra["seal"]["code"]])
        extra["seal"] = {"code": code, "tables": {table.name: table_checksum(table)}}


def _forge_thumbnails(index: Path, digests: list[str], secret: Path) -> None:
    from lexlip.server.photo_files import name_of

    for digest in digests:
        link = index / "thumbnails" / name_of(digest, 320)[:2] / f"{name_of(digest, 320)}.webp"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(secret)
