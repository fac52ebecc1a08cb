"""What a saved model's folder holds, read without torch.

config.json        kind, name and identity, the ModelConfig, the text encoder's architecture
vocabulary.txt     the words, one a line; a dense model has none
model.safetensors  the weights, perhaps compressed (see lexlip.models.compression)
tokenizer.json and tokenizer_config.json, as transformers writes them

A CLIP model's folder is as transformers has it, and its name may be the hub's.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

from lexlip.errors import ModelError

FORMAT = 1
PACKAGED = Path(__file__).parent.parent / "weights"  # checkpoints that ship, by name
BM25 = "bm25"  # stands for a model where photos are searched by their captions' own words


def model_folder(name: str | Path) -> Path:
    """The folder of a model given by path, by its training run (the best checkpoint), or by packaged name.

    Raises:
        ModelError: there is none.
    """
    folder = _first(Path(name), Path(name) / "best", PACKAGED / str(name))
    if folder is not None:
        return folder
    packaged = sorted(path.parent.name for path in PACKAGED.glob("*/config.json"))
    raise ModelError(
        f"no model '{name}': neither a folder with a config.json nor a packaged model"
        f" ({', '.join(packaged) or 'none is packaged'})"
    )


def is_hub_name(name: str | Path) -> bool:
    """Whether a name can only be one of the model hub, OWNER/MODEL: no such place is here, nor its start."""
    owner, _, _ = str(name).partition("/")
    looks_so = re.fullmatch(r"\w[\w.-]*/[\w.-]+", str(name)) is not None
    return looks_so and not Path(owner).exists()


def kind_of(name: str | Path) -> str:
    """The kind of a model by packaged name, folder or hub name: "lexlip", "dense" ..., "clip"; or "bm25".

    What another library wrote is taken for CLIP here; loading it says if it is something else.

    Raises:
        ModelError: there is no such model, or it is damaged.
    """
    if name == BM25:
        return BM25
    if is_hub_name(name):
        return "clip"
    folder = model_folder(name)
    return "clip" if _is_of_transformers(folder) else str(read_description(folder)["kind"])


def lasting_name(name: str) -> str:
    """By which a model is found from any folder: a folder's place; a packaged or a hub name as it is."""
    folder = _first(Path(name), Path(name) / "best")
    return name if folder is None else str(folder.resolve())


def _first(*folders: Path) -> Path | None:
    """The first of these that holds a model."""
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def _is_of_transformers(folder: Path) -> bool:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "model_type" in config and "format" not in config


def read_description(folder: Path) -> dict[str, Any]:
    """A model folder's config.json, with the kind of the model.

    Raises:
        ModelError: it is damaged, of another version, or no model of this project.
    """
    if _is_of_transformers(folder):
        raise ModelError(f"{folder} holds a model of transformers, not one of lexlip")
    try:
        description = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise ModelError(f"{folder} has format {description['format']}; this version reads {FORMAT}")
        _ = description["kind"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder, error) from error
    return dict(description)


def check_kind(folder: Path, description: dict[str, Any], kind: str) -> None:
    """Raises ModelError unless a folder holds a model of this kind."""
    if description["kind"] != kind:
        raise ModelError(f"{folder} holds a {description['kind']} model, not a {kind} one")


def read_words(path: Path) -> list[str]:
    """The words of a vocabulary.txt, one a line."""
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def damaged(folder: Path, error: Exception) -> ModelError:
    """What to raise where a folder cannot be read."""
    return ModelError(f"the model in {folder} is damaged: {textwrap.shorten(str(error), 200)}")
