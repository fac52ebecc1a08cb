from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.explain.weighted_words import words_of_picture
from lexlip.explain.word_places import places
from lexlip.machine.device import may_have_gpu
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, PACKAGED, model_folder
from lexlip.queries import photo_encoder as module
from lexlip.queries.photo_encoder import PhotoEncoder, open_encoder
from tests.conftest import ROOT

PHOTOS = sorted((ROOT / "lexlip" / "photos").glob("*.jpg"))[:4]


@pytest.fixture(scope="module")
def lean() -> PhotoEncoder:
    return PhotoEncoder("mini")


@pytest.fixture(scope="module")
def torch_model() -> LexLIP:
    return LexLIP.from_pretrained("mini")


def test_threads_without_work_leave_the_cores_to_those_that_decode(lean: PhotoEncoder) -> None:
    options = lean._session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


@pytest.mark.parametrize("mirror", [True, False])
def test_vectors_are_those_of_torch(lean: PhotoEncoder, torch_model: LexLIP, mirror: bool) -> None:
    pictures = [Image.open(photo) for photo in PHOTOS]
    config = lean.config
    try:
        lean.config = replace(config, image=replace(config.image, mirror=mirror))
        torch_model.mirror(mirror)
        vectors = lean.encode_image(pictures)
        np.testing.assert_allclose(vectors.toarray(), torch_model.encode_image(pictures).toarray(), atol=1e-4)
    finally:
        lean.config = config
        torch_model.mirror(config.image.mirror)
    assert vectors.dtype == np.float32
    assert lean.encode_image([]).shape == lean.encode_text([]).shape == (0, lean.dimensions)


def test_places_and_words_are_those_of_torch(lean: PhotoEncoder, torch_model: LexLIP) -> None:
    picture, words = Image.open(PHOTOS[0]), ["cat", "white", "person"]
    ours, theirs = places(lean, picture, words), places(torch_model, picture, words)
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-4)
    np.testing.assert_allclose(ours.weights, theirs.weights, atol=1e-4)
    assert (ours.rows, ours.columns, ours.box) == (theirs.rows, theirs.columns, theirs.box)
    said = [words_of_picture(model, picture, "a person in white").held for model in (lean, torch_model)]
    assert said[0] == said[1] != []


def test_it_says_what_the_model_is(lean: PhotoEncoder, torch_model: LexLIP) -> None:
    for name in ("name", "identity", "kind", "metric", "dimensions", "config"):
        assert getattr(lean, name) == getattr(torch_model, name)
    assert lean.vocabulary.words == torch_model.vocabulary.words
    assert lean.fold_batch_norms() is lean


def test_what_is_no_photo_is_refused(lean: PhotoEncoder) -> None:
    with pytest.raises(DataError, match="not str"):
        lean.encode_image(["photo.jpg"])  # type: ignore[list-item]
    with pytest.raises(DataError, match=r"not uint8 of shape \[1, 3, 5, 5\]"):
        lean.encode_image(np.zeros((1, 3, 5, 5), np.uint8))


def test_what_needs_torch_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^the device 'cuda' needs torch: pip install 'lexlip\[train\]'$"):
        PhotoEncoder("mini", "cuda")
    folder = copytree(PACKAGED / "mini", tmp_path / "own")
    (folder / GRAPH).write_bytes(b"short")
    with pytest.raises(ModelError, match=r"own is damaged: "):
        PhotoEncoder(folder)
    (folder / GRAPH).unlink()
    with pytest.raises(ModelError, match=r"^photos need torch with the lexlip model .*'lexlip\[train\]'$"):
        PhotoEncoder(folder)


@pytest.mark.parametrize("device", ["auto", "cpu", "cpu:0"])
@pytest.mark.parametrize(("installed", "driver"), [(True, True), (True, False), (False, False)])
def test_a_graph_encodes_on_a_cpu(
    device: str, installed: bool, driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "may_have_gpu", lambda: driver)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(module, "has_torch", lambda: installed)
    if installed or device != "cpu:0":
        assert isinstance(open_encoder("mini", device), PhotoEncoder)


def test_torch_encodes_without_a_graph(tmp_path: Path) -> None:
    folder = copytree(model_folder("mini"), tmp_path / "mini")
    (folder / GRAPH).unlink()
    assert isinstance(open_encoder(folder, "cpu"), LexLIP)


def test_torch_encodes_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pick_device", lambda name: torch.device("meta"))
    assert isinstance(open_encoder("mini", "cuda"), LexLIP)


@pytest.mark.skipif(may_have_gpu(), reason="a GPU's driver is here, so torch says whether there is a GPU")
def test_torch_is_not_loaded_to_look_for_a_gpu(run_python: Callable[..., CompletedProcess[str]]) -> None:
    open_it = "import sys, lexlip.queries.photo_encoder as m; m.open_encoder('mini')"
    code = f"{open_it}; print('torch' in sys.modules)"
    assert run_python("-c", code).stdout == "False\n"


def test_torch_looks_for_the_gpu_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_have_gpu", lambda: True)
    monkeypatch.setattr(module, "pick_device", lambda name: torch.device("meta"))
    assert isinstance(open_encoder("mini"), LexLIP)
