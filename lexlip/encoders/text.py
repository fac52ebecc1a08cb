"""Text encoders and tokenizers by transformers name or local folder: a caption in, token states out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging

from lexlip.config import TextEncoderConfig
from lexlip.errors import ModelError

transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


class TextEncoder(nn.Module):
    """A transformers encoder without its pooler.

    Args:
        config: which model and how many tokens a caption may have.
        tokenizer: the tokenizer that goes with it.
        architecture: the transformers config of a saved model, which is then made without weights.

    Raises:
        ModelError: the model cannot be found or made.
    """

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
                self.body = AutoModel.from_config(AutoConfig.for_model(**architecture))
            elif config.name is not None:
                self.body = AutoModel.from_pretrained(config.name, **config.options)
            else:
                options = {"vocab_size": len(tokenizer), **config.options}
                self.body = AutoModel.from_config(AutoConfig.for_model("bert", **options))
        except Exception as error:  # transformers and the hub raise many kinds
            why = " ".join(str(error).split())
            raise ModelError(f"transformers cannot make the text encoder '{config.name}': {why}") from error
        if getattr(self.body, "pooler", None) is not None:
            self.body.pooler = None
        self.width: int = self.body.config.hidden_size

    @property
    def architecture(self) -> dict[str, Any]:
        """The transformers config, enough to make the model again without a network."""
        plain: dict[str, Any] = self.body.config.to_dict()
        for key in ("_name_or_path", "transformers_version", "architectures", "dtype"):
            plain.pop(key, None)
        return plain

    @property
    def word_embeddings(self) -> Tensor:
        """[tokenizer entries, D]."""
        weight: Tensor = self.body.get_input_embeddings().weight
        return weight

    def tokenize(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Token ids int64 [T, L] and mask bool [T, L], cut at max_tokens, padded to the longest."""
        batch = self.tokenizer(
            list(texts), truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        return batch["input_ids"], batch["attention_mask"].bool()

    def special_tokens(self, ids: Tensor) -> Tensor:
        """bool [T, L]: positions of special tokens ([CLS], [SEP], padding)."""
        special = torch.tensor(self.tokenizer.all_special_ids, device=ids.device)
        return torch.isin(ids, special)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token states [T, L, D] of token ids [T, L]."""
        states: Tensor = self.body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return states


def load_tokenizer(config: TextEncoderConfig, captions: Sequence[str]) -> PreTrainedTokenizerBase:
    """The tokenizer that a config asks for; `captions` make the one called "captions".

    Raises:
        ModelError: it cannot be found.
    """
    if config.tokenizer == "captions":
        return word_tokenizer(captions)
    name = config.tokenizer or config.name
    if name is None:
        raise ModelError("model.text needs a name, or a tokenizer (such as 'captions')")
    return read_tokenizer(name)


def read_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """A tokenizer by name or folder.

    Raises:
        ModelError: it cannot be found.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # tokenizers raises plain Exception, the hub many kinds
        why = " ".join(str(error).split())
        raise ModelError(f"transformers cannot read the tokenizer '{name}': {why}") from error
    return tokenizer


def word_tokenizer(captions: Sequence[str]) -> PreTrainedTokenizerBase:
    """A tokenizer of whole lower-case words, learned from captions: needs no file and no network."""
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
