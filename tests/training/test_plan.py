import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lexlip.config import Config, DataConfig, ImageEncoderConfig, OptimConfig, SourceConfig, TextEncoderConfig
from lexlip.config_files import DEFAULT_CONFIG, load_config, load_phases
from lexlip.data import Scenes, open_sources
from lexlip.encoders.image import ImageEncoder
from lexlip.training.initialisation import make_model
from lexlip.training.loading import Order
from lexlip.training.loop import pretrain
from lexlip.training.method import Method
from lexlip.training.plan import estimate_memory, plan, saved_bytes
from tests.conftest import ROOT
from tests.tiny import TINY, tiny_model, tiny_photos
from tests.training.small_run import SMALL

PAPER = ImageEncoderConfig(name="beit_base_patch16_224.in22k_ft_in22k", weights="pretrained")
BERT = TextEncoderConfig(name="bert-base-uncased")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_that_could_start() -> None:
    config, *_ = load_phases(DEFAULT_CONFIG, ["data.train=[scenes:200:0]", "data.val=[scenes:20:9]"])
    found, train = plan(config), open_sources(config.data.train)
    assert found.missing == []
    assert found.rows == len(train)
    assert found.steps == Order(train, config).steps
    model, _ = make_model(config, train)
    assert found.model["all"] == sum(weight.numel() for weight in model.parameters())
    assert found.model["image"] == sum(weight.numel() for weight in model.image_encoder.parameters())


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    model = replace(TINY, image=PAPER, text=BERT)
    data = DataConfig(train=(SourceConfig("cc3m"), SourceConfig("sbu/*.tar")), val=(SourceConfig("val.tar"),))
    config = Config(
        data=replace(data, expected=4_000_000), model=model, optim=OptimConfig(epochs=20, batch=800)
    )
    found = plan(config, processes=8)
    assert [what.split(" ")[0] for what in found.missing] == [
        "data.train:",
        "data.train:",
        "data.val:",
        "model.image.weights:",
        "model.text.name:",
    ]
    assert "hf download bert-base-uncased" in found.missing[-1]
    assert (found.rows, found.steps) == (4_000_000, 100_000)
    assert found.model["text"] == pytest.approx(108.9e6, rel=0.001)  # BERT without its pooler
    assert found.model["image"] == pytest.approx(85.8e6, rel=0.001)  # BEiT-B
    assert not list(tmp_path.iterdir())


def test_missing_parts_one_by_one(tmp_path: Path) -> None:
    def missing(config: Config, **options: object) -> list[str]:
        return plan(config, **options).missing  # type: ignore[arg-type]

    assert missing(SMALL) == []
    taught = replace(SMALL, teacher="nobody", objective=replace(SMALL.objective, distillation=1.0))
    assert missing(taught) == [
        "teacher: no model 'nobody': neither a folder with a config.json nor a packaged model (mini)"
    ]
    assert missing(replace(SMALL, init="nowhere")) == [
        "init: no model 'nowhere': neither a folder with a config.json nor a packaged model (mini)"
    ]
    assert "cannot be used here" in missing(replace(SMALL, device="cuda:9"))[0]
    assert "are fewer than" in missing(replace(SMALL, optim=replace(SMALL.optim, batch=10_000)))[0]
    run = pretrain(replace(SMALL, out="run", optim=replace(SMALL.optim, steps=1)))
    assert missing(replace(SMALL, out="run"))[0].startswith("run holds a run already")
    assert missing(replace(SMALL, out="run", optim=replace(SMALL.optim, steps=1)), resume=True) == []
    assert missing(replace(SMALL, init=str(run / "best"))) == []
    other = replace(SMALL, model=replace(SMALL.model, special_positions=True), init=str(run / "best"))
    assert "special_positions" in missing(other)[0]
    weights = replace(SMALL.model, image=replace(SMALL.model.image, weights="w.safetensors"))
    assert missing(replace(SMALL, model=weights)) == ["model.image.weights: w.safetensors does not exist"]
    save_file({"x": torch.zeros(1)}, "w.safetensors")
    assert missing(replace(SMALL, model=weights)) == []


def test_pairs_are_counted() -> None:
    train = Scenes(100, seed=0)
    data = replace(SMALL.data, train=(SourceConfig("scenes:100:0"),), epoch="pairs", captions_per_image=1)
    found = plan(replace(SMALL, data=data))
    assert found.rows == sum(len(item.captions) for item in train.items)


HEADER = re.compile(
    r"([\d,]+) pairs / batch ([\d,]+) = ([\d,]+) steps per epoch(?:; x (\d+) epochs = ([\d,]+) steps)?"
)
OF_PAPERS = sorted(
    path for path in (ROOT / "configs").glob("*.yaml") if HEADER.search(path.read_text().replace("\n# ", " "))
)


@pytest.mark.parametrize("path", OF_PAPERS, ids=lambda path: path.stem)
def test_headers_of_the_papers_configs(path: Path) -> None:
    """The steps in the header are those of the run, from the papers' numbers of pairs."""
    assert len(OF_PAPERS) == 11
    config = load_config(path)
    match = HEADER.search(path.read_text().replace("\n# ", " "))
    assert match is not None
    pairs, batch, per_epoch, epochs, steps = (
        int(number.replace(",", "")) if number else None for number in match.groups()
    )
    assert config.data.epoch == "pairs"
    assert (config.data.expected, config.optim.batch) == (pairs, batch)
    assert per_epoch == pairs // batch
    if epochs is None:
        assert config.optim.steps is not None
    else:
        assert (config.optim.steps, config.optim.epochs) == (None, epochs)
        assert steps == epochs * per_epoch
    header = path.read_text()
    assert "The paper" in header
    assert "This project has not run it yet." in header.replace("\n# ", " ")


def memory(config: Config, processes: int = 1) -> dict[str, float]:
    model = tiny_model().to("meta")
    with torch.device("meta"):
        method = Method(model, tiny_model().vocabulary, config.objective)
    return estimate_memory(method, config, processes)


@pytest.mark.parametrize("layers", [0, 2])
def test_activations_are_counted_without_memory(layers: int) -> None:
    """What autograd keeps of a pass is the same with weights and without."""

    def kept(encoder: ImageEncoder, photos: torch.Tensor) -> int:
        return saved_bytes(encoder, lambda: encoder(photos).sum())

    config = replace(TINY.image, layers=layers)
    real = kept(ImageEncoder(config, 16).train(), tiny_photos(4))
    with torch.device("meta"):
        encoder = ImageEncoder(config, 16).train()
    photos = torch.empty(tiny_photos(4).shape, dtype=torch.uint8, device="meta")
    assert kept(encoder, photos) == pytest.approx(real, rel=0.1)  # attention keeps other parts
    assert real > 4 * 17 * 24 * 4  # at least one state of each token


def test_memory_follows_the_micro_batch() -> None:
    config = replace(SMALL, optim=replace(SMALL.optim, batch=8, micro_batch=None))
    whole = memory(config)
    half = memory(replace(config, optim=replace(config.optim, micro_batch=4)))
    assert half["activations"] == pytest.approx(whole["activations"] / 2, rel=0.05)
    assert half["weights and queues"] == whole["weights and queues"]
    assert memory(config, processes=2)["activations"] == half["activations"]
