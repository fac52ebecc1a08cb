import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lexlip.data import open_source
from lexlip.explain.word_places import places
from lexlip.models.lexlip import LexLIP
from lexlip.queries.text_queries import TextQueries
from tests.cli.conftest import ALL as SENTENCE
from tests.cli.conftest import Run, as_json, error, printed_without
from tests.tiny import CAPTIONS, tiny_dense


def explain(lexlip: Run, *arguments: object) -> dict[str, Any]:
    return as_json(lexlip, "explain", *arguments)


# ---- a picture ----


def test_a_picture_s_words_and_where_they_are(lexlip: Run, photos: Path, model_folder: Path) -> None:
    answer = explain(lexlip, "photos/1.jpg", "--caption", CAPTIONS[1], "--caption", CAPTIONS[0], "--topk", 5)
    assert list(answer) == [
        *(
            "picture",
            "model",
            "words",
            "held",
            "captions",
            "caption_words",
            "places",
            "translations",
            "files",
        ),
    ]
    photo = as_json(lexlip, "words", "photos", "--topk", 5)["photos"][1]
    assert answer["words"] == pytest.approx(photo["words"], abs=1e-6)
    said = {word for caption in CAPTIONS[:2] for word in caption.split()}
    assert set(answer["held"]) == said & set(answer["words"])
    assert (answer["captions"], answer["files"]) == ([CAPTIONS[1], CAPTIONS[0]], [])
    assert len(answer["caption_words"]) == 5
    model = LexLIP.from_pretrained(model_folder)
    assert answer["model"] == model.identity
    picture = open_source(photos).image(1, model.config.image.size)
    where = places(model, picture, list(answer["words"])).to_dict()
    assert answer["places"]["box"] == where["box"]
    assert answer["places"]["weights"] == pytest.approx(answer["words"], abs=1e-5)
    for word, values in where["words"].items():
        assert answer["places"]["words"][word] == pytest.approx(values, abs=2e-4)


def test_a_picture_as_text(lexlip: Run, photos: Path) -> None:
    answer = explain(lexlip, "photos/1.jpg", "--caption", CAPTIONS[1], "--topk", 3)
    head, *rows = lexlip("explain", "photos/1.jpg", "--caption", CAPTIONS[1], "--topk", 3).stdout.splitlines()
    assert re.fullmatch(r"word +weight +where, of 4 x 4 places", head)
    for row, (word, weight) in zip(rows, answer["words"].items(), strict=True):
        place = int(np.argmax(answer["places"]["words"][word]))
        marked = word + "*" * (word in answer["held"])
        assert row.split() == [
            *(marked, f"{weight:.3f}", "row", f"{place // 4 + 1},", "column", f"{place % 4 + 1}"),
        ]


def test_files(lexlip: Run, photos: Path) -> None:
    answer = explain(
        lexlip, "photos/1.jpg", "--caption", "a dog", "--cloud", "c.svg", "--heat", "heat", "--topk", 3
    )
    assert answer["files"][0] == "c.svg"
    assert [Path(file).parent.name for file in answer["files"][1:]] == ["heat"] * 3
    assert "“a dog”" in Path("c.svg").read_text(encoding="utf-8")
    for file in answer["files"][1:]:
        with Image.open(file) as picture:
            assert picture.format == "PNG"
    result = lexlip("explain", "photos/1.jpg", "--cloud", "c.png", "--heat", "all.png", "--word", "dog")
    assert result.stdout.endswith("\n\nc.png\nall.png\n")
    assert [line.split()[0].rstrip("*") for line in result.stdout.splitlines()[1:2]] == ["dog"]
    before = Path("c.png").read_bytes()
    lexlip("explain", "photos/1.jpg", "--cloud", "c.png")
    assert Path("c.png").read_bytes() == before


def test_the_index_names_the_model(indexed: Run) -> None:
    by_index = explain(indexed, "photos/1.jpg", "--index", ".lexlip")
    assert by_index == explain(indexed, "photos/1.jpg")
    sentence = explain(indexed, "a dog", "--index", ".lexlip")
    assert sentence == explain(indexed, "a dog")


# ---- a sentence ----


def test_a_sentence(lexlip: Run, model_folder: Path) -> None:
    answer = explain(lexlip, "a dog in snow, quokka", "--cloud", "c.svg", "--topk", 4)
    queries = TextQueries(model_folder)
    vector = queries.encode("a dog in snow, quokka").toarray()[0]
    heaviest = np.argsort(-vector, kind="stable")[:4]
    assert list(answer["words"]) == [queries.vocabulary.words[column] for column in heaviest]
    assert set(answer["held"]) == {"dog", "snow"} & set(answer["words"])
    assert (answer["text"], answer["unknown"], answer["files"]) == (
        *("a dog in snow, quokka", ["quokka"], ["c.svg"]),
    )
    result = lexlip("explain", "a dog in snow, quokka", "--topk", 4)
    assert result.stderr == "note: not in the vocabulary: quokka\n"
    assert [line.split()[0].rstrip("*") for line in result.stdout.splitlines()[1:]] == list(answer["words"])
    assert lexlip("explain", "?!", "--query-encoder", "words").stdout == "word  weight\n"
    assert "dog" in explain(lexlip, "a dog runs in deep snow, " * 11)["words"]  # longer than any file's name


def test_a_sentence_needs_no_torch(lexlip: Run, run_python: Callable[..., Any], model_folder: Path) -> None:
    heavy = "torch torchvision transformers timm jnius wordcloud"
    (answer,) = printed_without(run_python, heavy, "explain", "two dogs", "--model", model_folder, "--json")
    assert json.loads(answer)["words"]


# ---- a hit ----


def test_a_hit_s_score_is_that_of_the_search(indexed: Run) -> None:
    hit = as_json(indexed, "search", SENTENCE)["hits"][0]
    answer = explain(indexed, SENTENCE, "--hit", hit["id"])
    assert list(answer) == [
        "query",
        "id",
        "path",
        "score",
        "rows",
        "words",
        "digits",
        "translations",
        "files",
    ]
    assert (answer["id"], answer["path"], answer["score"]) == (hit["id"], hit["path"], hit["score"])
    assert {row["word"]: row["product"] for row in answer["rows"]} == hit["words"]
    assert explain(indexed, SENTENCE, "--hit", hit["path"]) == answer
    few = explain(indexed, SENTENCE, "--hit", hit["id"], "--query-topk", 2)
    assert len(few["rows"]) <= 2


def test_a_hit_as_text_adds_up(indexed: Run) -> None:
    hit = as_json(indexed, "search", SENTENCE)["hits"][0]
    lines = indexed("explain", SENTENCE, "--hit", hit["id"]).stdout.splitlines()
    assert (lines[0], lines[1]) == (hit["path"], "")
    assert lines[2].split() == ["word", "query", "photo", "product"]
    total = 0
    for line in lines[3:-1]:
        _, query, photo, product = line.split()
        assert round(1e3 * float(query)) * round(1e3 * float(photo)) == round(1e6 * float(product))
        total += round(1e6 * float(product))
    name, score = lines[-1].split()
    assert (name, round(1e6 * float(score))) == ("score", total)
    assert f"{float(score):.3f}" == f"{hit['score']:.3f}"


def test_a_hit_s_files(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos")
    answer = explain(lexlip, SENTENCE, "--hit", "2.jpg", "--cloud", "c.svg", "--heat", "h.png", "--topk", 2)
    assert answer["files"] == ["c.svg", "h.png"]
    assert list(answer["places"]["words"]) == [row["word"] for row in answer["rows"][:2]]
    chosen = explain(lexlip, SENTENCE, "--hit", "2.jpg", "--heat", "h.png", "--word", "sea")
    assert list(chosen["places"]["words"]) == ["sea"]
    (photos / "2.jpg").unlink()
    assert explain(lexlip, SENTENCE, "--hit", "2.jpg", "--cloud", "c.svg")["files"] == ["c.svg"]
    gone = error(lexlip("explain", SENTENCE, "--hit", "2.jpg", "--heat", "h.png", code=2))
    assert gone == f"cannot read the picture {photos / '2.jpg'}: No such file or directory"


def test_a_picture_as_the_query_of_a_hit(indexed: Run) -> None:
    found = as_json(indexed, "search", "--image", "photos/3.jpg")["hits"][0]
    answer = explain(indexed, "photos/3.jpg", "--hit", found["id"])
    assert answer["score"] == found["score"]


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.jpg"], "cannot read the picture none.jpg: No such file or directory"),
        (["empty.jpg"], "cannot read the picture empty.jpg: empty file"),
        (["photos/1.jpg", "--word", "dogg"], "the vocabulary has no word 'dogg'; near it: dog, dogs"),
        (["photos/1.jpg", "--model", "nothing"], "no model 'nothing'"),
        (["photos/1.jpg", "--model", "dense"], "dense holds a dense model, not a lexlip one"),
        (["photos/1.jpg", "--index", "none"], "none"),
        (["photos/1.jpg", "--cloud", "c.jpg"], "cannot write c.jpg: give a name that ends with .png or .svg"),
        (["photos/1.jpg", "--cloud", "none/c.svg"], "cannot write none/c.svg: No such file or directory"),
        (["photos/1.jpg", "--heat", "c.svg"], "cannot write c.svg: give a folder, or a name that ends with"),
        (["a dog", "--hit", "none.jpg"], "holds no photo with the id or path 'none.jpg'"),
        (["a dog", "--hit", "1.jpg", "--index", "bm25"], "there are no words to explain in bm25"),
        (["a dog", "--index", "bm25"], "there are no words to explain in bm25"),
        (["photos/1.jpg", "--index", "vectors"], "there are no words to explain in vectors"),
    ],
)
def test_errors(indexed: Run, tmp_path: Path, arguments: list[str], says: str) -> None:
    Path("empty.jpg").touch()
    if "bm25" in arguments:
        indexed("index", "photos", "--model", "bm25", "--index", "bm25")
    if {"vectors", "dense"} & set(arguments):
        tiny_dense().save(tmp_path / "dense")
        indexed("index", "photos", "--model", "dense", "--index", "vectors")
    assert says in error(indexed("explain", *arguments, code=2))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["photos/1.jpg", "--query-encoder", "words"], "--query-encoder is for sentences"),
        (["photos/1.jpg", "--query-topk", "3"], "--query-topk is for --hit"),
        (["a dog", "--heat", "h"], "--heat is for a picture or --hit"),
        (["a dog", "--word", "dog"], "--word is for a picture or --hit"),
        (["a dog", "--device", "cpu"], "--device is for a picture or --hit"),
        (["a dog", "--caption", "a cat"], "--caption is for a picture without --hit"),
        (["photos/1.jpg", "--hit", "1.jpg", "--caption", "a"], "--caption is for a picture without --hit"),
        (["a dog", "--hit", "1.jpg", "--word", "dog"], "--word is for --heat"),
    ],
)
def test_options_without_effect_are_refused(
    lexlip: Run, photos: Path, arguments: list[str], says: str
) -> None:
    assert error(lexlip("explain", *arguments, code=2)) == f"{says}: leave it out"


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_an_empty_sentence(lexlip: Run, nothing: str) -> None:
    assert "the sentence is empty" in lexlip("explain", nothing, code=2).stderr
