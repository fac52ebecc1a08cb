"""Commands that change an index of photos, or what lies beside it, and the states before and after them."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from . import tracing
from .contract import Broken, NotRun, Place
from .documents import State, read
from .prepare import index_of, made_once, sharded
from .processes import LEXLIP, Ended, check_end, must, run

INDEX = ("--index", "library/.lexlip")
COMMANDS = {
    "optimize": ("optimize", *INDEX),
    "shards": ("optimize", *INDEX),  # an index in shards
    "update": ("index", "--update", *INDEX),
    "index": ("index", "library", "--anew", *INDEX, "--model"),
    "bm25": ("index", "library", *INDEX, "--model", "bm25"),
    "dense": ("index", "library", *INDEX, "--model"),
    "text": ("index", "library", *INDEX, "--text", "--model"),
    "album": ("search", "two red circles", "-k", "9", *INDEX, "--add-to", "circles"),
    "copies": ("search", "two red circles", "-k", "9", *INDEX, "--copy-to", "library/.copies"),
    "keywords": ("keywords", "library", "--write", "--sure", "0.1"),
}
ONE_BY_ONE = ("copies", "keywords")  # which write files, and where each is as before, or complete


class Known(NamedTuple):
    """What an index of words holds.

    Attributes:
        words: the photos' vectors.
        facts: what is known of each photo, its place and text too.
        albums: the ids in each.
    """

    words: State
    facts: dict[str, dict[str, Any]]
    albums: dict[str, list[str]]


class Operation:
    """A command on a library of the try's own, which is made.

    Attributes:
        library, index: folders; calls that touch the library are watched.
        old: the state of its index before.
        command: to be run in the folder above the library.
    """

    def __init__(self, name: str, place: Place, photos_are_added: bool = True) -> None:
        self.name, self._place = name, place
        self.library = self.watched = place.folder / "library"
        self.index = self.library / ".lexlip"
        whole = sharded(place.prepared) if name == "shards" else place.prepared / "library"
        shutil.copytree(whole, self.library)
        if photos_are_added:
            self.add_photos()
        if name in ("bm25", "dense"):  # an index of that kind is replaced
            shutil.rmtree(self.index)
            kind = "flat" if name == "dense" else "bm25"
            shutil.copytree(index_of(place.prepared, kind), self.index)
        if name == "text":
            if find_spec("rapidocr") is None:
                raise NotRun("rapidocr is missing: install it with `pip install 'lexlip[ocr]'`")
            must("index", self.library, "--index", self.index, "--update", "--no-text")
        self.command: list[object] = [*LEXLIP, *COMMANDS[name]]
        if model := {"index": "words", "text": "words", "dense": "dense"}.get(name):
            self.command.append(place.prepared / model / "best")
        self.old, self._files = self.state(), files_of(self.library)

    @classmethod
    def any(cls, random: Random, place: Place) -> Operation:
        return cls(random.choice(list(COMMANDS)), place)

    def add_photos(self) -> None:
        if self.name == "update":
            shutil.copytree(self._place.prepared / "added", self.library, dirs_exist_ok=True)

    def state(self) -> Known | str:
        return state_of(self.library)

    @property
    def new(self) -> Known | str:
        """The state that the command leads to, without any attack."""
        return state_of(library_after(self.name, self._place.prepared))

    @property
    def _new_files(self) -> dict[str, bytes]:
        return files_of(library_after(self.name, self._place.prepared))

    def calls(self) -> list[tracing.Call]:
        return tracing.calls_of(self.name, self._place, lambda place: Operation(self.name, place))

    def check_state(self, what: str) -> Known | str:
        """Return the state, which must be the old or the new one."""
        found = self.state()
        if found not in (self.old, self.new):
            raise Broken(f"{what}: the index is neither in the old nor in the new state")
        if self.name in ONE_BY_ONE:
            now = files_of(self.library)
            for name in self._new_files.keys() | now.keys() | self._files.keys():
                if now.get(name) not in (self._files.get(name), self._new_files.get(name)):
                    raise Broken(f"{what}: the file {name} is neither as it was nor complete")
        return found

    def check_ended(self, ended: Ended, what: str) -> None:
        """Check how the command has ended where it may have failed."""
        check_end(ended, what, 0, 2)
        done = self.check_state(what) == self.new
        if self.name in ONE_BY_ONE:
            done = files_of(self.library) == self._new_files or "skipped" in ended.stderr
        if not done and ended.code == 0:
            raise Broken(f"{what}: it says that all went well, and the index is not in the new state")

    def check_again(self, what: str) -> None:
        """Run the command again, which must now work."""
        os.chdir(self.library.parent)
        must(*self.command[len(LEXLIP) :], after=what)
        if self.state() != self.new or (
            self.name in ONE_BY_ONE and files_of(self.library) != self._new_files
        ):
            raise Broken(f"{what}: the next one, without an error, does not lead to the new state")


def state_of(library: Path) -> Known | str:
    """Return what an index of words holds; of another kind what it answers, and a sharded one's size."""
    index = library / ".lexlip"
    kind = json.loads((index / "index.json").read_text()).get("kind", "impact")
    if kind == "impact":
        return known_of(index)
    hits = must("search", "two red circles", "-k", 20, "--index", index, "--json").hits
    return json.dumps([_segments(index) if kind == "sharded" else None, hits])


def known_of(index: Path) -> Known:
    """Return what an index of words holds; of what is known of photos, all but where they lie."""
    from anserini_bridge import read_header
    from lexlip.retrieval.albums import Albums
    from lexlip.retrieval.photo_table import open_photos

    with open_photos(index, read_header(index)) as table:
        photos = table.get(sorted(table.paths()))
    facts = {photo.id: {**photo.to_dict(), "path": ""} for photo in photos if photo is not None}
    albums = Albums(index)
    return Known(read(index), facts, {name: albums.ids(name) for name in albums.names()})


def files_of(library: Path) -> dict[str, bytes]:
    """Return the files of a library, without its index and those that were not finished."""
    paths = (path for path in library.rglob("*") if path.is_file() and not path.name.startswith("."))
    names = ((path.relative_to(library).as_posix(), path) for path in paths)
    return {name: path.read_bytes() for name, path in names if not name.startswith(".lexlip/")}


def _segments(index: Path) -> list[int]:
    """Return how many segments of Lucene's each shard of an index has."""
    from lexlip.cluster.shard_updating import segments
    from lexlip.search.engines.shard import read_sharded

    metadata = read_sharded(index)
    return [segments(index / metadata.directory / shard["folder"]) for shard in metadata.shards]


def library_after(name: str, prepared: Path) -> Path:
    """Return a library on which a command has been run."""
    return made_once(prepared / f"after-{name}", partial(_run, name, prepared)) / "library"


def _run(name: str, prepared: Path, folder: Path) -> None:
    folder.mkdir()
    ended = run(Operation(name, Place(prepared, folder)).command, folder)
    if ended.code:
        raise NotRun(f"lexlip {name} fails without any attack: {ended.stderr[-300:]}")
