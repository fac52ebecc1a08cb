import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.data import Scenes, open_source
from lexlip.data.source import no_captions
from lexlip.measure.evaluate import evaluate
from lexlip.models.load import load_model
from lexlip.search.engines.exact import engine_for
from tests.cli.conftest import Run, as_json, error
from tests.measure.test_trec import FILES, trec_eval
from tests.tiny import tiny_dense


@pytest.fixture(scope="module")
def dense_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "dense"
    tiny_dense().save(folder)
    return folder


def test_json(lexlip: Run, photos: Path) -> None:
    (photos / "bad.jpg").touch()
    result = lexlip("evaluate", "photos", "--json")
    report = json.loads(result.stdout)
    assert list(report) == [
        *("images", "captions", "t2i", "i2t", "mean_recall"),
        *("terms_image", "terms_text", "terms_kept", "words@10"),
        *("words@10_chance", "words@10_human", "short_queries"),
    ]
    assert report["mean_recall"] == pytest.approx(np.mean([*report["t2i"].values(), *report["i2t"].values()]))
    assert (report["images"], report["captions"]) == (6, 6)
    for way in ("t2i", "i2t"):
        recalls = report[way]
        assert list(recalls) == ["R@1", "R@5", "R@10"]
        assert 0 <= recalls["R@1"] <= recalls["R@5"] <= recalls["R@10"] <= 100
    assert report["terms_image"] > 0
    assert report["terms_text"] > 0
    assert 0 <= report["words@10"] <= 1
    assert result.stderr.splitlines() == ["1 skipped:", "  bad.jpg: empty file"]


@pytest.mark.parametrize("engine", ["lucene", "exact"])
def test_text(lexlip: Run, photos: Path, engine: str) -> None:
    report = as_json(lexlip, "evaluate", "photos", "--engine", engine)
    lines = lexlip("evaluate", "photos", "--engine", engine).stdout.splitlines()
    assert lines[0] == f"6 images, 6 captions, {engine} engine, top-32"
    for line, name, way in zip(lines[1:3], ("text to image", "image to text"), ("t2i", "i2t"), strict=True):
        assert line.split("   ")[0].strip() == name
        assert [float(part.split()[1]) for part in line.split("   ")[1:]] == [
            round(value, 1) for value in report[way].values()
        ]
    assert lines[3] == f"  mean recall {report['mean_recall']:.1f}"
    assert lines[4].startswith(f"  words an image {report['terms_image']:.1f}, a text ")
    chance = f"the same ten words for all {report['words@10_chance']:.3f}"
    assert lines[5:] == [f"  words@10 {report['words@10']:.3f} ({chance})"]
    assert set(report["short_queries"].values()) == {None}  # of six photos with a long caption each
    assert not Path(".lexlip").exists()


def test_short_queries(lexlip: Run) -> None:
    short = as_json(lexlip, "evaluate", "scenes:30:1")["short_queries"]
    assert list(short) == ["agreed_words", "all_words", "pairs", "captions"]
    lines = lexlip("evaluate", "scenes:30:1").stdout.splitlines()
    for name, label in (("agreed_words", "agreed words"), ("all_words", "all words")):
        found = short[name]
        assert (found["missing"], found["silent"]) == (0, None)  # the tiny model knows of no end
        assert (
            f"  {label:14}   {found['queries']:5}   P@5 {found['P@5']:.3f}   P@10 {found['P@10']:.3f}"
            "   own words missing 0"
        ) in lines
    bm25 = as_json(lexlip, "evaluate", "scenes:30:1", "--model", "bm25")["short_queries"]
    assert bm25["all_words"]["queries"] == short["all_words"]["queries"]
    assert bm25["all_words"]["missing"] is None
    assert bm25["all_words"]["P@5"] > short["all_words"]["P@5"]  # of a random model


REPORTS: dict[str, tuple[list[object], str, dict[str, Any]]] = {
    "words": (["--topk", 5], "exact", {}),
    "all words": (["--topk", "all"], "exact", {"topk_words": None}),
    "words of a query": (["--topk", 5, "--query-topk", 1], "exact", {"query_topk": 1}),
    "a weight per word": (["--query-encoder", "words", "--topk", 5], "exact", {"query_encoder": "words"}),
    "the paper's": (["--quantization", "paper", "--topk", 5], "lucene", {"scheme": "paper"}),
}
"""What is typed beside a split of a Karpathy JSON, the engine, and what the library is given."""


@pytest.mark.parametrize("what", REPORTS)
def test_reports_are_those_of_the_library(lexlip: Run, tmp_path: Path, model_folder: Path, what: str) -> None:
    write_karpathy(tmp_path / "scenes")
    options, engine, given = REPORTS[what]
    source = ("dataset.json", "--images", "scenes", "--split", "test", "--workers", 0)
    report = as_json(lexlip, "evaluate", *source, "--engine", engine, *options)
    model: Any = load_model(model_folder)
    engine_of = engine_for(model, engine, given.get("scheme", "unit"))[1]  # type: ignore[arg-type]
    photos = open_source("dataset.json", "scenes", "test")
    expected = evaluate(model, photos, engine_of, workers=0, **{"topk_words": 5, **given})
    assert report == json.loads(json.dumps(expected.to_dict()))
    assert (report["images"], report["captions"]) == (8, 40)


def test_a_split_that_is_not_there(lexlip: Run, tmp_path: Path) -> None:
    write_karpathy(tmp_path / "scenes")
    says = error(lexlip("evaluate", "dataset.json", "--images", "scenes", "--split", "val", code=2))
    assert "has no split 'val': it has test, train" in says


def write_karpathy(folder: Path, number: int = 12) -> Path:
    """A split file of drawn scenes, every third of which is of split train, with five captions each."""
    folder.mkdir()
    scenes = Scenes(number, seed=5)
    images = []
    for index, item in enumerate(scenes.items):
        scenes.image(index).save(folder / f"{index}.png")
        sentences = [{"raw": caption} for caption in item.captions]
        split = "train" if index % 3 == 0 else "test"
        images.append({"filename": f"{index}.png", "split": split, "sentences": sentences})
    Path("dataset.json").write_text(json.dumps({"images": images}))
    return folder


@pytest.mark.parametrize("engine", ["lucene", "exact"])
def test_run_files_hold_what_is_printed(lexlip: Run, tmp_path: Path, engine: str) -> None:
    write_karpathy(tmp_path / "my scenes")
    arguments = ["evaluate", "dataset.json", "--images", "my scenes", "--engine", engine]
    arguments += ["--run-files", "a/b"]
    report = as_json(lexlip, *arguments)
    assert report == as_json(lexlip, *arguments[:-2])
    for way in ("t2i", "i2t"):
        assert trec_eval(Path("a/b"), way, "success") == pytest.approx(report[way])
    assert sorted(path.name for path in Path("a/b").iterdir()) == FILES
    lines = lexlip(*arguments).stdout.splitlines()
    assert lines[-1] == "run files in a/b: trec_eval -c -m success.1,5,10 WAY.qrels WAY.run"


def test_run_files_that_cannot_be_written(lexlip: Run, photos: Path) -> None:
    Path("file").touch()
    says = error(lexlip("evaluate", "photos", "--run-files", "file/runs", code=2))
    assert says == f"cannot write run files to file/runs: {Path('file').absolute()} is a file"


def test_a_dense_model(lexlip: Run, photos: Path, dense_model: Path) -> None:
    arguments = ["evaluate", "photos", "--model", dense_model, "--engine", "exact"]
    report = as_json(lexlip, *arguments)
    assert (report["words@10"], report["terms_image"], report["terms_kept"]) == (None, None, None)
    assert report["t2i"]["R@10"] == 100  # six photos, all of which are found
    lines = lexlip(*arguments).stdout.splitlines()
    assert lines[0] == "6 images, 6 captions, exact engine, whole vectors"
    assert lines[3:] == [f"  mean recall {report['mean_recall']:.1f}"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--engine", "lucene"],
            "the dense model 'cls' has no words, so the lucene engine cannot search its vectors;"
            " use one of flat, hnsw, exact",
        ),
        (["--engine", "exact", "--topk", "8"], "a dense model has no words, so no top-8 of them can be kept"),
        (
            ["--engine", "exact", "--query-topk", "8"],
            "the dense model 'cls' has no words; leave out --query-topk",
        ),
        (
            ["--engine", "exact", "--query-encoder", "words"],
            "the dense model 'cls' has no words: use --query-encoder network",
        ),
    ],
)
def test_what_a_dense_model_cannot_do(
    lexlip: Run, photos: Path, dense_model: Path, options: list[str], says: str
) -> None:
    assert error(lexlip("evaluate", "photos", "--model", dense_model, *options, code=2)) == says


def test_a_pool_of_further_photos(lexlip: Run, photos: Path) -> None:
    few = ["evaluate", "photos", "--engine", "exact"]
    alone = as_json(lexlip, *few)
    report = as_json(lexlip, *few, "--pool", "scenes:30:1", "--pool", "scenes:40:1")
    assert (report["images"], report["captions"], report["short_queries"]) == (46, 6, None)
    assert report["i2t"] == alone["i2t"]  # the same captions are searched
    assert report["t2i"]["R@10"] <= alone["t2i"]["R@10"] == 100
    lines = lexlip(*few, "--pool", "scenes:30:1").stdout.splitlines()
    assert lines[0] == "36 images, 6 captions, exact engine, top-32"
    for options, says in (
        (["--pool", "photos"], "--pool photos: its photos are in the pool already"),
        (["--pool", "nothing"], "nothing does not exist"),
        (
            ["--pool", "scenes:3:1", "--model", "bm25"],
            "--pool is for models: bm25 takes photos with captions: leave it out",
        ),
    ):
        assert error(lexlip("evaluate", "photos", *options, code=2)) == says


def test_further_photos_do_not_come_last_among_equals(lexlip: Run, photos: Path) -> None:
    for number in range(1, 6):  # six equal photos, each of which is found by all captions alike
        (photos / f"{number}.jpg").write_bytes((photos / "0.jpg").read_bytes())
    Path("pool").mkdir()
    for number in range(30):  # and further ones that look the same, in other files
        Path(f"pool/{number}.jpg").write_bytes((photos / "0.jpg").read_bytes() + bytes(number + 1))
    report = as_json(lexlip, "evaluate", "photos", "--pool", "pool", "--engine", "exact")
    assert report["images"] == 36
    assert report["t2i"]["R@10"] < 100  # they would all be found if queries came first


def test_without_captions(lexlip: Run, photos: Path) -> None:
    for text in photos.glob("*.txt"):
        text.unlink()
    says = error(lexlip("evaluate", "photos", code=2))
    assert says == str(no_captions("photos"))


def test_a_table_and_its_images(lexlip: Run, photos: Path) -> None:
    rows = "".join(f"{number}.jpg\ta dog\n{number}.jpg\ta cat\n" for number in range(3))
    Path("captions.tsv").write_text(rows)
    report = as_json(lexlip, "evaluate", "captions.tsv", "--images", "photos")
    assert (report["images"], report["captions"]) == (3, 6)
    assert "captions.tsv" in error(lexlip("evaluate", "captions.tsv", code=2))


def test_what_is_missing(lexlip: Run, photos: Path) -> None:
    assert error(lexlip("evaluate", "nothing", code=2)) == "nothing does not exist"
    assert error(lexlip("evaluate", "photos", "--model", "maxi", code=2)).startswith("no model 'maxi': ")
    for photo in photos.glob("*.jpg"):
        photo.write_bytes(b"")
    assert "photos" in error(lexlip("evaluate", "photos", code=2))
