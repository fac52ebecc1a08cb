"""What a saved model's folder holds, read without torch.

config.json        kind, name and identity, the ModelConfig, the text encoder's architecture
vocabulary.txt     the words, one a line; a dense model has none
model.safetensors  the weights, perhaps compressed (see lexlip.models.compression)
tokenizer.json and tokenizer_config.json, as transformers writes them
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from lexlip.errors import ModelError

FORMAT = 1
PACKAGED = Path(__file__).parent.parent / "weights"  # checkpoints that ship, by name


def model_folder(name: str | Path) -> Path:
    """The folder of a model given by packaged name or by path.

    Raises:
        ModelError: there is none.
    """
    for folder in (Path(name), PACKAGED / str(name)):
        if (folder / "config.json").is_file():
            return folder
    packaged = sorted(path.parent.name for path in PACKAGED.glob("*/config.json"))
    raise ModelError(
        f"no model '{name}': neither a folder with a config.json nor a packaged model"
        f" ({', '.join(packaged) or 'none is packaged'})"
    )


def read_description(folder: Path) -> dict[str, Any]:
    """A model folder's config.json, with the kind of the model.

    Raises:
        ModelError: it is damaged or of another version.
    """
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
