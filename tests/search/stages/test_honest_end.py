import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.errors import ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import PACKAGED, read_description
from lexlip.retrieval.answer import NO_ENDS
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.honest_end import (
    DEPTH,
    HONEST_END,
    Calibration,
    Signs,
    end_of,
    ends,
    load_calibration,
    signs_of,
    well_of,
)
from lexlip.sparse.balance import usual_scheme
from tests.search.indexes import Indexed, index_words

SIGNS = Signs(
    best=0.5, second=0.9, tenth=0.7, last=0.2, own=0.3, held=0.6, number=1.5, none=0, size=3, words=2
)
GATE = {"constant": -1.0, "best": 8.0, "own": 1.0, "held": 6.0, "number": 1.0, "none": -3.0, "size": -1.5}
TAIL = {"constant": 0.05, "best": 0.2, "last": 0.5, "size": -0.01, "words": 0.02}
WELL = {"constant": 1.5, "second": -0.3, "tenth": -0.6, "short": 0.6}
CALIBRATION = Calibration("mini@1", GATE, TAIL, well=WELL)

TERMS = {"dog": 0.8, "beach": 0.4, "sand": 0.4, "sea": 0.2}
SCORES = [0.6, 0.4, 0.3]
WORDS = [{"dog": 0.4, "sand": 0.2}, {"dog": 0.3, "beach": 0.1}, {"sea": 0.3}]


def test_signs_are_these_formulas() -> None:
    signs = Signs.of(TERMS, SCORES, WORDS, ["dog", "beach", "small"], ["quokka"], 1000)
    assert signs.best == 0.6
    assert signs.second == pytest.approx(0.4 / 0.6)
    assert (signs.tenth, signs.last) == (0, 0)  # fewer hits
    assert signs.own == 0.4  # of dog alone: the sand is the model's
    assert signs.number == pytest.approx((1 + 2 + 0) / 3)
    assert signs.held == pytest.approx(1 / 4)  # of dog, beach, small and quokka
    assert (signs.none, signs.size, signs.words) == (0, 3, 2)


def test_signs_by_vectors() -> None:
    vocabulary = [*TERMS, "small"]
    query = csr_matrix([[*TERMS.values(), 0.0]])
    shared = [[photo.get(word, 0.0) / TERMS.get(word, 1.0) for word in vocabulary] for photo in WORDS]
    photos = csr_matrix(np.array(shared) + [0, 0, 0, 0, 0.7])  # a word that the query lacks adds nothing
    about = SCORES, ["dog", "beach", "small"], ["quokka"], 1000
    found, expected = signs_of(query, photos, *about, vocabulary), Signs.of(TERMS, SCORES, WORDS, *about[1:])
    assert vars(found) == pytest.approx(vars(expected))


def test_signs_of_a_query_without_words_of_its_own() -> None:
    signs = Signs.of(TERMS, SCORES, WORDS, [], ["xyzzy"], 20)
    assert (signs.own, signs.held, signs.number, signs.none, signs.words) == (0, 0, 0, 1, 0)


def test_the_last_is_the_fiftieth() -> None:
    scores = [2 - rank / 100 for rank in range(60)]
    signs = Signs.of(TERMS, scores, WORDS, ["dog"], [], 100)
    assert (signs.tenth, signs.last) == (1.91 / 2, scores[DEPTH - 1])


def test_photos_fit_well_from_a_share_of_the_best_score_on() -> None:
    share = 1.5 - 0.3 * 0.9 - 0.6 * 0.7
    assert well_of(SIGNS, CALIBRATION) == pytest.approx(share * 0.5)
    assert well_of(SIGNS, replace(CALIBRATION, well={**WELL, "constant": 9.0})) == SIGNS.best
    below = replace(CALIBRATION, well={**WELL, "constant": -9.0})
    assert well_of(SIGNS, below) == end_of(SIGNS, below)  # not beyond the honest end
    silent = replace(SIGNS, held=0, number=0, own=0, none=1)
    assert well_of(silent, CALIBRATION) == end_of(silent, CALIBRATION) > silent.best
    assert well_of(SIGNS, replace(CALIBRATION, well=None)) is None


def test_the_end_of_a_query_about_the_photos_is_the_tail() -> None:
    assert end_of(SIGNS, CALIBRATION) == pytest.approx(0.05 + 0.2 * 0.5 + 0.5 * 0.2 - 0.01 * 3 + 0.02 * 2)


def test_the_end_of_another_is_the_score_that_the_best_would_need() -> None:
    signs = replace(SIGNS, held=0, number=0, own=0, none=1)
    end = end_of(signs, CALIBRATION)
    assert end == pytest.approx((1 + 3 + 1.5 * 3) / 8)
    assert end > signs.best
    assert end_of(replace(signs, best=end + 1e-9), CALIBRATION) <= end  # then it is shown


def test_the_best_photo_stands_above_the_end_or_nothing_does() -> None:
    steep = replace(CALIBRATION, tail={**TAIL, "constant": 5.0})
    assert end_of(SIGNS, steep) == SIGNS.best
    assert end_of(SIGNS, replace(CALIBRATION, tail={**TAIL, "constant": -5.0})) == 0
    barely = replace(CALIBRATION, gate={**dict.fromkeys(GATE, 0.0), "best": 1e9, "constant": -5e8 - 1e-7})
    assert end_of(SIGNS, barely) > SIGNS.best  # though the difference is lost in rounding


@pytest.mark.parametrize("sign", ["best", "held", "number", "own"])
def test_what_speaks_for_a_query_never_silences_it(sign: str) -> None:
    values = [step / 20 for step in range(21)]
    start = replace(SIGNS, none=1, size=5, held=0.3, number=0.5)
    signs = [replace(start, **{sign: 2 * value}) for value in values]
    shown = [end_of(some, CALIBRATION) <= some.best for some in signs]
    assert shown == sorted(shown)


def test_among_more_photos_the_best_must_be_better() -> None:
    needed = [end_of(replace(SIGNS, best=0.1, held=0, size=size), CALIBRATION) for size in range(2, 7)]
    assert needed == sorted(needed)


def test_nothing_is_known_without_a_calibration_or_hits() -> None:
    assert ends(TERMS, SCORES, WORDS, ["dog"], [], 100, None) == NO_ENDS
    assert ends({}, [], [], [], [], 100, CALIBRATION) == NO_ENDS
    signs = Signs.of(TERMS, SCORES, WORDS, ["dog"], [], 100)
    found = ends(TERMS, SCORES, WORDS, ["dog"], [], 100, CALIBRATION)
    assert found == (well_of(signs, CALIBRATION), end_of(signs, CALIBRATION))


def test_unknown_words_alone_and_function_words_alone() -> None:
    for unknown in (["xyzzy", "qwrt"], []):
        well, end = ends(TERMS, [0.3, 0.2], WORDS[:2], [], unknown, 1000, CALIBRATION)
        assert end is not None
        assert well == end > 0.3


def saved(folder: Path, model: str = "mini@1") -> Path:
    (folder / "config.json").write_text(json.dumps({"format": 1, "kind": "lexlip", "identity": "mini@1"}))
    replace(CALIBRATION, model=model).save(folder)
    return folder


def test_a_calibration_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert load_calibration(saved(tmp_path), "unit") == CALIBRATION
    assert load_calibration(tmp_path, "balanced") is None  # other scores than it was measured on


@pytest.mark.parametrize(
    ("lacks", "calibration"), [("quantization", CALIBRATION), ("well", replace(CALIBRATION, well=None))]
)
def test_one_of_an_older_version(tmp_path: Path, lacks: str, calibration: Calibration) -> None:
    """It is of unit vectors, or does not say what fits well."""
    file = saved(tmp_path) / HONEST_END
    content = json.loads(file.read_text())
    del content[lacks]
    file.write_text(json.dumps(content))
    assert load_calibration(tmp_path, "unit") == calibration


def test_a_model_without_one_has_none(tmp_path: Path, model_folder: Path) -> None:
    assert load_calibration(model_folder, "unit") is None
    assert load_calibration(saved(tmp_path, "mini@2"), "unit") is None  # of other weights


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.pop("gate"),
        lambda content: content.update(format=99),
        lambda content: content["tail"].pop("last"),
        lambda content: content["tail"].update(last=None),
        lambda content: content["tail"].update(last=math.nan),
        lambda content: content["gate"].update(best=-1),
        lambda content: content.update(tail=[]),
        lambda content: content["well"].pop("second"),
        lambda content: content.update(well=3),
    ],
)
def test_a_damaged_one_is_reported(tmp_path: Path, damage) -> None:
    file = saved(tmp_path) / HONEST_END
    content = json.loads(file.read_text())
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(ModelError):
        load_calibration(tmp_path, "unit")
    file.write_text("{")
    with pytest.raises(ModelError, match="is damaged"):
        load_calibration(tmp_path, "unit")


def test_the_packaged_model_has_one() -> None:
    calibration = load_calibration(PACKAGED / "mini", usual_scheme(LexLIP.from_pretrained("mini").balance))
    assert calibration is not None
    assert calibration.model == read_description(PACKAGED / "mini")["identity"]


def test_of_what_an_index_finds(indexed: Indexed, model_folder: Path, tmp_path: Path) -> None:
    """However many hits are asked for, the end is that of the first fifty."""
    with PhotoSearch(indexed.words) as search:
        assert search.text("a red circle").cut is None  # the tiny model has no calibration
    model = shutil.copytree(model_folder, tmp_path / "tiny")
    replace(CALIBRATION, model=read_description(model)["identity"]).save(model)
    with PhotoSearch(indexed.words, str(model)) as search:
        stage = search.stage
        encoded = stage.encode("a red circle")
        ((ids,), (scores,)) = stage.search([encoded], DEPTH)
        words, queries = stage.matches(encoded, ids), stage.queries
        known, unknown = queries.known("a red circle"), queries.unknown("a red circle")
        well, end = ends(stage.terms(encoded), scores, words, known, unknown, 6, CALIBRATION)
        answers = [search.text("a red circle", k) for k in (1, 6)]
        assert [(answer.well, answer.cut) for answer in answers] == [(well, end)] * 2
        assert answers[1].above_well == sum(score >= well for score in scores)
        signs = Signs.of(stage.terms(encoded), scores, words, known, unknown, 6)
    assert signs.own == pytest.approx(sum(words[0].get(word, 0) for word in known))
    assert signs.own <= signs.best + 1e-9


QUERIES = {
    "a man riding a wave": True,
    "a plate of food on a table": True,
    "a street with cars": True,
    "airplane": True,
    "xyzzy qwrt": False,
    "the of": False,
    "quarterly tax return spreadsheet": False,
    "thermodynamics": False,
    "the senate rejected the amendment": False,
}


def test_real_photos(shared: Path, tmp_path: Path) -> None:
    index = index_words(PACKAGED / "mini", shared / "distractors" / "images-0001.tar", tmp_path / "index")
    with PhotoSearch(index) as search:
        for query, sense in QUERIES.items():
            answer = search.text(query, 3)
            assert answer.cut is not None
            assert (answer.hits[0].score >= answer.cut) == sense, query
