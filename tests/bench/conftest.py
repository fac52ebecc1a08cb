"""First stages of each kind that were measured on the same scenes."""

import pytest

from lexlip.bench.tables.first_stages import Measured, TableSettings, measure_first_stages
from lexlip.data import Scenes
from tests.tiny import tiny_dense, tiny_model

EIGHT = Scenes(8, seed=0)
SETTINGS = TableSettings(topks=(4,), workers=0)


@pytest.fixture(scope="session")
def first_stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    folder = tmp_path_factory.mktemp("stages")
    tiny_model().save(folder / "words")
    tiny_dense().save(folder / "dense")
    names = [str(folder / "words"), str(folder / "dense"), "bm25"]
    return dict(zip(("words", "dense", "bm25"), measure_first_stages(names, EIGHT, SETTINGS), strict=True))
