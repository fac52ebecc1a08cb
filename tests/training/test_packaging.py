import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lexlip.data import Scenes
from lexlip.errors import DataError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_checksums import check_model
from lexlip.models.model_folder import GRAPH, HONEST_END
from lexlip.queries.photo_encoder import PhotoEncoder
from lexlip.queries.text_queries import TextQueries
from lexlip.training import packaged_fits
from lexlip.training.packaged_fits import KEPT, draw_balance, encode_captioned, fit_keywords
from lexlip.training.packaging import package
from tests.models.test_image_graph import CONVOLUTIONAL
from tests.tiny import CAPTIONS, tiny_balanced, tiny_dense, tiny_model, tiny_photos
from tests.training.run_folders import write_run

SCENES = {"data": {"train": ["scenes:60:1", "scenes:60:7"]}}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """How well words are fitted is tested in test_packaged_fits.py."""
    monkeypatch.setattr(packaged_fits, "STEPS", 20)


@pytest.fixture
def run(tmp_path: Path, model_folder: Path) -> Path:
    """A finished run whose photos are drawn."""
    run = write_run(tmp_path / "runs" / "mine", SCENES, [10], model_folder)
    (run / "best" / "optimizer.safetensors").write_bytes(b"")
    (run / "best" / "trainer.json").write_text("{}")
    return run


def test_a_package_is_a_small_model_with_the_name_of_its_folder(run: Path, tmp_path: Path) -> None:
    """Its bank is of the photos of the run, as many of each source, with the weights of int8."""
    made = package(run, tmp_path / "tiny")
    packaged, model = LexLIP.from_pretrained(tmp_path / "tiny"), LexLIP.from_pretrained(run)
    assert (packaged.name, packaged.identity) == ("tiny", made.identity)
    ours, theirs = (each.encode_text(CAPTIONS).toarray() for each in (packaged, model))
    assert abs(ours - theirs).max() < 0.2
    assert {path.suffix for path in (tmp_path / "tiny").iterdir()} <= {".json", ".md", ".txt", ".safetensors"}
    assert not (tmp_path / "tiny" / "optimizer.safetensors").exists()
    assert check_model(tmp_path / "tiny") == []
    size = sum(path.stat().st_size for path in (tmp_path / "tiny").iterdir())
    assert made.megabytes == size / 1e6
    assert made.words == len(model.vocabulary)
    assert made.needs_torch
    assert not (tmp_path / "tiny" / GRAPH).exists()

    assert packaged.balance is not None
    assert packaged.likely is not None
    typed = TextQueries(tmp_path / "tiny").keywords
    np.testing.assert_array_equal(typed.toarray(), packaged.keywords.toarray())
    photos, captions = packaged.balance
    assert made.captions == photos.queries.shape[0] == 60  # a caption of the half that is no photo
    assert made.photos == captions.queries.shape[0] == 60
    again = draw_balance(packaged, [Scenes(60, seed=1), Scenes(60, seed=7)])
    assert abs(again.photos.queries.astype(int) - photos.queries.astype(int)).max() <= 1
    assert again.photos.typical == pytest.approx(photos.typical, rel=1e-4)


@pytest.mark.parametrize("place", ["best", "checkpoints/step-00000010"])
def test_a_checkpoint_is_packaged_with_the_photos_of_its_run(run: Path, tmp_path: Path, place: str) -> None:
    made = package(run / place, tmp_path / "tiny")
    assert (made.captions, made.photos) == (60, 60)


def test_photos_may_be_named(run: Path, model_folder: Path, tmp_path: Path) -> None:
    made = package(run, tmp_path / "tiny", ["scenes:40:3"])
    assert (made.captions, made.photos) == (20, 20)
    check_queries(tmp_path / "tiny", Scenes(40, seed=3))
    bare = package(model_folder, tmp_path / "bare")
    assert (bare.captions, bare.photos) == (0, 0)
    assert LexLIP.from_pretrained(tmp_path / "bare").balance is None
    assert package(model_folder, tmp_path / "bare", ["scenes:40:3"]).captions == 20  # replaces the one before


def test_photos_are_encoded_without_torch(tmp_path: Path) -> None:
    tiny_model(CONVOLUTIONAL).save(tmp_path / "saved", graph=False)
    assert not package(tmp_path / "saved", tmp_path / "tiny").needs_torch
    photos = tiny_photos(2, 64)
    np.testing.assert_allclose(
        PhotoEncoder(tmp_path / "tiny").encode_image(photos.numpy()).toarray(),
        LexLIP.from_pretrained(tmp_path / "tiny").encode_image(photos).toarray(),
        atol=1e-4,
    )


def test_a_bank_that_is_there_stays_with_its_honest_end(tmp_path: Path) -> None:
    model = tiny_balanced()
    model.honest_end = {"format": 1}
    model.save(tmp_path / "saved")
    made = package(tmp_path / "saved", tmp_path / "tiny")
    assert (made.captions, made.photos) == (30, 30)
    assert json.loads((tmp_path / "tiny" / HONEST_END).read_text()) == {"format": 1, "model": made.identity}
    package(tmp_path / "saved", tmp_path / "tiny", ["scenes:40:3"])
    assert not (tmp_path / "tiny" / HONEST_END).exists()


def check_queries(folder: Path, source: Scenes) -> None:
    """The queries of words are fitted to photos as an index has them."""
    packaged = LexLIP.from_pretrained(folder)
    photos, words = encode_captioned(packaged, [source], workers=0), packaged.vocabulary.words
    documents = packaged.balance.photos.documents(photos.vectors, KEPT)
    fitted = fit_keywords(documents, photos.said, packaged.encode_text(words, "words"), words)
    np.testing.assert_allclose(packaged.keywords.toarray(), fitted.toarray(), atol=5e-3)


def test_what_cannot_be_packaged(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    with pytest.raises(
        DataError, match=r"^a bank needs 16 photos and as many .*: name more photos with captions"
    ):
        package(run, folder, ["scenes:9:1"])
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        package(run, folder, ["nowhere"])
    with pytest.raises(ModelError, match=r"^no model "):
        package(tmp_path / "nothing", folder)
    tiny_dense().save(tmp_path / "dense")
    with pytest.raises(ModelError, match=r"holds a dense model, not a lexlip one"):
        package(tmp_path / "dense", folder)
    with pytest.raises(DataError, match=r"holds more than a model, such as best: give another folder"):
        package(run, run)
    shutil.rmtree(run)
    gone = write_run(run, {"data": {"train": ["gone.tar"]}}, [10], tmp_path / "dense")
    shutil.rmtree(gone / "checkpoints" / "step-00000010")
    tiny_model().save(gone / "checkpoints" / "step-00000010")
    with pytest.raises(
        DataError, match=r"mine was trained on: gone\.tar does not exist; name some as SOURCE$"
    ):
        package(gone, folder)
    assert not folder.exists()
