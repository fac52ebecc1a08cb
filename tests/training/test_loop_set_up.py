from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.config import SourceConfig
from lexlip.data import Scenes
from lexlip.encoders.image import to_pixels
from lexlip.errors import DataError
from lexlip.measure.evaluate import evaluate
from lexlip.search.engines.exact import exact_engine
from lexlip.training.distributed import Processes
from lexlip.training.loop import PAIRED_PHOTOS, pretrain, set_up, validate
from tests.tiny import tiny_dense, tiny_model, tiny_stage
from tests.training.small_run import SMALL, with_data, write_captioned


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("train", "photos has no captions to train on"),
        ("val", r"photos has no captions to validate with; name other .* data\.val"),
    ],
)
def test_photos_without_captions(tmp_path: Path, key: str, why: str) -> None:
    photos = (SourceConfig(str(write_captioned(tmp_path / "photos", [None]))),)
    with pytest.raises(DataError, match=why):
        pretrain(with_data(replace(SMALL, out=str(tmp_path / "run")), **{key: photos}))


def test_what_is_trained_is_said_before_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = write_captioned(tmp_path / "photos", ["a red circle"] * 3 + [None, "a red circle"])
    config = replace(SMALL, optim=replace(SMALL.optim, batch=4, epochs=1, micro_batch=None))
    config = with_data(config, train=(SourceConfig(str(photos)),), val=(SourceConfig(str(photos)),))
    run = set_up(config, tmp_path, False, Processes("cpu"))
    assert (run.first, run.schedule.steps(0), len(run.val)) == (0, 1, 5)
    assert [len(batch.photos) for batch in run.batches] == [4]
    printed = capsys.readouterr().err
    assert "1 photo has no caption and is left out, such as 3.jpg" in printed
    assert "note: the run trains on 4 of its 4 validation photos, so its recalls are too good" in printed
    assert "5 photos, 2 words" in printed
    assert "1 step on cpu" in printed


def test_validation_photos_that_are_trained_on_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = SourceConfig(str(write_captioned(tmp_path / "photos", ["a red circle"] * 10)))
    others = SourceConfig(str(write_captioned(tmp_path / "others", ["a red circle"] * 3)))
    config = with_data(SMALL, train=(photos,), val=(others, photos), sample=8)
    set_up(config, tmp_path, False, Processes("cpu"))
    assert "note: the run trains on 8 of its 13 validation photos, so" in capsys.readouterr().err
    apart = with_data(SMALL, train=(photos,), val=(others,))
    for config in (apart, SMALL):  # drawn scenes have the same names whatever their seed
        set_up(config, tmp_path, False, Processes("cpu"))
        assert "trains on" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [True, False])
def test_vectors_are_searched_by_brute_force(words: bool) -> None:
    model, val = tiny_model() if words else tiny_dense(), Scenes(20, seed=1)
    assert validate(model, val, 0) == evaluate(model, val, exact_engine, workers=0)


def test_a_cross_encoder_scores_some_photos_with_a_caption_each() -> None:
    model, val = tiny_stage("ce"), Scenes(PAIRED_PHOTOS + 50, seed=1)
    report = validate(model, val, 0)
    assert (report.images, report.captions) == (PAIRED_PHOTOS, PAIRED_PHOTOS)
    row_of = {item.id: row for row, item in enumerate(val.items)}
    rows = [row_of[query.split("#")[0]] for query in report.rankings["t2i"].queries]
    texts = [val.items[row].captions[0] for row in rows]
    pixels = [to_pixels(val.image(row, 32), model.config.image) for row in rows]
    photos = model.embed_photos(torch.stack(pixels))
    pairs = np.stack(np.divmod(np.arange(len(rows) ** 2), len(rows)), axis=1)
    scores = model.score_pairs(photos, texts, pairs).reshape(len(rows), len(rows))
    ranks = (scores > scores.diagonal()[:, None]).sum(axis=1)
    assert report.t2i["R@10"] == pytest.approx(100 * float((ranks < 10).mean()), abs=2)  # ties, rounding
