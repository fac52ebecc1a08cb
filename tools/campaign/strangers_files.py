"""Files, links and tables that strangers put in the place of photos, and what a server sends of them."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from random import Random
from typing import Any

from .contract import Broken, Place, attack
from .fuzz_requests import HOST, Server
from .prepare import index_of
from .processes import must

SECRET = b"root:x:0:0:a secret beside the photos\n"
ASKED = 40  # requests of one try
CALLS = ("original", "thumbnail", "")


class Photos:
    """A copy of the prepared photos, and an index of them; a folder outside holds what must not be sent."""

    def __init__(self, place: Place, kind: str) -> None:
        self.folder, self.outside = place.folder / "library", place.folder / "outside"
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


CHANGES: tuple[Change, ...] = (_name, _move_roots, _tell_content, _cut)


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
