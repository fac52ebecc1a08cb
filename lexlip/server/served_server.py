"""An index on a server, as the calls of the API ask it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse

from lexlip.data.files import cache_folder
from lexlip.errors import FixableError
from lexlip.other_engines.ask import NoIndex, Unreachable
from lexlip.retrieval.answer import Answer
from lexlip.retrieval.first_stage import FirstStage
from lexlip.search.listing import Listing
from lexlip.search_servers.server_search import ServerSearch
from lexlip.server.access import Limits
from lexlip.server.model_process import ModelProcess, make_server_tasks
from lexlip.server.photo_addresses import PhotoAddresses
from lexlip.server.photo_files import Sent
from lexlip.server.problems import Problem
from lexlip.server.served_index import ServedIndex, id_named

if TYPE_CHECKING:
    from fastapi import Response

NO_FILES = "this server has no files of photos: start it with --photos FOLDER, the folder that holds them"


@dataclass(frozen=True)
class Cluster:
    """What a cluster said of an index when it was asked last.

    Attributes:
        status: green, yellow or red; None if it may not be asked, or did not answer.
        message: why searches are not answered; "" if they are.
        documents: photos in the index, when that was known last.
    """

    status: str | None = None
    message: str = ""
    documents: int = 0


class ServedServer(ServedIndex):
    """See `ServedIndex`; the cluster is asked every few seconds whether there is a newer state.

    Args:
        search: in the index, which is open.
        model, device: see `lexlip.server.model_process.make_server_tasks`.
        folders: in which the photos are.
        addresses: where another server shows them.
    """

    every = 5.0
    at_once = 16  # searches wait for the cluster, more than for this machine

    def __init__(
        self,
        search: ServerSearch,
        model: str,
        device: str = "auto",
        limits: Limits | None = None,
        folders: Sequence[str] = (),
        addresses: PhotoAddresses | None = None,
    ) -> None:
        limits = limits or Limits()
        self._server, self._addresses, self._cluster = search.server, addresses, Cluster()
        name = str(self._server)
        process = ModelProcess(make_server_tasks, (name, model, device, limits.upload_pixels), limits.idle)
        self._open(name, search, process, _thumbnails(name, folders), limits, folders)
        self._see()

    # ---- on the event loop ----

    async def _look(self) -> object:
        return await self._updating.run(self._newest)

    def _newest(self) -> str:
        self._see()
        return self._server.described().version

    def _see(self) -> Cluster:
        """Ask the cluster how the index is; FixableError: it would not answer a search."""
        documents, status, why = self._cluster.documents, None, None
        try:
            documents = self._server.count()
        except FixableError as error:
            why = error
        if not isinstance(why, Unreachable | NoIndex):  # who answers nothing need not be asked again
            with suppress(FixableError):  # who may only search is not told
                status = self._server.health()
        self._cluster = Cluster(status, "" if why is None else str(why), documents)
        if why is not None:
            raise why
        return self._cluster

    async def health(self) -> Response:
        try:
            cluster = await self._searching.run(self._see)
        except FixableError:  # its sentence names the server, and nobody need show a token
            raise Problem(503, "the cluster does not answer searches now: /api/status says why") from None
        return JSONResponse({"status": "ok", "cluster": cluster.status})

    def status(self) -> dict[str, Any]:
        said = self._cluster
        return {
            **super().status(),
            "documents": said.documents,
            "photos": "files" if self.folders else "addresses" if self._addresses else "none",
            "cluster": {"status": said.status, "message": said.message},
        }

    def _check_updatable(self) -> None:
        how = f"lexlip index SOURCE --server {self.name}"
        raise Problem(409, f"an index on a server is not updated from here, but by `{how}`")

    # ---- searches, in threads ----

    def _shown(self, found: Answer | Listing) -> dict[str, Any]:
        """Return an answer, with captions where there are no pictures to show."""
        said = super()._shown(found)
        if not (self.folders or self._addresses):
            hits = said["hits"] if "hits" in said else said["photos"]
            with self.search.now() as (_, photos):
                known = photos.get([hit["id"] for hit in hits])
            for hit, photo in zip(hits, known, strict=True):
                hit["captions"] = list(photo.captions) if photo else []
        return said

    # ---- photos, in threads ----

    def thumbnail(self, key: str, width: int, known: str) -> Sent:
        return self._elsewhere(key) or super().thumbnail(key, width, known)

    def original(self, key: str, known: str) -> Sent:
        return self._elsewhere(key) or super().original(key, known)

    def _elsewhere(self, key: str) -> Sent | None:
        if self._addresses is None:
            return None
        return Sent("", "", None, address=self._addresses.of(id_named(key)))

    @contextmanager
    def _sending(self, key: str) -> Iterator[Any]:
        self._check_sendable()
        with super()._sending(key) as sent:
            yield sent

    def _check_sendable(self, stage: FirstStage | None = None) -> None:
        if not self.folders:
            raise Problem(409, NO_FILES)

    def _may_change_albums(self, stage: FirstStage) -> bool:
        return True  # the cluster decides


def _thumbnails(name: str, folders: Sequence[str]) -> Path:
    """Return where thumbnails of an index's photos are kept, apart from those of any other.

    What that folder is in is made.
    """
    home = Path(os.devnull)
    with suppress(OSError):  # then they are made each time
        home = cache_folder() / "thumbnails"
        home.mkdir(parents=True, exist_ok=True)
    return home / hashlib.sha256(repr([name, *folders]).encode()).hexdigest()[:16]
