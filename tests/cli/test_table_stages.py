import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.test_index import error
from tests.training.run_folders import write_run
from tests.tiny import tiny_dense, tiny_stage

Run = Callable[..., Any]

SCENES = ["--source", "scenes:12:0", "--workers", 0]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """What is timed in this process leaves torch one thread."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing warms up, and what is timed is timed in this process."""
    monkeypatch.setattr("lexlip.bench.response.WARM_UP", 0)
    monkeypatch.setattr(
        "lexlip.bench.response.in_own_process", lambda function, *arguments: function(*arguments)
    )


@pytest.fixture
def models(tmp_path: Path, lexlip: Run) -> Path:
    for seed, kind in enumerate(("be", "ce", "joint")):
        tiny_stage(kind, seed=seed).save(tmp_path / kind)
    return tmp_path


def table_of(lexlip: Run, *arguments: object) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(lexlip("table", *arguments, *SCENES, "--json").stdout)
    assert list(table) == ["table", "rows", "notes"]
    assert table["table"] == arguments[0]
    return table


def rows_of(lexlip: Run, *arguments: object) -> list[tuple[Any, ...]]:
    rows = table_of(lexlip, *arguments)["rows"]
    return [(row["model"], row["rerank"], row["k"], row["fusion"]) for row in rows]


def test_stages(lexlip: Run, models: Path) -> None:
    tiny_dense().save("cls")
    names = ["mini", "be", "bm25", "joint", "cls", "be"]
    rows = table_of(lexlip, "stages", *names, "--rerank", "ce", "--pairs", 4, "--queries", 6)["rows"]
    assert [(row["model"], row["rerank"]) for row in rows] == [
        ("mini", None),
        ("mini", "ce"),
        ("be", None),
        ("be", "ce"),
        ("bm25", None),
        ("bm25", "ce"),
        ("joint", None),
        ("joint", "joint"),
        ("cls", None),
        ("cls", "ce"),
    ]
    for row in rows:
        seconds = row["seconds"]
        assert seconds["queries"] == 6
        assert 0 < seconds["min"] <= seconds["p50"] <= seconds["p99"] <= seconds["max"]
        assert (seconds["rerank"] > 0) == (row["rerank"] is not None)
        assert row["photo_bytes"] > 0
        assert 0 <= row["mean_recall"] <= 100
        assert row["training_minutes"] is None


def test_text_and_markdown(lexlip: Run, models: Path) -> None:
    lines = lexlip("table", "lightningdot-1", "mini", "--rerank", "ce", *SCENES).stdout.splitlines()
    assert lines[0].split() == ("model reranked by documents k T2I R@1 R@5 R@10 I2T R@1 R@5 R@10 AR".split())
    assert lines[1].split()[:4] == ["mini", "-", "top-32", "-"]
    assert lines[2].split()[:4] == ["mini", "ce", "top-32", "20"]
    assert lines[3] == ""
    assert lines[4] == (
        "Measured with 12 photos and 60 captions of scenes:12:0, in a pool of 12 photos and 60 captions."
    )
    assert "Words (top-32) in Lucene." in lines[5]
    assert lines[-2].startswith("The paper's figures are in its Table 1 (arXiv 2103.08784)")
    assert "Flickr30k T2I 69.9 / 91.1 / 95.2" in lines[-1]
    lines = lexlip("table", "lightningdot-1", "be", *SCENES, "--markdown").stdout.splitlines()
    assert lines[0].startswith("| model | documents | T2I R@1 |")
    assert lines[2].startswith("| be | dense |")


def test_alone_it_agrees_with_evaluate(lexlip: Run, models: Path) -> None:
    for model, topk in (("mini", ["--topk", 4]), ("be", [])):
        [row] = table_of(lexlip, "lightningdot-1", model, *topk)["rows"]
        alone = json.loads(lexlip("evaluate", "scenes:12:0", "--model", model, *topk, "--json").stdout)
        assert {key: row[key] for key in ("t2i", "i2t", "mean_recall")} == {
            key: alone[key] for key in ("t2i", "i2t", "mean_recall")
        }


def test_larger_pools(lexlip: Run, models: Path) -> None:
    for name in ("lightningdot-2", "retrieve-5"):
        table = table_of(lexlip, name, "be", "--pool", "scenes:5:7", "--pool", "scenes:4:9", "--rerank", "ce")
        assert [row["photos"] for row in table["rows"]] == [21, 21]
        assert table["notes"][0] == (
            "Measured with 12 photos and 60 captions of scenes:12:0, in a pool of 21 photos and 105 captions."
        )


def test_speed_up(lexlip: Run, models: Path) -> None:
    rows = table_of(lexlip, "lightningdot-3", "be", "--rerank", "ce", "--queries", 4)["rows"]
    assert [(row["model"], row["documents"], row["k"]) for row in rows] == [
        ("ce", "pairs", None),
        ("be", "dense", None),
        ("be", "dense", 20),
    ]
    for row in rows:
        assert row["speed_up"] == pytest.approx(rows[0]["seconds"]["mean"] / row["seconds"]["mean"])
        assert row["t2i"] is None


def test_single_queries_and_a_picture(lexlip: Run, models: Path) -> None:
    lexlip("table", "vldeformer-4", "mini", "be", *SCENES, "--queries", 5, "--plot", "plot.svg")
    assert "<svg" in Path("plot.svg").read_text()
    rows = table_of(lexlip, "vldeformer-4", "mini", "--queries", 5, "--ann", "hnsw")["rows"]
    assert rows[0]["seconds"]["peak_mb"] > 10


def test_ablations(lexlip: Run, models: Path) -> None:
    objective = {"contrastive": 0, "triplet": 1, "flops_image": 0, "flops_text": 0}
    write_run(Path("runs/be"), {"model": {"kind": "be"}, "objective": objective}, checkpoint=Path("be"))
    [row] = table_of(lexlip, "vldeformer-5", "runs/be")["rows"]
    assert row["method"] == (
        "without contrastive loss, composed negatives, a pre-trained text encoder,"
        " a pre-trained image encoder, decomposing"
    )
    says = "mini is neither a training run nor one of its checkpoints"
    assert error(lexlip("table", "vldeformer-5", "mini", *SCENES, code=2)).startswith(says)


def test_retrieve_fast(lexlip: Run, models: Path) -> None:
    few = ["--pairs", 4, "--captions", 2]
    table = table_of(lexlip, "retrieve-1", "be", "joint", "--rerank", "ce", *few)
    assert [(row["model"], row["rerank"], row["photos"]) for row in table["rows"]] == [
        ("ce", None, 4),
        ("be", None, 4),
        ("be", "ce", 4),
        ("joint", None, 4),
        ("joint", "joint", 4),
    ]
    assert "in a pool of 4 photos and 8 captions" in table["notes"][0]
    assert rows_of(lexlip, "retrieve-8", "joint", *few) == [
        ("joint", None, None, None),
        *(("joint", "joint", k, "none") for k in (10, 20, 50)),
    ]
    assert rows_of(lexlip, "retrieve-9", "be", "--rerank", "joint", "--rerank-k", 5, *few) == [
        ("be", None, None, None),
        *(("be", "joint", 5, fusion) for fusion in ("none", "add", "norm_add")),
    ]


def test_synthetic_pools(lexlip: Run, models: Path) -> None:
    sizes = ["--photos", 20, "--photos", 600, "--queries", 2]
    table = table_of(lexlip, "retrieve-3", "mini", "be", "--rerank", "ce", *sizes)
    assert [(row["model"], row["k"], row["photos"]) for row in table["rows"]] == [
        (model, k, photos)
        for photos in (20, 600)
        for model, k in (("ce", None), ("mini", None), ("mini", 20), ("be", None), ("be", 20))
    ]
    assert [row["seconds"]["scored"] for row in table["rows"]] == [None] * 5 + [512] + [None] * 4
    assert any("timed on 512 photos with 2 captions" in note for note in table["notes"])


def test_photos_that_cannot_be_read_are_named(lexlip: Run, models: Path, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    (photos / "bad.txt").write_text("two dogs play\n")
    result = lexlip(
        "table", "retrieve-5", "be", "--source", "photos", "--pool", "scenes:3:0", "--rerank", "ce"
    )
    assert result.stderr.splitlines() == ["1 skipped:", "  photos/bad.jpg: empty file"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stages", "ce"], "ce is a ce model, which has no vectors to find photos by; it reranks what"),
        (["stages", "be", "--rerank", "mini"], "mini is a first stage and cannot rerank"),
        (["stages", "be", "maxi"], "no model 'maxi': "),
        (["retrieve-8", "be"], "this table is about reranking: name a ce or a joint model with --rerank"),
        (["stages", "bm25", "--captions", 1], "bm25 needs a second caption of a photo to ask with"),
        (
            ["retrieve-3", "bm25", "--rerank", "ce"],
            "bm25 has no vectors to fill a pool up with: leave it out",
        ),
    ],
)
def test_what_is_missing(lexlip: Run, models: Path, arguments: list[Any], says: str) -> None:
    assert says in error(lexlip("table", *arguments, *SCENES, code=2))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stages", "be"], "Missing option '--source'"),
        (["stages", *SCENES], "Missing argument 'MODEL...'"),
        (["lightningdot-2", "be", *SCENES], "Missing option '--pool'"),
        (["retrieve-5", "be", *SCENES, "--pool", "scenes:12:0"], "are in the pool already."),
        (["retrieve-9", "be", *SCENES, "--rerank-fusion", "max"], "'max' is not one of"),
        (["stages", "be", *SCENES, "--markdown", "--json"], "--markdown or --json, one of the two."),
        (["stages", "be", *SCENES, "--rerank-k", 0], "0 is not in the range x>=1."),
    ],
)
def test_misuse(lexlip: Run, arguments: list[Any], says: str) -> None:
    result = lexlip("table", *arguments, code=2)
    assert says in result.stderr.splitlines()[-1]
    assert result.stdout == ""
