"""Encodes photos without torch: the graph image.onnx in a model's folder, with the model's own weights.

`lexlip.models.image_graph` makes the graph. Shapes: B photos, S pixels along a side, P positions, V words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load_file
from scipy.sparse import csr_matrix, vstack

from lexlip.config import ModelConfig
from lexlip.config_files import from_dict
from lexlip.data.upright import as_seen, pixel_array
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.machine.device import has_torch, may_have_gpu, pick_device
from lexlip.machine.resources import cores
from lexlip.models.compression import expand
from lexlip.models.model_folder import (
    GRAPH,
    WEIGHTS,
    begin_check,
    check_kind,
    damaged,
    model_folder,
    read_description,
    read_words,
)
from lexlip.models.onnx_format import open_session
from lexlip.queries.saved_model import QueryTokenizer
from lexlip.queries.text_queries import TextQueries
from lexlip.registry import Metric
from lexlip.sparse.balance import load_balance
from lexlip.sparse.word_chances import load_likely
from lexlip.words.plain_text import given_texts
from lexlip.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder
    from lexlip.models.lexlip import LexLIP

_OF_IMAGES = ("image_encoder.", "image_head.")
_DECODER, _BIAS = "image_head.decoder", "image_head.bias"

Pixels = NDArray[np.uint8]  # [B, 3, S, S]


class PhotoEncoder:
    """Encodes photos as `LexLIP` does, up to rounding, and sentences as `TextQueries` does; see `Encoder`.

    Attributes:
        numbers: how many the model holds.

    Raises:
        ModelError: there is no such model, its photos need torch, or its files are damaged.
        ConfigError: the device is neither "auto" nor "cpu".
    """

    kind = "lexlip"
    device: Any = SimpleNamespace(type="cpu")  # as one of torch

    def __init__(self, name: str | Path, device: str = "auto") -> None:
        if device not in ("auto", "cpu"):
            raise ConfigError(f"the device '{device}' needs torch: pip install 'lexlip[train]'")
        self.folder = folder = model_folder(name)
        check = begin_check(folder)
        description = read_description(folder)
        if not (folder / GRAPH).is_file():
            raise ModelError(
                f"photos need torch with the {description['kind']} model {name}: pip install 'lexlip[train]'"
            )
        check_kind(folder, description, self.kind)
        try:
            self.name: str = description["name"]
            self.identity: str = description["identity"]
            self.config = from_dict(ModelConfig, description["model"], "model.")
            self.tokenizer = QueryTokenizer(folder, self.config.text.max_tokens)
            words = read_words(folder / "vocabulary.txt")
            self.vocabulary = Vocabulary.from_words(words, self.tokenizer)
            self.dimensions = len(words)
            self.balance = load_balance(folder, self.dimensions)
            self.likely = load_likely(folder, self.dimensions)
            weights = expand(load_file(folder / WEIGHTS))
            self.numbers = sum(weight.size for weight in weights.values())
            self._weights = {
                name: np.ascontiguousarray(weight, np.float32)
                for name, weight in weights.items()
                if name.startswith(_OF_IMAGES) and not name.endswith("num_batches_tracked")
            }
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, ConfigError) as error:
            raise damaged(folder, error) from error
        check()
        self._queries: dict[QueryEncoder, TextQueries] = {}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = cores()
        options.log_severity_level = 4  # its errors are raised
        # threads that decode photos need the cores on which threads without work would spin
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = open_session((folder / GRAPH).read_bytes(), self._weights, options)
        except Exception as error:  # onnxruntime raises nothing more specific
            raise damaged(folder, error) from error

    @property
    def metric(self) -> Metric:
        """How two vectors are compared."""
        return self.config.compared_by

    def fold_batch_norms(self) -> Self:
        """Return itself: ONNX Runtime has folded them."""
        return self

    def encode_image(self, photos: Pixels | Image.Image | Iterable[Image.Image]) -> csr_matrix:
        """Return float32 vectors [B, V] of B photos: pictures, or uint8 [B, 3, S, S]; DataError: others."""
        pixels = self.pixels(photos)
        if not len(pixels):
            return csr_matrix((0, self.dimensions), dtype=np.float32)
        views = self.views(pixels)
        vectors = np.mean(
            [_weights_of(self._run("logits", view)) for view in views], axis=0, dtype=np.float32
        )
        return csr_matrix(vectors)

    def encode_text(
        self, texts: str | Iterable[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, V] of T texts; see `TextQueries`."""
        if encoder not in self._queries:
            self._queries[encoder] = TextQueries(self.folder, encoder)
        queries = self._queries[encoder]
        rows = [queries.encode(text) for text in given_texts(texts)]
        return vstack(rows, format="csr") if rows else csr_matrix((0, self.dimensions), dtype=np.float32)

    def views(self, pixels: Pixels) -> list[Pixels]:
        """Return the photos, and with `image.mirror` also their mirror images."""
        mirrored = [np.ascontiguousarray(pixels[..., ::-1])] if self.config.image.mirror else []
        return [pixels, *mirrored]

    def at_positions(self, pixels: Pixels, columns: Sequence[int]) -> NDArray[np.float32]:
        """Return the weights of W words at every position, float32 [B, P, W]; see `LexiconHead`."""
        chosen = list(columns)
        hidden = self._run("hidden", pixels)
        return _weights_of(hidden @ self._weights[_DECODER][chosen].T + self._weights[_BIAS][chosen])

    def pixels(self, photos: Pixels | Image.Image | Iterable[Image.Image]) -> Pixels:
        """Return photos as the graph takes them, uint8 [B, 3, S, S]; see `encode_image`."""
        image = self.config.image
        if isinstance(photos, np.ndarray):
            if photos.dtype == np.uint8 and photos.shape[1:] == (3, image.size, image.size):
                return photos
            got = f"{photos.dtype} of shape {list(photos.shape)}"
            raise DataError(f"photos are pictures of PIL, or uint8 [B, 3, S, S], and not {got}")
        pictures = list(photos) if isinstance(photos, Iterable) else [photos]
        if wrong := [type(one).__name__ for one in pictures if not isinstance(one, Image.Image)]:
            raise DataError(f"photos are pictures of PIL, and not {wrong[0]}: open files with Image.open")
        empty = np.zeros((0, 3, image.size, image.size), np.uint8)
        return np.stack([pixel_array(as_seen(one), image) for one in pictures]) if pictures else empty

    def _run(self, output: str, pixels: Pixels) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._session.run([output], {"pixels": pixels})[0]
        return found


def _weights_of(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.log1p(np.maximum(logits, 0))


def open_encoder(name: str | Path, device: str = "auto") -> LexLIP | PhotoEncoder:
    """Return a model of words, ready to encode photos.

    If the model's folder has a graph, a CPU takes ONNX Runtime, which encodes half as many photos again as
    torch in the same time, and starts sooner. For the device see `lexlip.machine.device.pick_device`.

    Raises:
        ModelError: there is no such model, its files are damaged, or its photos need torch, which is missing.
        ConfigError: there is no such device.
    """
    has_graph = (model_folder(name) / GRAPH).is_file()
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())  # known without loading torch
    if has_torch() and not (has_graph and on_cpu):
        place = pick_device(device)  # before the weights are read
        if not (has_graph and place.type == "cpu"):
            from lexlip.models.lexlip import LexLIP

            return LexLIP.from_pretrained(name).to(place).fold_batch_norms()
        device = "cpu"
    return PhotoEncoder(name, device)
