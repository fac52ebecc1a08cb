"""Shards as one index: every shard is asked, and their answers are put together.

Scores are sums of whole numbers that no other photo has changed, so they are those of one index of all
photos, and the k best of all are among the k best of each. Equal scores come in the order of the shards, and
in a shard in that of its photos.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from anserini_bridge import IndexMismatch, UnknownId, check_same_vocabulary
from anserini_bridge.storage import METADATA_FILE
from lexlip.data import UnreadableImage
from lexlip.machine.resources import cores
from lexlip.retrieval.filters import Filters, group_alike
from lexlip.retrieval.first_stage import Renewed, Shared
from lexlip.retrieval.given_words import Phrase
from lexlip.retrieval.photo import Dated, Photo
from lexlip.retrieval.photo_table import PhotoTable
from lexlip.search.engines.shard import (
    OpenShard,
    ShardedMetadata,
    ShardEntry,
    files_of,
    read_sharded,
    version_of,
)


class Shards(Protocol):
    """The shards of one state of an index, which can be asked, wherever they are."""

    def ask(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Call `OpenShard.ask` in some shards at once; return what each call returned, in this order.

        The arguments are by the number of the shard. BridgeError: a shard does not answer, or says so.
        """
        ...

    def at(self, metadata: ShardedMetadata) -> Shards:
        """Open the shards of another state of the index; those of this one stay open until they are closed.

        DataError or BridgeError: one cannot be opened; then nothing has changed.
        """
        ...

    def close(self) -> None:
        """Close all shards."""
        ...


class LocalShards:
    """Shards in this process; `others` are open already, of which those are shared that have not changed."""

    def __init__(self, index: Path, metadata: ShardedMetadata, others: LocalShards | None = None) -> None:
        self._index = index
        self._open: dict[str, Shared[OpenShard]] = {}
        self._threads = ThreadPoolExecutor(min(cores(), len(metadata.shards)), "lexlip shards")
        known = others._open if others else {}
        try:
            for shard in metadata.shards:
                files = files_of(metadata, shard)
                name = version_of(shard, files)
                if name in known:
                    self._open[name] = known[name].take()
                else:
                    place = index / metadata.directory / shard["folder"]
                    self._open[name] = Shared(OpenShard(place, files[METADATA_FILE]))
        except BaseException:
            self.close()
            raise
        self._shards = [shared.value for shared in self._open.values()]

    def at(self, metadata: ShardedMetadata) -> LocalShards:
        return LocalShards(self._index, metadata, self)

    def ask(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        calls = [(self._shards[number], given) for number, given in arguments.items()]
        if len(calls) == 1:
            return [shard.ask(method, *given) for shard, given in calls]
        return list(self._threads.map(lambda call: call[0].ask(method, *call[1]), calls))

    def close(self) -> None:
        self._threads.shutdown()
        for shared in self._open.values():
            shared.release()


class _Routes:
    """Which shard a photo is in: its id begins with the name of the shard's tar."""

    def __init__(self, shards: Sequence[ShardEntry]) -> None:
        self._numbers = {shard["tar"]: number for number, shard in enumerate(shards)}

    def __call__(self, id: str) -> int | None:
        end = id.find("/")
        while end >= 0:
            if (number := self._numbers.get(id[:end])) is not None:
                return number
            end = id.find("/", end + 1)
        return None

    def split(self, ids: Sequence[str]) -> dict[int, list[int]]:
        """Return by shard the positions of its photos; ids of no shard are left out."""
        found: dict[int, list[int]] = {}
        for position, id in enumerate(ids):
            if (number := self(id)) is not None:
                found.setdefault(number, []).append(position)
        return found


class _State:
    """A state of the index."""

    def __init__(self, metadata: ShardedMetadata, shards: Shards) -> None:
        self.metadata, self.shards = metadata, shards
        self.routes = _Routes(metadata.shards)
        self.starts = [0, *accumulate(shard["documents"] for shard in metadata.shards)]

    def close(self) -> None:
        self.shards.close()


@dataclass(frozen=True)
class AllowedInShards:
    """Documents that searches of one state may find: how many, and a mask for each shard, bool [D]."""

    count: int
    masks: list[NDArray[np.bool_]]


class ShardedSearcher(Renewed[_State]):
    """Searches all shards as `ImpactSearcher` searches an index; see there. The shards are closed with it.

    Raises:
        VocabularyMismatch: the shards have other words.
    """

    def __init__(
        self, index: Path, metadata: ShardedMetadata, vocabulary: Sequence[str], shards: Shards
    ) -> None:
        check_same_vocabulary(index, metadata, vocabulary)
        self.path, self.vocabulary = index, tuple(vocabulary)
        self._moving = threading.Lock()
        super().__init__(_State(metadata, shards))

    @property
    def metadata(self) -> ShardedMetadata:
        return self._now.value.metadata

    @property
    def shards(self) -> Shards:
        return self._now.value.shards

    @property
    def routes(self) -> _Routes:
        return self._now.value.routes

    @property
    def _starts(self) -> list[int]:
        return self._now.value.starts

    def __len__(self) -> int:
        return self.metadata.documents

    @property
    def size(self) -> int:
        return self._starts[-1]

    @property
    def state(self) -> str:
        return f"{self.metadata.created} {self.metadata.directory}"

    def refresh(self) -> bool:
        """Move to the newest state of the index, once all its shards are open; see `ImpactSearcher`.

        Raises:
            IndexMismatch: it was made with another model or in another way.
        """
        with self._moving:
            metadata, before = read_sharded(self.path), self.metadata
            if (metadata.created, metadata.directory) == (before.created, before.directory):
                return False
            check_same_vocabulary(self.path, metadata, self.vocabulary)
            if (metadata.encoder, metadata.quantization) != (before.encoder, before.quantization):
                raise IndexMismatch(f"the index {self.path} was made in another way now: open it again")
            self.move(_State(metadata, self.shards.at(metadata)))
            return True

    def close(self) -> None:
        with self._moving:
            super().close()

    def search(
        self,
        queries: csr_matrix,
        k: int = 10,
        threads: int = 1,
        alpha: float = 1.0,
        allowed: AllowedInShards | None = None,
    ) -> tuple[list[list[str]], list[NDArray[np.int64]]]:
        masks = [None] * len(self.metadata.shards) if allowed is None else allowed.masks
        given = {number: (queries, k, threads, alpha, mask) for number, mask in enumerate(masks)}
        answers = self.shards.ask("search", given)
        ids, scores = [], []
        for row in range(queries.shape[0]):
            points = np.concatenate([found[1][row] for found in answers])
            best = np.argsort(-points, kind="stable")[:k]  # equal ones stay in the order of the shards
            names = [id for found in answers for id in found[0][row]]
            ids.append([names[place] for place in best])
            scores.append(points[best])
        return ids, scores

    def allow(self, allowed: NDArray[np.bool_]) -> AllowedInShards:
        """See `ImpactSearcher.allow`; a shard prepares its part anew for each search."""
        masks = [allowed[start:end] for start, end in pairwise(self._starts)]
        return AllowedInShards(int(np.count_nonzero(allowed)), masks)

    def contributions(self, query: csr_matrix, ids: Sequence[str]) -> csr_matrix:
        return self._rows("contributions", ids, query)

    def vectors(self, ids: Sequence[str]) -> csr_matrix:
        return self._rows("vectors", ids)

    def numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        numbers = np.full(len(ids), -1, dtype=np.int64)
        for shard, places, within in self.holders("numbers", ids):
            numbers[places] = np.where(within < 0, -1, within + self._starts[shard])
        return numbers

    def holding(self, columns: Sequence[int]) -> NDArray[np.bool_]:
        return np.concatenate(self.all("holding", columns))

    def frequencies(self) -> NDArray[np.int64]:
        return np.sum(self.all("frequencies"), axis=0, dtype=np.int64)

    def ids(self) -> list[str]:
        return [id for ids in self.all("ids") for id in ids]

    def all(self, method: str, *arguments: Any) -> list[Any]:
        """Ask all shards the same."""
        return self.shards.ask(method, dict.fromkeys(range(len(self.metadata.shards)), arguments))

    def holders(self, method: str, ids: Sequence[str], *before: Any) -> list[tuple[int, list[int], Any]]:
        """Ask each shard about those photos that it holds.

        Returns:
            The shards' numbers, where in `ids` their photos are, and what they answer; ids of no shard are
            left out.
        """
        routes = self.routes.split(ids)
        given = {number: (*before, [ids[p] for p in places]) for number, places in routes.items()}
        answers = self.shards.ask(method, given)
        return [(*route, answer) for route, answer in zip(routes.items(), answers, strict=True)]

    def _rows(self, method: str, ids: Sequence[str], *before: Any) -> csr_matrix:
        """Return a row for each of n photos, [n, V] of int64, from the shards that hold them."""
        if (unknown := next((id for id in ids if self.routes(id) is None), None)) is not None:
            raise UnknownId(f"the index at {self.path} holds no document with the id {unknown!r}")
        if not ids:
            return csr_matrix((0, len(self.vocabulary)), dtype=np.int64)
        found = self.holders(method, ids, *before)
        rows = vstack([rows for _, _, rows in found], format="csr")
        return csr_matrix(rows[np.argsort(np.concatenate([places for _, places, _ in found]))])


class ShardedPhotos(PhotoTable):
    """The tables of all shards as one; see `PhotoTable`. The shards stay open when this is closed."""

    def __init__(self, searcher: ShardedSearcher) -> None:
        self._searcher = searcher

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return len(self._searcher)

    def get(self, ids: Sequence[str]) -> list[Photo | None]:
        return self._each("get", ids)

    def dates_of(self, ids: Sequence[str]) -> list[Dated | None]:
        return self._each("dates_of", ids)

    def dates(self) -> list[Dated]:
        return sorted(dated for dates in self._searcher.all("dates") for dated in dates)

    def held(self, ids: Sequence[str]) -> set[str]:
        return {id for _, _, found in self._searcher.holders("held", ids) for id in found}

    def places(self, ids: Sequence[str]) -> dict[str, tuple[float, float]]:
        found = self._searcher.holders("places", ids)
        return {id: place for _, _, places in found for id, place in places.items()}

    def located(self, filters: Filters) -> NDArray[np.float64]:
        return np.concatenate(self._searcher.all("located", filters))

    def paths(self) -> dict[str, str]:
        return {id: path for paths in self._searcher.all("paths") for id, path in paths.items()}

    def select(self, filters: Filters) -> list[str]:
        return [id for ids in self._searcher.all("select", filters) for id in ids]

    def given_counts(self, wanted: Sequence[Phrase]) -> tuple[int, list[int]]:
        found = self._searcher.all("given_counts", wanted)
        counts = np.sum([counts for _, counts in found], axis=0, dtype=np.int64).tolist()
        return sum(photos for photos, _ in found), counts

    def spelled_like(self, words: Sequence[str]) -> list[dict[str, int] | None]:
        of_words = zip(*self._searcher.all("spelled_like", words), strict=True)
        return [None if None in found else dict(sum(map(Counter, found), Counter())) for found in of_words]

    def having(self, field: str, wanted: Sequence[Phrase]) -> list[str]:
        return [id for ids in self._searcher.all("having", field, wanted) for id in ids]

    def given(
        self, wanted: Sequence[Phrase], weights: Sequence[float], number: int
    ) -> list[tuple[str, float]]:
        found = [one for ones in self._searcher.all("given", wanted, weights, number) for one in ones]
        return sorted(found, key=lambda one: -one[1])[:number]

    def same_name(self, id: str) -> list[str]:
        return [same for ids in self._searcher.all("same_name", id) for same in ids]

    def facets(self) -> dict[str, Any]:
        found = self._searcher.all("facets")
        folders: Counter[str] = Counter()
        for one in found:
            folders.update({entry["folder"]: entry["photos"] for entry in one["folders"]})
        return {
            "folders": [{"folder": name, "photos": folders[name]} for name in sorted(folders)],
            "first": min((one["first"] for one in found if one["first"]), default=None),
            "last": max((one["last"] for one in found if one["last"]), default=None),
            **{
                name: sum(one[name] for one in found)
                for name in ("dated", "by_file_time", "captioned", "located")
            },
        }

    def read(self, id: str) -> bytes:
        return self._of_shard("read", self._number(id), id)

    def send(self, id: str, folders: Sequence[str], tables: Mapping[str, str]) -> bytes:
        number = self._number(id)
        table = tables.get(self._searcher.metadata.shards[number]["folder"], "")
        return self._of_shard("send_sealed", number, id, tuple(folders), table)

    def _of_shard(self, method: str, number: int, *arguments: Any) -> bytes:
        (data,) = self._searcher.shards.ask(method, {number: arguments})
        return bytes(data)

    def _number(self, id: str) -> int:
        number = self._searcher.routes(id)
        if number is None:
            raise UnreadableImage("not in the index", id)
        return number

    def group(self, ids: Sequence[str]) -> list[list[str]]:
        photos = zip(ids, self.get(ids), strict=True)
        return group_alike([(id, p.digest, p.fingerprint) if p else (id, "", None) for id, p in photos])

    def _each(self, method: str, ids: Sequence[str]) -> list[Any]:
        """Return a value for each photo; None for those that no shard holds."""
        values: list[Any] = [None] * len(ids)
        for _, places, found in self._searcher.holders(method, ids):
            for place, value in zip(places, found, strict=True):
                values[place] = value
        return values
