"""Every kind of model with a multilingual text encoder by name, from training to an answer."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lexlip.data import Scenes
from lexlip.models.contract import QueryEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.queries.text_queries import TextQueries
from lexlip.registry import MODELS
from lexlip.words.function_words import FUNCTION_WORDS
from tests.cli.conftest import Run, as_json
from tests.multilingual import ALL, CAPTIONS, write_encoder
from tests.tiny import TINY

QUERY = "Hunde spielen im Schnee"
LANGUAGES = ("de", "fr", "cs")
OBJECTIVES: dict[str, dict[str, Any]] = {
    "lexlip": {"anchor_contrastive": 0.5, "anchor_words": 0.5, "mlm": 0.5, "image_to_text": 0.5},
    "dense": {"mlm": 0.5},
    "lightningdot": {"vmlm": 1, "smrm": 1},
    "vldeformer": {"composed_negatives": True},
    "be": {"triplet": 1},
    "ce": {"contrastive": 0, "matching": 1, "hard_negatives": 0.5},
    "joint": {"contrastive": 0, "triplet": 1, "matching": 1},
}
NO_WORDS = {"flops_image": 0, "flops_text": 0}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text encoders in folders of these names."""
    folder = tmp_path_factory.mktemp("encoders")
    for kind in ("xlm-roberta", "bert"):
        write_encoder(kind, folder / kind)
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six photos with an English caption each, and tables of the others' beside their folder."""
    folder = tmp_path / "photos"
    folder.mkdir()
    scenes = Scenes(6, seed=0)
    for number in range(6):
        scenes.image(number).save(folder / f"{number}.jpg")
        (folder / f"{number}.txt").write_text(CAPTIONS["en"][number])
    for language in LANGUAGES:
        rows = [f"{number}.jpg\t0\t{caption}\n" for number, caption in enumerate(CAPTIONS[language])]
        (tmp_path / f"{language}.tsv").write_text("".join(rows), encoding="utf-8")
    return folder


def train(lexlip: Run, kind: str, encoder: Path) -> str:
    """Trains for two steps; the folder of the model."""
    source = {"path": "photos", "captions": [f"{language}.tsv" for language in LANGUAGES]}
    image = {"name": TINY.image.name, "options": dict(TINY.image.options), "size": 32}
    config = {
        "name": kind,
        "log_every": 1,
        "data": {"train": [source], "val": [source], "captions_per_image": 2, "workers": 0},
        "model": {
            "kind": kind,
            "image": image,
            "text": {"name": str(encoder), "max_tokens": 24},
            "vocabulary": {"kind": "words"},
            "companions": 4 if kind == "lexlip" else 0,
        },
        "objective": {**({} if kind == "lexlip" else NO_WORDS), **OBJECTIVES[kind]},
        "optim": {"steps": 2, "batch": 4, "lr": 1e-3, "precision": "fp32"},
    }
    Path(f"{kind}.yaml").write_text(yaml.safe_dump(config))
    lexlip("pretrain", f"{kind}.yaml")
    return f"runs/{kind}/best"


def search(lexlip: Run, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = as_json(lexlip, "search", QUERY, *arguments)
    return answer


def measure(lexlip: Run, table: str, model: str) -> dict[str, Any]:
    arguments = ("evaluate", table, "--images", "photos", "--model", model, "--json")
    report: dict[str, Any] = json.loads(lexlip(*arguments).stdout)
    return report


@pytest.mark.parametrize("encoder", ["xlm-roberta", "bert"])
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_kind_trains_and_answers(
    lexlip: Run, photos: Path, encoders: Path, kind: str, encoder: str
) -> None:
    assert OBJECTIVES.keys() == {name for name, known in MODELS.items() if known.trained_here}
    model = train(lexlip, kind, encoders / encoder)
    if MODELS[kind].vectors:
        lexlip("index", "photos", "--model", model)
        hits = search(lexlip)["hits"]
        assert hits
        if kind != "lexlip":
            assert len(hits) == 6
        report = measure(lexlip, "cs.tsv", model)
        assert (report["images"], report["captions"]) == (6, 6)
    if MODELS[kind].pairs:
        lexlip("index", "de.tsv", "--images", "photos", "--model", "bm25", "--language", "de")
        [probability, *_] = [hit["probability"] for hit in search(lexlip, "--rerank", model)["hits"]]
        assert 0 < probability < 1


@pytest.mark.parametrize("encoder", ["xlm-roberta", "bert"])
def test_the_lexicon_has_words_of_all_languages_as_people_read_them(
    lexlip: Run, photos: Path, encoders: Path, encoder: str
) -> None:
    model = train(lexlip, "lexlip", encoders / encoder)
    words = LexLIP.from_pretrained(model).vocabulary.words
    spoken = {word for caption in ALL for word in re.findall(r"[^\W_]+", caption)}
    assert set(words) <= spoken
    assert {"Mädchen", "Hund", "chien", "neige", "pes", "Dívka", "dogs", "snow"} <= set(words)
    assert not {word.lower() for word in words} & FUNCTION_WORDS
    assert Path(model, "vocabulary.txt").read_text(encoding="utf-8").split() == list(words)

    lexlip("index", "photos", "--model", model, "--pseudo-documents", "documents.jsonl")
    documents = [json.loads(line) for line in Path("documents.jsonl").read_text().splitlines()]
    terms = {word for document in documents for word in document["vector"]}
    answer = search(lexlip, "--query-encoder", "words")
    shown = as_json(lexlip, "words", "de.tsv", "--images", "photos", "--model", model)
    for some in (terms, answer["terms"], *(photo["words"] for photo in shown["photos"])):
        assert set(some) <= set(words)
    assert {"spielen", "Schnee"} & set(words) <= set(answer["terms"])
    for photo in shown["photos"]:
        held = set(re.findall(r"[^\W_]+", " ".join(photo["captions"])))
        assert set(photo["held"]) == held & set(photo["words"])
    report = measure(lexlip, "de.tsv", model)
    assert report["words@10"] == pytest.approx(sum(len(photo["held"]) for photo in shown["photos"]) / 60)


@pytest.mark.parametrize("encoder", ["xlm-roberta", "bert"])
def test_queries_have_the_vectors_of_the_model(
    lexlip: Run, photos: Path, encoders: Path, encoder: str
) -> None:
    folder = train(lexlip, "lexlip", encoders / encoder)
    model = LexLIP.from_pretrained(folder)
    texts = [*ALL, "Ein Zebra", "", "l'eau, l’eau", "MÄDCHEN", "Žluťoučký kůň", "Hund" * 30, "pes " * 99]
    how: QueryEncoder
    for how in ("network", "words"):
        queries = TextQueries(folder, how)
        found = np.concatenate([queries.encode(text).toarray() for text in texts])
        expected = model.encode_text(texts, how).toarray()
        exact = how == "words" or encoder == "xlm-roberta"  # a BERT's products are of whole numbers
        np.testing.assert_allclose(found, expected, rtol=1e-4 if exact else 0.1, atol=1e-5 if exact else 0.05)
        assert queries.unknown("ein Zebra und Mädchen, Hund im Fußball") == ["Zebra"]


def test_a_table_of_other_photos_too_is_measured_with_one_line_about_them(lexlip: Run, photos: Path) -> None:
    rows = [f"elsewhere{number}.jpg\t0\tein Hund\n" for number in range(1000)]
    with Path("de.tsv").open("a") as table:
        table.writelines(rows)
    result = lexlip("evaluate", "de.tsv", "--images", "photos")
    assert result.stdout.startswith("6 images, 6 captions")
    why = "1000 of its 1006 photos are not in photos, such as elsewhere0.jpg"
    assert result.stderr.splitlines()[-2:] == ["1 skipped:", f"  de.tsv: {why}"]
