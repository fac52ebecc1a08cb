"""Searches the photos of an index on a server, as `PhotoSearch` searches those of an index in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lexlip.other_engines.ask import Server
from lexlip.retrieval.albums import Albums
from lexlip.search.answering import Conditions, IndexState
from lexlip.search.photo_search import PhotoSearch
from lexlip.search_servers.photo_index import STORES, PhotoIndex
from lexlip.search_servers.photo_queries import Condition, was_given, with_ids
from lexlip.search_servers.server_albums import ServerAlbums
from lexlip.search_servers.server_stage import Allowed, ServerStage


class ServerState(IndexState):
    """An index on a server: conditions are met there, so that no lists of ids go back and forth."""

    stage: ServerStage

    def _allow(self, asked: Conditions) -> Allowed | None:
        return self._among(asked) if any(asked) else None

    def ids(self, asked: Conditions, of: Sequence[str] | None = None) -> list[str]:
        if of is not None and (not of or not any(asked)):
            return list(of)
        found = self.stage.server.ids(self._among(asked, of).condition)
        if of is None:
            return found
        met = set(found)
        return [id for id in of if id in met]

    def _among(self, asked: Conditions, of: Sequence[str] | None = None) -> Allowed:
        """Return the photos, or `of` some, that meet conditions, for the stage's search."""
        met: list[Condition] = self.stage.meets(asked.filters) if asked.filters else []
        met += [was_given(phrase, [name]) for name, wanted in asked.narrowed for phrase in wanted]
        met += [] if of is None else [with_ids(of)]
        return self.stage.among(met, asked.without, asked.not_given)


def has_photos(address: str, tell: Callable[[str], object] | None = None) -> bool:
    """Return whether an index on a server was made by `lexlip index --server`; an export was not.

    `tell`: see `PhotoIndex`.
    """
    return Server.of(address).engine.name in STORES and PhotoIndex.at(address, tell).about() is not None


class ServerSearch(PhotoSearch):
    """An open index on a server.

    Attributes:
        server: the index.

    Args:
        address: as in `lexlip search --server`.
        folders: in which the photos are that are read.
        how: see `lexlip.search.stages.index_model.open_index`.
        tell: see `PhotoIndex`.
    """

    state_kind = ServerState

    def __init__(
        self,
        address: str,
        *how: Any,
        folders: Sequence[str] = (),
        keep_states: int = 0,
        tell: Callable[[str], object] | None = None,
    ) -> None:
        self.server = PhotoIndex.at(address, tell)
        self._open(ServerStage(self.server, *how, folders=folders), None, keep_states)

    @property
    def albums(self) -> Albums:
        return ServerAlbums(self.server)
