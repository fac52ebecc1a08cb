"""Searches the photos of an index on a server, as `PhotoSearch` searches those of an index in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lexlip.other_engines.ask import Server
from lexlip.retrieval.albums import Albums
from lexlip.retrieval.filters import Filters
from lexlip.search.answering import IndexState, Narrowed
from lexlip.search.photo_search import PhotoSearch
from lexlip.search_servers.photo_index import STORES, PhotoIndex
from lexlip.search_servers.photo_queries import Condition, meets, was_given, with_ids
from lexlip.search_servers.server_albums import ServerAlbums
from lexlip.search_servers.server_stage import Allowed, ServerStage


class ServerState(IndexState):
    """An index on a server: conditions are met there, so that no lists of ids go back and forth."""

    stage: ServerStage

    def _allow(
        self,
        filters: Filters | None,
        narrowed: Narrowed,
        without: tuple[str, ...],
        not_given: tuple[str, ...],
    ) -> Allowed | None:
        conditions = _conditions(filters, narrowed)
        if not (conditions or without or not_given):
            return None
        return self.stage.among(conditions, without, not_given)

    def ids(
        self,
        filters: Filters | None,
        narrowed: Narrowed,
        without: tuple[str, ...],
        not_given: tuple[str, ...],
        of: Sequence[str] | None = None,
    ) -> list[str]:
        conditions = _conditions(filters, narrowed)
        if of is None:
            return self.stage.server.ids(self.stage.among(conditions, without, not_given).condition)
        if not of or not (conditions or without or not_given):
            return list(of)
        allowed = self.stage.among([*conditions, with_ids(of)], without, not_given)
        met = set(self.stage.server.ids(allowed.condition))
        return [id for id in of if id in met]


def _conditions(filters: Filters | None, narrowed: Narrowed) -> list[Condition]:
    given = [was_given(phrase, [name]) for name, wanted in narrowed for phrase in wanted]
    return [*(meets(filters) if filters else ()), *given]


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
