import gzip
import hashlib
import json
from pathlib import Path

import pytest

from lexlip.errors import ModelError
from lexlip.models.language_model import (
    Elsewhere,
    elsewhere,
    english_phrase,
    fits,
    how_to_install,
    installed,
    plural_of,
    read_lines,
    without_english_phrases,
)
from lexlip.models.model_folder import check_model, read_description
from tests.queries.saved_models import saved
from tests.queries.tiny_languages import install, write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    saved(tmp_path / "model")
    write(tmp_path / "languages", tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_names_its_model_and_lexicon(model: Path, tmp_path: Path) -> None:
    folder, identity = tmp_path / "languages", read_description(model)["identity"]
    description = json.loads((folder / "config.json").read_text())
    assert (description["kind"], description["models"]) == ("languages", [identity])
    assert description["lexicon"] == hashlib.sha256((model / "vocabulary.txt").read_bytes()).hexdigest()
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert description["identity"] == f"languages@{weights[:12]}"
    assert check_model(folder) == []  # every file has a checksum
    assert fits(folder, model, identity)
    assert not fits(folder, model, "model@0")
    (model / "vocabulary.txt").write_text("dog\n")
    assert not fits(folder, model, identity)


def test_a_changed_file_is_found(model: Path, tmp_path: Path) -> None:
    with (tmp_path / "languages" / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(ModelError, match=r"tokenizer\.json is not as it was"):
        check_model(tmp_path / "languages")


def test_a_model_of_another_kind_does_not_fit(model: Path) -> None:
    with pytest.raises(ModelError, match="holds a lexlip model, not a languages one"):
        fits(model, model, "model@0")


def test_words_of_other_languages(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "languages"
    assert elsewhere(folder, "Hund") == Elsewhere(("de",), english=False)
    assert elsewhere(folder, "boot") == Elsewhere(("de", "nl"), english=True)
    assert elsewhere(folder, "chat") == Elsewhere(("fr",), english=True)  # the last line
    (tmp_path / "sharp").mkdir()
    (tmp_path / "sharp" / "words.txt.gz").write_bytes(gzip.compress(b"schloss\tde\n"))
    assert elsewhere(tmp_path / "sharp", "Schlo\u00df") == Elsewhere(("de",), english=False)
    assert plural_of(folder, "hunder") == []  # of no language that has such plurals
    (tmp_path / "sharp" / "words.txt.gz").write_bytes(gzip.compress(b"=cane\tit\ngatto\tit\nkot\tpl\n"))
    read_lines.cache_clear()
    plurals = [plural_of(tmp_path / "sharp", word) for word in ("koty", "gatti", "cani", "kotz")]
    assert plurals == [["pl"], ["it"], [], []]  # "cane" is English, too
    for unknown in ("hun", "und", "dog", ""):
        assert elsewhere(folder, unknown) is None
    broken = tmp_path / "broken"
    broken.mkdir()
    for damage in (b"no words", gzip.compress(b"\xff"), gzip.compress(b"dog")[:-4]):
        (broken / "words.txt.gz").write_bytes(damage)
        with pytest.raises(ModelError, match="is damaged"):
            elsewhere(broken, "dog")


def test_phrases_that_english_uses(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "languages"
    for phrase in ("chat noir", "Chat Noirs", "chat noïr"):
        assert english_phrase(folder, phrase.split()) == Elsewhere(("fr",), english=True)
    for none in (["chat"], ["boots"], ["chat", "noir", "chat"], []):
        assert english_phrase(folder, none) is None
    words = "the Chat Noirs and chat de la haute mer noir chat noir".split()
    assert without_english_phrases(folder, words) == ["the", "and", "noir"]
    assert without_english_phrases(folder, []) == []


def test_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, None)
    assert installed() is None
    install(monkeypatch, tmp_path)
    assert installed() == tmp_path


def test_a_clone_has_the_package_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "languages"
    assert how_to_install(folder) == "pip install 'lexlip[languages]'"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    assert how_to_install(folder) == "pip install ./languages, in the clone of LexLIP"
