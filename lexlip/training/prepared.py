"""The new model that a run starts from, made before it on any machine: a vocabulary, heads that are fitted.

RUN/prepared/   the model (see DualEncoder.save), and prepared.json: what it was made from, and the state of
                torch's generator, from which training goes on to draw
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anserini_bridge.storage import checksum
from lexlip.config_files import to_dict
from lexlip.errors import ModelError
from lexlip.machine.progress import ProgressBar
from lexlip.models.model_folder import check_model
from lexlip.training.initialisation import make_model
from lexlip.training.run_folder import replacing_folder, writing_run

if TYPE_CHECKING:
    from lexlip.config import Config
    from lexlip.data import Source
    from lexlip.models.dual_encoder import DualEncoder
    from lexlip.words.vocabulary import Vocabulary

FOLDER, FILE = "prepared", "prepared.json"


def prepare_model(config: Config, train: Source, run: Path) -> None:
    """Make the model that a run starts from, and save it in RUN/prepared; LexLIPError: it cannot be made."""
    torch.manual_seed(config.seed)
    model, _ = make_model(config, train, progress=True)
    made = {"from": _made_from(config, train), "random": torch.get_rng_state().tolist()}
    with writing_run(run), replacing_folder(run / FOLDER) as temporary:
        model.save(temporary, graph=False)
        (temporary / FILE).write_text(json.dumps(made), encoding="utf-8")


def starting_model(
    config: Config, train: Source, run: Path, progress: bool
) -> tuple[DualEncoder, Vocabulary]:
    """Return what `make_model` does, from RUN/prepared if that was made from the same, and otherwise anew."""
    folder = run / FOLDER
    if config.init is not None or not folder.exists():
        return make_model(config, train, progress)
    why = "it was made from another config, other captions or other weights"
    try:
        made = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if made["from"] == _made_from(config, train):
            check_model(folder)
            found = make_model(replace(config, init=str(folder)), train)
            torch.set_rng_state(torch.tensor(made["random"], dtype=torch.uint8))
            if progress:
                ProgressBar.write(f"the run starts from {folder}", sys.stderr)
            return found
    except (OSError, ValueError, KeyError, TypeError, ModelError) as error:
        why = f"it cannot be read ({' '.join(str(error).split())})"
    if progress:
        ProgressBar.write(f"{folder} is not used: {why}", sys.stderr)
    return make_model(config, train, progress)


def _made_from(config: Config, train: Source) -> dict[str, Any]:
    """Return what decides about a new model: keys of the config, the photos' captions, and weights' files."""
    captions = hashlib.sha256()
    for item in train.items:
        captions.update(json.dumps([item.id, *item.captions]).encode())
    given = [Path(name) for name in (config.model.image.weights, config.model.text.name) if name is not None]
    files = [file for path in given for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    return {
        "model": to_dict(config.model),
        "name": config.name,
        "seed": config.seed,
        "captions": captions.hexdigest(),
        "weights": {str(file): checksum(file) for file in files if file.is_file()},
    }
