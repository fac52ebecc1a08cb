import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.errors import ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.queries.text_queries import TextQueries
from tests.tiny import CAPTIONS, TINY, tiny_dense, tiny_model

SENTENCES = [
    *CAPTIONS,
    "",
    "?!",
    "zebra",
    "the of and",
    "dog " * 500,
    "[MASK] dog [SEP] cat [UNK]",
    "Two DOGS, two zébras in the snow",
    "犬 🐕 dog",
]
SIZES = {
    "wide": {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96},
    "odd": {"hidden_size": 18, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 37},
}


def saved(folder: Path, **changes: object) -> LexLIP:
    model = tiny_model(**changes)
    model.bag_of_words.start_from(torch.linspace(0.1, 3, len(model.vocabulary)))
    model.save(folder)
    return model


def cosines(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of rows; 1 where both are empty."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    empty = ~(found.any(axis=1) | expected.any(axis=1))
    return np.where(empty, 1, (found * expected).sum(axis=1) / np.maximum(lengths, 1e-12))


@pytest.mark.parametrize("special_positions", [False, True])
@pytest.mark.parametrize("size", [{}, *SIZES.values()], ids=["tiny", *SIZES])
@pytest.mark.parametrize("small", [False, True])
def test_network_vectors_are_those_of_the_model(
    tmp_path: Path, small: bool, size: dict[str, int], special_positions: bool
) -> None:
    text = replace(TINY.text, options={**TINY.text.options, **size})
    model = tiny_model(text=text, special_positions=special_positions)
    model.save(tmp_path, small=small)
    model = LexLIP.from_pretrained(tmp_path)
    queries = TextQueries(tmp_path)
    found = [queries.encode(sentence) for sentence in SENTENCES]
    expected = model.encode_text(SENTENCES).toarray()
    assert {(row.shape, row.dtype) for row in found} == {((1, len(model.vocabulary)), np.dtype(np.float32))}
    assert cosines(np.concatenate([row.toarray() for row in found]), expected).min() > 0.99


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("companions", [0, 3])
def test_words_vectors_are_those_of_the_model(tmp_path: Path, companions: int, small: bool) -> None:
    model = tiny_model(companions=companions)
    size = len(model.vocabulary)
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(size, (size, 3), generator=generator) if companions else None
    model.bag_of_words.start_from(torch.linspace(0.1, 3, size), columns)
    if companions:
        model.bag_of_words.values.data = torch.randn(size, 3, generator=generator)
    model.save(tmp_path, small)
    model = LexLIP.from_pretrained(tmp_path)
    queries = TextQueries(tmp_path, "words")
    found = np.concatenate([queries.encode(sentence).toarray() for sentence in SENTENCES])
    np.testing.assert_allclose(found, model.encode_text(SENTENCES, "words").toarray(), rtol=1e-5)


def test_the_tokens_are_those_of_transformers(tmp_path: Path) -> None:
    model = saved(tmp_path)
    model.text_encoder.tokenize(SENTENCES)  # leaves padding and truncation in the tokenizer
    model.save(tmp_path)
    tokenizer = TextQueries(tmp_path).tokenizer
    for sentence in SENTENCES:
        ids, _ = model.text_encoder.tokenize([sentence])
        assert tokenizer.sentence(sentence).tolist() == ids[0].tolist()
    special = set(model.text_encoder.tokenizer.all_special_ids) - {model.text_encoder.tokenizer.mask_token_id}
    assert set(tokenizer.special.tolist()) == special


def test_unknown_words(tmp_path: Path) -> None:
    saved(tmp_path)
    assert TextQueries(tmp_path).unknown("the Quokka and a dog of Zürich") == ["Quokka", "Zürich"]


def test_another_type_of_text_encoder_runs_in_torch(tmp_path: Path) -> None:
    text = replace(TINY.text, options={**TINY.text.options, "hidden_act": "relu"})
    model = saved(tmp_path, text=text)
    queries = TextQueries(tmp_path)
    for sentence in SENTENCES:
        found, expected = queries.encode(sentence), model.encode_text([sentence])
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ["network", "words"])
def test_neither_torch_nor_transformers_is_loaded(run_python, tmp_path: Path, encoder: str) -> None:
    saved(tmp_path / "model")
    code = (
        "import sys; from lexlip.queries.text_queries import TextQueries;"
        f"TextQueries('model', '{encoder}').encode('a dog');"
        "print([name for name in ('torch', 'torchvision', 'transformers', 'timm') if name in sys.modules])"
    )
    result = run_python("-c", code)
    assert (result.stdout, result.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), r"is damaged: .*No such file"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\0" * 100), "is damaged"),
        (lambda f: (f / "vocabulary.txt").unlink(), r"is damaged: .*vocabulary\.txt"),
        (lambda f: (f / "vocabulary.txt").write_text("zebra\n"), "'zebra' of the vocabulary is no entry"),
        (lambda f: (f / "vocabulary.txt").write_text("dog\n"), "is damaged: .*1 words"),
        (lambda f: (f / "config.json").write_text("{}"), "is damaged: .*format"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), r"cannot read .*tokenizer\.json"),
        (lambda f: (f / "tokenizer.json").unlink(), r"cannot read .*tokenizer\.json"),
        (lambda f: (f / "tokenizer_config.json").unlink(), "is damaged: .*No such file"),
    ],
)
@pytest.mark.parametrize("encoder", ["network", "words"])
def test_damaged_folders(tmp_path: Path, damage, message: str, encoder) -> None:
    saved(tmp_path)
    damage(tmp_path)
    with pytest.raises(ModelError, match=message) as caught:
        TextQueries(tmp_path, encoder)
    assert "\n" not in str(caught.value)


def test_weights_that_are_missing(tmp_path: Path) -> None:
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_architecture"]["num_hidden_layers"] = 2
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"is damaged: .*layer\.1"):
        TextQueries(tmp_path)


def test_models_without_words(tmp_path: Path) -> None:
    tiny_dense().save(tmp_path)
    with pytest.raises(ModelError, match="holds a dense model, not a lexlip one"):
        TextQueries(tmp_path)
