"""Models of other libraries: which one a folder, or a name of the hub, holds. Nothing is imported to tell.

config.json             of transformers: its model_type is "clip" or "siglip"
open_clip_config.json   of open_clip, if config.json does not say the same in transformers' way
modules.json            of sentence-transformers: it names a folder inside, which is one of transformers

`hf-hub:OWNER/NAME` and `local-dir:FOLDER` are open_clip's own names, for what holds both formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from lexlip.encoders.hub_access import DESCRIPTIONS
from lexlip.errors import ModelError

CONFIG, OPEN_CLIP, MODULES = DESCRIPTIONS
ON_HUB, IN_FOLDER = "hf-hub:", "local-dir:"
_KINDS = {"clip": "clip", "siglip": "siglip"}  # of `lexlip.registry.MODELS`, by transformers' model_type
_PASSING = ("Normalize",)  # modules of sentence-transformers that leave a vector's direction


class Foreign(NamedTuple):
    """A model of another library: its kind in `lexlip.registry.MODELS`, and where in the folder it lies.

    A `model_type` that is none of a dual encoder counts as CLIP; loading it says what it is.
    """

    library: str
    kind: str
    model_type: str = ""
    subfolder: str = ""


def find_foreign(name: str, read: Callable[[str], Any]) -> Foreign | None:
    """Return what a model is, given what reads its JSON files, as None if there are none; None: no such one.

    ModelError: sentence-transformers does more with its vectors than a CLIP does.
    """
    config = read(CONFIG)
    if isinstance(config, dict) and ("model_type" in config or "format" in config):
        return None if "format" in config else _of_transformers(config)
    if isinstance(read(OPEN_CLIP), dict):
        return Foreign("open_clip", "open_clip")
    modules = read(MODULES)
    return None if modules is None else _of_modules(name, modules, read)


def _of_transformers(config: dict[str, Any], library: str = "transformers", subfolder: str = "") -> Foreign:
    model_type = str(config["model_type"])
    return Foreign(library, _KINDS.get(model_type, "clip"), model_type, subfolder)


def _of_modules(name: str, modules: Any, read: Callable[[str], Any]) -> Foreign:
    try:
        folders, types = zip(*((str(module["path"]), str(module["type"])) for module in modules), strict=True)
        config = read(f"{folders[0]}/{CONFIG}") if re.fullmatch(r"\w[\w.-]*", folders[0]) else None
        if not (isinstance(config, dict) and "model_type" in config):
            raise ValueError(f"'{folders[0]}' is no folder with a model of transformers")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"the model of sentence-transformers '{name}' is damaged: {error}") from error
    more = [type for type in types[1:] if not type.endswith(_PASSING)]
    if more:
        raise ModelError(
            f"'{name}' goes on with {more[0].rpartition('.')[2]} after its encoder, which is not read: give a"
            " CLIP of sentence-transformers that is one module, such as clip-ViT-B-32"
        )
    return _of_transformers(config, "sentence-transformers", folders[0])
