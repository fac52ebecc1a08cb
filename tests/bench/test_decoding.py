from pathlib import Path

import pytest

from lexlip.bench.decoding import cores_for, measure_decoding
from lexlip.config import DataConfig, ImageEncoderConfig
from lexlip.data import Scenes, open_source
from lexlip.errors import DataError


def test_a_measurement() -> None:
    report = measure_decoding(
        Scenes(9, seed=0), DataConfig(randaugment=(2, 9)), ImageEncoderConfig(), photos=4, sizes=(32, 64)
    )
    rates = report.pop("photos_per_s_and_core")
    assert report == {"photos": 4, "unreadable": 0, "crop": 1.0, "flip": False, "randaugment": [2, 9]}
    assert list(rates) == [32, 64]
    assert all(rate > 0 for rate in rates.values())


def test_photos_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(b"no photo")
    with pytest.raises(DataError, match=r"no photo in .* can be read \(1 tried\)"):
        measure_decoding(open_source(tmp_path), DataConfig(), ImageEncoderConfig())
    Scenes(1, seed=0).image(0).save(tmp_path / "1.png")
    report = measure_decoding(open_source(tmp_path), DataConfig(), ImageEncoderConfig(), sizes=(32,))
    assert (report["photos"], report["unreadable"]) == (1, 1)


@pytest.mark.parametrize(("eaten", "rate", "cores"), [(100, 100, 1), (101, 100, 2), (5, 100, 1)])
def test_cores(eaten: float, rate: float, cores: int) -> None:
    assert cores_for(eaten, rate) == cores
