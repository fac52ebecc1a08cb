"""Rankings as TREC files, which trec_eval, pytrec_eval and pyserini read.

A line of a run is `query Q0 document rank score tag`, a line of the qrels `query 0 document 1`. All captions
of a photo are relevant to it, so R@k is trec_eval's success.k; for captions, which have one photo each, it is
also recall.k. Queries that find nothing have no line: `trec_eval -c` counts them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from lexlip.errors import DataError, writing
from lexlip.machine.progress import ProgressBar
from lexlip.measure.recalls import Ranking

DEPTH = 100
"""Documents of each query in a run file."""


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
