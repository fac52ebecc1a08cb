from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from lexlip.config import SourceConfig
from lexlip.errors import DataError
from lexlip.training.distributed import Processes
from lexlip.training.loop import pretrain
from lexlip.training.setup import set_up
from tests.training.small_run import SMALL, with_data


def test_photos_without_captions_cannot_be_trained_on(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "a.jpg")
    config = with_data(
        replace(SMALL, out=str(tmp_path / "run")), train=(SourceConfig(str(tmp_path / "photos")),)
    )
    with pytest.raises(DataError, match="photos has no captions to train on"):
        pretrain(config)


def test_photos_without_captions_cannot_be_validated_with(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "a.jpg")
    config = with_data(
        replace(SMALL, out=str(tmp_path / "run")), val=(SourceConfig(str(tmp_path / "photos")),)
    )
    with pytest.raises(DataError, match=r"photos has no captions to validate with; name other .* data\.val"):
        pretrain(config)


def test_what_is_trained_is_said_before_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(5):
        Image.new("RGB", (40, 30), (40 * number, 0, 0)).save(photos / f"{number}.jpg")
        if number != 3:
            (photos / f"{number}.txt").write_text("a red circle\n")
    config = replace(SMALL, optim=replace(SMALL.optim, batch=4, epochs=1, micro_batch=None))
    config = with_data(config, train=(SourceConfig(str(photos)),), val=(SourceConfig(str(photos)),))
    run = set_up(config, tmp_path, False, Processes("cpu"))
    assert (run.first, run.steps, len(run.val)) == (0, 1, 5)
    assert [len(batch.photos) for batch in run.batches] == [4]
    printed = capsys.readouterr().err
    assert "1 photos have no caption and are left out, such as 3.jpg" in printed
    assert "5 photos, 2 words" in printed
    assert "1 steps on cpu" in printed
