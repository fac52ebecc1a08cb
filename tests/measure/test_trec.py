import os
import random
import warnings
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import pytrec_eval

from lexlip.data import Scenes, open_source
from lexlip.errors import DataError
from lexlip.measure.evaluate import evaluate
from lexlip.measure.recalls import Ranking, recall_at_k
from lexlip.measure.trec import (
    Names,
    check_run_folder,
    falling,
    read_qrels,
    read_run,
    trec_id,
    write_run_files,
)
from lexlip.search.contact_sheet import Found
from lexlip.search.engines.exact import exact_engine
from tests.conftest import write_photos
from tests.tiny import CAPTIONS, tiny_model

FILES = ["i2t.qrels", "i2t.run", "t2i.qrels", "t2i.run"]


def trec_eval(folder: Path, way: str, measure: str) -> dict[str, float]:
    """Percentages by trec_eval's own code, over all queries of the qrels as with -c."""
    with (folder / f"{way}.qrels").open() as qrels_file, (folder / f"{way}.run").open() as run_file:
        qrels, run = pytrec_eval.parse_qrel(qrels_file), pytrec_eval.parse_run(run_file)
    results = pytrec_eval.RelevanceEvaluator(qrels, {f"{measure}.1,5,10"}).evaluate(run)
    return {
        f"R@{k}": 100 * sum(result[f"{measure}_{k}"] for result in results.values()) / len(qrels)
        for k in (1, 5, 10)
    }


def tied_ranking(seed: int = 0) -> Ranking:
    """Names in no order, many equal scores, scores closer than float32 can tell, queries without hits."""
    rng, shuffled = np.random.default_rng(seed), random.Random(seed)
    names = [f"photo {number}.jpg" for number in range(60)]
    found, scores, relevant = [], [], []
    for query in range(80):
        length = 0 if query % 8 == 0 else 30
        found.append(shuffled.sample(names, length))
        values = np.sort(rng.integers(-3, 4, length))[::-1] / 7 - 1e-12 * np.arange(length)
        scores.append(values)
        relevant.append(set(shuffled.sample(names, 1 + query % 3)))
    return Ranking([f"caption\t{number}" for number in range(80)], found, scores, relevant)


def test_trec_eval_finds_our_recalls_in_spite_of_ties(tmp_path: Path) -> None:
    ranking = tied_ranking()
    ours = recall_at_k(ranking.found, ranking.relevant)
    write_run_files(tmp_path, {"t2i": ranking}, "mini")
    assert trec_eval(tmp_path, "t2i", "success") == pytest.approx(ours)
    assert 0 < ours["R@1"] < ours["R@5"] < ours["R@10"] < 100


@pytest.mark.slow
def test_ranx_and_ir_measures_read_the_files_unchanged(tmp_path: Path) -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="ir_measures is not installed")
    ranx = pytest.importorskip("ranx", reason="ranx is not installed")
    ranking = tied_ranking()
    ours = recall_at_k(ranking.found, ranking.relevant)
    write_run_files(tmp_path, {"t2i": ranking}, "mini")
    run, qrels = str(tmp_path / "t2i.run"), str(tmp_path / "t2i.qrels")

    cutoffs = {f"R@{k}": ir_measures.Success @ k for k in (1, 5, 10)}
    theirs = ir_measures.calc_aggregate(
        list(cutoffs.values()), ir_measures.read_trec_qrels(qrels), ir_measures.read_trec_run(run)
    )
    assert {name: 100 * theirs[cutoff] for name, cutoff in cutoffs.items()} == pytest.approx(ours)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's of ranx's own code
        read = ranx.Qrels.from_file(qrels, kind="trec"), ranx.Run.from_file(run, kind="trec")
        hits = ranx.evaluate(*read, [f"hit_rate@{k}" for k in (1, 5, 10)], make_comparable=True)
    assert {f"R@{k}": 100 * hits[f"hit_rate@{k}"] for k in (1, 5, 10)} == pytest.approx(ours)


def test_ties_would_change_the_recalls(tmp_path: Path) -> None:
    """What `falling` is for: with the plain scores, trec_eval sorts tied documents by name."""
    ranking = tied_ranking()
    lines = [
        f"{trec_id(query)} Q0 {trec_id(id)} 0 {score:.17g} x\n"
        for query, found, scores in zip(ranking.queries, ranking.found, ranking.scores, strict=True)
        for id, score in zip(found, scores, strict=True)
    ]
    write_run_files(tmp_path, {"t2i": ranking}, "mini")
    (tmp_path / "t2i.run").write_text("".join(lines))
    assert trec_eval(tmp_path, "t2i", "success") != pytest.approx(
        recall_at_k(ranking.found, ranking.relevant)
    )


def test_of_a_model_both_ways(tmp_path: Path) -> None:
    report = evaluate(tiny_model(), Scenes(20, seed=1), exact_engine, workers=0, depth=100)
    paths = write_run_files(tmp_path, report.rankings, "tiny model")
    assert sorted(path.name for path in paths) == FILES == sorted(path.name for path in tmp_path.iterdir())
    assert trec_eval(tmp_path, "t2i", "success") == pytest.approx(report.t2i)
    assert trec_eval(tmp_path, "t2i", "recall") == pytest.approx(report.t2i)  # one photo a caption
    assert trec_eval(tmp_path, "i2t", "success") == pytest.approx(report.i2t)


def test_the_columns(tmp_path: Path) -> None:
    ranking = Ranking(["a b"], [["x", "y 1"]], [np.array([0.5, 0.25])], [{"z", "y 1"}])
    write_run_files(tmp_path / "new" / "folder", {"t2i": ranking}, "my model")
    written = tmp_path / "new" / "folder"
    assert (written / "t2i.run").read_text() == (
        "a%20b Q0 x 1 0.5 my%20model\na%20b Q0 y%201 2 0.25 my%20model\n"
    )
    assert (written / "t2i.qrels").read_text() == "a%20b 0 y%201 1\na%20b 0 z 1\n"


def test_falling_scores_fall_and_keep_what_they_can() -> None:
    rng = np.random.default_rng(0)
    for scores in (
        np.sort(rng.normal(size=200))[::-1],
        np.repeat(np.array([1e30, 2.0, 1.0, 0.0, -0.0, -1e-45, -1.0, -1e30]), 9),
        np.array([]),
        np.array([0.1]),
    ):
        fallen = falling(scores)
        assert fallen.dtype == np.float32
        assert (np.diff(fallen.astype(float)) < 0).all()
        written = [np.float32(f"{score:.9g}") for score in fallen.tolist()]
        assert written == list(fallen)
        np.testing.assert_allclose(fallen, scores, rtol=1e-5, atol=1e-40)
    distinct = np.array([3.0, 2.0, 0.0, -2.0], dtype=np.float32)
    assert list(falling(distinct)) == list(distinct)


@pytest.mark.parametrize(
    "id", ["a b", "a%20b", "tab\there", "line\nbreak", "x\u3000y", "\x85", "100%", "größe"]
)
def test_ids_have_no_white_space_and_can_be_had_back(id: str) -> None:
    assert len(f"{trec_id(id)} Q0".split()) == 2
    assert unquote(trec_id(id)) == id
    assert trec_id("plain/größe_1.jpg#3") == "plain/größe_1.jpg#3"


def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t2i.run").write_text("old")
    broken = tied_ranking()
    broken.scores[50] = broken.scores[50][:-1]
    with pytest.raises(ValueError, match="argument 2"):
        write_run_files(tmp_path, {"t2i": tied_ranking(), "i2t": broken}, "mini")
    assert [path.name for path in tmp_path.iterdir()] == ["t2i.run"]
    assert (tmp_path / "t2i.run").read_text() == "old"
    write_run_files(tmp_path, {"t2i": tied_ranking()}, "mini")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t2i.qrels", "t2i.run"]
    assert (tmp_path / "t2i.run").read_text() != "old"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataError, match=r"cannot write run files to .*: .*file is a file"):
            check_run_folder(folder)
        with pytest.raises(DataError, match="cannot write run files to "):
            write_run_files(folder, {"t2i": tied_ranking()}, "mini")
    check_run_folder(tmp_path / "new" / "folder")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(DataError, match="Permission denied"):
        check_run_folder(tmp_path / "closed" / "new")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_run_files(tmp_path, {"t2i": tied_ranking()}, "mini")
    with (tmp_path / "t2i.run").open() as run_file, (tmp_path / "t2i.qrels").open() as qrels_file:
        run, qrels = pytrec_eval.parse_run(run_file), pytrec_eval.parse_qrel(qrels_file)
    assert (read_run(tmp_path / "t2i.run"), read_qrels(tmp_path / "t2i.qrels")) == (run, qrels)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("q Q0 a 1 nan x", "line 1 of FILE has the score nan, which cannot be one"),
        ("q Q0 a 1 -inf x", "line 1 of FILE has the score -inf, which cannot be one"),
        ("q Q0 a 1 high x", "line 1 of FILE has the score high, which cannot be one"),
        ("q Q0 a 1 2 x\n\nq Q0 a 2 1 x", "line 3 of FILE has query q and document a again"),
        ("q 0 a 1", "line 1 of FILE has not the columns of a run: query Q0 document rank score tag"),
        (b"q Q0 \xff 1 2 x", "cannot read FILE: it is not text in UTF-8"),
        (None, "cannot read FILE: No such file or directory"),
    ],
)
def test_what_is_no_run(tmp_path: Path, lines: str | bytes | None, says: str) -> None:
    file = tmp_path / "a.run"
    if lines is not None:
        file.write_bytes(lines.encode() if isinstance(lines, str) else lines)
    with pytest.raises(DataError) as caught:
        read_run(file)
    assert str(caught.value) == says.replace("FILE", str(file))


def test_a_mark_before_the_first_line_is_no_part_of_a_query(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_bytes(b"\xef\xbb\xbfq Q0 a 1 2 x\r\n")
    assert read_run(tmp_path / "a.run") == {"q": {"a": 2}}


@pytest.mark.parametrize(
    "lines", ["q 0 a yes", "q 0 a 9999999999999999999", "q 0 a 1\nq 0 a 0", "q Q0 a 1 2 x"]
)
def test_what_is_no_qrels(tmp_path: Path, lines: str) -> None:
    (tmp_path / "a.qrels").write_text(lines)
    with pytest.raises(DataError, match=r"^line \d of .*a\.qrels has "):
        read_qrels(tmp_path / "a.qrels")


def test_what_ids_stand_for(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 3)
    (photos / "2.jpg").rename(photos / "a photo#1.jpg")
    (photos / "2.txt").rename(photos / "a photo#1.txt")
    (photos / "1.txt").write_text("one\ntwo\n")
    names = Names(open_source(photos))
    assert names.found("1.jpg") == Found("1.jpg", f"{photos}/1.jpg")
    assert names.found("1.jpg#1", right=True) == Found("1.jpg#1", f"{photos}/1.jpg", "two", right=True)
    assert names.found("a%20photo#1.jpg") == Found("a photo#1.jpg", f"{photos}/a photo#1.jpg")
    assert names.found("a%20photo#1.jpg#0").text == CAPTIONS[2]
    for gone in ("1.jpg#2", "1.jpg#", "1.jpg#²", "none.jpg", "#0"):
        assert gone not in names
        assert names.found(gone) == Found(gone, "")
