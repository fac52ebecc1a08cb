import shutil
from pathlib import Path

import numpy as np
import pytest

from lexlip.errors import ModelError
from lexlip.models.model_checksums import check_model
from lexlip.models.model_folder import GRAPH, PACKAGED
from lexlip.queries.photo_encoder import PhotoEncoder
from tests.tiny import tiny_model
from tools.image_graph import image_graph, write_image_graph


def test_the_graph_that_ships_is_that_of_the_model(tmp_path: Path) -> None:
    """Another torch may order operators in another way; vectors stay."""
    folder = shutil.copytree(PACKAGED / "mini", tmp_path / "mini")
    (folder / GRAPH).unlink()
    write_image_graph(folder)
    assert check_model(folder) == []
    assert (folder / GRAPH).stat().st_size < 100_000
    encoders = PhotoEncoder(folder), PhotoEncoder("mini")
    side = encoders[0].config.image.size
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, side, side), dtype=np.uint8)
    made, shipped = (encoder.encode_image(pixels) for encoder in encoders)
    assert abs(made - shipped).max() < 1e-5


def test_other_encoders_are_refused() -> None:
    with pytest.raises(ModelError, match=r"need torch$"):
        image_graph(tiny_model())
