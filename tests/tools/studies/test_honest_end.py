import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.data import open_source
from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import PACKAGED, write_checksums
from lexlip.queries.text_queries import TextQueries
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.honest_end import DEPTH, HONEST_END, Signs, end_of, load_calibration
from lexlip.sparse.balance import usual_scheme
from tests.search.indexes import index_words
from tests.tools.studies.test_honest_end_fit import fitted, made
from tools.studies import honest_end as tool
from tools.studies.honest_end_fit import kept, silent
from tools.studies.nonsense import KINDS


def test_what_is_observed_is_what_an_index_finds(model_folder: Path, photos: Path, tmp_path: Path) -> None:
    queries = TextQueries(model_folder)
    source = tool.read(str(model_folder), str(photos))
    text = source.captions[0][0]
    query = tool.encode(queries, "caption", text, frozenset([0]))
    rows = {row: row for row in range(6)}
    said = tool.Said(source.captions)
    seen, removed = tool.observe([query], source.impacts, said, rows, ("here", 6), queries.vocabulary.words)
    index = index_words(model_folder, photos, tmp_path / "index", topk_words=tool.TOPK)
    with PhotoSearch(index) as search:
        encoded = search.stage.encode(text)
        ((ids,), (scores,)) = search.stage.search([encoded], DEPTH)
        terms, words = search.stage.terms(encoded), search.stage.matches(encoded, ids)
    np.testing.assert_allclose(seen.scores, scores, rtol=1e-6)
    signs = Signs.of(terms, scores, words, query.known, query.unknown, 6)
    assert [getattr(seen.signs, name) for name in vars(signs)] == pytest.approx(list(vars(signs).values()))
    assert removed.kind == "removed"
    assert len(removed.scores) == len(seen.scores) - 1
    (right,) = seen.right
    assert right in seen.scores
    assert right not in removed.scores


def test_keywords_have_the_photos_whose_captions_hold_them(model_folder: Path, photos: Path) -> None:
    queries = TextQueries(model_folder)
    source = tool.read(str(model_folder), str(photos))
    asked = tool.ask(queries, source, random.Random(0))
    keywords = [query for query in asked if query.kind == "keywords"]
    assert keywords
    for query in keywords:
        words = set(query.text.split())
        held = [words <= set(re.findall(r"\w+", " ".join(captions).lower())) for captions in source.captions]
        assert query.right == {row for row, has in enumerate(held) if has}


def test_photos_fit_with_half_of_the_words_in_their_captions() -> None:
    said = tool.Said([("A dog in snow.", "Two dogs"), ("a snowy street",), (), ("the dog and a cat",)])
    assert sorted(said.fitting("a Dog on snow")) == [0, 3]
    assert said.fitting("cat street snow") == []  # each has one of three
    assert said.fitting("of the") == []


def test_a_row_for_each_collection() -> None:
    head, _, *rows = tool.table(made(), fitted()).splitlines()
    assert [row.split(" | ")[:2] for row in rows] == [["| here", "100"], ["| here", "1,000"]]
    silent = dict(zip(head.split(" | "), rows[0].split(" | "), strict=True))["letters"]
    assert silent == "100.0"


@pytest.mark.slow
def test_a_model_is_calibrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fitted to drawn scenes, which the model hardly knows, would be refused."""
    monkeypatch.setattr(tool, "fit", lambda observations, identity: replace(fitted(), model=identity))
    model = Path(shutil.copytree(PACKAGED / "mini", tmp_path / "model"))
    (model / HONEST_END).unlink()
    write_checksums(model, [])
    arguments = [str(model), "scenes:30:1", "--on", "scenes:30:2"]
    tool.main([*arguments, "--dry-run"])
    assert not (model / HONEST_END).exists()
    tool.main(arguments)
    assert load_calibration(model, usual_scheme(LexLIP.from_pretrained("mini").balance)) is not None
    assert TextQueries(model).identity == TextQueries("mini").identity
    assert "\nheld out\n\n| photos of |" in capsys.readouterr().out


def test_captions_are_needed(model_folder: Path, tmp_path: Path) -> None:
    scenes = open_source("scenes:2:0")
    scenes.image(0).save(tmp_path / "0.png")
    with pytest.raises(DataError, match="has no captions"):
        tool.main([str(model_folder), str(tmp_path / "0.png")])


@pytest.mark.slow
def test_the_goal_on_photos_that_were_not_fitted_to(shared: Path, monkeypatch) -> None:
    monkeypatch.setattr(tool, "SIZES", {100: 5, 1000: 1})
    calibration = load_calibration(PACKAGED / "mini", usual_scheme(LexLIP.from_pretrained("mini").balance))
    assert calibration is not None
    photos = tool.read("mini", str(shared / "coco" / "val-0000.tar"))
    assert len(open_source(shared / "coco" / "val-0000.tar")) == len(photos.captions)
    observations = tool.measure(TextQueries("mini"), [photos], [], "test")
    for size in (100, 1000):
        group = [seen for seen in observations if seen.group[1] == size]
        captions = [seen for seen in group if seen.kind == "caption"]
        absurd = [seen for seen in group if seen.kind in KINDS]
        assert kept(captions, [end_of(seen.signs, calibration) for seen in captions]) >= 0.95
        assert silent(absurd, [end_of(seen.signs, calibration) for seen in absurd]) >= 0.9
