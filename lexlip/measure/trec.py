"""Rankings as TREC files, which trec_eval, pytrec_eval and pyserini read, and such files of any program.

A line of a run is `query Q0 document rank score tag`, a line of the qrels `query 0 document 1`. All captions
of a photo are relevant to it, so R@k is trec_eval's success.k; for captions, which have one photo each, it is
also recall.k. Queries that find nothing have no line: `trec_eval -c` counts them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

import numpy as np

from anserini_bridge.given_files import check_file
from lexlip.data import Source
from lexlip.errors import DataError, writing
from lexlip.machine.progress import ProgressBar
from lexlip.measure.recalls import Ranking
from lexlip.search.contact_sheet import Found

Number = TypeVar("Number", int, float)

DEPTH = 100
"""Documents of each query in a run file."""

MOST_RELEVANT = 1000
"""What qrels may say of a document at most."""


def check_run_folder(folder: str | Path) -> None:
    """Raise DataError if `write_run_files` cannot write to a folder, before the work."""
    place = Path(folder).absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "Permission denied" if place.is_dir() else f"{place} is a file"
        raise DataError(f"cannot write run files to {folder}: {why}")


def write_run_files(
    folder: str | Path, rankings: Mapping[str, Ranking], tag: str, progress: bool = False
) -> list[Path]:
    """Write NAME.run and NAME.qrels for each ranking by name: all of them, or none.

    The folder is created, and files of these names are replaced. `tag` is the run's name.

    Raises:
        DataError: they cannot be written.
    """
    lines = {}
    for name, ranking in rankings.items():
        lines[f"{name}.run"] = run_lines(ranking, tag, f"{name}.run" if progress else None)
        lines[f"{name}.qrels"] = qrels_lines(ranking)
    folder = Path(folder)
    with writing(f"run files to {folder}"), ExitStack() as leftovers:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in lines.items():
            temporary = folder / f".{name}.{os.getpid()}"
            leftovers.callback(temporary.unlink, missing_ok=True)
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(content)
        for name in lines:
            (folder / f".{name}.{os.getpid()}").replace(folder / name)
    return [folder / name for name in lines]


def run_lines(ranking: Ranking, tag: str, progress: str | None = None) -> Iterator[str]:
    """Yield the lines of a run named `tag`, best first, with scores made distinct by `falling`."""
    tag = trec_id(tag)
    answers = zip(ranking.queries, ranking.found, ranking.scores, strict=True)
    shown = {"unit": "query", "disable": progress is None, "delay": 2, "leave": False}
    for query, found, scores in ProgressBar(answers, progress, len(ranking.queries), **shown):
        query = trec_id(query)
        for rank, (document, score) in enumerate(zip(found, falling(scores).tolist(), strict=True), 1):
            yield f"{query} Q0 {trec_id(document)} {rank} {score:.9g} {tag}\n"


def qrels_lines(ranking: Ranking) -> Iterator[str]:
    """Yield the lines of the relevant documents of each query."""
    for query, relevant in zip(ranking.queries, ranking.relevant, strict=True):
        for document in sorted(relevant):
            yield f"{trec_id(query)} 0 {trec_id(document)} 1\n"


def falling(scores: np.ndarray) -> np.ndarray:
    """Return scores that do not increase as strictly decreasing float32.

    A tied score is lowered by the smallest step of float32. trec_eval ignores ranks: it sorts by score, as
    float32, and ties by the document's name. Written with nine digits, these scores keep the engine's order.
    """
    bits = np.asarray(scores, dtype=np.float32).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # neighbouring floats are neighbouring numbers
    steps = np.arange(len(order))
    order = np.minimum.accumulate(order + steps) - steps
    return np.where(order < 0, -order | 0x80000000, order).astype(np.uint32).view(np.float32)


def trec_id(id: str) -> str:
    """Return an id without white space, which separates columns; `urllib.parse.unquote` restores it."""
    return re.sub(r"[%\s]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), id)


class Names:
    """What the ids of run files stand for in a source: its photos and their captions."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows = {trec_id(item.id): row for row, item in enumerate(source.items)}

    def __contains__(self, id: str) -> bool:
        return self._locate(id) is not None

    def found(self, id: str, right: bool = False) -> Found:
        """Return what an id stands for; one that is not of the source, as a photo that is gone."""
        if (place := self._locate(id)) is None:
            return Found(unquote(id), "", right=right)
        row, caption = place
        text = None if caption is None else self._source.items[row].captions[caption]
        return Found(unquote(id), self._source.path(row), text, right)

    def _locate(self, id: str) -> tuple[int, int | None] | None:
        """Return the row of a photo and the number of its caption."""
        if id in self._rows:
            return self._rows[id], None
        photo, _, number = id.rpartition("#")
        row = self._rows.get(photo)
        if row is None or not number.isdecimal() or int(number) >= len(self._source.items[row].captions):
            return None
        return row, int(number)


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Return the scores of a run's documents, by query and document.

    Raises:
        DataError: it cannot be read, is not a run, or has a document twice for a query.
    """
    return _read(path, "a run", ("query", "Q0", "document", "rank", "score", "tag"), "score", _score)


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Return how relevant documents are, by query and document; see `read_run`."""
    return _read(path, "qrels", ("query", "0", "document", "relevance"), "relevance", _relevance)


def _score(text: str) -> float:
    if not math.isfinite(score := float(text)):
        raise ValueError
    return score


def _relevance(text: str) -> int:
    if abs(relevance := int(text)) > MOST_RELEVANT:
        raise ValueError
    return relevance


def _read(
    path: str | Path, what: str, columns: Sequence[str], valued: str, value_of: Callable[[str], Number]
) -> dict[str, dict[str, Number]]:
    """Return the values of a column, by query and document."""
    found: dict[str, dict[str, Number]] = {}
    try:
        check_file(path)
        with Path(path).open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if not (parts := line.split()):
                    continue
                where = f"line {number} of {path}"
                if len(parts) != len(columns):
                    raise DataError(f"{where} has not the columns of {what}: {' '.join(columns)}")
                query, document, text = parts[0], parts[2], parts[columns.index(valued)]
                if document in (of_query := found.setdefault(query, {})):
                    raise DataError(f"{where} has query {query} and document {document} again")
                try:
                    of_query[document] = value_of(text)
                except ValueError:
                    raise DataError(f"{where} has the {valued} {text[:40]}, which cannot be one") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path}: it is not text in UTF-8") from error
    return found
