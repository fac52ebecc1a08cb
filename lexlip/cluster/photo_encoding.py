"""Encodes photos on a cluster for an index elsewhere: machines encode parts, and give the rows back."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from anserini_bridge.sparse_rows import Rows
from lexlip.cluster.session import connected
from lexlip.cluster.shard_indexer import ModelActor
from lexlip.cluster.shard_queue import ShardQueue
from lexlip.data import Source
from lexlip.data.facts import Facts
from lexlip.errors import DataError
from lexlip.models.contract import EncodingSettings
from lexlip.models.model_folder import lasting_name
from lexlip.search_servers.server_indexing import Encode, Outcome, Take, encode_with
from lexlip.words.plain_text import counted

AT_ONCE = 256  # photos of a part


class EncodedPart(NamedTuple):
    """What `Take` is given, of one part, and what became of the other photos."""

    taken: list[tuple[Rows, list[tuple[int, Facts]]]]
    outcome: Outcome


class PartEncoder(ModelActor):
    """An actor of Ray that encodes parts of a source, which all machines see at the same place."""

    def __init__(self, settings: EncodingSettings, threads: int | None, source: Source) -> None:
        super().__init__(settings, threads)
        self._source = source

    def index(self, numbers: Sequence[int]) -> EncodedPart:
        """Encode the photos with these numbers; DataError: this machine does not see one."""
        before, files = self._done, dict.fromkeys(map(self._source.file, numbers))
        if lacking := next((file for file in files if not os.path.exists(file)), None):  # noqa: PTH110
            raise DataError(
                f"{socket.gethostname()} does not see {lacking}: put it where all machines see it"
            )

        def count(done: int, total: int) -> None:
            self._done = before + done

        taken: list[tuple[Rows, list[tuple[int, Facts]]]] = []
        outcome = encode_with(
            self._encoder, self._source, numbers, lambda *some: taken.append(some), self._settings, count
        )
        return EncodedPart(taken, outcome)


def encode_on(address: str) -> Encode:
    """Return what encodes photos on a cluster, see `lexlip.cluster.session.connected`."""

    def encode(
        source: Source,
        numbers: Sequence[int],
        take: Take,
        settings: EncodingSettings,
        progress: bool,
    ) -> Outcome:
        settings = settings._replace(model=lasting_name(settings.model))
        parts = [numbers[start : start + AT_ONCE] for start in range(0, len(numbers), AT_ONCE)]
        outcome = Outcome([], {}, set())

        def taken(part: EncodedPart) -> None:
            for rows, facts in part.taken:
                take(rows, facts)
            outcome.add(part.outcome)

        with connected(address):
            import ray

            actor: Any = PartEncoder, ray.put(source)
            queue = ShardQueue(settings, len(numbers), progress, actor, "photo")
            failed = queue.run(parts, [len(part) for part in parts], taken)
        if failed:
            number, why = sum(len(parts[part]) for part in failed), next(iter(failed.values()))
            raise DataError(
                f"{counted(number, 'photo')} could not be encoded on the cluster ({why}); the others are in"
                " the index: run the same command again to go on"
            )
        return outcome

    return encode
