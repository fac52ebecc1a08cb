"""A trained model that a run learns from: its scores, and which photos it finds alike.

It encodes every photo and caption of the training data once, whole photos with all their words, so a step
costs hardly more. What it finds is kept in RUN/teacher.npz, for `--resume`.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack
from torch import Tensor

from lexlip.data import Source
from lexlip.errors import ModelError
from lexlip.machine.output_files import replacing
from lexlip.machine.progress import ProgressBar
from lexlip.models.contract import Encoder
from lexlip.models.load import check_first_stage, load_model
from lexlip.models.model_folder import kind_of
from lexlip.objectives.losses import TaughtScores
from lexlip.queries.photo_encoder import open_encoder
from lexlip.queries.photo_vectors import PhotoVectors, encode_captions
from lexlip.registry import MODELS
from lexlip.sparse.rows import packed, unit_length, unpacked
from lexlip.training.batches import Batch
from lexlip.training.distributed import Processes
from lexlip.training.run_folder import writing_run
from lexlip.training.topics import topics_of

FILE = "teacher.npz"
UNREADABLE = (OSError, ValueError, KeyError, EOFError, BadZipFile)  # what reading a damaged one raises
GROUPS_PER_TOPIC = 8  # groups of photos of one batch that a topic has on average


@dataclass(frozen=True)
class Teacher:
    """A model's vectors of all photos and captions of a source.

    Factors balance each as a document (see `lexlip.sparse.balance`); without balance they are ones.
    """

    identity: str  # of the model
    images: csr_matrix  # unit vectors, float32 [N, V]; zeros for photos that cannot be read
    texts: csr_matrix  # of all captions, float32 [M, V], those of one photo next to each other
    starts: NDArray[np.int64]  # [N + 1], where each photo's captions start
    image_factors: NDArray[np.float32]  # [N]
    text_factors: NDArray[np.float32]  # [M]

    @classmethod
    def encoding(cls, model: Encoder, source: Source) -> Teacher:
        """Encode all photos that have captions, and their captions; DataError: no photo can be read."""
        captioned = source.captioned().tolist()
        row_of = {source.items[row].id: row for row in captioned}
        rows: list[int] = []
        parts: list[csr_matrix] = []
        photos = PhotoVectors(model, source, progress="photos for the teacher", indices=captioned)
        for ids, vectors in photos:
            rows += [row_of[id] for id in ids]
            parts.append(vectors)
        if not parts:
            raise photos.none_read()
        counts = [len(item.captions) for item in source.items]
        captions = [caption for item in source.items for caption in item.captions]
        texts = unit_length(encode_captions(model, captions, progress="captions for the teacher"))
        images = unit_length(_placed(parts, rows, len(source)))
        banks = model.balance or (None, None)
        factors = [
            np.ones(unit.shape[0], dtype=np.float32) if bank is None else bank.factors(unit)
            for unit, bank in zip((images, texts), banks, strict=True)
        ]
        starts = np.cumsum([0, *counts], dtype=np.int64)
        return cls(model.identity, images, texts, starts, *factors)

    @classmethod
    def load(cls, file: Path) -> Teacher:
        """Read what `save` wrote; one of UNREADABLE is raised if it is damaged."""
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            sides = [
                unpacked(arrays, int(arrays["width"]), np.float32, f"{side}_").csr()
                for side in ("images", "texts")
            ]
            rest = (arrays[name] for name in ("starts", "image_factors", "text_factors"))
            return cls(str(arrays["identity"]), *sides, *rest)

    def save(self, file: Path) -> None:
        arrays: dict[str, Any] = {
            "identity": np.array(self.identity),
            "width": np.array(self.images.shape[1]),
            **packed(self.images, "images_"),
            **packed(self.texts, "texts_"),
        }
        for name in ("starts", "image_factors", "text_factors"):
            arrays[name] = getattr(self, name)
        with replacing(file) as temporary, temporary.open("wb") as opened:
            np.savez(opened, **arrays)

    def fits(self, identity: str, source: Source) -> bool:
        counts = np.fromiter((len(item.captions) for item in source.items), np.int64, len(source))
        return self.identity == identity and np.array_equal(np.diff(self.starts), counts)

    def scores(self, batch: Batch, processes: Processes) -> TaughtScores:
        """Return the scores of this process's captions with the photos and captions of all processes."""
        assert batch.numbers is not None
        device = batch.owners.device
        photos, first_photo = processes.gather(batch.photos.indices)
        owners, first_text = processes.gather(batch.photos.indices[batch.owners])
        numbers, _ = processes.gather(batch.numbers)
        images = photos.cpu().numpy()
        texts = self.starts[owners.cpu().numpy()] + numbers.cpu().numpy()
        scores = _on(self.texts[texts], device) @ _on(self.images[images], device).t().to_dense()  # [T, B]
        own = slice(first_text, first_text + len(batch.owners))
        return TaughtScores(
            scores[own] * torch.from_numpy(self.image_factors[images]).to(device),
            scores.t()[first_photo + batch.owners] * torch.from_numpy(self.text_factors[texts]).to(device),
        )

    def topics(
        self, photos: NDArray[np.int64], alike: int, seed: int, processes: Processes
    ) -> NDArray[np.int64]:
        """Return a topic for each photo, int64 [n], `alike` of which share a batch; the first process's."""
        topics = np.zeros(len(photos), dtype=np.int64)
        number = len(photos) // (GROUPS_PER_TOPIC * alike)
        if processes.first and number > 1:
            rows, device = self.images[photos], processes.device
            both = _on(rows, device), _on(rows.T.tocsr(), device)  # torch would transpose by sorting
            topics = topics_of(*both, number, seed).cpu().numpy()
        found: NDArray[np.int64] = processes.collect(topics)[0]
        return found


def find_teacher(name: str, source: Source, folder: Path, processes: Processes) -> Teacher:
    """Return a model's vectors of a source: those in a folder, or made now by the first process.

    ModelError: there is no such model, or it has no vectors. DataError: no photo can be read, or the vectors
    cannot be written.
    """
    file = folder / FILE
    if processes.first:
        check_first_stage(name)
        device, words = str(processes.device), MODELS[kind_of(name)].words
        model: Any = open_encoder(name, device) if words else load_model(name, device)
        found = _kept(file)
        if found is None or not found.fits(model.identity, source):
            ProgressBar.write(f"{model.identity} encodes {len(source)} photos once, to teach", sys.stderr)
            with writing_run(folder):
                Teacher.encoding(model, source).save(file)
    processes.wait()
    kept = _kept(file)
    if kept is None:
        raise ModelError(f"{file} cannot be read: delete it, and its vectors are made anew")
    return kept


def _on(rows: csr_matrix, device: torch.device) -> Tensor:
    """Return rows as a sparse tensor [n, V] on a device."""
    starts, columns, weights = (torch.from_numpy(part) for part in (rows.indptr, rows.indices, rows.data))
    with warnings.catch_warnings():  # torch warns once of each of the two layouts
        warnings.filterwarnings("ignore", "Sparse CS[RC] tensor support is in beta")
        tensor = torch.sparse_csr_tensor(starts, columns, weights, rows.shape, check_invariants=False)
        tensor.t()
    return tensor.to(device)


def _kept(file: Path) -> Teacher | None:
    try:
        return Teacher.load(file)
    except UNREADABLE:
        return None


def _placed(parts: list[csr_matrix], rows: list[int], number: int) -> csr_matrix:
    """Return [number, V] with the rows of matrices where they belong, and zeros elsewhere."""
    vectors = vstack(parts, format="csr")
    places = csr_matrix(
        (np.ones(len(rows), dtype=np.float32), (rows, np.arange(len(rows)))), shape=(number, len(rows))
    )
    return csr_matrix(places @ vectors)
