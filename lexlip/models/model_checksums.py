"""The checksums of a saved model's files, which are compared when it is loaded.

checksums.txt      a line for each file: its SHA-256, two blanks and its name (`sha256sum -c checksums.txt`)

Older models have no such file; only their weights are known, by the model's identity. A model of transformers
has neither: its identity is taken from every 101st of the loaded weights.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lexlip.models.hub import CARD, is_lexlip_on_hub
from lexlip.models.model_folder import (
    GRAPH,
    damaged,
    is_hub_name,
    is_of_transformers,
    model_folder,
    read_description,
)
from lexlip.registry import BM25

FILE = "checksums.txt"
WEIGHTS = "model.safetensors"
_FILES = (
    "config.json",
    "vocabulary.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "honest_end.json",
    "image.onnx",
    "balance.safetensors",
    "keywords.safetensors",
    "likely.safetensors",
)
_LINE = re.compile(r"([0-9a-f]{64})  ([\w.-]+)")


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Add files of a model's folder, which were just written, to its checksums; drop those that are gone."""
    known = {**_read(folder), **{name: sha256(folder / name) for name in names}}
    lines = [f"{sum}  {name}\n" for name, sum in sorted(known.items()) if (folder / name).exists()]
    (folder / FILE).write_text("".join(lines), encoding="utf-8")


def files_of(folder: Path) -> set[str]:
    """Return the names of the files that saving a model wrote into a folder; none without checksums."""
    try:
        known = _read(folder)
    except ValueError:
        known = {}
    return {FILE, CARD, *known} if known else set()


def check_model(name: str | Path) -> list[str]:
    """Check that a model's files are as they were saved; of one of transformers nothing is known.

    Args:
        name: packaged name, folder or training run, or hub name; or "bm25".

    Returns:
        The files that nothing is known about, by name.

    Raises:
        ModelError: there is no such model, or files are missing or were changed.
    """
    if name == BM25 or (is_hub_name(name) and not is_lexlip_on_hub(str(name))):
        return []
    folder = model_folder(name)
    if is_of_transformers(folder):
        return []
    try:
        known = _read(folder)
        if not (folder / GRAPH).exists():  # torch does without
            known.pop(GRAPH, None)
        wrong = [file for file, sum in known.items() if sha256(folder / file) != sum]
        if WEIGHTS not in known and not _identified(folder):
            wrong.append(WEIGHTS)
    except (OSError, ValueError) as error:
        raise damaged(folder, error) from error
    if wrong:
        what = "is not as it was" if len(wrong) == 1 else "are not as they were"
        raise damaged(folder, f"{', '.join(wrong)} {what} when the model was saved, so copy the model again")
    return [file for file in _FILES if file not in known and (folder / file).exists()]


def begin_check(folder: Path) -> Callable[[], list[str]]:
    """Begin to check a model's files in a thread, while they are loaded; return what gives the result."""
    thread = ThreadPoolExecutor(1)
    checked = thread.submit(check_model, folder)
    thread.shutdown(wait=False)
    return checked.result


def _identified(folder: Path) -> bool:
    """Return whether the weights are those that the model's identity names; true if it names none."""
    digest = str(read_description(folder).get("identity", "")).rpartition("@")[2]
    return sha256(folder / WEIGHTS).startswith(digest)


def _read(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of files by name, of none in an older model; ValueError: a line is no checksum."""
    file = folder / FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [_LINE.fullmatch(line) for line in lines]
    if not all(found):
        raise ValueError(f"{FILE} is not as it was when the model was saved")
    return {match[2]: match[1] for match in found if match}


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
