"""The encoder of many languages, taught with a tiny one."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel

from lexlip.queries.query_language import Query
from lexlip.queries.text_queries import TextQueries
from tests.data.pictures import jpeg, write_tar
from tools import train_languages as tool

CAPTIONS = {"0": "a dog runs", "1": "a cat sleeps", "2": "A Dog runs", "3": "a horse"}
GERMAN = {"0": "ein Hund rennt", "1": "eine Katze", "3": "ein Pferd"}
NAMES = {
    "en": {"🐶": "dog face", "🐱": "cat", "→": "right arrow"},
    "de": {"🐶": "Hundegesicht", "🐱": "Katze", "→": "Pfeil nach rechts"},
    "fr": {"🐶": "tête de chien", "🐱": "cat", "→": "flèche"},
}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos with captions, a table in German, names, and an encoder as wide as the teacher's."""
    monkeypatch.chdir(tmp_path)
    files = {f"{key}.jpg": jpeg() for key in CAPTIONS} | {f"{k}.txt": v.encode() for k, v in CAPTIONS.items()}
    write_tar(tmp_path / "photos.tar", dict(sorted(files.items())))
    write_tar(tmp_path / "held.tar", {"0.jpg": jpeg(), "0.txt": b"A horse"})
    (tmp_path / "de.tsv").write_text("".join(f"{key}.jpg\t0\t{text}\n" for key, text in GERMAN.items()))
    for language, names in NAMES.items():
        folder = tmp_path / "cldr" / language
        folder.mkdir(parents=True)
        signs = {sign: {"default": [], "tts": [name]} for sign, name in names.items()}
        told = {"annotations": {"identity": {}, "annotations": signs}}
        (folder / "annotations.json").write_text(json.dumps(told))
    pieces = sorted({letter for names in NAMES.values() for name in names.values() for letter in name})
    core = Tokenizer(models.Unigram([("<s>", 0.0), ("?", -9.0), *((one, -3.0) for one in pieces)], unk_id=1))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.save(str(tmp_path / "tokenizer.json"))
    config = BertConfig(
        vocab_size=core.get_vocab_size(),
        hidden_size=384,
        num_hidden_layers=tool.FROZEN + 1,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "e5")
    (tmp_path / "tokenizer.json").rename(tmp_path / "e5/tokenizer.json")
    return tmp_path


def lessons() -> tool.Lessons:
    lines = [
        "es\tUn gato duerme.\tA cat sleeps",
        "es\tun perro\ta puppy\ta dog runs",
        "ko\t말\ta pony\ta horse",
    ]
    Path("sentences.tsv").write_text("\n".join(lines))
    Path("pairs.tsv").write_text("es\tperro\tdog\nru\tкот\tcat\n")
    return tool.read_lessons(
        ["photos.tar"],
        "photos.tar",
        {"de": "de.tsv"},
        Path("cldr"),
        Path("sentences.tsv"),
        Path("pairs.tsv"),
        ["held.tar"],
    )


def test_what_is_learned(sources: Path) -> None:
    found = lessons()
    assert found.english == [
        "a dog runs",
        "a cat sleeps",
        "dog face",
        "cat",
        "a puppy",
        "a pony",
        "dog",
        "cat",
    ]
    assert found.captions == 2
    assert found.translated == {"de": tool.Texts(["ein Hund rennt", "eine Katze"], [[0], [1]])}
    assert found.names == {"de": tool.Texts(["Hundegesicht", "Katze"], [[2], [3]])}
    assert found.sentences == {"es": tool.Texts(["Un gato duerme.", "un perro"], [[1], [4, 0]])}
    assert found.words == {"es": tool.Texts(["perro"], [[6]]), "ru": tool.Texts(["кот"], [[7]])}


def test_the_teacher_is_what_a_search_asks(sources: Path) -> None:
    texts, queries = ["two dogs in the snow", "cat"], TextQueries("mini")
    taught = tool.teach(texts, Path("teacher.npz"))
    for row, text in zip(taught.toarray(), texts, strict=True):
        whole = queries.vector(Query(text, text))
        kept = np.sort(whole)[-tool.WORDS]
        np.testing.assert_array_equal(row, np.where(whole >= kept, whole, 0))
    with pytest.raises(SystemExit, match="is of 2 texts, not of these 1: remove it"):
        tool.teach(["cat"], Path("teacher.npz"))


def test_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    taught = csr_matrix(np.array([[3, 4, 0], [0, 0, 2], [5, 0, 0]], np.float32))
    spanish = tool.Texts(["perro"], [[2]])
    found = tool.Lessons(
        ["A dog", "dogs.", "dog"],
        captions=2,
        translated={"de": tool.Texts(["ein Hund"], [[0, 1]])},
        names={"de": tool.Texts(["Hund"], [[2]])},
        sentences={"es": tool.Texts(["un perro"], [[0]])},
        words={"es": spanish},
    )
    batches = tool.Batches(found, taught)
    first, second = {"english": 2, "translated": 1, "names": 1}, {"sentences": 1, "words": 1, "switched": 20}
    monkeypatch.setattr(tool, "ROUNDS", ((1, first), (1, second)))
    texts, teachers, lengths = batches.draw(0)
    assert sorted(texts[:2]) == ["A dog", "dogs."]
    assert texts[2:] == ["ein Hund", "Hund"]
    np.testing.assert_allclose(teachers[2:], [[[0.6, 0.8, 0], [0, 0, 1]], [[1, 0, 0], [0, 0, 0]]], rtol=1e-6)
    assert lengths[2:].tolist() == [3.5, 5]
    texts, teachers, lengths = batches.draw(1)
    assert texts[:2] == ["un perro", "perro"]
    switched = {"a Hund", "Hund", "a perro", "perro"}
    assert switched <= set(texts[2:]) <= switched | {"a dog", "dogs."}


def test_sentences_of_languages_that_are_behind_are_drawn_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = {name: tool.Texts([name], [[0]]) for name in ("es", "ko")}
    found = tool.Lessons(["A dog"], 1, {}, {}, sentences, {})
    batches = tool.Batches(found, csr_matrix(np.ones((1, 3), np.float32)))
    monkeypatch.setattr(tool, "ROUNDS", ((1, {"sentences": 5000}),))
    texts, *_ = batches.draw(0)
    assert texts.count("ko") / texts.count("es") == pytest.approx(tool.BEHIND["ko"], rel=0.1)


def test_words_are_found_in_their_inflected_forms() -> None:
    for word, plain in {
        "dogs": "dog", "boxes": "box", "babies": "baby", "riding": "ride", "jumping": "jump",
        "sitting": "sit", "jumped": "jump", "baked": "bake", "dress": "dress",
    }.items():  # fmt: skip
        assert plain in tool._forms(word)


def test_the_nearest_captions_count_most() -> None:
    teachers = torch.tensor([[[1.0, 0, 0], [0, 1.0, 0], [0, 0, 0]]])
    even = tool.nearest(torch.tensor([[3.0, 1.0, 0]]), teachers, torch.inf)
    np.testing.assert_allclose(even, [[0.5**0.5, 0.5**0.5, 0]], rtol=1e-6)
    found = tool.nearest(torch.tensor([[3.0, 1.0, 0]]), teachers, 0.5)
    weights = np.exp(np.array([3.0, 1.0]) / 10**0.5 / 0.5)
    np.testing.assert_allclose(found[0, :2], weights / np.linalg.norm(weights), rtol=1e-6)


def test_the_losses() -> None:
    rng = np.random.default_rng(0)
    own, wanted = rng.random((3, 5)), rng.random((3, 5))
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    lengths = rng.random(3) + 1
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)

    def softmax(scores: np.ndarray) -> np.ndarray:
        exp = np.exp(scores / tool.TEMPERATURE)
        return np.asarray(exp / exp.sum(axis=1, keepdims=True))

    p, q = softmax(wanted @ wanted.T), softmax(unit @ wanted.T)
    cosines = (unit * wanted).sum(axis=1)
    error = np.log(np.linalg.norm(own, axis=1) / lengths)
    expected = 2 * (1 - cosines).mean() + (p * np.log(p / q)).sum() / 3 + 0.05 * (error**2).mean()
    loss, found = tool.losses(*(torch.from_numpy(one) for one in (own, wanted, lengths)))
    assert loss.item() == pytest.approx(expected)
    np.testing.assert_allclose(found, cosines)


def test_it_learns_goes_on_and_writes_a_model(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lessons()
    kinds = ("english", "translated", "names", "sentences", "switched", "words")
    sizes = {
        "EVERY": 2, "WARMUP": 1, "LATER": 3,
        "ROUNDS": ((3, dict.fromkeys(kinds[:3], 2)), (1, dict.fromkeys(kinds, 2))),
    }  # fmt: skip
    for name, value in sizes.items():
        monkeypatch.setattr(tool, name, value)
    (sources / "words.txt.gz").write_bytes(b"")
    (sources / "e5/tokenizer_config.json").write_text("{}")
    arguments = "e5 cldr words.txt.gz work --captions photos.tar --photos photos.tar --translated de=de.tsv"
    arguments += " --sentences sentences.tsv --pairs pairs.tsv"
    monkeypatch.setattr(sys, "argv", ["", *arguments.split(), "--unlike", "held.tar"])
    tool.main()
    at_once = torch.load("work/last.pt", weights_only=True)["student"]
    before = tool.Student(Path("e5")).state_dict()
    frozen = f"body.encoder.layer.{tool.FROZEN - 1}.output.dense.weight"
    trained = f"body.encoder.layer.{tool.FROZEN}.output.dense.weight"
    assert torch.equal(at_once[frozen], before[frozen])
    assert not torch.equal(at_once[trained], before[trained])
    (sources / "work/last.pt").unlink()
    draw = tool.Batches.draw

    def stopped(self: tool.Batches, step: int) -> Any:
        if step == 2:
            raise KeyboardInterrupt
        return draw(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(tool.Batches, "draw", stopped)
        with pytest.raises(KeyboardInterrupt):
            tool.main()
    assert torch.load("work/last.pt", weights_only=True)["step"] == 2
    tool.main()
    gone_on = torch.load("work/last.pt", weights_only=True)["student"]
    assert gone_on.keys() == at_once.keys()
    assert all(torch.equal(gone_on[name], at_once[name]) for name in at_once)
    assert json.loads((sources / "work/model/config.json").read_text())["kind"] == "languages"
    assert "_name_or_path" not in (sources / "work/model/config.json").read_text()
    bias = load_file("work/model/model.safetensors")["text_head.bias"]
    ends = [torch.load(f"work/end-{step}.pt", weights_only=True)["head.bias"] for step in (3, 4)]
    assert torch.equal(ends[1], at_once["head.bias"])
    np.testing.assert_allclose(bias, (ends[0] + ends[1]) / 2, atol=2.5e-4)  # float16
    assert capsys.readouterr().out == "work/model\n" * 2


def test_the_rate_rises_and_falls_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "ROUNDS", ((100, {}), (50, {})))
    monkeypatch.setattr(tool, "WARMUP", 10)
    assert tool.rate(0) == tool.rate(100) == pytest.approx(0.1)
    assert tool.rate(50) == tool.rate(125) == pytest.approx(0.51)
    assert tool.rate(99) == pytest.approx(0.02, abs=1e-3)
    assert tool.rate(149) == pytest.approx(0.02, abs=1e-3)
