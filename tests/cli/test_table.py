import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_index import error
from tests.training.run_folders import write_run
from tests.tiny import tiny_dense
from tests.tiny_clip import write_clip

Run = Callable[..., Any]

DENSE = {"model": {"kind": "dense"}, "objective": {"flops_image": 0, "flops_text": 0}}


def numbers(line: str) -> list[str]:
    """The last nine cells: six recalls, their mean, terms, words@10."""
    return line.split()[-9:]


@pytest.fixture
def runs(lexlip: Run, tmp_path: Path, model_folder: Path, other_model: Path) -> Path:
    """Two phases and a dense run."""
    tiny_dense().save(tmp_path / "cls")
    first = {"objective": {"mlm": 1, "image_to_text": 1, "text_to_text": 1}}
    write_run(tmp_path / "runs" / "one", first, [20, 10], model_folder)
    second = {"init": "runs/one/best", "objective": {"queue": 64}}
    write_run(tmp_path / "runs" / "two", second, [30], other_model)
    write_run(tmp_path / "runs" / "dense", DENSE, [5], tmp_path / "cls")
    return tmp_path / "runs"


def test_table_1_from_the_runs_own_validations(lexlip: Run, runs: Path) -> None:
    lines = lexlip("table", "1", "runs/one", "runs/two").stdout.splitlines()
    assert lines[0].split() == (
        "model documents T2I R@1 R@5 R@10 I2T R@1 R@5 R@10 mean terms words@10".split()
    )
    assert [line.split()[:2] for line in lines[1:3]] == [["runs/one", "all"], ["runs/two", "all"]]
    assert numbers(lines[1]) == ["20.0"] * 8 + ["0.250"]
    assert numbers(lines[2]) == ["30.0"] * 7 + ["20.0", "0.250"]
    assert lines[3:] == [
        "",
        "Validation on scenes:400:1000000 (10 images, 50 captions), by brute force, at each run's best"
        " checkpoint.",
        "The paper's figures, on the test sets of Flickr30k (1k) and MSCOCO (5k), are in its Table 1"
        " (arXiv 2302.02908).",
    ]


def test_table_3_names_what_differs_from_the_full_method(lexlip: Run, runs: Path) -> None:
    table = json.loads(lexlip("table", "3", "runs/two", "runs/one", "runs/dense", "--json").stdout)
    assert list(table) == ["table", "rows", "notes"]
    assert (table["table"], table["notes"][1]) == (
        3,
        "The paper's figures are in its Table 3 (arXiv 2302.02908).",
    )
    assert [(row["model"], row["method"], row["documents"]) for row in table["rows"]] == [
        ("runs/two", "LexLIP", "all"),
        ("runs/one", "LexLIP without phase 2", "all"),
        ("runs/dense", "Dense without L_self, L_i2t, L_t2t, phase 2", "dense"),
    ]
    assert [row["mean_recall"] for row in table["rows"]] == [30, 20, 5]
    lines = lexlip("table", "3", "runs/two", "runs/one").stdout.splitlines()
    assert lines[2].startswith("runs/one  LexLIP without phase 2  all ")


def test_markdown(lexlip: Run, runs: Path) -> None:
    lines = lexlip("table", "3", "runs/one", "--markdown").stdout.splitlines()
    assert lines[2].startswith("| runs/one | LexLIP without phase 2 | all | 20.0 |")
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 13


def test_measured_on_photos(lexlip: Run, runs: Path, photos: Path, model_folder: Path) -> None:
    (photos / "bad.jpg").touch()
    options = ["--source", "photos", "--engine", "exact", "--topk", "4", "--topk", "all"]
    result = lexlip("table", "1", "runs/two", "runs/dense", "mini", *options, "--json")
    table = json.loads(result.stdout)
    assert [(row["model"], row["documents"]) for row in table["rows"]] == [
        ("runs/two", "top-4"),
        ("runs/two", "all"),
        ("runs/dense", "dense"),
        ("mini", "top-4"),
        ("mini", "all"),
    ]
    for row in table["rows"]:
        model = {"runs/two": "runs/two/best", "runs/dense": "runs/dense/best", "mini": model_folder}[
            row["model"]
        ]
        topk = {"top-4": ["--topk", "4"], "all": ["--topk", "999"], "dense": []}[row["documents"]]
        alone = lexlip("evaluate", "photos", "--model", model, "--engine", "exact", *topk, "--json")
        assert {key: row[key] for key in row if key not in ("model", "documents")} == json.loads(alone.stdout)
    assert table["notes"][0] == "Measured on photos: 6 images, 6 captions, one pool, exact engine."
    assert result.stderr.splitlines() == ["1 skipped:", "  bad.jpg: empty file"]


def test_the_index_is_the_default_and_dense_models_are_measured_all_the_same(
    lexlip: Run, runs: Path, photos: Path
) -> None:
    lines = lexlip("table", "3", "runs/one", "runs/dense/best", "--source", "photos").stdout.splitlines()
    assert [line.split()[-10] for line in lines[1:4]] == ["all", "top-32", "dense"]
    assert lines[3].split()[-2:] == ["-", "-"]
    assert lines[5] == "Measured on photos: 6 images, 6 captions, one pool, lucene and flat engines."


def test_an_engine_is_for_the_models_that_it_fits(
    lexlip: Run, runs: Path, photos: Path, tmp_path: Path
) -> None:
    write_clip(tmp_path / "clip")
    options = ["--source", "photos", "--topk", "4", "--engine", "hnsw", "--json"]
    table = json.loads(lexlip("table", "1", "runs/one", "runs/dense", "clip", *options).stdout)
    assert [row["documents"] for row in table["rows"]] == ["top-4", "dense", "dense"]
    says = "Measured on photos: 6 images, 6 captions, one pool, lucene and hnsw engines."
    assert table["notes"][0] == says
    alone = json.loads(lexlip("evaluate", "photos", "--model", "clip", "--json").stdout)
    assert {key: table["rows"][2][key] for key in alone} == alone


def test_a_split(lexlip: Run, runs: Path, photos: Path) -> None:
    sentences = [{"raw": "two dogs play"}] * 5
    images = [{"filename": f"{n}.jpg", "split": "test", "sentences": sentences} for n in range(3)]
    Path("split.json").write_text(json.dumps({"images": images}))
    options = ["--source", "split.json", "--images", "photos", "--split", "test", "--engine", "exact"]
    table = json.loads(lexlip("table", "1", "mini", *options, "--json").stdout)
    assert table["notes"][0] == (
        "Measured on split.json (test): 3 images, 15 captions, one pool, exact engine."
    )


def test_runs_that_were_validated_on_different_photos(lexlip: Run, runs: Path) -> None:
    write_run(runs / "three", {"data": {"val": [{"path": "coco.json", "split": "val"}]}}, [1])
    last = lexlip("table", "1", "runs/one", "runs/three").stdout.splitlines()[-2]
    assert last == (
        "Validation by brute force, at each run's best checkpoint, but on different photos:"
        " runs/one: scenes:400:1000000 (10 images, 50 captions);"
        " runs/three: coco.json (val) (10 images, 50 captions)."
    )


NO_RESULTS = " has no validation results (metrics.jsonl); name a run's folder, or give photos to measure on"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["1", "mini"], f"mini{NO_RESULTS} (--source)"),
        (["1", "runs/one/best"], f"runs/one/best{NO_RESULTS} (--source)"),
        (["3", "mini"], "mini is neither a training run nor one of its checkpoints: no config.yaml there"),
        (["1", "runs/one", "maxi", "--source", "photos"], "no model 'maxi': "),
        (["1", "runs/one", "--source", "nothing"], "nothing does not exist"),
        (
            ["1", "runs/one", "--source", "bare"],
            "no photo of bare has a caption: there is nothing to measure with",
        ),
    ],
)
def test_what_is_missing(lexlip: Run, runs: Path, photos: Path, arguments: list[str], says: str) -> None:
    Path("bare").mkdir()
    (photos / "0.jpg").rename("bare/0.jpg")
    assert error(lexlip("table", *arguments, code=2)).startswith(says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["4", "mini"], "No such command '4'"),
        (["1"], "Missing argument 'MODEL...'"),
        (["1", "mini", "--topk", "0", "--source", "x"], "'--topk': 0 is not in the range x>=1"),
        (["1", "mini", "--topk", "few", "--source", "x"], "'--topk': 'few' is not a valid int"),
        (["1", "mini", "--topk", "8"], "--images, --split and --topk need --source."),
        (["1", "mini", "--split", "test"], "--images, --split and --topk need --source."),
        (["1", "mini", "--json", "--markdown"], "--markdown or --json, one of the two."),
    ],
)
def test_misuse(lexlip: Run, arguments: list[str], says: str) -> None:
    result = lexlip("table", *arguments, code=2)
    assert says in result.stderr.splitlines()[-1]
    assert result.stdout == ""
