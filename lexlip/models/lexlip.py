"""LexLIP: two encoders, each with a lexicon head, that share one vocabulary (Section 3.1 of the paper)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from scipy.sparse import csr_matrix, vstack
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexlip.config import ModelConfig, from_dict, to_dict
from lexlip.encoders.image import ImageEncoder, to_pixels
from lexlip.encoders.lexicon import BagOfWords, LexiconHead, sparse_vector
from lexlip.encoders.text import TextEncoder, read_tokenizer
from lexlip.errors import ConfigError, ModelError
from lexlip.models.compression import compress, expand
from lexlip.vocabulary import Vocabulary, tokenize_captions

FORMAT = 1
PACKAGED = Path(__file__).parent.parent / "weights"  # checkpoints that ship, by name

TEXTS_OF_ONE_LENGTH = 64  # encoded together

QueryEncoder = Literal["network", "words"]


class LexLIP(nn.Module):
    """Turns photos and captions into sparse vectors over one vocabulary.

    Args:
        config: the encoders.
        tokenizer: the text encoder's.
        vocabulary: the lexicon, V words.
        architecture: the transformers config of a saved model; None fetches what the config names.
        name: what the checkpoint calls itself.
    """

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: Vocabulary,
        architecture: dict[str, Any] | None = None,
        name: str = "untrained",
    ) -> None:
        super().__init__()
        self.config, self.vocabulary, self.name = config, vocabulary, name
        self.identity = f"{name}@unsaved"
        self.text_encoder = TextEncoder(config.text, tokenizer, architecture)
        width = self.text_encoder.width
        self.image_encoder = ImageEncoder(config.image, width, load_weights=architecture is None)
        embeddings = self.text_encoder.word_embeddings[torch.from_numpy(vocabulary.token_ids)]
        self.text_head = LexiconHead(width, embeddings)
        self.image_head = LexiconHead(self.image_encoder.width, embeddings)
        self.bag_of_words = BagOfWords(len(vocabulary))

    # ---- tensors in, tensors out: what training uses ----

    def forward(self, pixels: Tensor, ids: Tensor, mask: Tensor, present: Tensor) -> dict[str, Tensor]:
        """What the objectives take: raw max-pooled logits of photos and texts, and bags of words.

        Args:
            pixels: uint8 [B, 3, size, size].
            ids: int64 [T, L] token ids, with mask bool [T, L].
            present: bool [T, V], see `words_present`.

        Returns:
            {"image": [B, V], "text": [T, V], "bag": [T, V]}, float32.
        """
        return {
            "image": self.image_logits(pixels),
            "text": self.text_logits(ids, mask),
            "bag": self.bag_of_words(present),
        }

    def image_logits(self, pixels: Tensor) -> Tensor:
        """Max-pooled logits, float32 [B, V], of photos, uint8 [B, 3, size, size]."""
        states = self.image_encoder(pixels)
        mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        if not self.config.special_positions:
            mask[:, : self.image_encoder.prefix_tokens] = False
        logits: Tensor = self.image_head(states, mask)
        return logits

    def text_logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Max-pooled logits, float32 [T, V], of token ids int64 [T, L] with mask bool [T, L]."""
        lengths = mask.sum(dim=1)
        order = torch.argsort(lengths, stable=True)
        parts = []
        for rows in order.split(TEXTS_OF_ONE_LENGTH):  # texts of like length together: little padding
            longest = int(lengths[rows].max())
            part_ids, part_mask = ids[rows, :longest], mask[rows, :longest]
            states = self.text_encoder(part_ids, part_mask)
            if not self.config.special_positions:
                part_mask = part_mask & ~self.text_encoder.special_tokens(part_ids)
            parts.append(self.text_head(states, part_mask))
        return torch.cat(parts)[torch.argsort(order)]

    def words_present(self, texts: Sequence[str]) -> Tensor:
        """bool [T, V]: which words of the vocabulary each text holds."""
        present = torch.zeros(len(texts), len(self.vocabulary), dtype=torch.bool)
        for row, ids in enumerate(tokenize_captions(self.text_encoder.tokenizer, texts)):
            present[row, self.vocabulary.columns(ids[: self.text_encoder.max_tokens])] = True
        return present

    # ---- photos and texts in, sparse vectors out: what the index and its queries use ----

    @property
    def device(self) -> torch.device:
        return self.bag_of_words.weight.device

    @torch.inference_mode()
    def encode_image(self, photos: Tensor | Sequence[Image.Image]) -> csr_matrix:
        """Sparse vectors p (Eq. 3), float32 [B, V], of B photos: pictures, or uint8 [B, 3, size, size]."""
        self.eval()
        if isinstance(photos, Tensor):
            pixels = photos
        else:
            pixels = torch.stack([to_pixels(photo.convert("RGB"), self.config.image) for photo in photos])
        return csr_matrix(sparse_vector(self.image_logits(pixels.to(self.device))).cpu().numpy())

    @torch.inference_mode()
    def encode_text(
        self, texts: Sequence[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Sparse vectors p (Eq. 6), float32 [T, V], of texts.

        Args:
            texts: captions or queries.
            encoder: "network" runs the text encoder; "words" only looks up one learned weight a word.
            batch: texts encoded at a time.
        """
        self.eval()
        if not texts:
            return csr_matrix((0, len(self.vocabulary)), dtype=np.float32)
        rows = []
        for start in range(0, len(texts), batch):
            chunk = texts[start : start + batch]
            if encoder == "words":
                vectors = self.bag_of_words(self.words_present(chunk).to(self.device))
            else:
                ids, mask = self.text_encoder.tokenize(chunk)
                vectors = sparse_vector(self.text_logits(ids.to(self.device), mask.to(self.device)))
            rows.append(csr_matrix(vectors.cpu().numpy()))
        return vstack(rows, format="csr")

    # ---- folders ----

    def save(self, folder: str | Path, small: bool = False) -> None:
        """Write config.json, vocabulary.txt, model.safetensors and the tokenizer's files.

        Args:
            folder: made if it is not there.
            small: matrices as int8, at about a quarter of the size (see lexlip.models.compression).
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: weight.cpu().contiguous() for name, weight in self.state_dict().items()}
        save_file(compress(weights) if small else weights, folder / "model.safetensors")
        self.text_encoder.tokenizer.save_pretrained(str(folder))
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
            "kind": "lexlip",
            "name": self.name,
            "identity": self.identity,
            "model": model,
            "text_architecture": self.text_encoder.architecture,
        }
        (folder / "config.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, name: str | Path) -> LexLIP:
        """A saved model, by the name of a packaged one ("mini") or by folder; needs no network.

        Raises:
            ModelError: there is no such model, or its files are damaged or of another version.
        """
        folder = model_folder(name)
        try:
            description = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            words = (folder / "vocabulary.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
            if description["format"] != FORMAT:
                raise ModelError(f"{folder} has format {description['format']}; this version reads {FORMAT}")
            tokenizer = read_tokenizer(str(folder))
            model = cls(
                from_dict(ModelConfig, description["model"], "model."),
                tokenizer,
                Vocabulary.from_words(words, tokenizer),
                architecture=description["text_architecture"],
                name=description["name"],
            )
            model.load_state_dict(expand(load_file(folder / "model.safetensors")))
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
            raise ModelError(f"the model in {folder} is damaged: {' '.join(str(error).split())}") from error
        return model.eval()


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
