import json
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.queries.text_queries import TextQueries
from tests.queries.saved_models import saved
from tests.tiny import tiny_dense


def test_unknown_words(tmp_path: Path) -> None:
    saved(tmp_path)
    assert TextQueries(tmp_path).unknown("the Quokka and a dog of Zürich") == ["Quokka", "Zürich"]


def test_known_words(tmp_path: Path) -> None:
    saved(tmp_path)
    assert TextQueries(tmp_path).known("the Quokka and a Dog, a dog of Zürich, a cat") == ["dog", "cat"]
    assert TextQueries(tmp_path).known("the of") == []


def test_a_word_of_several_pieces_is_known() -> None:
    queries = TextQueries("mini")
    assert queries.known("a giraffe eats") == ["giraffe", "eats"]
    assert queries.unknown("a giraffe eats an okapi") == ["okapi"]


def test_only_a_word_of_the_vocabulary_has_a_column() -> None:
    queries = TextQueries("mini")
    assert queries.vocabulary.words[queries.column("dog")] == "dog"
    assert queries.column("treaty") is None  # one token, which is not in the vocabulary
    assert queries.vocabulary.words[queries.column("giraffe")] == "giraffe"  # several
    assert queries.column("okapi") is None
    assert queries.column("") is None


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
        (lambda f: (f / "vocabulary.txt").write_text("zebra\n"), "'zebra' of the vocabulary cannot be made"),
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
