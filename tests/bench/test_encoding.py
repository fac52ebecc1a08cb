from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.bench.encoding import (
    LOOPS,
    evaluation_transform,
    index_loop,
    measure_decoding,
    plain_loop,
    time_loop,
)
from lexlip.config import DataConfig, ImageEncoderConfig
from lexlip.data import Scenes, Source, open_source
from lexlip.errors import DataError
from lexlip.machine.resources import in_own_process
from tests.tiny import TINY, tiny_model


@pytest.fixture
def squares(tmp_path: Path) -> Source:
    """Three square photos that are decoded whole, so that both loops resize the same pixels."""
    for index in range(3):
        Scenes(3, seed=0).image(index).save(tmp_path / f"{index}.png")
    return open_source(tmp_path)


def vectors_of_both(source: Source, resize: Literal["squash", "crop"], workers: int) -> list[np.ndarray]:
    """Three photos by the plain loop and by that of the index."""
    model = tiny_model(image=replace(TINY.image, resize=resize, mean=(0.1, 0.5, 0.7), std=(0.2, 0.3, 0.4)))
    return [
        np.concatenate(list(loop(model, source, [2, 0, 1], workers))) for loop in (plain_loop, index_loop)
    ]


def check_that_both_are_the_same(plain: np.ndarray, index: np.ndarray) -> None:
    assert plain.shape == index.shape == (3, tiny_model().dimensions)
    assert plain.any()
    np.testing.assert_allclose(index, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_both_loops_give_the_same_vectors(squares: Source, resize: Literal["squash", "crop"]) -> None:
    check_that_both_are_the_same(*vectors_of_both(squares, resize, 0))


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_the_plain_loop_s_photos_are_square(resize: Literal["squash", "crop"]) -> None:
    photo = Image.new("L", (90, 60))
    photo.paste(255, (15, 0, 75, 60))  # white in the central square
    pixels = evaluation_transform(replace(TINY.image, resize=resize))(photo)
    assert pixels.shape == (3, 32, 32)
    assert pixels.dtype == torch.float32
    assert pixels.max() == 1
    assert pixels.mean() > 0.95 if resize == "crop" else pixels.min() == -1


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_time_and_share_of_the_cores(loop: str, model_folder: Path, squares: Source) -> None:
    seconds, busy = in_own_process(time_loop, loop, str(model_folder), squares, [0, 1, 2], 1)
    assert seconds > 0
    assert 0 < busy < 1.1


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_both_loops_give_the_same_vectors_with_a_worker(squares: Source) -> None:
    """In a process without a JVM, from which a worker is forked at once."""
    check_that_both_are_the_same(*in_own_process(vectors_of_both, squares, "crop", 1))


def test_decoding() -> None:
    report = measure_decoding(
        Scenes(9, seed=0), DataConfig(randaugment=(2, 9)), ImageEncoderConfig(), photos=4, sizes=(32, 64)
    )
    rates = report.pop("photos_per_s_and_core")
    assert report == {"photos": 4, "unreadable": 0, "crop": 1.0, "flip": False, "randaugment": [2, 9]}
    assert list(rates) == [32, 64]
    assert all(rate > 0 for rate in rates.values())


def test_photos_that_cannot_be_decoded(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(b"no photo")
    with pytest.raises(DataError, match=r"no photo in .* can be read \(1 tried\)"):
        measure_decoding(open_source(tmp_path), DataConfig(), ImageEncoderConfig())
    Scenes(1, seed=0).image(0).save(tmp_path / "1.png")
    report = measure_decoding(open_source(tmp_path), DataConfig(), ImageEncoderConfig(), sizes=(32,))
    assert (report["photos"], report["unreadable"]) == (1, 1)
