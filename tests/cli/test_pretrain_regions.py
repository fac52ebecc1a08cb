"""A model over a detector's regions, from its files to answers."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, as_json, error
from tests.conftest import ROOT
from tests.made_regions import CLASSES, FEATURES, write_folder, write_photos, write_table

CONFIG = ROOT / "configs" / "mini-regions.yaml"
SIZES = f"{{features: {FEATURES}, classes: {CLASSES}, most: 5}}"


def of(photos: str, regions: str) -> str:
    return f"[{{path: {photos}, regions: {regions}}}]"


def train(lexlip: Run, *overrides: str, regions: str = "regions", code: int = 0) -> list[str]:
    """Train on the photos of `train`; return its lines on stdout, or on stderr if it fails."""
    sources = f"data.train={of('train', regions)}", f"data.val={of('val', regions)}"
    small = f"model.image.options={SIZES}", "model.text.options.hidden_size=64", "data.workers=0"
    result = lexlip("pretrain", CONFIG, *sources, *small, *overrides, code=code)
    return str(result.stderr if code else result.stdout).splitlines()


def test_a_run_learns_and_its_model_is_measured_indexed_and_searched(lexlip: Run) -> None:
    """The features of a region are those of a word of the caption: the run finds out which."""
    regions = write_photos(Path("train"), 192, 1, "t{}") | write_photos(Path("val"), 30, 2, "v{}")
    write_folder(Path("regions"), regions)
    run = ("optim.steps=90", "optim.lr=1e-3", "objective.smrm_loss=kl", "validate_every=90")
    assert train(lexlip, *run)[-1] == (
        "lexlip evaluate val --model runs/mini-regions/best --regions regions --engine exact"
    )
    model = ("--regions", "regions", "--model", "runs/mini-regions/best")
    report = as_json(lexlip, "evaluate", "val", *model, "--engine", "exact")
    assert (report["images"], report["captions"]) == (30, 30)
    for way in ("t2i", "i2t"):
        assert report[way]["R@5"] > 2 * 100 * 5 / 30  # by chance 17 %
    indexed = as_json(lexlip, "index", "val", *model)
    assert (indexed["photos"], indexed["skipped"]) == (30, [])
    firsts = [
        as_json(lexlip, "search", Path(f"val/v{photo}.txt").read_text())["hits"][0]["id"]
        for photo in range(10)
    ]
    assert (
        sum(first == f"v{photo}.png" for photo, first in enumerate(firsts)) >= 2
    )  # by chance a third of one


@pytest.fixture
def few(lexlip: Run) -> dict[str, dict[str, np.ndarray]]:
    """32 photos to train on, and 8 to validate with; return the regions of all, which lie in `regions`."""
    regions = write_photos(Path("train"), 32, 1, "t{}") | write_photos(Path("val"), 8, 2, "v{}")
    write_folder(Path("regions"), regions)
    return regions


@pytest.mark.usefixtures("workers_are_forked")
@pytest.mark.parametrize("workers", [0, 1])
def test_wrong_regions_end_a_run_in_one_sentence(
    lexlip: Run, few: dict[str, dict[str, np.ndarray]], workers: int
) -> None:
    broken = {**few["t9"], "features": few["t9"]["features"] * np.nan}
    write_folder(Path("regions"), {"t9": broken})
    _, said = train(lexlip, f"data.workers={workers}", "optim.steps=2", code=2)  # after a line about the run
    why = "its features have numbers that are not finite"
    assert said == f"Error: the regions in regions/t9.npz cannot be used: {why}"
    (said,) = train(lexlip, "data.val=val", code=2)
    assert said.startswith(
        "Error: the model takes a detector's regions, and it is not said where those of val "
    )
    Path("regions/t9.npz").unlink()
    assert train(lexlip, code=2) == ["Error: t9.png of train has no regions in regions"]


def test_what_a_model_takes_is_said(lexlip: Run, few: dict[str, dict[str, np.ndarray]]) -> None:
    train(lexlip, "optim.steps=1", "objective.smrm=0")
    model = "runs/mini-regions/best"
    write_table(Path("regions.tsv"), few)  # it has no classes
    for command in ("evaluate", "index"):
        said = error(lexlip(command, "val", "--model", model, code=2))
        assert said == f"'{model}' takes what a detector found in the photos: say where that is, by --regions"
        said = error(lexlip(command, "val", "--regions", "regions", code=2))
        assert said == "'mini' does not take a detector's regions: leave --regions out"
        said = error(lexlip(command, "val", "--model", model, "--regions", "regions.tsv", code=2))
        assert said.endswith("cannot be used: a region has 0 classes, and the model takes 9")
    assert not Path(".lexlip").exists()
    said = error(lexlip("index", "--update", "--regions", "regions", code=2))
    assert said == "--regions is for a new index, not for --update: leave it out"
