import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.data import Scenes
from lexlip.errors import ModelError
from lexlip.measure.bm25_recall import evaluate_bm25
from lexlip.measure.evaluate import evaluate, measure
from lexlip.measure.pool import CaptionedPool, encode_pool
from lexlip.measure.recalls import Report
from lexlip.measure.short_queries import PHOTOS, Asked, Hits, ask, queries_of, short_captions, summary
from lexlip.models.contract import QueryEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.search.engines.exact import engine_for, exact_engine
from lexlip.search.photo_search import PhotoSearch
from lexlip.words.function_words import FUNCTION_WORDS
from tests.measure.pools import pool_of
from tests.reference.ranking import naive_recall
from tests.search.indexes import index_words
from tests.tiny import tiny_dense, tiny_model

SCENES = Scenes(30, seed=1)


def asked_of(captions_of: list[list[str]]) -> Asked:
    owners = [photo for photo, captions in enumerate(captions_of) for _ in captions]
    texts = [text for captions in captions_of for text in captions]
    return ask(pool_of(owners, texts, len(captions_of), len(texts)))


def photos_with(word: str, captions_of: list[list[str]]) -> set[str]:
    """Photos with a caption that has the word, by words between everything else."""
    other = word[:-1] if word[-1] == "s" else f"{word}s"
    form = re.compile(rf"(?<![a-z0-9])({word}|{other})(?![a-z0-9])")
    return {f"{n}.jpg" for n, captions in enumerate(captions_of) if form.search("\n".join(captions).lower())}


# ---- what is asked ----


def test_words_of_drawn_captions() -> None:
    captions_of = [list(item.captions) for item in SCENES.items]
    asked, said, agreed = asked_of(captions_of), Counter[str](), Counter[str]()
    for captions in captions_of:
        of_each = [set(re.sub("[^a-z0-9]", " ", text.lower()).split()) - FUNCTION_WORDS for text in captions]
        times = Counter(word for words in of_each for word in words)
        said.update(list(times))
        agreed.update([word for word, number in times.items() if number >= 2])
    for group, counted in (("all_words", said), ("agreed_words", agreed)):
        words = sorted(word for word, photos in counted.items() if photos >= PHOTOS)
        assert words
        assert list(asked[group]) == words
        for word, right in asked[group].items():
            assert right == photos_with(word, captions_of)
    assert sorted(queries_of(asked)) == sorted({*asked["all_words"], *asked["pairs"]})


def test_a_word_of_one_caption_is_not_agreed_on() -> None:
    asked = asked_of([["a Dog, a dog!", "an animal"]] * PHOTOS + [["two dogs"], ["a hotdog"]])
    assert asked["agreed_words"] == {}
    assert asked["all_words"] == {
        "animal": {f"{photo}.jpg" for photo in range(8)},
        "dog": {f"{photo}.jpg" for photo in range(9)},
    }
    assert asked_of([["a dog"]] * (PHOTOS - 1))["all_words"] == {}


def test_pairs_are_the_ends_of_noun_phrases() -> None:
    captions = [
        ["a small brown dog is near a dog, brown and old"],
        ["two brown dogs", "a brown dog"],
        ["His brown dog.", "the dog"],
        ["some brown dog and a tennis, ball hat"],  # no pair across a comma
        ["my brown dog with the tennis ball", "a brown"],
    ]
    others = [["brown dogs are here"], ["the dog: brown"], ["a brown, small dog"]]
    asked = asked_of([*captions, *others])
    assert asked["pairs"] == {"brown dog": {f"{photo}.jpg" for photo in range(6)}}
    assert asked_of([*captions[:4], *others])["pairs"] == {}


def test_verbs_are_no_part_of_pairs() -> None:
    asked = asked_of([["the dog runs", "a dog", "a man runs", "he runs", "it runs"]] * 5 + [["a man"]] * 9)
    assert asked["pairs"] == {}


# ---- what is measured ----


def test_figures_by_hand() -> None:
    asked: Asked = {
        "agreed_words": {},
        "all_words": {"dog": {"a", "b", "c"}, "cat": {"d"}},
        "pairs": {"brown dog": {"a"}},
    }
    hits = [
        Hits(["a", "x", "b", "y", "z", "c"], 1, False),
        Hits(["x", "y"], 0, True),
        Hits([], None, None),
    ]
    assert queries_of(asked) == ["dog", "cat", "brown dog"]
    assert summary(asked, hits, None) == {
        "agreed_words": None,
        "all_words": {"queries": 2, "P@5": 0.2, "P@10": 0.15, "missing": 1, "silent": 0.5},
        "pairs": {"queries": 1, "P@5": 0, "P@10": 0, "missing": None, "silent": None},
        "captions": None,
    }


def test_short_captions() -> None:
    captions = ["a dog", "the small brown dogs on it", "a small brown dog barks", "in"]
    found, right = [["x", "a"], ["a"], ["a"], []], [{"a"}] * 4
    assert short_captions(captions, found, right) == {
        "queries": 3,
        **{f"R@{k}": pytest.approx(naive_recall([["x", "a"], ["a"], []], right[:3], k)) for k in (1, 5, 10)},
    }
    assert short_captions(captions[2:3], found[2:3], right[2:3]) is None


@pytest.mark.slow
def test_a_measurement_is_what_a_search_finds(tmp_path: Path) -> None:
    """Of mini, whose honest end says of some words that no photo fits."""
    model, photos = LexLIP.from_pretrained("mini"), Scenes(20, seed=1)
    _, engine_of = engine_for(model, "lucene", "balanced")
    index = index_words(Path("mini"), photos, tmp_path / "index", topk_words=32)
    asked, vectors = ask(CaptionedPool.of(photos)), encode_pool(model, photos, workers=0)
    encoders: tuple[QueryEncoder, ...] = "network", "words"
    for encoder in encoders:
        measured = measure(
            replace(vectors, query_encoder=encoder), engine_of, 32, scheme="balanced", query_topk=24
        )
        assert measured.short_queries is not None
        figures = measured.short_queries["all_words"]
        assert figures is not None
        with PhotoSearch(index, query_encoder=encoder) as search:
            answers = [search.text(query, k=10) for query in asked["all_words"]]
        for k in (5, 10):
            found = zip(answers, asked["all_words"].values(), strict=True)
            right = [len({hit.id for hit in answer.hits[:k]} & ids) for answer, ids in found]
            assert figures[f"P@{k}"] == pytest.approx(np.mean(right) / k)
        silent = [answer.cut is not None and answer.hits[0].score < answer.cut for answer in answers]
        assert 0 < np.mean(silent) < 1
        assert figures["silent"] == pytest.approx(np.mean(silent))
        assert figures["missing"] == 0


def test_engines_agree_and_other_measurements_stay() -> None:
    model = tiny_model()
    vectors = encode_pool(model, SCENES, workers=0)
    report = measure(vectors, exact_engine, 8, scheme="unit")
    short = report.short_queries
    assert short is not None
    assert short["all_words"]["missing"] == 0
    assert short["all_words"]["silent"] is None
    without = measure(vectors, exact_engine, 8, scheme="unit", short=False)
    assert without.short_queries is None
    assert (without.t2i, without.i2t) == (report.t2i, report.i2t)
    assert report.with_rankings(report.rankings).short_queries is None
    plain: dict[str, Any] = report.to_dict()
    assert Report.from_dict(plain).short_queries == short == plain.pop("short_queries")
    assert Report.from_dict(plain).short_queries is None  # of an older version


def test_a_dense_model_has_precisions_alone() -> None:
    short = evaluate(tiny_dense(), SCENES, exact_engine, workers=0).short_queries
    assert short is not None
    words = short["all_words"]
    assert words is not None
    assert 0 < words["P@5"] < 1
    assert (words["missing"], words["silent"]) == (None, None)


def test_bm25_finds_the_words_of_its_documents() -> None:
    """A document is one caption: what it holds is right, other captions may hold the word, too."""
    short = evaluate_bm25(SCENES).short_queries
    assert short is not None
    words = short["agreed_words"]
    assert words is not None
    asked = ask(CaptionedPool.of(SCENES))
    assert words["queries"] == len(asked["agreed_words"])
    assert words["P@5"] > 0.9
    assert evaluate_bm25(SCENES, short=False).short_queries is None


def test_a_damaged_honest_end() -> None:
    model = tiny_model()
    model.honest_end = {"format": 1, "gate": {}}
    with pytest.raises(ModelError, match=r"'untrained' is damaged: honest_end\.json: "):
        evaluate(model, SCENES, exact_engine, workers=0)
