"""Times searches over shards: in this process, and by actors of Ray, at one and two shards, in one run.

python tools/studies/cluster_search.py [--documents 200000] [--seconds 5]

The documents are synthetic. Each engine searches with one thread for a shard; the same queries go one by one
(latency), and from several threads at once (rate). Ratios are to one index in this process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactWriter, read_metadata, write_metadata
from anserini_bridge.storage import checksum
from lexlip.cluster.replicas import ReplicaGroups
from lexlip.cluster.session import connected
from lexlip.search.engines.shard import ShardedMetadata, ShardEntry, read_sharded
from lexlip.search.engines.shards import LocalShards, ShardedSearcher, Shards

WORDS = [f"w{number}" for number in range(30_000)]
KEPT, ASKED = 32, 12  # words of a document, and of a query
CALLERS = 4
SHARDS = (1, 2, 4)

Search = Callable[[csr_matrix], Any]


def rows(rng: np.random.Generator, number: int, words: int) -> csr_matrix:
    """Return whole weights of words, few of which are frequent, [number, V]."""
    columns = (rng.power(0.3, (number, words)) * len(WORDS)).astype(np.int32)
    weights = rng.integers(20, 400, (number, words))
    places = np.repeat(np.arange(number), words)
    made = csr_matrix((weights.ravel(), (places, columns.ravel())), (number, len(WORDS)), dtype=np.int64)
    made.data = np.minimum(made.data, 1000)
    return made


def write_shards(index: Path, documents: csr_matrix, shards: int) -> ShardedMetadata:
    """Write documents as a sharded index."""
    data, number = index / "data-1", documents.shape[0]
    entries: list[ShardEntry] = []
    files: dict[str, str] = {}
    for shard in range(shards):
        name, begin, end = f"shard-{shard}", number * shard // shards, number * (shard + 1) // shards
        settings: dict[str, Any] = {"encoder": "e", "quantization": {"scheme": "unit", "scale": 1000}}
        with ImpactWriter(data / name, WORDS, topk=KEPT, normalize=True, **settings) as writer:
            writer.add([f"{shard}.tar/{place}" for place in range(begin, end)], documents[begin:end])
        entries.append({"folder": name, "tar": f"{shard}.tar", "documents": end - begin})
        files |= {
            f"{name}/{path.relative_to(data / name)}": checksum(path)
            for path in (data / name).rglob("*")
            if path.is_file()
        }
    one = vars(read_metadata(data / "shard-0"))
    changed = {"kind": "sharded", "directory": "data-1", "documents": number, "files": files}
    write_metadata(index, ShardedMetadata(**{**one, **changed, "shards": entries}))
    return read_sharded(index)


def measure(
    search: Callable[[csr_matrix], Any], queries: Sequence[csr_matrix], seconds: float
) -> list[float]:
    """Return milliseconds of a search, median and 99th percentile, and searches a second of CALLERS."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        search(queries[len(times) % len(queries)])
        times.append(1000 * (time.perf_counter() - started))
    end, began = time.perf_counter() + seconds, time.perf_counter()

    def call(number: int) -> int:
        done = 0
        while time.perf_counter() < end:
            search(queries[(number + CALLERS * done) % len(queries)])
            done += 1
        return done

    with ThreadPoolExecutor(CALLERS) as pool:
        answered = sum(pool.map(call, range(CALLERS)))
    rate = answered / (time.perf_counter() - began)
    return [float(np.median(times)), float(np.percentile(times, 99)), rate]


def main() -> None:
    """Print a line for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    documents, asked = rows(rng, given.documents, KEPT), rows(rng, 200, ASKED)
    queries = [asked[row] for row in range(asked.shape[0])]
    with tempfile.TemporaryDirectory() as folder, connected("local", max(SHARDS) + 1):
        first: tuple[list[float], Any] | None = None
        print(f"{'engine':<24}{'p50 ms':>9}{'p99 ms':>9}{'per s':>9}{'p50':>7}{'rate':>7}   the same hits")
        for shards in SHARDS:
            index = Path(folder) / str(shards)
            metadata = write_shards(index, documents, shards)
            for name, make in (("one process", LocalShards), ("actors of Ray", ReplicaGroups)):
                opened: Shards = make(index, metadata)
                searcher = ShardedSearcher(index, metadata, WORDS, opened)
                hits = [
                    [(id.partition("/")[2], int(score)) for id, score in zip(ids[0], scores[0], strict=True)]
                    for ids, scores in (searcher.search(query, 10) for query in queries)
                ]
                found = measure(searcher.search, queries, given.seconds)
                searcher.close()
                first = first or (found, hits)
                ratios = found[0] / first[0][0], found[2] / first[0][2]
                same = "yes" if hits == first[1] else "NO"
                print(
                    f"{f'{name}, {shards} shards':<24}{found[0]:>9.2f}{found[1]:>9.2f}{found[2]:>9.0f}"
                    f"{ratios[0]:>7.2f}{ratios[1]:>7.2f}   {same}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
