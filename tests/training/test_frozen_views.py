from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig, SourceConfig
from lexlip.data import Scenes, open_source
from lexlip.errors import ConfigError
from lexlip.training.batches import Key, Photos
from lexlip.training.loop import make_model, pretrain
from lexlip.training.distributed import Processes
from lexlip.training.step import make_optimizer
from lexlip.training.trainee import Trainee
from lexlip.training.frozen_views import Views, encode_views
from tests.tiny import WITHOUT_DROPOUT

FROZEN = Config(
    name="views",
    seed=3,
    log_every=1,
    data=DataConfig(
        train=(SourceConfig("scenes:24:0"),), val=(SourceConfig("scenes:8:9"),), crop=0.5, views=3, workers=0
    ),
    model=replace(WITHOUT_DROPOUT, image=replace(WITHOUT_DROPOUT.image, layers=1)),
    optim=OptimConfig(epochs=2, batch=8, lr=1e-3, lr_scale={"image_encoder.body": 0}),
)
PIXELS_MASKED = replace(
    FROZEN,
    model=replace(WITHOUT_DROPOUT, kind="lightningdot"),
    objective=ObjectiveConfig(flops_image=0, flops_text=0, smrm=1),
)
ALONE = Processes("cpu")


def encoded(config: Config, folder: Path, workers: int = 0) -> tuple[Trainee, Photos, Views]:
    config = replace(config, data=replace(config.data, workers=workers))
    source = open_source(config.data.train[0].path)
    model, vocabulary = make_model(config, source)
    trainee = Trainee(model, vocabulary, config.objective)
    make_optimizer(trainee, config.optim)
    photos = Photos(source, config)
    views = encode_views(model.image_encoder, photos, source.captioned(), config, folder / "views.npy", ALONE)
    return trainee, Photos(source, config, views), views


@pytest.mark.parametrize("workers", [0, 2])
def test_a_view_is_what_the_body_makes_of_an_augmented_photo(tmp_path: Path, workers: int) -> None:
    trainee, photos, views = encoded(FROZEN, tmp_path, workers)
    assert not list(tmp_path.iterdir())  # the file is gone, though still read
    encoder = trainee.model.image_encoder.eval()
    assert views.states.shape == (24, 3, *encoder.token_shape)
    pixels = []
    for view in range(3):
        numbers = np.random.default_rng((FROZEN.seed, view, 5, 1))
        pixels.append(photos.pixels(5, 32, int(numbers.integers(2**62))))
        assert isinstance(pixels[-1], torch.Tensor)
    assert not torch.equal(pixels[0], pixels[1])
    with torch.no_grad():
        tokens = encoder.tokens(torch.stack(pixels))
        found = torch.tensor(views.states[5])
        torch.testing.assert_close(found.float(), tokens, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(encoder(found), encoder(torch.stack(pixels)), rtol=1e-2, atol=1e-2)


def test_every_view_is_drawn_and_captions_are_those_of_pixels(tmp_path: Path) -> None:
    _, photos, views = encoded(FROZEN, tmp_path)
    plain = Photos(photos.source, FROZEN)
    drawn = set()
    for epoch in range(20):
        sample, other = photos[Key(epoch, 5, 32)], plain[Key(epoch, 5, 32)]
        assert not isinstance(sample, str)
        assert not isinstance(other, str)
        assert sample.chosen == other.chosen
        drawn |= {view for view in range(3) if (sample.pixels.numpy() == views.states[5, view]).all()}
    assert drawn == {0, 1, 2}


def test_photos_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        Scenes(3, seed=0).image(number).save(folder / f"{number}.jpg")
        (folder / f"{number}.txt").write_text("a red circle")
    (folder / "1.jpg").write_bytes(b"no photo")
    config = replace(FROZEN, data=replace(FROZEN.data, train=(SourceConfig(str(folder)),)))
    _, photos, _ = encoded(config, tmp_path)
    samples = [photos[Key(0, int(photo), 32)] for photo in photos.source.captioned()]
    assert [sample for sample in samples if isinstance(sample, str)] == [f"{folder}/1.jpg: not an image"]


def test_training_on_views_learns_and_leaves_the_body(tmp_path: Path) -> None:
    run = pretrain(replace(FROZEN, out=str(tmp_path / "run")))
    torch.manual_seed(FROZEN.seed)
    start, _ = make_model(FROZEN, open_source("scenes:24:0"))
    end, _ = make_model(replace(FROZEN, init=str(run / "last")), open_source("scenes:24:0"))
    assert not (run / "views.npy").exists()
    same = {name: torch.equal(weight, end.state_dict()[name]) for name, weight in start.state_dict().items()}
    assert all(is_same for name, is_same in same.items() if name.startswith("image_encoder.body."))
    assert not same["image_encoder.reduce.weight"]
    assert not same["image_head.dense.weight"]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (replace(FROZEN, optim=replace(FROZEN.optim, lr_scale={})), "frozen image encoder"),
        (replace(FROZEN, data=replace(FROZEN.data, sizes=(32, 64))), "one size"),
        (PIXELS_MASKED, "no pixels that objective.smrm could mask"),
    ],
)
def test_what_views_cannot_do(tmp_path: Path, config: Config, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        pretrain(replace(config, out=str(tmp_path / "run")))
