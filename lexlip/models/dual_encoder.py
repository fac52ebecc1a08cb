"""What every dual encoder has: two towers, vectors for an index, folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix, vstack
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexlip.config import ModelConfig
from lexlip.config_files import from_dict, to_dict
from lexlip.encoders.folding import fold_batch_norms
from lexlip.encoders.image import ImageEncoder, to_pixels
from lexlip.encoders.text import TextEncoder, read_tokenizer
from lexlip.errors import ConfigError, ModelError
from lexlip.models.compression import compress, expand
from lexlip.models.encoder import Metric, QueryEncoder
from lexlip.models.folder import FORMAT, check_kind, damaged, model_folder, read_description, read_words
from lexlip.vocabulary import Vocabulary

TEXTS_OF_ONE_LENGTH = (64, 1024)  # encoded together, on a CPU and on a GPU


class DualEncoder(nn.Module):
    """An image tower and a text tower; subclasses say what becomes of their states.

    Args:
        config: the encoders.
        tokenizer: the text encoder's.
        vocabulary: the lexicon, V words; None for a model whose vectors are no words.
        architecture: the transformers config of a saved model; None fetches what the config names.
        name: what the checkpoint calls itself.
    """

    kind: ClassVar[str]
    has_words: ClassVar[bool]  # whether the dimensions of a vector are words
    has_vectors: ClassVar[bool] = True  # of photos and of captions, for an index
    has_pairs: ClassVar[bool] = False  # whether it tells if a caption is of a photo, as a cross-encoder
    metric: ClassVar[Metric] = "cosine"  # what two vectors are compared by
    relatives: ClassVar[tuple[str, ...]] = ()  # kinds with the same weights, which it can start from
    dimensions: int  # of a vector: V, or D

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: Vocabulary | None,
        architecture: dict[str, Any] | None = None,
        name: str = "untrained",
    ) -> None:
        super().__init__()
        self.config, self.vocabulary, self.name = config, vocabulary, name
        self.identity = f"{name}@unsaved"
        self.text_encoder = TextEncoder(config.text, tokenizer, architecture)
        self.image_encoder = ImageEncoder(
            config.image, self.text_encoder.width, load_weights=architecture is None
        )

    # ---- tensors in, tensors out: what training uses ----

    def raw_image(self, pixels: Tensor) -> Tensor:
        """What the objectives take of photos, float32 [B, dimensions]; pixels uint8 [B, 3, S, S]."""
        return self.pool_image(self.image_encoder(pixels))

    def raw_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The same of token ids int64 [T, L] with mask bool [T, L]: float32 [T, dimensions]."""
        pooled, order = [], []
        for rows, part_ids, part_mask in by_length(ids, mask):
            pooled.append(self.pool_text(self.text_encoder(part_ids, part_mask), part_ids, part_mask))
            order.append(rows)
        return torch.cat(pooled)[torch.argsort(torch.cat(order))]

    def pool_image(self, states: Tensor) -> Tensor:
        """Raw output, float32 [B, dimensions], of the image encoder's states [B, P, D_image]."""
        raise NotImplementedError

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Raw output, float32 [T, dimensions], of the text encoder's states [T, L, D]."""
        raise NotImplementedError

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        """The vectors to compare and to index, of `raw_image` or `raw_text`."""
        raise NotImplementedError

    def resize(self, size: int) -> None:
        """Take photos of another size from now on, in pixels; position embeddings are interpolated.

        Raises:
            ModelError: the image encoder cannot.
        """
        self.image_encoder = self.image_encoder.resized(size)
        self.config = replace(self.config, image=self.image_encoder.config)

    def checkpoint_activations(self) -> None:
        """Compute the activations of both encoders again for the gradient instead of keeping them.

        Raises:
            ModelError: an encoder cannot.
        """
        self.image_encoder.checkpoint_activations()
        self.text_encoder.checkpoint_activations()

    def fold_batch_norms(self) -> Self:
        """Encode photos faster from now on; the model can then be neither trained nor saved."""
        size = self.config.image.size
        fold_batch_norms(self.image_encoder, torch.zeros(1, 3, size, size, dtype=torch.uint8))
        return self

    def compile_encoders(self) -> None:
        """torch.compile both encoders; the first steps then take a minute or more."""
        for encoder, dynamic in ((self.image_encoder, False), (self.text_encoder, True)):
            encoder.compile(dynamic=dynamic)  # type: ignore[operator]  # captions have many lengths

    # ---- photos and texts in, vectors out: what the index and its queries use ----

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.text_encoder.tokenizer

    @property
    def device(self) -> torch.device:
        return self.text_encoder.word_embeddings.device

    @torch.inference_mode()
    def encode_image(self, photos: Tensor | Sequence[Image.Image]) -> csr_matrix:
        """Vectors, float32 [B, dimensions], of B photos: pictures, or uint8 [B, 3, size, size]."""
        self.eval()
        if isinstance(photos, Tensor):
            pixels = photos
        else:
            pixels = torch.stack([to_pixels(photo.convert("RGB"), self.config.image) for photo in photos])
        return csr_matrix(self.vectors(self.raw_image(pixels.to(self.device))).cpu().numpy())

    @torch.inference_mode()
    def encode_text(
        self, texts: Sequence[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Vectors, float32 [T, dimensions], of texts.

        Args:
            texts: captions or queries.
            encoder: "network" runs the text encoder; "words" only looks up one learned weight a word.
            batch: texts encoded at a time.

        Raises:
            ModelError: "words" with a model that has no words.
        """
        self.eval()
        if not texts:
            return csr_matrix((0, self.dimensions), dtype=np.float32)
        chunks = (texts[start : start + batch] for start in range(0, len(texts), batch))
        encode = self._encode_words if encoder == "words" else self._encode_network
        return vstack([csr_matrix(encode(chunk).cpu().numpy()) for chunk in chunks], format="csr")

    def _encode_network(self, texts: Sequence[str]) -> Tensor:
        ids, mask = self.text_encoder.tokenize(texts)
        return self.vectors(self.raw_text(ids.to(self.device), mask.to(self.device)))

    def _encode_words(self, texts: Sequence[str]) -> Tensor:
        raise ModelError(f"the {self.kind} model '{self.name}' has no words; use the network query encoder")

    # ---- folders ----

    def save(self, folder: str | Path, small: bool = False) -> None:
        """Write config.json, vocabulary.txt, model.safetensors and the tokenizer's files.

        Args:
            folder: made if it is not there.
            small: matrices as int8, at about a quarter of the size (see lexlip.models.compression).
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: weight.cpu().contiguous().numpy() for name, weight in self.state_dict().items()}
        save_file(compress(weights) if small else weights, folder / "model.safetensors")
        self.text_encoder.tokenizer.save_pretrained(str(folder))
        if self.vocabulary is not None:
            (folder / "vocabulary.txt").write_text("\n".join(self.vocabulary.words) + "\n", encoding="utf-8")
        digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        self.identity = f"{self.name}@{digest[:12]}"
        model = to_dict(self.config)
        for section, key in (("image", "weights"), ("text", "name"), ("text", "tokenizer")):
            value = model[section][key]
            if value and Path(value).exists():  # where the weights came from, not where they lay
                model[section][key] = Path(value).name
        description = {
            "format": FORMAT,
            "kind": self.kind,
            "name": self.name,
            "identity": self.identity,
            "model": model,
            "text_architecture": self.text_encoder.architecture,
        }
        (folder / "config.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, name: str | Path, or_relative: bool = False) -> Self:
        """A saved model, by the name of a packaged one ("mini") or by folder; needs no network.

        Args:
            name: of the model.
            or_relative: take the weights of one of the `relatives` too, to train them on.

        Raises:
            ModelError: there is no such model, it is of another kind, or its files are damaged or of
                another version.
        """
        folder = model_folder(name)
        description = read_description(folder)
        if not (or_relative and description["kind"] in cls.relatives):
            check_kind(folder, description, cls.kind)
        try:
            tokenizer = read_tokenizer(str(folder))
            words = read_words(folder / "vocabulary.txt") if cls.has_words else None
            model = cls(
                from_dict(ModelConfig, description["model"], "model."),
                tokenizer,
                None if words is None else Vocabulary.from_words(words, tokenizer),
                architecture=description["text_architecture"],
                name=description["name"],
            )
            weights = expand(load_file(folder / "model.safetensors"))
            model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
            model.identity = description["identity"]
        except (
            OSError,
            SafetensorError,
            ValueError,
            KeyError,
            TypeError,
            RuntimeError,
            ConfigError,
        ) as error:
            raise damaged(folder, error) from error
        return model.eval()


def by_length(ids: Tensor, mask: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Texts of like length together, so that there is little padding.

    Args:
        ids: int64 [T, L] token ids, with mask bool [T, L].

    Yields:
        The rows of the texts, int64 [t], and their ids and mask, [t, l] with l the longest among them.
        The parts' rows together are a permutation of 0 ... T - 1.
    """
    lengths = mask.sum(dim=1)
    for rows in torch.argsort(lengths, stable=True).split(TEXTS_OF_ONE_LENGTH[ids.device.type == "cuda"]):
        longest = int(lengths[rows].max())
        yield rows, ids[rows, :longest], mask[rows, :longest]
