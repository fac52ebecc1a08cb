"""Albums of an index on a server: a document for each photo of each, so that many may change them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence

from lexlip.retrieval.albums import Albums, check_ids, check_name, no_album
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import Is
from lexlip.search_servers.photo_store import Action
from lexlip.words.file_names import same_name

_MOST = 10_000  # albums


class ServerAlbums(Albums):
    """See `Albums`; its methods raise what those of `PhotoIndex` do, too."""

    def __init__(self, index: PhotoIndex) -> None:
        self._index = index

    def names(self) -> list[str]:
        return sorted(spelled[0] for spelled in self._spelled().values())

    def ids(self, name: str) -> list[str]:
        spelled = self._spelled()
        found = spelled.get(same_name(check_name(name)))
        if found is None:
            raise no_album(name, sorted(one[0] for one in spelled.values()))
        return self._members(found)

    def all(self) -> Iterator[tuple[str, list[str]]]:
        for spelled in sorted(self._spelled().values()):
            yield spelled[0], self._members(spelled)

    def holding(self, id: str) -> list[str]:
        entries = self._index.entries(Is("member", (id,)))
        return sorted({same_name(entry["album"]): entry["album"] for entry in entries}.values())

    def change(self, name: str, add: Iterable[str] = (), remove_ids: Iterable[str] = ()) -> int:
        name, add, gone = check_name(name), check_ids(add), set(remove_ids)
        spelled = self._spelled().get(same_name(name), [])
        before = set(self._members(spelled)) if spelled else set()
        new = [id for id in add if id not in before | gone]
        now = f"{time.time_ns():020}"
        entries = (
            {"album": spelled[0] if spelled else name, "member": id, "added": f"{now}-{number:010}"}
            for number, id in enumerate(new)
        )
        actions: list[Action] = [(_key(name, id), entry) for id, entry in zip(new, entries, strict=True)]
        actions += [(_key(name, id), None) for id in sorted(gone & before)]
        with self._index.bulks() as write:
            for action in actions:
                write(action)
        if actions:
            self._index.refresh()
        return len(new)

    def _spelled(self) -> dict[str, list[str]]:
        """Return how the name of each album is spelled, by what all its spellings have in common."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._index.terms("album", ".*", _MOST)):
            found.setdefault(same_name(name), []).append(name)
        return found

    def _members(self, spelled: Sequence[str]) -> list[str]:
        return [entry["member"] for entry in self._index.entries(Is("album", tuple(spelled)))]


def _key(name: str, id: str) -> str:
    """Return the key of the document that says that an album holds a photo."""
    return "album-" + hashlib.sha256(f"{same_name(name)}/{id}".encode()).hexdigest()
