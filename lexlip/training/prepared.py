"""What a run makes before its first step, perhaps on another machine, or for other runs that need the same.

RUN/prepared/   the new model (see DualEncoder.save): a vocabulary, heads that are fitted. prepared.json says
                what it was made from, and the state of torch's generator, from which training goes on to draw

With `config.prepared`, the new model, a frozen body's views and the teacher's vectors stand each in a folder
of its own below that one, named by what it was made from.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anserini_bridge.storage import checksum
from lexlip.config_files import to_dict
from lexlip.errors import ModelError
from lexlip.machine.device import pick_precision
from lexlip.machine.output_files import replacing
from lexlip.machine.progress import ProgressBar
from lexlip.models.model_folder import check_model
from lexlip.training.augmentation import AugmentedPhotos, FrozenViews, encode_views, encode_without_torch
from lexlip.training.initialisation import make_model
from lexlip.training.run_folder import replacing_folder, writing_run
from lexlip.training.teacher import Teacher, find_teacher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from lexlip.config import Config
    from lexlip.data import Source
    from lexlip.encoders.image import ImageEncoder
    from lexlip.models.dual_encoder import DualEncoder
    from lexlip.training.distributed import Processes
    from lexlip.words.vocabulary import Vocabulary

FOLDER, FILE = "prepared", "prepared.json"
VIEWS = "views.npy"


def place_of(config: Config, run: Path, what: str, made_from: Any) -> Path:
    """Return the folder in which a run keeps `what` it makes of `made_from`: RUN, or one that runs share."""
    if config.prepared is None:
        return run
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:16]
    place = Path(config.prepared) / f"{what}-{key}"
    with writing_run(run, place):
        place.mkdir(parents=True, exist_ok=True)
    return place


def prepare_model(config: Config, train: Source, run: Path) -> None:
    """Make the model that a run starts from, and save it; LexLIPError: it cannot be made."""
    torch.manual_seed(config.seed)
    model, _ = make_model(config, train, progress=True)
    made_from = _made_from(config, train)
    made = {"from": made_from, "random": torch.get_rng_state().tolist()}
    folder = place_of(config, run, "model", made_from) / FOLDER
    with writing_run(run, folder), replacing_folder(folder) as temporary:
        model.save(temporary, graph=False)
        (temporary / FILE).write_text(json.dumps(made), encoding="utf-8")


def starting_model(
    config: Config, train: Source, run: Path, processes: Processes
) -> tuple[DualEncoder, Vocabulary]:
    """Return what `make_model` does, as it was prepared if that was from the same, and otherwise made anew.

    With `config.prepared` the first process keeps it for other runs.
    """
    progress = processes.first
    if config.init is not None or (config.prepared is None and not (run / FOLDER).exists()):
        return make_model(config, train, progress)
    made_from = _made_from(config, train)
    folder = place_of(config, run, "model", made_from) / FOLDER
    if config.prepared is not None:
        if processes.first and not folder.exists():
            prepare_model(config, train, run)
        processes.wait()
    why = "it was made from another config, other captions or other weights"
    try:
        made = json.loads((folder / FILE).read_text(encoding="utf-8"))
        made["from"].pop("name", None)  # of older versions
        if made["from"] == made_from:
            check_model(folder)
            found = make_model(replace(config, init=str(folder)), train)
            torch.set_rng_state(torch.tensor(made["random"], dtype=torch.uint8))
            if progress:
                ProgressBar.write(f"the run starts from {folder}", sys.stderr)
            return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ModelError) as error:
        why = f"it cannot be read ({' '.join(str(error).split())})"
    if progress:
        ProgressBar.write(f"{folder} is not used: {why}", sys.stderr)
    return make_model(config, train, progress)


def frozen_views(
    encoder: ImageEncoder,
    photos: AugmentedPhotos,
    indices: NDArray[np.int64],
    config: Config,
    run: Path,
    processes: Processes,
) -> FrozenViews:
    """Return what `encode_views` does: from `config.prepared`, where they are kept, or for this run alone."""
    if config.prepared is None:
        return encode_views(encoder, photos, indices, config, run / VIEWS, processes)
    data = config.data
    made_from = {
        "photos": _files_of(photos.source, indices.tolist()),
        "data": [config.seed, data.views, data.crop, data.flip, data.randaugment],
        "image": to_dict(config.model.image),
        "precision": pick_precision(config.optim.precision, processes.device),
        "weights": _frozen_weights(encoder),
    }
    file = place_of(config, run, "views", made_from) / VIEWS
    if not processes.collect(file.exists())[0]:
        made = encode_views(encoder, photos, indices, config, run / VIEWS, processes)
        if made.unreadable or not processes.first:  # photos that cannot be read are looked at by each run
            return made
        with writing_run(run, file), replacing(file) as temporary, temporary.open("wb") as opened:
            np.save(opened, made.states)
        return made
    if processes.first:
        ProgressBar.write(f"views of the photos are those of {file.parent}", sys.stderr)
    encoder.frozen_until = encoder.first_trained()
    encode_without_torch(encoder, config, processes.device)
    return FrozenViews(np.load(file, mmap_mode="r"), indices, {}, encoder.frozen_until)


def taught_by(config: Config, train: Source, run: Path, processes: Processes) -> Teacher:
    """Return what `find_teacher` does, for `config.teacher`, from where the run keeps it."""
    assert config.teacher is not None
    place = run
    if config.prepared is not None:
        files = _files_of(train, range(len(train)))
        place = place_of(config, run, "teacher", [config.teacher, _captions_of(train), files])
    return find_teacher(config.teacher, train, place, processes)


def _frozen_weights(encoder: ImageEncoder) -> str:
    """Return a checksum of the weights that views depend on: those that are frozen, and all buffers."""
    found = hashlib.sha256()
    for name, weight in [*encoder.named_parameters(), *encoder.named_buffers()]:
        if not weight.requires_grad:
            found.update(name.encode() + weight.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _files_of(source: Source, rows: Iterable[int]) -> str:
    """Return a checksum of the names of photos, and of what changes with their files (`Source.state`)."""
    found = hashlib.sha256()
    for row in rows:
        found.update(json.dumps([source.items[row].id, source.state(row)]).encode())
    return found.hexdigest()


def _captions_of(train: Source) -> str:
    """Return a checksum of the photos' names and captions."""
    found = hashlib.sha256()
    for item in train.items:
        found.update(json.dumps([item.id, *item.captions]).encode())
    return found.hexdigest()


def _made_from(config: Config, train: Source) -> dict[str, Any]:
    """Return what decides about a new model: keys of the config, the photos' captions, and weights' files."""
    given = [Path(name) for name in (config.model.image.weights, config.model.text.name) if name is not None]
    files = [file for path in given for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    return {
        "model": to_dict(config.model),
        "seed": config.seed,
        "captions": _captions_of(train),
        "weights": {str(file): checksum(file) for file in files if file.is_file()},
    }
