"""Makes of a trained model one to use: small, balanced, and without torch where its encoders allow it.

- Its matrices are int8, a quarter of the size (`lexlip.models.compression`).
- Captions and photos of the training data, equally many of each source, make the bank by which it balances
  its documents, and all photos say what a word asks for that stands alone, and how likely people are to name
  it (`lexlip.training.packaged_fits`).
- A convolutional image encoder gets a graph for ONNX Runtime (`lexlip.models.image_graph`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anserini_bridge.storage import folder_megabytes
from lexlip.data import Source, open_source, open_sources
from lexlip.errors import DataError
from lexlip.machine.device import pick_device
from lexlip.models.compression import compress, expand
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_checksums import check_model
from lexlip.models.model_folder import GRAPH
from lexlip.training.packaged_fits import KEPT, draw_balance, encode_captioned, fit_keywords, fit_likely
from lexlip.training.run_folder import find_run, read_config
from lexlip.training.whole_folder import check_place, save_whole


@dataclass(frozen=True)
class Package:
    """What was made."""

    identity: str  # the model's
    words: int  # V
    megabytes: float  # of its folder, 10^6 bytes
    captions: int  # of the bank, as are photos; 0 if documents are not balanced
    photos: int
    needs_torch: bool  # whether photos are encoded by torch


def package(name: str | Path, folder: Path, sources: Sequence[str] = (), device: str = "auto") -> Package:
    """Save a model for use, under the name of its new folder, as a whole or not at all.

    Args:
        name: of the model: a run (its best checkpoint), or a folder.
        folder: which is made; it replaces a saved model.
        sources: photos with captions, of the training data. None: those of the run, unless the model has a
            bank already.
        device: where the photos are encoded, see `lexlip.machine.device.pick_device`.

    Raises:
        ModelError: there is no such model, it is damaged, or it is of another kind.
        DataError: the folder cannot be written, or the photos cannot be used.
        ConfigError: there is no such device, or the run's config cannot be read.
    """
    check_place(folder, may_replace=True)
    place = pick_device(device)
    check_model(name)
    model = LexLIP.from_pretrained(name)
    opened = [open_source(source) for source in sources]
    if not opened and model.balance is None:
        opened = _sources_of_run(Path(name))
    model.name = folder.name
    if opened:
        _draw(model, opened, place)
    save_whole(model, folder, small=True)
    bank = model.balance
    return Package(
        model.identity,
        len(model.vocabulary),
        folder_megabytes(folder),
        0 if bank is None else bank.photos.queries.shape[0],
        0 if bank is None else bank.captions.queries.shape[0],
        not (folder / GRAPH).is_file(),
    )


def _sources_of_run(place: Path) -> list[Source]:
    """Return the training data of the run that a folder is or belongs to; nothing if there is none."""
    run = find_run(place)
    if run is None:
        return []
    try:
        return [open_sources([one]) for one in read_config(run).data.train]
    except DataError as error:
        raise DataError(f"the photos that {run} was trained on: {error}; name some as SOURCE") from error


def _draw(model: LexLIP, sources: Sequence[Source], place: torch.device) -> None:
    """Give a model what depends on its weights, once they are rounded to int8."""
    weights = {name: weight.cpu().contiguous().numpy() for name, weight in model.state_dict().items()}
    rounded = expand(compress(weights))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in rounded.items()})
    model.to(place)
    try:
        model.balance = draw_balance(model, sources)
        photos = encode_captioned(model, sources)
    except ValueError as error:
        raise DataError(f"{error}: name more photos with captions as SOURCE") from error
    documents = model.balance.photos.documents(photos.vectors, KEPT)
    words = model.vocabulary.words
    model.keywords = fit_keywords(documents, photos.said, model.encode_text(words, "words"), words)
    model.likely = fit_likely(*photos)
    model.honest_end = None  # it was measured with another bank
