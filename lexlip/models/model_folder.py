"""A saved model's folder, read without torch.

config.json        kind, name and identity, the ModelConfig, the text encoder's architecture
vocabulary.txt     the words, one per line; a dense model has none
model.safetensors  the weights, possibly compressed (see lexlip.models.compression)
tokenizer.json and tokenizer_config.json, as transformers writes them
README.md          the model card, with the hub's front matter
checksums.txt      of these files: a line for each, its SHA-256, two blanks and its name, as sha256sum reads
balance.safetensors  captions and photos that documents are balanced by (see lexlip.sparse.balance)
keywords.safetensors  what a word asks for that stands alone (see lexlip.sparse.typed_words)
likely.safetensors   how likely people are to say its words (see lexlip.sparse.word_chances)
image.onnx         encodes photos without torch, where the encoder has such a graph (see
                   lexlip.models.image_graph); checkpoints of training do without
honest_end.json    where the hits of a sentence end, if it was measured (see lexlip.search.stages.honest_end)

Older models have no checksums: only their weights are known, by the model's identity. Folders of other
libraries are as these write them (see lexlip.models.foreign). Both may also be named as on the hub (see
lexlip.models.hub).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from anserini_bridge.given_files import check_files, read_json
from lexlip.encoders.hub_access import DESCRIPTIONS, folder_here
from lexlip.errors import MORE_MEMORY, ModelError, out_of_memory
from lexlip.machine.resources import in_thread
from lexlip.models.foreign import IN_FOLDER, ON_HUB, OPEN_CLIP, Foreign, find_foreign
from lexlip.models.hub import CARD, fetch, read_on_hub
from lexlip.registry import BM25

FORMAT = 1
CHECKSUMS = "checksums.txt"
WEIGHTS = "model.safetensors"
GRAPH = "image.onnx"
HONEST_END = "honest_end.json"
KEPT = "kept"  # marks a checkpoint that training must not remove
PACKAGED = Path(__file__).parent.parent / "weights"  # the checkpoints that ship, by name


def model_folder(name: str | Path) -> Path:
    """Return the folder of a model, given by path, training run (its best checkpoint), packaged or hub name.

    A model that is only on the hub is downloaded. ModelError: there is no such model.
    """
    folder = _found(name)
    if folder is None and is_hub_name(name):
        folder = fetch(without_scheme(name))
    if folder is not None:
        try:
            check_files(folder)  # a pipe would block what reads the model
        except OSError as error:
            raise damaged(folder, error) from error
        return folder
    if str(name).startswith(IN_FOLDER):
        raise ModelError(f"no model '{name}': there is no folder of that name with an {OPEN_CLIP}")
    packaged = sorted(path.parent.name for path in PACKAGED.glob("*/config.json"))
    raise ModelError(
        f"no model '{name}': neither a folder with a config.json nor a packaged model"
        f" ({', '.join(packaged) or 'none is packaged'})"
    )


def is_hub_name(name: str | Path) -> bool:
    """Return whether a name can only be one on the model hub, OWNER/MODEL: no such folder exists here.

    What begins with open_clip's "hf-hub:" is one, too.
    """
    if str(name).startswith(ON_HUB):
        return True
    owner, _, _ = str(name).partition("/")
    has_form = re.fullmatch(r"\w[\w.-]*/[\w.-]+", str(name)) is not None
    return has_form and not Path(owner).exists()


def kind_of(name: str | Path) -> str:
    """Return the kind of a model by packaged name, folder or hub name: "lexlip", "clip" ..., or "bm25".

    A model of another library that is no dual encoder counts as CLIP; loading it reports what it is.
    ModelError: there is no such model, or it is damaged.
    """
    if name == BM25:
        return BM25
    found = foreign_model(name)
    return found.kind if found is not None else str(read_description(model_folder(name))["kind"])


def foreign_model(name: str | Path) -> Foreign | None:
    """Return what a model of another library is, by folder or hub name; None: it is one of this project.

    ModelError: there is no such model, or it is damaged.
    """
    if without_scheme(name) != str(name):
        return Foreign("open_clip", "open_clip")
    if not is_hub_name(name):
        return _foreign_in(model_folder(name))
    found = find_foreign(str(name), lambda file: read_on_hub(str(name), file))
    if found is None and read_on_hub(str(name), DESCRIPTIONS[0]) is None:
        raise ModelError(f"the hub's '{name}' has no {' or '.join(DESCRIPTIONS)} that says what it is")
    return found


def without_scheme(name: str | Path) -> str:
    """Return the name on the hub, or the folder, that open_clip's "hf-hub:" or "local-dir:" may precede."""
    return str(name).removeprefix(ON_HUB).removeprefix(IN_FOLDER)


def name_here(name: str) -> str:
    """Return a name that finds the downloaded model of a hub name, without asking the hub.

    ModelError: it was not downloaded.
    """
    folder = str(folder_here(without_scheme(name)))
    return f"{IN_FOLDER}{folder}" if name.startswith(ON_HUB) else folder


def is_packaged(name: str) -> bool:
    """Return whether a name is that of a packaged model, and not of a folder here."""
    folder = _found(name)
    return folder is not None and folder.parent == PACKAGED


def lasting_name(name: str) -> str:
    """Return a name that finds the model from any working directory: of a folder its absolute path."""
    folder = _found(name)
    if folder is None or folder.parent == PACKAGED:
        return name
    return f"{IN_FOLDER * name.startswith(IN_FOLDER)}{folder.resolve()}"


def keep_checkpoint(name: str | Path) -> None:
    """Mark a model that an index is made with: training then keeps it, if it is a checkpoint of a run.

    Training removes a checkpoint when a better or newer one comes; then the index could neither be searched
    nor updated. A checkpoint in a folder that cannot be written gets no mark.
    """
    if is_hub_name(name):
        return
    folder = model_folder(name)
    if (folder / "trainer.json").is_file():
        with contextlib.suppress(OSError):
            (folder / KEPT).touch()


def _found(name: str | Path) -> Path | None:
    """Return the folder of a model that is not on the hub alone; None: there is none."""
    if str(name).startswith(IN_FOLDER):
        return _first([OPEN_CLIP], Path(without_scheme(name)))
    return _first(DESCRIPTIONS, Path(name), Path(name) / "best", PACKAGED / str(name))


def _first(files: Sequence[str], *folders: Path) -> Path | None:
    """Return the first of these folders that holds a model, as one of some files tells."""
    return next(
        (folder for folder in folders if any(os.path.isfile(folder / file) for file in files)),  # noqa: PTH113
        None,
    )


def _foreign_in(folder: Path) -> Foreign | None:
    """Return what a folder holds of another library; None: it is a model of this project, or damaged."""

    def read(file: str) -> Any:
        try:
            return read_json(folder / file)
        except (OSError, ValueError):
            return None

    return find_foreign(str(folder), read)


def read_description(folder: Path) -> dict[str, Any]:
    """Return the content of a model folder's config.json.

    ModelError: it is damaged, of another version, or not a model of this project.
    """
    if (found := _foreign_in(folder)) is not None:
        raise ModelError(f"{folder} holds a model of {found.library}, not one of lexlip")
    try:
        description = read_json(folder / "config.json")
        if description["format"] != FORMAT:
            raise ModelError(f"{folder} has format {description['format']}; this version reads {FORMAT}")
        _ = description["kind"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, error) from error
    return dict(description)


def check_kind(folder: Path, description: dict[str, Any], kind: str) -> None:
    """Raise ModelError unless a folder holds a model of this kind."""
    if description["kind"] != kind:
        raise ModelError(f"{folder} holds a {description['kind']} model, not a {kind} one")


def read_words(path: Path) -> list[str]:
    """Return the words of a vocabulary.txt, one per line."""
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def damaged(folder: Path, error: Exception | str) -> ModelError:
    """Return the error to raise if a folder cannot be read."""
    if isinstance(error, Exception) and out_of_memory(error):
        return ModelError(f"there is too little memory for the model in {folder}: {MORE_MEMORY}")
    return ModelError(f"the model in {folder} is damaged: {textwrap.shorten(str(error), 200)}")


# ---- checksums ----


_FILES = (
    *("config.json", "vocabulary.txt", "tokenizer.json", "tokenizer_config.json", HONEST_END, GRAPH),
    *("balance.safetensors", "keywords.safetensors", "likely.safetensors"),
)
_LINE = re.compile(r"([0-9a-f]{64})  ([\w.-]+)")


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Add files of a model's folder, which were just written, to its checksums; drop those that are gone."""
    known = {**_read_checksums(folder), **{name: sha256(folder / name) for name in names}}
    lines = [f"{sum}  {name}\n" for name, sum in sorted(known.items()) if (folder / name).exists()]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def files_of(folder: Path) -> set[str]:
    """Return the names of the files that saving a model wrote into a folder; none without checksums."""
    try:
        known = _read_checksums(folder)
    except ValueError:
        known = {}
    return {CHECKSUMS, CARD, *known} if known else set()


def check_model(name: str | Path) -> list[str]:
    """Check that a model's files are as they were saved; return those that nothing is known about.

    Of a model of another library nothing is known, nor of "bm25". ModelError: there is no such model, or
    files are missing or were changed.
    """
    if name == BM25 or foreign_model(name) is not None:
        return []
    folder = model_folder(name)
    try:
        known = _read_checksums(folder)
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


def begin_check(folder: Path) -> Callable[[], object]:
    """Begin `check_model`, while a model is loaded; return what raises its error."""
    return in_thread(check_model, folder)


def _identified(folder: Path) -> bool:
    """Return whether the weights are those that the model's identity names; true if it names none."""
    digest = str(read_description(folder).get("identity", "")).rpartition("@")[2]
    return sha256(folder / WEIGHTS).startswith(digest)


def _read_checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of files by name, of none in an older model; ValueError: a line is no checksum."""
    file = folder / CHECKSUMS
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [_LINE.fullmatch(line) for line in lines]
    if not all(found):
        raise ValueError(f"{CHECKSUMS} is not as it was when the model was saved")
    return {match[2]: match[1] for match in found if match}


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
