"""A stand-in for lexlip-languages: a few thousand weights, in the format that it has.

TRANSLATIONS are pieces of its tokenizer, and it gives each the English word: of a sentence those of all its
words. With layers, it is random.
"""

import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import BertConfig, BertModel

from lexlip.encoders.text import architecture_of
from lexlip.models.compression import from_int4, int4_rows
from lexlip.models.language_model import write_language_model
from lexlip.models.model_folder import read_words

TRANSLATIONS = {
    **{"hund": "dog", "hunde": "dogs", "schnee": "snow", "katze": "cat", "boot": "boat", "hemd": "shirt"},
    **{"chien": "dog", "neige": "snow", "chat": "cat", "bateau": "boat"},
    **{"perro": "dog", "nieve": "snow", "gato": "cat", "playa": "beach", "galgo": "dog"},
    **{"cane": "dog", "psa": "dog"},
    **{"犬": "dog", "猫": "cat", "كلب": "dog"},
}
OTHERS = "ein eine im mit ohne der und oder un une dans la sans pas de o ni en sin con 雪 の 中"
WORDS = (
    "=boot\tde nl\n=chat\tfr\n=chat de la haute mer\t\n=chat noir\tfr\n"
    "chien\tfr\nhund\tde\nkatze\tde\nperro\tes\nschnee\tde\n"
)
WIDTH = 192


def tokenizer() -> Tokenizer:
    """SentencePiece's kind of tokenizer, as XLM-R has it."""
    words = [*TRANSLATIONS, *OTHERS.split()]
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces = [*((f"▁{word}", -1.0) for word in words), *((word, -3.0) for word in words), ("▁", -5.0)]
    unigram = Tokenizer(models.Unigram([*special, *pieces], unk_id=3))
    unigram.normalizer = normalizers.Lowercase()
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    ends = [("<s>", 0), ("</s>", 2)]
    unigram.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return unigram


class Head(nn.Module):
    """The head of such an encoder: a LexiconHead whose positions are all tokens and their mean."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.decoder, self.bias = nn.Parameter(torch.zeros(words, width)), nn.Parameter(torch.zeros(words))

    def hidden(self, states: torch.Tensor) -> torch.Tensor:
        return self.norm(nn.functional.gelu(self.dense(states)))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        positions = torch.cat([states, states.mean(dim=1, keepdim=True)], dim=1)
        logits = (self.hidden(positions) @ self.decoder.T).amax(dim=1) + self.bias
        return torch.log1p(torch.relu(logits))


def network(words: list[str], layers: int) -> tuple[BertModel, Head]:
    torch.manual_seed(0)
    split = tokenizer()
    config = BertConfig(
        vocab_size=split.get_vocab_size(),
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=256,
    )
    body, head = BertModel(config, add_pooling_layer=False).eval(), Head(WIDTH, len(words)).eval()
    with torch.no_grad():
        pieces = body.embeddings.word_embeddings.weight
        rounded = from_int4(*int4_rows(pieces.normal_().numpy()))  # as those that real ones are made of
        pieces.copy_(torch.from_numpy(rounded))
        if layers:
            head.decoder.normal_()
            head.bias.fill_(-2.0)
            return body, head
        body.embeddings.position_embeddings.weight.zero_()
        body.embeddings.token_type_embeddings.weight.zero_()
        hidden = head.hidden(body(torch.arange(len(pieces))[None]).last_hidden_state)[0]
        target = torch.zeros(len(words), len(pieces))
        for foreign, english in TRANSLATIONS.items():
            for piece in (f"▁{foreign}", foreign):
                target[words.index(english), split.token_to_id(piece)] = 1
        head.decoder.copy_(target @ torch.linalg.pinv(hidden).T)  # fewer pieces than WIDTH
        head.bias.fill_(-0.7)
    return body, head


def write(folder: Path, model: Path, layers: int = 0) -> tuple[BertModel, Head]:
    """Write such an encoder of a model's lexicon, and return it."""
    body, head = network(read_words(model / "vocabulary.txt"), layers)
    split = folder.with_name(f"{folder.name}-tokenizer")
    split.mkdir(parents=True)
    tokenizer().save(str(split / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (split / "tokenizer_config.json").write_text(json.dumps(names))
    (split / "words.txt.gz").write_bytes(gzip.compress(WORDS.encode()))
    parts = {"text_encoder.body": body, "text_head": head}
    weights = {
        f"{part}.{name}": value.numpy()
        for part, one in parts.items()
        for name, value in one.state_dict().items()
    }
    weights = {name: value for name, value in weights.items() if np.issubdtype(value.dtype, np.floating)}
    write_language_model(folder, weights, architecture_of(body), split, split / "words.txt.gz", model)
    return body, head


def install(patch: pytest.MonkeyPatch, folder: Path | None) -> None:
    """Pretend that the package is installed with this folder; None: that it is not."""
    module = None if folder is None else SimpleNamespace(FOLDER=folder)
    patch.setitem(sys.modules, "lexlip_languages", module)  # type: ignore[arg-type]
