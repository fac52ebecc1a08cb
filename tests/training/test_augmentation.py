from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lexlip.config import Config, DataConfig, ModelConfig, ObjectiveConfig, OptimConfig, SourceConfig
from lexlip.data import Scenes, open_source
from lexlip.encoders.image import ImageEncoder
from lexlip.errors import ConfigError
from lexlip.training.augmentation import AugmentedPhotos, FrozenViews, Key, Sample, encode_views
from lexlip.training.batches import PhotoBatch
from lexlip.training.distributed import Processes
from lexlip.training.initialisation import make_model
from lexlip.training.loop import pretrain
from lexlip.training.method import Method, image_states
from lexlip.training.step import make_optimizer
from tests.tiny import WITHOUT_DROPOUT
from tests.training.augmented import AUGMENTED, photos_of
from tests.training.small_run import write_captioned


def test_epochs_differ_in_order_captions_and_augmentation() -> None:
    source = Scenes(8, seed=0)
    photos = photos_of(source, AUGMENTED)
    sample, again = photos[Key(0, 5, 32)], photos[Key(0, 5, 32)]
    assert isinstance(sample, Sample)
    assert isinstance(again, Sample)
    assert torch.equal(sample.pixels, again.pixels)
    assert sample.drawn == again.drawn
    assert len(set(sample.drawn)) == 2
    assert sample.captions == tuple(source.items[5].captions)
    assert set(sample.drawn) < set(range(len(sample.captions)))
    others = [photos[Key(epoch, 5, 32)] for epoch in range(1, 5)]
    assert all(isinstance(other, Sample) for other in others)
    assert not any(torch.equal(sample.pixels, other.pixels) for other in others)
    assert any(sample.drawn != other.drawn for other in others)


def test_without_augmentation_a_photo_is_what_the_encoder_gets() -> None:
    config = replace(AUGMENTED, data=DataConfig(workers=0))
    source = Scenes(4, seed=0)
    sample = photos_of(source, config)[Key(0, 2, 32)]
    assert isinstance(sample, Sample)
    expected = source.image(2).resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(sample.pixels.numpy(), np.asarray(expected).transpose(2, 0, 1))


def with_image_options(model: ModelConfig, **options: Any) -> ModelConfig:
    return replace(model, image=replace(model.image, options={**model.image.options, **options}))


FROZEN = Config(
    name="views",
    seed=3,
    log_every=1,
    data=DataConfig(
        train=(SourceConfig("scenes:24:0"),), val=(SourceConfig("scenes:8:9"),), crop=0.5, views=3, workers=0
    ),
    model=replace(WITHOUT_DROPOUT, image=replace(WITHOUT_DROPOUT.image, layers=1)),
    # bf16, which "auto" takes where the processor has it, is too coarse for the comparisons below
    optim=OptimConfig(epochs=2, batch=8, lr=1e-3, precision="fp32", lr_scale={"image_encoder.body": 0}),
)
ALONE = Processes("cpu")


def encoded(config: Config, folder: Path, workers: int = 0) -> tuple[Method, AugmentedPhotos, FrozenViews]:
    config = replace(config, data=replace(config.data, workers=workers))
    source = open_source(config.data.train[0].path)
    model, vocabulary = make_model(config, source)
    method = Method(model, vocabulary, config.objective)
    make_optimizer(method, config.optim)
    photos = photos_of(source, config)
    views = encode_views(model.image_encoder, photos, source.captioned(), config, folder / "views.npy", ALONE)
    photos.views = views
    return method, photos, views


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_view_is_what_the_body_makes_of_an_augmented_photo(tmp_path: Path, workers: int) -> None:
    method, photos, views = encoded(FROZEN, tmp_path, workers)
    assert not list(tmp_path.iterdir())  # the file is gone, though still read
    encoder = method.model.image_encoder.eval()
    assert encoder.without_gradient is not None
    encoder.without_gradient = None  # compare with torch
    assert views.states.shape == (24, 3, *encoder.token_shape)
    pixels = []
    for view in range(3):
        rng = np.random.default_rng((FROZEN.seed, view, 5, 1))
        pixels.append(photos.pixels(5, 32, int(rng.integers(2**62))))
        assert isinstance(pixels[-1], torch.Tensor)
    assert not torch.equal(pixels[0], pixels[1])
    with torch.no_grad():
        tokens = encoder.tokens(torch.stack(pixels))
        found = torch.tensor(views.states[5])
        torch.testing.assert_close(found.float(), tokens, rtol=1e-2, atol=1e-2)
        states = encoder(torch.stack(pixels))
        torch.testing.assert_close(encoder.deepen(found.float()), states, rtol=1e-2, atol=1e-2)


def test_every_view_is_drawn_and_captions_are_those_of_pixels(tmp_path: Path) -> None:
    _, photos, views = encoded(FROZEN, tmp_path)
    plain = photos_of(photos.source, FROZEN)
    drawn = set()
    for epoch in range(20):
        sample, other = photos[Key(epoch, 5, 32)], plain[Key(epoch, 5, 32)]
        assert not isinstance(sample, str)
        assert not isinstance(other, str)
        assert sample.drawn == other.drawn
        drawn |= {view for view in range(3) if (sample.begun.numpy() == views.states[5, view]).all()}
    assert drawn == {0, 1, 2}


def test_photos_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    folder = write_captioned(tmp_path / "photos", ["a red circle"] * 3, broken=[1])
    config = replace(FROZEN, data=replace(FROZEN.data, train=(SourceConfig(str(folder)),)))
    _, photos, _ = encoded(config, tmp_path)
    samples = [photos[Key(0, int(photo), 32)] for photo in photos.source.captioned()]
    assert [sample for sample in samples if isinstance(sample, str)] == [f"{folder}/1.jpg: not an image"]


def test_views_do_not_depend_on_dropout_s_generator(tmp_path: Path) -> None:
    method, photos, _ = encoded(
        replace(FROZEN, model=with_image_options(FROZEN.model, proj_drop_rate=0.5)), tmp_path
    )
    encoder, file, found = method.model.image_encoder.train(), tmp_path / "views.npy", []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(encode_views(encoder, photos, np.arange(4), FROZEN, file, ALONE).states)
        assert encoder.training
    assert np.array_equal(*found)


def test_an_interruption_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ImageEncoder, "tokens", interrupt)
    with pytest.raises(KeyboardInterrupt):
        encoded(FROZEN, tmp_path)
    assert not list(tmp_path.iterdir())


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


PARTLY = replace(
    FROZEN,
    model=with_image_options(FROZEN.model, depth=2),
    optim=replace(
        FROZEN.optim,
        lr_scale=dict.fromkeys(
            ["image_encoder.body." + part for part in ("patch_embed", "cls_token", "pos_embed", "blocks.0")],
            0,
        ),
    ),
)


def test_of_a_partly_frozen_body_the_rest_is_trained(tmp_path: Path) -> None:
    objective = ObjectiveConfig(queue=16, flops_image=0, flops_text=0)
    config = replace(PARTLY, objective=objective)
    method, photos, views = encoded(config, tmp_path)
    assert views.until == "blocks.1"
    method.begin_at(views.until)
    sample = photos[Key(0, 5, 32)]
    assert isinstance(sample, Sample)
    assert sample.begun is not None
    view = next(view for view in range(3) if (sample.begun.numpy() == views.states[5, view]).all())
    rng = np.random.default_rng((FROZEN.seed, view, 5, 1))
    pixels = photos.pixels(5, 32, int(rng.integers(2**62)))
    assert isinstance(pixels, torch.Tensor)
    method.eval()
    for model in (method.model, method.keys):
        by_pixels = image_states(model, PhotoBatch(torch.tensor([5]), pixels=pixels[None]))
        by_view = image_states(model, PhotoBatch(torch.tensor([5]), begun=sample.begun[None]))
        torch.testing.assert_close(by_view, by_pixels, rtol=1e-2, atol=1e-2)


def test_training_on_views_of_a_frozen_part(tmp_path: Path) -> None:
    run = pretrain(replace(PARTLY, out=str(tmp_path / "run")))
    torch.manual_seed(PARTLY.seed)
    start, _ = make_model(PARTLY, open_source("scenes:24:0"))
    end, _ = make_model(replace(PARTLY, init=str(run / "last")), open_source("scenes:24:0"))
    same = {name: torch.equal(weight, end.state_dict()[name]) for name, weight in start.state_dict().items()}
    body = {name for name in same if name.startswith("image_encoder.body.")}
    assert {name for name in body if same[name]} == {
        name for name in body if name.startswith(tuple(PARTLY.optim.lr_scale))
    }


def test_activations_of_a_partly_frozen_body_are_not_computed_anew(tmp_path: Path) -> None:
    optim = replace(PARTLY.optim, checkpoint_activations=True)
    with pytest.raises(ConfigError, match="leave it out"):
        pretrain(replace(PARTLY, out=str(tmp_path / "run"), optim=optim))


def test_views_need_a_frozen_body(tmp_path: Path) -> None:
    config = replace(FROZEN, out=str(tmp_path / "run"), optim=replace(FROZEN.optim, lr_scale={}))
    with pytest.raises(ConfigError, match="frozen image encoder"):
        pretrain(config)


def test_a_compiled_encoder_computes_its_views_itself(tmp_path: Path) -> None:
    """torch.compile fails where ONNX Runtime is called in a validation."""
    compiled = replace(FROZEN, optim=replace(FROZEN.optim, compile=True))
    method, _, _ = encoded(compiled, tmp_path)
    assert method.model.image_encoder.without_gradient is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data": replace(FROZEN.data, sizes=(32, 64))}, "one size"),
        (
            {
                "model": replace(WITHOUT_DROPOUT, kind="lightningdot"),
                "objective": ObjectiveConfig(flops_image=0, flops_text=0, smrm=1),
            },
            "no pixels that objective.smrm could mask",
        ),
    ],
)
def test_configs_that_views_cannot_have(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        replace(FROZEN, **changes)
