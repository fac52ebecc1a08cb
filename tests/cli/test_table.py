"""What the commands of `lexlip table` print; test_table_options.py has what they take."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lexlip.data import open_source
from lexlip.data.source import no_captions
from lexlip.measure.bm25_recall import draw_documents
from lexlip.measure.pool import CaptionedPool
from lexlip.models.one_transformer import VLDeformer
from tests.cli.conftest import Run, error
from tests.cli.test_evaluate import write_karpathy
from tests.conftest import write_photos
from tests.tiny import tiny_dense, tiny_stage
from tests.tiny_clip import write_clip, write_siglip
from tests.training.run_folders import write_run

SCENES = ["--source", "scenes:12:0", "--workers", 0]
QUICK = ["--rounds", "1", "--workers", "0"]
NO_WORDS = {"flops_image": 0, "flops_text": 0}
DENSE = {"model": {"kind": "dense"}, "objective": NO_WORDS}
CE = {"model": {"kind": "ce"}, "objective": {"contrastive": 0, "matching": 1, **NO_WORDS}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, in_this_process: None) -> Iterator[None]:
    """Speed is measured for a short time, and nothing warms up."""
    monkeypatch.setattr("lexlip.bench.clocks.queries_per_second.__defaults__", (5, 0.001, False))
    monkeypatch.setattr("lexlip.bench.clocks.WARM_UP", 0)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)  # what is timed here leaves torch one thread


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models in folders of these names, not to be changed."""
    folder = tmp_path_factory.mktemp("models")
    for seed, kind in enumerate(("be", "ce", "joint")):
        tiny_stage(kind, seed=seed).save(folder / kind)
    tiny_dense().save(folder / "cls")
    return folder


@pytest.fixture
def models(saved: Path, tmp_path: Path, lexlip: Run) -> Path:
    """The folder in which the command line runs, with these models."""
    for model in saved.iterdir():
        (tmp_path / model.name).symlink_to(model)
    return tmp_path


@pytest.fixture
def runs(models: Path, model_folder: Path, other_model: Path) -> Path:
    """Two phases and a dense run."""
    first = {"objective": {"mlm": 1, "image_to_text": 1, "text_to_text": 1}}
    write_run(models / "runs" / "one", first, [20, 10], model_folder)
    second = {"init": "runs/one/best", "objective": {"queue": 64}}
    write_run(models / "runs" / "two", second, [30], other_model)
    write_run(models / "runs" / "dense", DENSE, [5], models / "cls")
    return models / "runs"


@pytest.fixture
def two_captions(photos: Path) -> Path:
    for text in photos.glob("*.txt"):
        caption = text.read_text().strip()
        text.write_text(f"{caption}\n{' '.join(reversed(caption.split()))}\n")
    return photos


# ---- tables of models ----


def numbers(line: str) -> list[str]:
    """The last ten cells: six recalls, their mean, terms, words@10, and P@5 of words."""
    return line.split()[-10:]


def test_table_1_from_the_runs_own_validations(lexlip: Run, runs: Path) -> None:
    lines = lexlip("table", "1", "runs/one", "runs/two").stdout.splitlines()
    assert lines[0].split() == (
        "model documents T2I R@1 R@5 R@10 I2T R@1 R@5 R@10 mean terms words@10 words P@5".split()
    )
    assert [line.split()[:2] for line in lines[1:3]] == [["runs/one", "all"], ["runs/two", "all"]]
    assert numbers(lines[1]) == ["20.0"] * 8 + ["0.250", "-"]
    assert numbers(lines[2]) == ["30.0"] * 7 + ["20.0", "0.250", "-"]
    assert lines[3].split("  ")[0] == "paper: Frozen (5.5M pairs), Flickr30k 1k"
    assert lines[19].split()[:3] == ["paper:", "LexLIP", "(14.3M"]
    assert lines[19].split()[-10:] == [*"53.2 79.1 86.7 70.2 90.7 95.2".split(), *["–"] * 4]
    assert lines[20:] == [
        "",
        "Validation on scenes:400:1000000 (10 images, 50 captions), by brute force, at each run's best"
        " checkpoint.",
        "Lines marked paper: its Table 1 (arXiv 2302.02908), on the test sets of Flickr30k and MSCOCO; – is"
        " what it does not give.",
    ]


def test_table_3_names_what_differs_from_the_full_method(lexlip: Run, runs: Path) -> None:
    table = json.loads(lexlip("table", "3", "runs/two", "runs/one", "runs/dense", "--json").stdout)
    assert list(table) == ["table", "rows", "notes", "paper"]
    assert table["table"] == 3
    assert table["notes"][1].startswith("Lines marked paper: its Table 3 (arXiv 2302.02908), row by row;")
    assert table["paper"][1]["model"] == "row 2"
    assert list(table["paper"][1]["figures"].values()) == [59.5, 85.6, 91.8, 73.4, 92.9, 96.5]
    assert [(row["model"], row["method"], row["documents"]) for row in table["rows"]] == [
        ("runs/two", "LexLIP", "all"),
        ("runs/one", "LexLIP without phase 2", "all"),
        ("runs/dense", "Dense without L_self, L_i2t, L_t2t, phase 2", "dense"),
    ]
    assert [row["mean_recall"] for row in table["rows"]] == [30, 20, 5]
    lines = lexlip("table", "3", "runs/two", "runs/one").stdout.splitlines()
    assert lines[2].split()[:5] == ["runs/one", "LexLIP", "without", "phase", "2"]
    assert lines[3].split()[:4] == ["paper:", "row", "1", "–"]


def test_runs_of_several_seeds_are_one_row(lexlip: Run, runs: Path, model_folder: Path) -> None:
    first = {"objective": {"mlm": 1, "image_to_text": 1, "text_to_text": 1}}
    for seed, recall in ((1, 10), (2, 20), (3, 36)):
        write_run(runs / str(seed), {**first, "seed": seed}, [recall], model_folder)
    together = "runs/1,runs/2,runs/3"
    lines = lexlip("table", "3", together, "runs/two", "--markdown").stdout.splitlines()
    cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    assert cells[:3] == [together, "LexLIP without phase 2", "all"]
    assert cells[3:10] == [f"{np.mean([10, 20, 36]):.1f} ± {np.std([10, 20, 36], ddof=1):.1f}"] * 7
    assert lines[3].startswith("| runs/two | LexLIP | all | 30.0 |")
    assert "± is the standard deviation (n - 1) of the runs of a row." in lines

    alone, row = (
        json.loads(lexlip("table", "1", of, "--json").stdout)["rows"] for of in ("runs/2", together)
    )
    assert list(row[0]) == [*alone[0], "deviation", "runs"]
    assert (row[0]["model"], row[0]["documents"], row[0]["runs"][1]) == (together, "all", alone[0])
    assert row[0]["t2i"]["R@5"] == row[0]["mean_recall"] == pytest.approx(22)
    assert row[0]["deviation"]["i2t"]["R@1"] == pytest.approx(np.std([10, 20, 36], ddof=1))
    assert row[0]["short_queries"] is None


def test_seeds_on_photos(lexlip: Run, runs: Path, photos: Path) -> None:
    options = ["--source", "photos", "--topk", "4", "--topk", "all", "--json"]
    together, one, two = (
        json.loads(lexlip("table", "1", of, *options).stdout)["rows"]
        for of in ("runs/one,runs/two", "runs/one", "runs/two")
    )
    assert [row["documents"] for row in together] == ["top-4", "all"]
    for row, *each in zip(together, one, two, strict=True):
        assert row["runs"] == each
        assert row["terms_kept"] == pytest.approx(np.mean([run["terms_kept"] for run in each]))


def test_what_is_no_row_of_seeds(lexlip: Run, runs: Path) -> None:
    assert error(lexlip("table", "3", "runs/one,runs/two", code=2)) == (
        "runs/one,runs/two is to be one row, of runs that differ by their seeds, but runs/one: LexLIP without"
        " phase 2, runs/two: LexLIP"
    )
    assert error(lexlip("table", "1", "runs/one,runs/none", code=2)).startswith("runs/none ")
    (runs / "one").rename(runs / "one,more")  # a folder's own name
    rows = json.loads(lexlip("table", "1", "runs/one,more", "--json").stdout)["rows"]
    assert [row["model"] for row in rows] == ["runs/one,more"]


def test_markdown(lexlip: Run, runs: Path) -> None:
    lines = lexlip("table", "3", "runs/one", "--markdown").stdout.splitlines()
    assert lines[2].startswith("| runs/one | LexLIP without phase 2 | all | 20.0 |")
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == 14


def test_measured_on_photos(lexlip: Run, runs: Path, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    options = ["--source", "photos", "--engine", "exact", "--topk", "4", "--topk", "all"]
    result = lexlip("table", "1", "runs/two", "runs/dense", "mini", *options, "--json")
    table = json.loads(result.stdout)
    assert [(row["model"], row["documents"]) for row in table["rows"]] == [
        *(("runs/two", "top-4"), ("runs/two", "all"), ("runs/dense", "dense")),
        *(("mini", "top-4"), ("mini", "all")),
    ]
    alone = json.loads(lexlip("evaluate", "photos", "--engine", "exact", "--topk", 4, "--json").stdout)
    assert {key: table["rows"][3][key] for key in alone} == alone
    assert table["notes"][0] == "Measured on photos: 6 images, 6 captions, one pool, exact engine."
    assert result.stderr.splitlines() == ["1 skipped:", "  bad.jpg: empty file"]


def test_the_index_is_the_default_and_dense_models_are_measured_all_the_same(
    lexlip: Run, runs: Path, photos: Path
) -> None:
    lines = lexlip("table", "3", "runs/one", "runs/dense/best", "--source", "photos").stdout.splitlines()
    assert [line.split()[-11] for line in lines[1:4]] == ["all", "top-32", "dense"]
    assert lines[3].split()[-2:] == ["-", "-"]
    assert lines[-2] == "Measured on photos: 6 images, 6 captions, one pool, lucene and flat engines."


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


# ---- a table of systems ----


def test_table_2(lexlip: Run, two_captions: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 4)
    (two_captions / "bad.jpg").touch()
    result = lexlip("table", "2", "--queries", "photos", "--pool", "more", *QUICK)
    heading, *lines = result.stdout.split("\n\n")[0].splitlines()
    assert heading.startswith("system ")
    assert [line.split("  ")[0] for line in lines] == [
        "BM25",
        "CLIP, one by one",
        "CLIP, 256 together",
        *["LexLIP"] * 6,
    ]
    rows = [line.split() for line in lines[3:]]
    assert [row[1] for row in rows] == ["all", "top-64", "top-32", "top-16", "top-12", "top-8"]
    assert [row[-9:] for row in rows][3] == "47.0 48.0 610 28.3 44.2 50.6 47.4 70.1 75.9".split()
    notes = result.stdout.split("\n\n")[1].splitlines()
    assert notes[0] == (
        "Measured with the 6 photos and 12 captions of photos in a pool of 10 photos and 16 captions."
    )
    assert notes[-1].startswith("paper: its Table 2 (arXiv 2302.02908)")
    assert result.stderr.splitlines() == ["1 skipped:", "  photos/bad.jpg: empty file"]


def test_table_2_as_json(lexlip: Run, two_captions: Path) -> None:
    """Its recalls are those of `lexlip evaluate` with the captions that are no documents of BM25's."""
    options = ["--topk", "4", "--topk", "all", "--topk", "4", "--synthetic-distractors", "0"]
    table = json.loads(lexlip("table", "2", "--queries", "photos", *options, *QUICK, "--json").stdout)
    assert list(table) == ["table", "rows", "notes", "paper"]
    assert table["table"] == 2
    rows = {row["documents"]: row for row in table["rows"] if row["system"] == "LexLIP"}
    assert list(rows) == ["top-4", "all"]
    pool = CaptionedPool.of(open_source("photos"))
    for row in draw_documents(pool, np.random.default_rng(0)).others:
        caption = two_captions / Path(pool.image_ids[pool.owners[row]]).with_suffix(".txt")
        caption.write_text(pool.texts[row])
    alone = json.loads(lexlip("evaluate", "photos", "--topk", 4, "--json").stdout)
    assert (rows["top-4"]["t2i"], rows["top-4"]["i2t"]) == (alone["t2i"], alone["i2t"])
    assert rows["top-4"]["photo_bytes_by_the_papers_accounting"] == 12


@pytest.mark.parametrize("write", [write_clip, write_siglip])
def test_table_2_of_a_clip_and_a_split(lexlip: Run, tmp_path: Path, write: Callable[[Path], Path]) -> None:
    write(tmp_path / "clip")
    write_karpathy(tmp_path / "scenes")
    source = ["--queries", "dataset.json", "--images", "scenes", "--split", "test"]
    options = ["--clip", "clip", "--topk", "8", "--synthetic-distractors", "20", "--threads", "2"]
    lines = lexlip("table", "2", *source, *options, *QUICK, "--markdown").stdout.splitlines()
    assert lines[1].startswith("| --- | --- | ---: |")
    cells = [line.strip("| ").split(" | ") for line in lines[2:8]]
    assert [row[:2] for row in cells] == [
        *(["BM25", "captions"], ["clip, one by one", "dense"], ["clip, 256 together", "dense"]),
        *(["clip, one by one", "int8"], ["clip, HNSW", "dense"], ["LexLIP", "top-8"]),
    ]
    assert "-" not in cells[1][:13]


def test_table_2_of_a_dense_model(lexlip: Run, models: Path, two_captions: Path) -> None:
    """As text and as JSON it says the same; the recall by brute force is that of `lexlip evaluate`."""
    options = ["--queries", "photos", "--pool", "scenes:256:0", "--topk", "8", *QUICK]
    table = json.loads(lexlip("table", "2", *options, "--dense", "cls", "--json").stdout)
    rows = table["rows"]
    assert [(row["system"], row["documents"]) for row in rows] == [
        *(("BM25", "captions"), ("cls, one by one", "dense"), ("cls, 256 together", "dense")),
        *(("cls, one by one", "int8"), ("cls, HNSW", "dense"), ("cls, IVF-PQ", "PQ"), ("LexLIP", "top-8")),
    ]
    assert [row["photo_bytes"] > 0 for row in rows] == [True] * 7
    assert [row["photo_bytes_by_the_papers_accounting"] for row in rows[1:6]] == [64, 64, None, None, None]
    assert [row["paper"] is None for row in rows] == [False, False, *[True] * 4, False]
    assert any(note.startswith("Faiss: brute force scores queries one by one") for note in table["notes"])

    heading, _, *lines = lexlip("table", "2", *options, "--clip", "cls", "--markdown").stdout.splitlines()
    names = heading.strip("| ").split(" | ")
    exact = [row for row in rows if row["system"] not in ("cls, HNSW", "cls, IVF-PQ")]  # made anew, alike
    shown = {tuple(cells[:2]): cells for line in lines[:7] if (cells := line.strip("| ").split(" | "))}
    for row in exact:
        cells = dict(zip(names[:13], shown[row["system"], row["documents"]][:13], strict=True))
        assert cells["real"] == f"{row['photo_bytes']:.0f}"
        assert cells["T2I R@1"] == f"{row['t2i']['R@1']:.1f}"
        assert cells["I2T R@1"] == f"{row['i2t']['R@1']:.1f}"


def test_table_2_without_faiss(
    lexlip: Run, models: Path, two_captions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    options = ["--queries", "photos", "--topk", "8", *QUICK, "--dense", "cls"]
    table = json.loads(lexlip("table", "2", *options, "--json").stdout)
    assert [row["system"] for row in table["rows"]] == ["BM25", "LexLIP"]
    says = "The rows of dense vectors are left out: this needs faiss: pip install 'lexlip[dense]'."
    assert says in table["notes"]
    assert says in lexlip("table", "2", *options).stdout.splitlines()


# ---- tables of stages ----


def table_of(lexlip: Run, *arguments: object) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(lexlip("table", *arguments, *SCENES, "--json").stdout)
    assert list(table) == ["table", "rows", "notes", "paper"]
    assert table["table"] == arguments[0]
    return table


def rows_of(lexlip: Run, *arguments: object) -> list[tuple[Any, ...]]:
    rows = table_of(lexlip, *arguments)["rows"]
    return [(row["model"], row["rerank"], row["k"], row["fusion"]) for row in rows]


def test_stages(lexlip: Run, models: Path) -> None:
    names = ["mini", "be", "bm25", "joint", "cls", "be"]
    rows = table_of(lexlip, "stages", *names, "--rerank", "ce", "--pairs", 4, "--queries", 6)["rows"]
    rerankers = {"mini": "ce", "be": "ce", "bm25": "ce", "joint": "joint", "cls": "ce"}
    assert [(row["model"], row["rerank"]) for row in rows] == [
        (model, reranker) for model, second in rerankers.items() for reranker in (None, second)
    ]
    for row in rows:
        seconds = row["seconds"]
        assert seconds["queries"] == 6
        assert 0 < seconds["min"] <= seconds["p50"] <= seconds["p99"] <= seconds["max"]
        assert (seconds["rerank"] > 0) == (row["rerank"] is not None)
        assert row["photo_bytes"] > 0
        assert 0 <= row["mean_recall"] <= 100
        assert row["training_minutes"] is None


def test_text_and_markdown_of_stages(lexlip: Run, models: Path) -> None:
    lines = lexlip("table", "lightningdot-1", "mini", "--rerank", "ce", *SCENES).stdout.splitlines()
    assert lines[0].split() == ("model reranked by documents k T2I R@1 R@5 R@10 I2T R@1 R@5 R@10 AR".split())
    assert lines[1].split()[:4] == ["mini", "-", "top-32", "-"]
    assert lines[2].split()[:4] == ["mini", "ce", "top-32", "20"]
    assert lines[3].split("  ")[0] == "paper: LightningDOT, Flickr30k 1k"
    assert lines[3].split()[-7:] == "69.9 91.1 95.2 83.9 97.2 98.6 89.3".split()
    assert lines[7] == ""
    assert lines[8] == (
        "Measured with 12 photos and 60 captions of scenes:12:0, in a pool of 12 photos and 60 captions."
    )
    assert "Words (top-32) in Lucene." in lines[9]
    assert lines[-2].startswith("Lines marked paper are of its Table 1 (arXiv 2103.08784)")
    assert "Flickr30k T2I 69.9 / 91.1 / 95.2" in lines[-1]
    lines = lexlip("table", "lightningdot-1", "be", *SCENES, "--markdown").stdout.splitlines()
    assert lines[0].startswith("| model | documents | T2I R@1 |")
    assert lines[2].startswith("| be | dense |")


def test_larger_pools(lexlip: Run, models: Path) -> None:
    for name in ("lightningdot-2", "retrieve-5"):
        table = table_of(lexlip, name, "be", "--pool", "scenes:5:7", "--pool", "scenes:4:9", "--rerank", "ce")
        assert [row["photos"] for row in table["rows"]] == [21, 21]
        assert table["notes"][0] == (
            "Measured with 12 photos and 60 captions of scenes:12:0, in a pool of 21 photos and 105 captions."
        )


def test_recalls_at_20_hits(lexlip: Run, models: Path) -> None:
    rows = table_of(lexlip, "lightningdot-2", "be", "--pool", "scenes:30:7", "--rerank", "ce")["rows"]
    for row in rows:
        recalls = [row[way][f"R@{k}"] for way in ("t2i", "i2t") for k in (5, 10, 20)]
        assert row["average_recall"] == pytest.approx(sum(recalls) / 6)
        assert list(row["t2i"]) == ["R@1", "R@5", "R@10", "R@20"]
        assert row["t2i"]["R@10"] <= row["t2i"]["R@20"]
    assert rows[0]["t2i"]["R@20"] == rows[1]["t2i"]["R@20"]  # the same twenty, in another order
    first = ["lightningdot-2", "be", "--pool", "scenes:30:7"]
    heading = lexlip("table", *first, *SCENES).stdout.splitlines()[0].split()
    assert heading == "model documents T2I R@5 R@10 R@20 I2T R@5 R@10 R@20 AR".split()


def test_folds(lexlip: Run, models: Path) -> None:
    rows = table_of(lexlip, "vldeformer-2", "be", "--folds", 3, "--folds", 1)["rows"]
    assert [(row["folds"], row["photos"]) for row in rows] == [(3, 4), (1, 12)]
    for options, says in (
        (["--pairs", 3], "--folds divides photos that are all queries: leave out --pairs"),
        (["--folds", 13], "12 photos cannot be divided into 13 folds"),
    ):
        assert error(lexlip("table", "vldeformer-2", "be", *options, *SCENES, code=2)) == says


def test_speed_up(lexlip: Run, models: Path) -> None:
    rows = table_of(lexlip, "lightningdot-3", "be", "--rerank", "ce", "--queries", 4)["rows"]
    assert [(row["model"], row["documents"], row["k"]) for row in rows] == [
        *(("ce", "pairs", None), ("be", "dense", None), ("be", "dense", 20)),
    ]
    for row in rows:
        assert row["speed_up"] == pytest.approx(rows[0]["seconds"]["mean"] / row["seconds"]["mean"])
        assert row["t2i"] is None


def test_single_queries_and_a_picture(lexlip: Run, models: Path) -> None:
    lexlip("table", "vldeformer-4", "mini", "be", *SCENES, "--queries", 5, "--plot", "plot.svg")
    assert "<svg" in Path("plot.svg").read_text()
    table = table_of(lexlip, "vldeformer-4", "mini", "--queries", 5, "--ann", "hnsw")
    assert table["rows"][0]["seconds"]["peak_mb"] > 10
    tail = "P99.99 of 5 queries is practically the longest of them"
    assert any(note.startswith(tail) for note in table["notes"])


def test_all_queries_of_pools_of_several_sizes(lexlip: Run, models: Path) -> None:
    sizes = ["--photos", 12, "--photos", 40]
    rows = table_of(lexlip, "vldeformer-figure-5", "mini", "--rerank", "ce", "--queries", 3, *sizes)["rows"]
    assert [(row["model"], row["k"], row["photos"], row["queries"]) for row in rows] == [
        (model, k, photos, 5 * photos)
        for photos in (12, 40)
        for model, k in (("ce", None), ("mini", None), ("mini", 20))
    ]
    for row in rows:
        assert row["total_seconds"] == pytest.approx(row["queries"] * row["seconds"]["mean"])


def test_a_cross_encoder_that_was_not_decomposed(lexlip: Run, models: Path) -> None:
    """It is an encoder all the same, with its own weights."""
    write_run(Path("runs/ce"), CE, checkpoint=Path("ce"))
    [row] = table_of(lexlip, "vldeformer-5", "runs/ce")["rows"]
    assert row["method"].startswith("without decomposing, ")
    assert row["documents"] == "dense"
    VLDeformer.from_pretrained("ce", or_relative=True).save(Path("decomposed"))
    alone = json.loads(lexlip("evaluate", "scenes:12:0", "--model", "decomposed", "--json").stdout)
    assert (row["t2i"], row["i2t"]) == (alone["t2i"], alone["i2t"])


def test_retrieve_fast(lexlip: Run, models: Path) -> None:
    few = ["--pairs", 4, "--captions", 2]
    table = table_of(lexlip, "retrieve-1", "be", "joint", "--rerank", "ce", *few)
    assert [(row["model"], row["rerank"], row["photos"]) for row in table["rows"]] == [
        *(("ce", None, 4), ("be", None, 4), ("be", "ce", 4), ("joint", None, 4), ("joint", "joint", 4)),
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


def test_several_languages(lexlip: Run, models: Path, photos: Path) -> None:
    rows = [
        f"{text.with_suffix('.jpg').name}\tzwei {text.read_text().strip()}" for text in photos.glob("*.txt")
    ]
    Path("de.tsv").write_text("\n".join(["image\tcaption", *rows]) + "\n")
    languages = ["--language", "en=photos", "--language", "de=de.tsv", "--images", "photos"]
    options = [*languages, "--workers", 0, "--rerank", "ce"]
    table = json.loads(lexlip("table", "retrieve-2", "mini", "be", *options, "--json").stdout)
    assert [(row["model"], row["rerank"]) for row in table["rows"]] == [
        *(("mini", None), ("mini", "ce"), ("be", None), ("be", "ce")),
    ]
    german = ["de.tsv", "--images", "photos", "--model", "be"]
    alone = json.loads(lexlip("evaluate", *german, "--json").stdout)
    be = table["rows"][2]
    assert be["languages"]["de"] == {key: alone[key] for key in ("t2i", "i2t", "mean_recall")}
    assert (list(be["languages"]), be["t2i"]) == (["en", "de"], None)
    assert ["Measured with 6 photos" in note for note in table["notes"][:3]] == [True, True, False]
    for name in ("lightningdot-6", "retrieve-7"):
        lines = lexlip("table", name, "be", *languages, "--workers", 0).stdout.splitlines()
        assert lines[0].split()[:6] == ["model", "documents", "en", "de", "fr", "cs"]
        assert lines[1].split()[4:6] == ["-", "-"]


def test_several_collections(lexlip: Run, runs: Path, photos: Path) -> None:
    sources = ["--source", "scenes:12:0", "--source", "photos", "--workers", 0]
    rows = json.loads(lexlip("table", "retrieve-6", "runs/dense", "mini", *sources, "--json").stdout)["rows"]
    assert [(row["model"], row["collection"], row["photos"], row["trained_on"]) for row in rows] == [
        ("runs/dense", "scenes:12:0", 12, "scenes:4000:0"),
        ("mini", "scenes:12:0", 12, None),
        ("runs/dense", "photos", 6, "scenes:4000:0"),
        ("mini", "photos", 6, None),
    ]
    alone = json.loads(lexlip("evaluate", "photos", "--model", "runs/dense/best", "--json").stdout)
    assert rows[2]["t2i"] == alone["t2i"]


def test_whole_evaluations(lexlip: Run, models: Path) -> None:
    sizes = ["--photos", 6, "--photos", 12, "--photos", 24]
    table = table_of(lexlip, "retrieve-4", "be", "bm25", "--rerank", "ce", *sizes)
    assert [(row["model"], row["rerank"], row["photos"]) for row in table["rows"]] == [
        (model, reranker, photos)
        for photos in (6, 12, 24)
        for model, reranker in (("ce", None), ("be", None), ("be", "ce"), ("bm25", None), ("bm25", "ce"))
    ]
    assert [row["evaluation"]["extrapolated"] for row in table["rows"]] == [None] * 10 + [12] * 5


def test_runs_named_by_what_is_varied(lexlip: Run, models: Path) -> None:
    tiny_stage("lightningdot").save(Path("dot"))
    objective = {"vmlm": 1, "smrm": 1, **NO_WORDS}
    sections = {"model": {"kind": "lightningdot"}, "data": {"train": [{"path": "scenes:20:0"}]}}
    run = write_run(Path("runs/dot"), {**sections, "objective": objective}, checkpoint=Path("dot"))
    for name, label in (
        ("lightningdot-4", "image vit_tiny_patch16_224, random; text random BERT; CMR + VMLM + SMRM"),
        ("lightningdot-5", "CMR + VMLM + SMRM"),
        ("retrieve-figure-3", "20 training photos"),
        ("retrieve-figure-4", "1 layers"),
    ):
        [row] = table_of(lexlip, name, run)["rows"]
        assert row["method"] == label
        assert row["average_recall"] == pytest.approx(row["mean_recall"])


def test_photos_that_cannot_be_read_are_named(lexlip: Run, models: Path, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    (photos / "bad.txt").write_text("two dogs play\n")
    result = lexlip(
        "table", "retrieve-5", "be", "--source", "photos", "--pool", "scenes:3:0", "--rerank", "ce"
    )
    assert result.stderr.splitlines() == ["1 skipped:", "  photos/bad.jpg: empty file"]


# ---- what cannot be measured ----


NO_RESULTS = " has no validation results (metrics.jsonl); name a run's folder, or give photos to measure on"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        # of models
        (["1", "mini"], f"mini{NO_RESULTS} (--source)"),
        (["1", "runs/one/best"], f"runs/one/best{NO_RESULTS} (--source)"),
        (["3", "mini"], "mini is neither a training run nor one of its checkpoints: no config.yaml there"),
        (["1", "runs/one", "maxi", "--source", "photos"], "no model 'maxi': "),
        (["1", "runs/one", "--source", "nothing"], "nothing does not exist"),
        (["1", "runs/one", "--source", "bare"], str(no_captions("bare"))),
        # of systems
        (["2", "--queries", "nothing"], "nothing does not exist"),
        (["2", "--queries", "photos", "--pool", "nothing"], "nothing does not exist"),
        (["2", "--queries", "photos", "--model", "maxi"], "no model 'maxi': "),
        (["2", "--queries", "photos", "--model", "cls"], "cls holds a dense model, not a lexlip one"),
        (["2", "--queries", "photos", "--dense", "no"], "no model 'no': "),
        (["2", "--queries", "photos", "--dense", "mini"], "mini is a model of words: give a dense one as"),
        (["2", "--queries", "photos", "--dense", "ce"], "ce is a ce model, which has no vectors to find"),
        (["2", "--queries", "photos", "--split", "a"], "photos holds its photos itself: split is for tables"),
        (["2", "--queries", "bare"], str(no_captions("bare"))),
        # of stages
        (
            ["stages", "ce", *SCENES],
            "ce is a ce model, which has no vectors to find photos by; it can rerank",
        ),
        (["stages", "be", *SCENES, "--rerank", "mini"], "mini is a first stage and cannot rerank"),
        (["stages", "be", "maxi", *SCENES], "no model 'maxi': "),
        (["retrieve-8", "be", *SCENES], "this table is about reranking: name a ce or a joint model with"),
        (
            ["stages", "bm25", *SCENES, "--captions", 1],
            "bm25 needs a second caption of a photo to search with",
        ),
        (["retrieve-3", "bm25", *SCENES, "--rerank", "ce"], "bm25 has no vectors to enlarge a pool with"),
        (["vldeformer-4", "be", *SCENES, "--plot", "plot.doc"], "cannot draw plot.doc: name it ."),
        (["vldeformer-5", "mini", *SCENES], "mini is neither a training run nor one of its checkpoints"),
        (
            ["lightningdot-1", "runs/ce", *SCENES],
            "runs/ce is a ce model, which has no vectors to find photos",
        ),
    ],
)
def test_what_is_missing(lexlip: Run, runs: Path, photos: Path, arguments: list[Any], says: str) -> None:
    Path("bare").mkdir()
    (photos / "0.jpg").rename("bare/0.jpg")
    write_run(Path("runs/ce"), CE, checkpoint=Path("ce"))
    assert error(lexlip("table", *arguments, code=2)).startswith(says)


def test_ctrl_c_is_one_sentence(lexlip: Run, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lexlip.bench.tables.stages.measure_stages", interrupt)
    result = lexlip("table", "stages", "be", *SCENES, code=130)
    assert result.stderr == "Error: interrupted: nothing was measured\n"
