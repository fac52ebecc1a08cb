"""Writes an index of words as files for another engine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from anserini_bridge import ImpactSearcher, folder_megabytes, read_header
from anserini_bridge.storage import replace_folder
from lexlip.errors import ConfigError, DataError, writing
from lexlip.machine.progress import ProgressBar
from lexlip.other_engines.engine_contract import Document, Made, OtherEngine, other_engine, pretty
from lexlip.registry import WITH_WORDS
from lexlip.search.engines.shard import read_sharded
from lexlip.search.engines.shards import LocalShards, ShardedSearcher
from lexlip.sparse.top_words import topk

ABOUT = "export.json"
"""Says what an export is; a folder without it is never replaced."""

ROWS = 10_000  # documents read from the index at a time
QUERIES, WORDS, K = 200, 16, 10  # of the measured cost: documents' own heaviest words, asked for K hits
NAME = "photos"


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        output: the folder.
        versions: of the engine's server, which the files are for.
        largest: the largest weight of the index.
        rounded: weights that the engine cannot hold, and that were rounded to the nearest it can.
        relative_error: the largest error of a rounded weight, as a share of it.
        recall: share of the first K hits of the index that the exported weights find among theirs, over
            `queries` documents' heaviest words; None: nothing was rounded, so all are found.
    """

    output: str
    engine: str
    versions: str
    photos: int
    words: int
    files: int
    megabytes: float
    seconds: float
    largest: int
    rounded: int
    relative_error: float
    recall: float | None
    queries: int

    def to_dict(self) -> dict[str, object]:
        """Return it as `lexlip export --json` prints it."""
        return asdict(self)


def fit(weights: NDArray[np.integer], bits: int) -> NDArray[np.int64]:
    """Return whole weights rounded to the nearest with so many significant bits, ties to even.

    Lucene's FeatureField cuts a float after nine: it holds 1 to 511, then every second number to 1,022.
    """
    exact = weights.astype(np.int64)
    length = np.frexp(exact.astype(np.float64))[1]  # bits of a number
    unit = np.int64(1) << np.maximum(length - bits, 0).astype(np.int64)
    rounded: NDArray[np.int64] = np.rint(exact / unit).astype(np.int64) * unit
    return rounded


def export(
    index: str | Path, engine_name: str, output: str | Path, progress: bool = False, name: str = NAME
) -> Exported:
    """Write an index of words as files for another engine, into a folder that appears when it is complete.

    Args:
        index: the index's folder.
        engine_name: see `lexlip.other_engines.engine_contract.ENGINES`.
        output: a new or an empty folder, or an earlier export, which is replaced.
        name: of the index that the files make, see `OtherEngine.check_name`.

    Raises:
        ConfigError: the index is not one of words, or the engine takes no such name.
        DataError: the folder holds other files, cannot be written, or is being written.
        BridgeError: there is no index, or it cannot be read (see anserini_bridge.errors).
    """
    started = time.perf_counter()
    header = read_header(index)
    if header.kind not in WITH_WORDS:
        raise ConfigError(f"{index} was made with {header.encoder}, and only indexes of words are exported")
    engine, output = other_engine(engine_name), Path(output)
    engine.check_name(name)
    with writing(str(output)), _new_folder(output) as folder, closing(_open(Path(index))) as searcher:
        scheme = searcher.metadata.quantization["scheme"]
        made = Made(searcher.metadata.encoder, scheme, searcher.vocabulary)
        cost = _Cost(searcher, engine.bits)
        _write(folder / "vocabulary.txt", "".join(f"{word}\n" for word in made.words))
        for file, text in engine.settings(made, name).items():
            _write(folder / file, text)
        files = 0
        with ProgressBar(
            total=len(searcher), desc="export", unit="photo", disable=not progress, delay=2
        ) as bar:
            for ids, rows in _read(searcher):
                cost.add(ids, rows)
                rows.data = fit(rows.data, engine.bits)
                documents = _documents(ids, rows)
                for start in range(0, len(documents), engine.batch):
                    text = engine.documents(documents[start : start + engine.batch], made, name)
                    _write(folder / engine.folder / f"documents-{files:06d}{engine.ending}", text)
                    files += 1
                bar.update(len(ids))
        for file, text in engine.examples(cost.example(), K, made, name).items():
            _write(folder / file, text)
        to: dict[str, Any] = {"engine": engine.name, "versions": engine.versions}
        lost: dict[str, Any] = {
            "photos": len(searcher),
            "rounded": cost.rounded,
            "relative_error": cost.relative_error,
            "recall": cost.recall(),
        }
        _write(folder / "LOAD.txt", _how_to_load(engine, name, len(searcher)))
        _write(folder / ABOUT, pretty({**to, "model": made.model, "scheme": made.scheme, **lost}))
    return Exported(
        output=str(output),
        **to,
        **lost,
        words=len(made.words),
        files=files,
        megabytes=folder_megabytes(output),
        seconds=time.perf_counter() - started,
        largest=cost.largest,
        queries=len(cost.ids),
    )


def _open(index: Path) -> ImpactSearcher | ShardedSearcher:
    """Open an index of words, whole or in shards."""
    if read_header(index).kind != "sharded":
        return ImpactSearcher(index)
    metadata = read_sharded(index)
    with ImpactSearcher(index / metadata.directory / metadata.shards[0]["folder"]) as first:
        words = first.vocabulary
    return ShardedSearcher(index, metadata, words, LocalShards(index, metadata))


class _Cost:
    """What rounding costs: the first hits of some documents' heaviest words, before and after it.

    Brute force over the documents as they pass; hits are compared by weight, so equal scores count as equal.
    """

    def __init__(self, searcher: ImpactSearcher | ShardedSearcher, bits: int) -> None:
        ids = searcher.ids()
        chosen = np.random.default_rng(0).choice(len(ids), min(QUERIES, len(ids)), replace=False)
        self.ids = [ids[number] for number in sorted(chosen.tolist())]
        self.queries = topk(searcher.vectors(self.ids).astype(np.float64), WORDS)
        self.bits, self.largest, self.rounded, self.relative_error = bits, 0, 0, 0.0
        self._best = np.full((len(self.ids), K), -1.0)  # exact scores of the index's first hits
        self._found = np.full((len(self.ids), K, 2), -1.0)  # rounded and exact scores of the export's

    def add(self, ids: Sequence[str], rows: csr_matrix) -> None:
        """Take the next documents, with the weights of the index."""
        weights = rows.data
        fitting = fit(weights, self.bits)
        self.largest = max(self.largest, int(weights.max(initial=0)))
        self.rounded += int((fitting != weights).sum())
        if weights.size:
            self.relative_error = max(self.relative_error, float((np.abs(fitting - weights) / weights).max()))
        exact = (self.queries @ rows.T).toarray().astype(np.float64)  # [queries, documents]
        changed = csr_matrix((fitting, rows.indices, rows.indptr), shape=rows.shape)
        rounded = (self.queries @ changed.T).toarray().astype(np.float64)
        self._best = -np.sort(-np.hstack([self._best, exact]), axis=1)[:, :K]
        pairs = np.concatenate([self._found, np.stack([rounded, exact], axis=2)], axis=1)
        order = np.argsort(-pairs[:, :, 0], axis=1, kind="stable")[:, :K]
        self._found = np.take_along_axis(pairs, order[:, :, None], axis=1)

    def recall(self) -> float | None:
        """Return the share of the export's first hits that are as good as the index's last of them."""
        if not self.rounded:
            return None
        return float((self._found[:, :, 1] >= self._best[:, -1:]).mean())

    def example(self) -> dict[int, int]:
        """Return a query: the words of a document of the sample."""
        row = self.queries[:1]
        order = np.argsort(-row.data)
        return dict(zip(row.indices[order].tolist(), row.data[order].astype(int).tolist(), strict=True))


def _read(searcher: ImpactSearcher | ShardedSearcher) -> Iterator[tuple[list[str], csr_matrix]]:
    """Yield ids and weights, in the order of Lucene's documents: similar ones are neighbours."""
    ids = searcher.ids()
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        yield some, searcher.vectors(some)


def _documents(ids: Sequence[str], rows: csr_matrix) -> list[Document]:
    ends, numbers, weights = rows.indptr.tolist(), rows.indices.tolist(), rows.data.tolist()
    return [
        Document(id, numbers[ends[row] : ends[row + 1]], weights[ends[row] : ends[row + 1]])
        for row, id in enumerate(ids)
    ]


def _how_to_load(engine: OtherEngine, name: str, photos: int) -> str:
    head = f"# For {engine.versions}.\n# {engine.before}, then run in this folder: bash LOAD.txt\n\n"
    return head + "\n".join(engine.commands(name, photos)) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def check_folder(output: Path) -> None:
    """Raise DataError if a folder is neither new nor empty nor an earlier export."""
    if output.is_dir():
        names = sorted(path.name for path in output.iterdir())
        if names and ABOUT not in names:
            raise DataError(f"{output} holds other files, such as {names[0]}: give a new or an empty folder")
    elif output.exists():
        raise DataError(f"{output} is a file: give a new or an empty folder")


@contextmanager
def _new_folder(output: Path) -> Iterator[Path]:
    """Give a folder that gets the name `output` when the block succeeds, and is deleted when it fails."""
    check_folder(output)
    output = output.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.exporting")
    lock = FileLock(f"{temporary}.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise DataError(f"another process is exporting to {output}: wait until it has finished") from None
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # of an export that was killed
        temporary.mkdir()
        yield temporary
        replace_folder(temporary, output)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)
