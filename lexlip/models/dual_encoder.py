"""What every model that is trained here has: two encoders, vectors for an index, and a folder.

Shapes: B photos, T captions, P image tokens, L text tokens, D width.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix, vstack
from torch import Tensor, nn

from anserini_bridge.given_files import read_json
from lexlip.config import ModelConfig
from lexlip.config_files import from_dict, to_dict
from lexlip.encoders.image import ImageEncoder, fold_batch_norms, to_batch
from lexlip.encoders.lexicon import BagOfWords, LexiconHead
from lexlip.encoders.regions import RegionEncoder
from lexlip.encoders.text import TextEncoder, read_tokenizer, unread_words
from lexlip.errors import ConfigError, ModelError
from lexlip.machine.device import copied, encoding
from lexlip.models.compression import compress, expand
from lexlip.models.contract import QueryEncoder
from lexlip.models.hub import push, write_card
from lexlip.models.model_folder import (
    FORMAT,
    GRAPH,
    HONEST_END,
    WEIGHTS,
    begin_check,
    check_kind,
    damaged,
    is_hub_name,
    model_folder,
    read_description,
    read_words,
    sha256,
    write_checksums,
)
from lexlip.registry import MODELS, Metric, ModelKind
from lexlip.sparse.balance import FILE as BALANCE
from lexlip.sparse.balance import Balance, load_balance, save_balance
from lexlip.sparse.typed_words import FILE as KEYWORDS
from lexlip.sparse.typed_words import load_keywords, save_keywords
from lexlip.sparse.word_chances import FILE as LIKELY
from lexlip.sparse.word_chances import LikelyWords, load_likely, save_likely
from lexlip.words.plain_text import given_texts
from lexlip.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEXTS_OF_ONE_LENGTH = (64, 1024)  # texts encoded together on a CPU and on a GPU


class DualEncoder(nn.Module):
    """An image encoder and a text encoder; a subclass decides what becomes of their states.

    `vocabulary` has the V words of the lexicon, None if the entries of a vector are no words. `architecture`
    is the transformers config of a saved model; None loads what `config` names.

    A vector has `dimensions` entries, V or D. Only a kind with words has `text_head`, `image_head` and
    `bag_of_words`. `balance`, `keywords`, `likely` and `honest_end` belong to the weights, see `Encoder`;
    `hub_name` is OWNER/NAME on the model hub, if the model was loaded by it.
    """

    kind: ClassVar[str]
    dimensions: int
    text_head: LexiconHead
    image_head: LexiconHead
    bag_of_words: BagOfWords
    balance: Balance | None = None
    keywords: csr_matrix | None = None
    likely: LikelyWords | None = None
    honest_end: dict[str, Any] | None = None
    hub_name: str | None = None

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: PreTrainedTokenizerBase,
        vocabulary: Vocabulary | None = None,
        architecture: dict[str, Any] | None = None,
        name: str = "untrained",
    ) -> None:
        super().__init__()
        if self.can.words and vocabulary is None:
            raise ModelError(f"a {self.kind} model needs a vocabulary")
        self.config, self.name, self.identity = config, name, f"{name}@unsaved"
        self.vocabulary = vocabulary if self.can.words else None
        self.text_encoder = TextEncoder(config.text, tokenizer, architecture)
        width = self.text_encoder.width
        if config.image.regions is None:
            self.image_encoder = ImageEncoder(config.image, width, load_weights=architecture is None)
        else:  # which offers the same
            self.image_encoder = RegionEncoder(config.image, width)  # type: ignore[assignment]
        self.make_heads(pretrained=config.text.name if architecture is None else None)

    def make_heads(self, pretrained: str | None) -> None:
        """Set `dimensions`, and make what turns states into vectors; `pretrained` names the text encoder."""
        raise NotImplementedError

    @property
    def can(self) -> ModelKind:
        """What this kind of model can do."""
        return MODELS[self.kind]

    @property
    def metric(self) -> Metric:
        return self.config.compared_by

    # ---- tensors in, tensors out: for training ----

    def raw_image(self, pixels: Tensor) -> Tensor:
        """Return the raw output that the losses take, float32 [B, dimensions], of uint8 [B, 3, S, S]."""
        return self.pool_image(self.image_encoder(pixels))

    def raw_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the raw output, float32 [T, dimensions], of token ids int64 [T, L] with mask bool [T, L]."""
        return in_groups(lambda ids, mask: self.pool_text(self.text_encoder(ids, mask), ids, mask), ids, mask)

    def pooled_image(self, states: Tensor) -> Tensor:
        """Return the one state [B, D_image] that stands for a photo, of states [B, P, D_image]."""
        if self.config.pooling == "last":
            return self.image_encoder.own_pooled(states)
        first = self.image_encoder.prefix_tokens > 0 and self.config.pooling != "mean"
        return states[:, 0] if first else self.mean_of_photo(states, states)

    def real_tokens(self, states: Tensor) -> Tensor:
        """Return which tokens of states [B, P, D] are a photo's, bool [B, P]: it may have few regions."""
        if self.config.image.regions is not None:
            return (states != 0).any(dim=2)
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)

    def mean_of_photo(self, states: Tensor, given: Tensor) -> Tensor:
        """Return the mean state [B, D] over a photo's tokens, of states [B, P, D] of `given` [B, P, D]."""
        if self.config.image.regions is not None:
            return mean_of_tokens(states, self.real_tokens(given))
        return states.mean(dim=1)

    def pooled_text(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the one state [T, D] that stands for a text, of states [T, L, D] with mask bool [T, L]."""
        if self.config.pooling == "last":
            return states[:, -1]
        if self.config.pooling == "mean":
            return mean_of_tokens(states, mask)
        if self.config.pooling == "end":
            return states[torch.arange(len(states)), mask.sum(dim=1) - 1]
        return states[:, 0]

    def pool_image(self, states: Tensor) -> Tensor:
        """Return raw output, float32 [B, dimensions], of image encoder states [B, P, D_image]."""
        raise NotImplementedError

    def pool_text(self, states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Return raw output, float32 [T, dimensions], of text encoder states [T, L, D]."""
        raise NotImplementedError

    @staticmethod
    def vectors(raw: Tensor) -> Tensor:
        """Return the vectors to compare and to index, from `raw_image` or `raw_text`."""
        return raw

    def embed_image(self, states: Tensor) -> Tensor:
        """Return a photo's half of a pair, [B, P, D], of states [B, P, D_image]; only kinds with pairs."""
        raise NotImplementedError

    def pair_logits(self, embedded: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the log-odds, float32 [B], that captions describe photos; only if the kind has pairs.

        There is one photo, [B, P, D] of `embed_image`, for each caption, int64 [B, L] with mask bool [B, L].
        """
        raise NotImplementedError

    def resize(self, size: int) -> None:
        """Take photos of another size, in pixels, from now on; ModelError: the encoder cannot."""
        self.image_encoder = self.image_encoder.resized(size)
        self.config = replace(self.config, image=self.image_encoder.config)

    def mirror(self, mirror: bool) -> None:
        """Encode photos with their mirror images from now on, or without them."""
        self.image_encoder.config = replace(self.image_encoder.config, mirror=mirror)
        self.config = replace(self.config, image=self.image_encoder.config)

    def checkpoint_activations(self) -> None:
        """Recompute both encoders' activations in the backward pass; ModelError: one cannot."""
        self.image_encoder.checkpoint_activations()
        self.text_encoder.checkpoint_activations()

    def fold_batch_norms(self) -> Self:
        """Make encoding photos faster; the model can then be neither trained nor saved."""
        fold_batch_norms(self.image_encoder, self.image_encoder.blank())
        return self

    def compile_encoders(self) -> None:
        """Run both encoders through torch.compile; the first steps then take a minute or more."""
        for encoder, dynamic in ((self.image_encoder, False), (self.text_encoder, True)):
            encoder.compile(dynamic=dynamic)  # type: ignore[operator]  # captions differ in length

    # ---- photos and texts in, vectors out: for the index and its queries ----

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.text_encoder.tokenizer

    @property
    def device(self) -> torch.device:
        return self.text_encoder.word_embeddings.device

    @torch.inference_mode()
    def encode_image(self, photos: Tensor | Image.Image | Iterable[Image.Image]) -> csr_matrix:
        """Return float32 vectors [B, dimensions] of B photos.

        Args:
            photos: pictures of PIL, or one, of any size and mode: they are shown upright and on white, as
                files are when they are indexed. Or uint8 [B, 3, size, size], RGB, taken as it is.

        Raises:
            DataError: they are something else.
        """
        self.eval()
        pixels = to_batch(photos, self.config.image)
        if not len(pixels):
            return csr_matrix((0, self.dimensions), dtype=np.float32)
        with encoding(self.device):
            on_device = copied(pixels, self.device)
            return to_rows(self.over_views(lambda view: self.vectors(self.raw_image(view)), on_device))

    def over_views(self, encode: Callable[[Tensor], Tensor], photos: Tensor) -> Tensor:
        """Return what `encode` makes of photos [B, 3, S, S]; with `image.mirror` its mean over two views."""
        vectors = encode(photos)
        return (vectors + encode(photos.flip(3))) / 2 if self.config.image.mirror else vectors

    @torch.inference_mode()
    def encode_text(
        self, texts: str | Iterable[str], encoder: QueryEncoder = "network", batch: int = 512
    ) -> csr_matrix:
        """Return float32 vectors [T, dimensions] of T texts.

        Args:
            texts: captions or queries; a single string is one text.
            encoder: "network" runs the text encoder; "words" looks up one learned weight per word.
            batch: texts encoded at a time.

        Raises:
            DataError: one is no text, or holds half a character.
            ModelError: "words" with a model that has no words.
        """
        self.eval()
        encode = self._encode_words if encoder == "words" else self._encode_network
        with encoding(self.device):
            return rows_of_texts(encode, texts, batch, self.dimensions)

    def _encode_network(self, texts: Sequence[str]) -> Tensor:
        ids, mask = self.text_encoder.tokenize(texts)
        return self.vectors(self.raw_text(ids.to(self.device), mask.to(self.device)))

    def _encode_words(self, texts: Sequence[str]) -> Tensor:
        raise ModelError(f"the {self.kind} model '{self.name}' has no words: use --query-encoder network")

    def unread(self, text: str) -> str:
        """Return the words at the end of a text that are too many for the text encoder; "" if none are."""
        return unread_words(self.tokenizer, text, self.config.text.max_tokens)

    # ---- folders ----

    def image_graph(self) -> bytes | None:
        """Return what encodes photos without torch, see `lexlip.models.image_graph`; None if nothing does."""
        return None

    def save(self, folder: str | Path, small: bool = False, graph: bool = True) -> None:
        """Write the folder that `lexlip.models.model_folder` describes; a card that is there stays.

        What belongs to the weights goes with them: balance, keywords, likely words, and the honest end.

        Args:
            folder: created if it does not exist.
            small: store matrices as int8, at about a quarter of the size (see lexlip.models.model_folder).
            graph: also write what encodes photos without torch, if the encoder has such a graph; that takes
                some seconds.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: weight.cpu().contiguous().numpy() for name, weight in self.state_dict().items()}
        save_file(compress(weights) if small else weights, folder / WEIGHTS)
        written = [Path(file).name for file in self.text_encoder.tokenizer.save_pretrained(str(folder))]
        if self.vocabulary is not None:
            (folder / "vocabulary.txt").write_text("\n".join(self.vocabulary.words) + "\n", encoding="utf-8")
            written.append("vocabulary.txt")
        self.identity = f"{self.name}@{sha256(folder / WEIGHTS)[:12]}"
        image_graph = self.image_graph() if graph else None
        parts: dict[str, tuple[Callable[[Path, Any], object], Any]] = {
            BALANCE: (save_balance, self.balance),
            KEYWORDS: (save_keywords, self.keywords),
            LIKELY: (save_likely, self.likely),
            GRAPH: (lambda folder, content: (folder / GRAPH).write_bytes(content), image_graph),
            HONEST_END: (
                lambda folder, end: _write_json(folder / HONEST_END, {**end, "model": self.identity}),
                self.honest_end,
            ),
        }
        for file, (save, value) in parts.items():
            if value is None:
                (folder / file).unlink(missing_ok=True)  # of the weights before
            else:
                save(folder, value)
                written.append(file)
        model = to_dict(self.config)
        for section, key in (("image", "weights"), ("text", "name"), ("text", "tokenizer")):
            value = model[section][key]
            if value and Path(value).exists():  # the name of the weights, not this machine's path to them
                model[section][key] = Path(value).name
        description = {
            "format": FORMAT,
            "kind": self.kind,
            "name": self.name,
            "identity": self.identity,
            "model": model,
            "text_architecture": self.text_encoder.architecture,
        }
        _write_json(folder / "config.json", description)
        write_checksums(folder, [WEIGHTS, "config.json", *written])
        self._write_card(folder, self.name)

    def _write_card(
        self, folder: Path, title: str, name: str = "OWNER/NAME", license: str = "unknown"
    ) -> None:
        text = self.config.text.name
        base = self.hub_name or (text if text and is_hub_name(text) else None)
        words = None if self.vocabulary is None else len(self.vocabulary)
        write_card(folder, title, words, name, license, base)

    def push_to_hub(
        self, name: str, private: bool = False, small: bool = False, license: str = "unknown"
    ) -> str:
        """Upload the model to the model hub, from where `from_pretrained(name)` loads it.

        The token is that of `hf auth login`, or HF_TOKEN. A card that is on the hub already is kept.

        Args:
            name: OWNER/NAME; made if it does not exist.
            private: whether a new one is visible to its owner only.
            small: see `save`.
            license: what the card says, by the hub's name for it, such as "apache-2.0" or "cc-by-4.0".

        Returns:
            The address of its page.

        Raises:
            ModelError: the hub refuses it, or cannot be reached.
        """
        with TemporaryDirectory() as folder:
            self._write_card(Path(folder), name, name, license)
            self.save(folder, small)
            return push(Path(folder), name, private)

    @classmethod
    def from_pretrained(cls, name: str | Path, or_relative: bool = False) -> Self:
        """Load a saved model by the name of a packaged one ("mini"), by folder, or by its name on the hub.

        Only the first time that a model of the hub is loaded needs a network.

        Args:
            name: of the model.
            or_relative: also take the weights of a relative (see `ModelKind.relatives`), to train them on.

        Raises:
            ModelError: there is no such model, it is of another kind, or its files are damaged or of
                another version.
        """
        folder = model_folder(name)
        check = begin_check(folder)
        description = read_description(folder)
        if not (or_relative and description["kind"] in MODELS[cls.kind].relatives):
            check_kind(folder, description, cls.kind)
        try:
            tokenizer = read_tokenizer(str(folder))
            words = read_words(folder / "vocabulary.txt") if MODELS[cls.kind].words else None
            model = cls(
                from_dict(ModelConfig, description["model"], "model."),
                tokenizer,
                None if words is None else Vocabulary.from_words(words, tokenizer),
                architecture=dict(description["text_architecture"]),
                name=description["name"],
            )
            weights = expand(load_file(folder / WEIGHTS))
            model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
            model.identity = description["identity"]
            model.balance = load_balance(folder, model.dimensions)
            keywords = load_keywords(folder, model.dimensions)
            model.keywords = None if keywords is None else keywords.csr()
            model.likely = load_likely(folder, model.dimensions)
            model.honest_end = _read_honest_end(folder, model.identity)
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
        check()
        model.hub_name = str(name) if is_hub_name(name) else None
        return model.eval()


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _read_honest_end(folder: Path, identity: str) -> dict[str, Any] | None:
    """Return what a model's folder says of these weights' honest end; None if it says nothing."""
    file = folder / HONEST_END
    content = dict(read_json(file)) if file.is_file() else {}
    return content if content.get("model") == identity else None


def mean_of_tokens(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean state, [T, D], over the tokens of [T, L, D] where mask bool [T, L] is true."""
    counted = mask.unsqueeze(2).to(states.dtype)  # [T, L, 1]
    return (states * counted).sum(dim=1) / counted.sum(dim=1)


def rows_of_texts(
    encode: Callable[[Sequence[str]], Tensor], texts: str | Iterable[str], batch: int, width: int
) -> csr_matrix:
    """Return float32 rows [T, width] of what `encode` makes of T texts, `batch` of them at a time."""
    given = given_texts(texts)
    parts = (encode(given[start : start + batch]) for start in range(0, len(given), batch))
    return vstack([csr_matrix((0, width), dtype=np.float32), *map(to_rows, parts)], format="csr")


def to_rows(vectors: Tensor) -> csr_matrix:
    """Return vectors [n, D] as float32 rows; of a GPU's only what is not 0 is copied.

    ModelError: they are no numbers, see `finite`.
    """
    number, width = vectors.shape
    places = vectors.nonzero()  # in the order of the rows
    values = finite(vectors[places[:, 0], places[:, 1]].float().cpu().numpy())
    rows, columns = places.to(torch.int32).cpu().numpy().T
    starts = np.searchsorted(rows, np.arange(number + 1)).astype(np.int32)
    return csr_matrix((values, np.ascontiguousarray(columns), starts), shape=(number, width))


def finite(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what a model has computed, unless something of it is infinite or no number: ModelError."""
    if not np.isfinite(values).all():
        raise ModelError(
            "the model computes infinite vectors or scores, or none that are numbers: its training has"
            " diverged; train it again, with a lower optim.lr or optim.precision=fp32"
        )
    return values


def in_groups(encode: Callable[[Tensor, Tensor], Tensor], ids: Tensor, mask: Tensor) -> Tensor:
    """Return [T, ...], what `encode` makes of texts, ids and mask [T, L], in groups of similar length."""
    groups = list(by_length(ids, mask))
    encoded = torch.cat([encode(part_ids, part_mask) for _, part_ids, part_mask in groups])
    return encoded[torch.argsort(torch.cat([rows for rows, _, _ in groups]))]


def by_length(ids: Tensor, mask: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Group texts, token ids int64 [T, L] with mask bool [T, L], by length, so that little is padded.

    A GPU takes many texts at a time, and one group stays as it is: to ask for its longest text would make the
    processor wait for the GPU. Yields the rows of some texts, int64 [t], and their ids and mask, [t, l],
    where no text is longer than l; all rows together are a permutation of 0 ... T - 1.
    """
    gpu = ids.device.type == "cuda"
    if gpu and len(ids) <= TEXTS_OF_ONE_LENGTH[gpu]:
        yield torch.arange(len(ids), device=ids.device), ids, mask
        return
    lengths = mask.sum(dim=1)
    order = torch.argsort(lengths, stable=True).split(TEXTS_OF_ONE_LENGTH[gpu])
    longest = torch.stack([lengths[rows].max() for rows in order]).tolist()
    for rows, most in zip(order, longest, strict=True):
        yield rows, ids[rows, :most], mask[rows, :most]
