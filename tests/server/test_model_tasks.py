from pathlib import Path

import pytest

from lexlip.models.lexlip import LexLIP
from lexlip.server.model_tasks import make_tasks
from lexlip.server.problems import Problem
from tests.search.indexes import Indexed


def nothing(value: object) -> None:
    pass


def test_a_picture_becomes_what_the_model_makes_of_it(library: Indexed, model_folder: Path) -> None:
    from lexlip.data import decode

    model = LexLIP.from_pretrained(model_folder).fold_batch_norms()
    data = (library.photos / "1.jpg").read_bytes()
    expected = model.encode_image([decode(data, 32)])
    given = make_tasks(str(library.words), None, "cpu", 10**9)["encode"](data, progress=nothing)
    assert (given != expected).nnz == 0


def test_too_many_pixels_are_refused_before_they_are_decoded(library: Indexed) -> None:
    data = (library.photos / "large.jpg").read_bytes()
    tasks = make_tasks("no index is needed to say so", None, "cpu", 1_079_999)
    with pytest.raises(Problem, match="1,080,000 pixels") as error:
        tasks["encode"](data, progress=nothing)
    assert error.value.status == 413
