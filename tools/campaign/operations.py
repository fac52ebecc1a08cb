"""Commands that change an index of photos, and the states before and after them."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache, partial
from pathlib import Path
from random import Random

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
}


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
        self.command: list[object] = [*LEXLIP, *COMMANDS[name]]
        if model := {"index": "words", "dense": "dense"}.get(name):
            self.command.append(place.prepared / model / "best")
        self.old = self.state()

    @classmethod
    def any(cls, random: Random, place: Place) -> Operation:
        return cls(random.choice(list(COMMANDS)), place)

    def add_photos(self) -> None:
        if self.name == "update":
            shutil.copytree(self._place.prepared / "added", self.library, dirs_exist_ok=True)

    def state(self) -> State | str:
        return state_of(self.library)

    @property
    def new(self) -> State | str:
        """The state that the command leads to, without any attack."""
        return _state_after(self.name, self._place.prepared)

    def calls(self) -> list[tracing.Call]:
        return tracing.calls_of(self.name, self._place, lambda place: Operation(self.name, place))

    def check_state(self, what: str) -> State | str:
        """Return the state, which must be the old or the new one."""
        found = self.state()
        if found not in (self.old, self.new):
            raise Broken(f"{what}: the index is neither in the old nor in the new state")
        return found

    def check_ended(self, ended: Ended, what: str) -> None:
        """Check how the command has ended where it may have failed."""
        check_end(ended, what, 0, 2)
        if self.check_state(what) != self.new and ended.code == 0:
            raise Broken(f"{what}: it says that all went well, and the index is not in the new state")

    def check_again(self, what: str) -> None:
        """Run the command again, which must now work."""
        os.chdir(self.library.parent)
        must(*self.command[len(LEXLIP) :], after=what)
        if self.state() != self.new:
            raise Broken(f"{what}: the next one, without an error, does not lead to the new state")


def state_of(library: Path) -> State | str:
    """Return the vectors of an index of words; of another kind what it answers, and a sharded one's size."""
    index = library / ".lexlip"
    kind = json.loads((index / "index.json").read_text()).get("kind", "impact")
    if kind == "impact":
        return read(index)
    hits = must("search", "two red circles", "-k", 20, "--index", index, "--json").hits
    return json.dumps([_segments(index) if kind == "sharded" else None, hits])


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


@cache
def _state_after(name: str, prepared: Path) -> State | str:
    return state_of(library_after(name, prepared))
