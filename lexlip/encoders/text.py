"""Text encoders and tokenizers by transformers name or local folder: captions become token states."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    SiglipTextConfig,
    SiglipTextModel,
)
from transformers.utils import logging as transformers_logging

from lexlip.config import TextEncoderConfig
from lexlip.encoders.hub_access import check_reachable, reason
from lexlip.errors import ModelError
from lexlip.registry import SIGLIP_TEXT
from lexlip.words.plain_text import words_after

transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


def architecture_of(body: PreTrainedModel) -> dict[str, Any]:
    """Return an encoder's transformers config, without where it came from."""
    plain: dict[str, Any] = body.config.to_dict()
    for key in ("_name_or_path", "transformers_version", "architectures", "dtype"):
        plain.pop(key, None)
    return plain


class TextEncoder(nn.Module):
    """A transformers encoder without its pooler; with a saved model's `architecture` made without weights.

    That of SigLIP always takes `max_tokens` tokens: a text is filled up with its architecture's padding.

    ModelError: the model cannot be found or made.
    """

    special: Tensor

    def __init__(
        self,
        config: TextEncoderConfig,
        tokenizer: PreTrainedTokenizerBase,
        architecture: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.max_tokens = config.max_tokens
        try:
            if architecture is not None:
                self.body = _random_body(_described(**architecture))
            elif config.name is not None:
                check_reachable(config.name)
                known = AutoConfig.from_pretrained(config.name, trust_remote_code=False)
                options = {**_attention(known), **config.options}
                self.body = AutoModel.from_pretrained(config.name, trust_remote_code=False, **options)
            else:
                options = {"vocab_size": len(tokenizer), **random_options(config)}
                self.body = _random_body(AutoConfig.for_model("bert", **options))
        except ModelError:
            raise
        except Exception as error:  # transformers and the hub raise many kinds
            named = f" '{config.name}'" if config.name else ""
            raise ModelError(f"transformers cannot make the text encoder{named}: {reason(error)}") from error
        self.body.float()  # some checkpoints are in half precision
        if getattr(self.body, "pooler", None) is not None:
            self.body.pooler = None
        self.fills_up = self.body.config.model_type == SIGLIP_TEXT
        if self.fills_up:
            inner_text_model(self.body).head = nn.Identity()
        self.width: int = self.body.config.hidden_size
        special = [i for i in tokenizer.all_special_ids if i != tokenizer.mask_token_id]
        self.register_buffer("special", torch.tensor(special, dtype=torch.int64), persistent=False)

    @property
    def architecture(self) -> dict[str, Any]:
        """The transformers config, from which the model can be made again without a network."""
        return architecture_of(self.body)

    @property
    def word_embeddings(self) -> Tensor:
        """The embeddings of all tokenizer entries, [entries, D]."""
        weight: Tensor = self.body.get_input_embeddings().weight
        return weight

    def tokenize(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return token ids int64 [T, L] and mask bool [T, L] of texts; see `tokenize`."""
        return tokenize(self.tokenizer, texts, self.max_tokens)

    def special_tokens(self, ids: Tensor) -> Tensor:
        """Return which positions are special tokens ([CLS], [SEP], padding, not [MASK]), bool [T, L]."""
        return torch.isin(ids, self.special)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the token states [T, L, D] of token ids [T, L] (Eq. 4).

        Of an encoder that fills texts up [T, max_tokens, D]; what the mask leaves out is filled up too.
        """
        if self.fills_up:
            filling = self.body.config.pad_token_id
            ids = F.pad(ids.masked_fill(~mask, filling), (0, self.max_tokens - ids.shape[1]), value=filling)
            filled: Tensor = self.body(input_ids=ids).last_hidden_state
            return filled
        states: Tensor = self.body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return states

    @property
    def segment_embeddings(self) -> Tensor:
        """The embeddings of the two segments, [2, D]; ModelError: the architecture tells none apart."""
        types = getattr(getattr(self.body, "embeddings", None), "token_type_embeddings", None)
        if types is None or len(types.weight) < 2:
            raise ModelError(
                f"a text encoder of type '{self.body.config.model_type}' has no second segment for photos;"
                " set model.framed_photos=false, or take one like BERT"
            )
        weight: Tensor = types.weight
        return weight

    def embed(self, ids: Tensor, first: Tensor | None = None, segment: int = 0) -> Tensor:
        """Return the first layer's input, [T, L, D]: words, positions and types, after LayerNorm and dropout.

        `ids` are int64 [T, L]. `first`, [T, D], such as the bottleneck of Eq. 8-10, replaces the word
        embedding of the first token, [CLS], as in Eq. 11-14; position and type are added to it as to any
        word. ModelError: the architecture has no such layer, or its width is not that of the states.
        """
        layer, words = getattr(self.body, "embeddings", None), self.body.get_input_embeddings()
        kind = self.body.config.model_type
        if layer is None or getattr(layer, "position_embeddings", None) is None:
            raise ModelError(
                f"a text encoder of type '{kind}' adds no positions to its word embeddings, which a decoder "
                "needs; take one like BERT, RoBERTa, MPNet or DistilBERT"
            )
        if words.embedding_dim != self.width:
            raise ModelError(
                f"a text encoder of type '{kind}' has word embeddings of width {words.embedding_dim} and "
                f"states of width {self.width}, which a decoder cannot share; take one with equal widths"
            )

        def with_first(module: nn.Module, inputs: tuple[Tensor], states: Tensor) -> Tensor | None:
            if first is None:
                return None
            return torch.cat([first[:, None].to(states.dtype), states[:, 1:]], dim=1)

        # a hook instead of inputs_embeds, because RoBERTa derives positions from the ids
        with words.register_forward_hook(with_first):
            types = {"token_type_ids": torch.full_like(ids, segment)} if segment else {}
            states: Tensor = layer(ids, **types)
        return states

    def layers(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """Return the token states [T, L, D] of tokens embedded as by `embed`, [T, L, D].

        L may exceed the positions that the architecture has for words; `mask` bool [T, L] is false for
        padding.
        """
        layer = self.body.embeddings
        self.body.embeddings = _Given(embedded)
        try:
            states: Tensor = self.body(inputs_embeds=embedded, attention_mask=mask.long()).last_hidden_state
        finally:
            self.body.embeddings = layer
        return states

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass; ModelError: transformers cannot do that."""
        old = not hasattr(self.body, "activation_checkpointing_enable")  # its name in late transformers 5
        switch = "gradient_checkpointing_enable" if old else "activation_checkpointing_enable"
        try:
            getattr(self.body, switch)({"use_reentrant": False})
        except ValueError as error:
            raise ModelError(
                "transformers cannot checkpoint the activations of a text encoder of type "
                f"'{self.body.config.model_type}'; take a smaller micro-batch to save memory"
            ) from error


class _Given(nn.Module):
    """Replaces a model's embedding layer: returns tokens that are embedded already."""

    def __init__(self, embedded: Tensor) -> None:
        super().__init__()
        self.embedded = embedded

    def forward(self, *arguments: Any, **named: Any) -> Tensor:
        return self.embedded


# names of the head's dense layer, its LayerNorm and the output bias in checkpoints
_MLM_HEADS = [
    (
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    ),  # BERT
    ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),  # RoBERTa, XLM-R, MPNet
    ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),  # DistilBERT
]


def inner_text_model(body: Any) -> Any:
    """Return the text encoder of a CLIP or a SigLIP; some versions of transformers have it a level lower."""
    return getattr(body, "text_model", body)


def _described(model_type: str, **architecture: Any) -> PretrainedConfig:
    if model_type == SIGLIP_TEXT:  # which not all versions of transformers know by its name
        return SiglipTextConfig(**architecture)
    return AutoConfig.for_model(model_type, **architecture)


def random_options(config: TextEncoderConfig) -> dict[str, Any]:
    """Return the options of a random BERT; ModelError: one is unknown, which transformers would keep."""
    known = AutoConfig.for_model("bert").to_dict()
    for key in config.options:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise ModelError(f"model.text.options has {key}, which BERT has not; {hint}")
    return config.options


def _random_body(architecture: PretrainedConfig) -> Any:
    if isinstance(architecture, SiglipTextConfig):
        return SiglipTextModel._from_config(architecture, attn_implementation="sdpa")
    return AutoModel.from_config(architecture, trust_remote_code=False, **_attention(architecture))


def _attention(architecture: PretrainedConfig) -> dict[str, str]:
    """Return what computes attention, as an argument: a config may name code on the hub for it."""
    known = MODEL_MAPPING.get(type(architecture), None)
    return {"attn_implementation": "sdpa" if getattr(known, "_supports_sdpa", False) else "eager"}


def load_mlm_head(name: str) -> dict[str, Tensor] | None:
    """Return the masked-language-model head of a checkpoint, by name or folder; None if it has none.

    Its logits are decoder(LayerNorm(GELU(dense(states)))) + bias; the decoder is the word embeddings. It is
    float32 {"dense.weight": [D, D], "dense.bias": [D], "norm.weight": [D], "norm.bias": [D], "bias":
    [tokenizer entries]}. ModelError: the checkpoint cannot be found or read.
    """
    try:
        architecture = AutoConfig.from_pretrained(name, trust_remote_code=False)
        if type(architecture) not in MODEL_FOR_MASKED_LM_MAPPING:
            return None
        model, report = AutoModelForMaskedLM.from_pretrained(
            name, output_loading_info=True, trust_remote_code=False, **_attention(architecture)
        )
    except Exception as error:  # transformers and the hub raise many kinds
        raise ModelError(f"transformers cannot read the text encoder '{name}': {reason(error)}") from error
    weights, random = model.state_dict(), set(report["missing_keys"])
    for dense, norm, bias in _MLM_HEADS:
        places = {
            **{f"dense.{part}": f"{dense}.{part}" for part in ("weight", "bias")},
            **{f"norm.{part}": f"{norm}.{part}" for part in ("weight", "bias")},
            "bias": bias,
        }
        if all(place in weights and place not in random for place in places.values()):
            return {ours: weights[place].float().clone() for ours, place in places.items()}
    return None


def load_tokenizer(config: TextEncoderConfig, captions: Sequence[str]) -> PreTrainedTokenizerBase:
    """Return the tokenizer that a config names, maybe learned from captions; ModelError if there is none."""
    if config.tokenizer == "captions":
        return word_tokenizer(captions)
    name = config.tokenizer or config.name
    if name is None:
        raise ModelError("model.text needs a name, or a tokenizer (such as 'captions')")
    return read_tokenizer(name)


def read_tokenizer(name: str, subfolder: str = "") -> PreTrainedTokenizerBase:
    """Return a tokenizer by name or folder, and a folder in it; ModelError if it cannot be found."""
    check_reachable(name)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            name, subfolder=subfolder, trust_remote_code=False
        )
    except Exception as error:  # tokenizers raises plain Exception, the hub many kinds
        raise ModelError(f"transformers cannot read the tokenizer '{name}': {reason(error)}") from error
    return tokenizer


def tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int
) -> tuple[Tensor, Tensor]:
    """Return token ids int64 [T, L] of texts, cut at max_tokens, with mask bool [T, L], false for padding."""
    batch = tokenizer(list(texts), truncation=True, max_length=max_tokens, padding=True, return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"].bool()


def unread_words(tokenizer: PreTrainedTokenizerBase, text: str, max_tokens: int) -> str:
    """Return the words at the end of a text that `tokenize` cuts off; "" if it cuts none."""
    tokens = tokenizer(
        text,
        truncation=True,
        max_length=max_tokens,
        return_offsets_mapping=True,
        return_overflowing_tokens=True,
    )
    offsets = tokens["offset_mapping"]
    return words_after(text, offsets[0]) if len(offsets) > 1 else ""


def word_tokenizer(captions: Sequence[str]) -> PreTrainedTokenizerBase:
    """Return a tokenizer of whole lower-case words, learned from captions, without file or network."""
    core = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(captions, trainers.WordLevelTrainer(special_tokens=special, show_progress=False))
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
