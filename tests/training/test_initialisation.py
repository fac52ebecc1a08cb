import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    ElectraConfig,
    ElectraModel,
    MobileBertConfig,
    MobileBertForMaskedLM,
    MobileBertModel,
    PreTrainedConfig,
)

from lexlip.config import (
    Config,
    DataConfig,
    ImageEncoderConfig,
    ObjectiveConfig,
    OptimConfig,
    SourceConfig,
    TextEncoderConfig,
    VocabularyConfig,
)
from lexlip.data import Scenes
from lexlip.encoders.text import word_tokenizer
from lexlip.errors import ConfigError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.training.initialisation import counted_captions, make_model
from lexlip.training.loop import pretrain
from lexlip.training.method import Method
from tests.tiny import TINY, tiny_photos, tiny_stage
from tests.training.small_run import SMALL, WITH_QUEUES

SCENES = Scenes(200, seed=0)
CAPTIONS = [caption for item in SCENES.items for caption in item.captions]
CONTRASTIVE = ObjectiveConfig(flops_image=0, flops_text=0)
SIZES = {k: v for k, v in TINY.text.options.items() if k != "max_position_embeddings"}


WIDER = {**SIZES, "hidden_size": 32, "embedding_size": 16}
MOBILE_BERT = MobileBertConfig(true_hidden_size=32, intra_bottleneck_size=32, **WIDER)
HALF = [(BertConfig(**SIZES), kind) for kind in (BertModel, BertForMaskedLM)]
WITHOUT_WORDS = {"flops_image": 0.0, "flops_text": 0.0, "anchor_contrastive": 0.0, "anchor_words": 0.0}


def text_of(folder: Path) -> TextEncoderConfig:
    return TextEncoderConfig(str(folder), max_tokens=40)


def write(folder: Path, config: PreTrainedConfig, kind: type, dtype: torch.dtype = torch.float32) -> Path:
    """A random checkpoint in the hub's format."""
    tokenizer = word_tokenizer(CAPTIONS)
    tokenizer.save_pretrained(folder)
    config.vocab_size = len(tokenizer)
    torch.manual_seed(1)
    kind(config).to(dtype).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("config", "kind", "dtype"),
    [
        *((config, kind, dtype) for config, kind in HALF for dtype in (torch.float16, torch.bfloat16)),
        (ElectraConfig(**WIDER), ElectraModel, torch.float32),
        (AlbertConfig(**WIDER), AlbertModel, torch.float32),
        (MOBILE_BERT, MobileBertModel, torch.float32),
        (MOBILE_BERT, MobileBertForMaskedLM, torch.float32),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_checkpoints_of_all_kinds(
    config: PreTrainedConfig, kind: type, dtype: torch.dtype, tmp_path: Path
) -> None:
    """In half precision, or with words that are narrower than states."""
    folder = write(tmp_path, config, kind, dtype)
    model, _ = make_model(Config(model=replace(TINY, text=text_of(folder))), SCENES)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.text_head.decoder.shape[1] == 16
    if kind in (ElectraModel, AlbertModel):  # at random, MobileBERT's states do not tell words apart
        assert model.text_head.bias[0] < 0
    assert model.encode_text(CAPTIONS[:3]).nnz > 0


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a masked-language-model head."""
    return write(tmp_path_factory.mktemp("models") / "bert", BertConfig(**SIZES), BertForMaskedLM)


def their_head(bert: Path) -> torch.Tensor:
    weight: torch.Tensor = BertForMaskedLM.from_pretrained(bert).cls.predictions.transform.dense.weight
    return weight


@pytest.mark.parametrize(
    ("head", "trained", "own", "has_words"),
    [
        ("auto", True, True, False),
        ("auto", False, False, True),
        ("fitted", True, False, True),
        ("random", True, False, False),
        ("random", False, False, False),
    ],
)
def test_how_heads_start(head: str, trained: bool, own: bool, has_words: bool, bert: Path) -> None:
    """As the checkpoint's own, or as the words of captions, or as neither."""
    name, options = (str(bert), {}) if trained else (None, TINY.text.options)
    text = replace(TINY.text, name=name, tokenizer=str(bert), options=options)
    model, _ = make_model(Config(model=replace(TINY, text=text, head=head)), SCENES)
    assert torch.equal(model.text_head.dense.weight, their_head(bert)) == own
    assert bool(model.text_head.bias.unique().numel() == 1 and model.text_head.bias[0] < 0) == has_words


def run_from(bert: Path, out: Path, **changes: object) -> Config:
    source = (SourceConfig("scenes:16:0"),)
    return Config(
        out=str(out),
        checkpoint_every=2,
        data=DataConfig(source, source, workers=0),
        model=replace(TINY, text=text_of(bert), **changes),
        objective=ObjectiveConfig(flops_image=0, flops_text=0, mlm=1.0),
        optim=OptimConfig(steps=2, batch=8, lr=1e-9, warmup=0),
    )


@pytest.mark.parametrize("kind", ["lexlip", "dense"])
def test_a_run_goes_on_without_what_it_started_from(bert: Path, tmp_path: Path, kind: str) -> None:
    """A dense model predicts masked words with the checkpoint's own head."""
    shutil.copytree(bert, tmp_path / "bert")
    config = run_from(tmp_path / "bert", tmp_path / "run", kind=kind)
    run = pretrain(config)
    if kind == "dense":
        found = load_file(run / "last" / "left_behind.safetensors")["own_head.dense.weight"]
        torch.testing.assert_close(found, their_head(bert), rtol=0, atol=1e-6)
    shutil.rmtree(tmp_path / "bert")
    assert pretrain(config, resume=True) == run


def test_starting_from_a_checkpoint(finished: Path) -> None:
    config = replace(SMALL, name="second", init=str(finished / "best"))
    model, vocabulary = make_model(config, Scenes(4, seed=0))
    first = LexLIP.from_pretrained(finished / "best")
    assert all(torch.equal(weight, first.state_dict()[name]) for name, weight in model.state_dict().items())
    assert model.name == "second"
    assert vocabulary == model.vocabulary
    keys = Method(model, vocabulary, WITH_QUEUES.objective).keys  # not of random weights
    assert all(torch.equal(weight, first.state_dict()[name]) for name, weight in keys.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": replace(SMALL.model.image, resize="squash")}, r"image\.resize is squash, but init="),
        ({"text": replace(TINY.text, max_tokens=7)}, r"model\.text\.max_tokens is 7, but init=.* with 40"),
        ({"vocabulary": VocabularyConfig("all")}, r"model\.vocabulary\.kind is all, but init=.* with words"),
        ({"special_positions": True}, r"special_positions is True, but init=.* with False"),
        ({"pooling": "mean"}, r"pooling is mean, but init=.* with None"),
        ({"metric": "dot"}, r"model\.metric is dot, but init=.* with cosine"),
    ],
)
def test_starting_from_a_checkpoint_of_another_model(
    finished: Path, changes: dict[str, Any], message: str
) -> None:
    model, objective = replace(SMALL.model, **changes), replace(SMALL.objective, **WITHOUT_WORDS)
    config = replace(SMALL, init=str(finished / "best"), model=model, objective=objective)
    with pytest.raises((ConfigError, ModelError), match=message) as caught:
        make_model(config, Scenes(4, seed=0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["dense", "ce", "lightningdot"])
def test_starting_from_the_encoders_of_another_kind(finished: Path, tmp_path: Path, kind: str) -> None:
    losses = {"contrastive": 0.0, "matching": 1.0} if kind == "ce" else {}
    objective, model = replace(SMALL.objective, **WITHOUT_WORDS, **losses), replace(SMALL.model, kind=kind)
    config = replace(SMALL, init=str(finished / "best"), model=model, objective=objective)
    started, _ = make_model(config, Scenes(4, seed=0))
    first = LexLIP.from_pretrained(finished / "best")
    assert (started.kind, started.config) == (kind, model)
    for part in ("image_encoder", "text_encoder"):
        weights = getattr(started, part).state_dict()
        torch.testing.assert_close(weights, getattr(first, part).state_dict(), rtol=0, atol=0)
    started.save(tmp_path)
    with pytest.raises(ModelError, match=f"holds a {kind} model, not a lexlip one"):
        make_model(replace(SMALL, init=str(tmp_path)), Scenes(4, seed=0))


@pytest.mark.parametrize(("before", "after"), [(None, "cls"), ("cls", None)])
def test_one_transformer_may_start_with_another_pooling(tmp_path: Path, before: Any, after: Any) -> None:
    """As where VLDeformer leaves out its mean pooling: a cross-encoder's says nothing of it."""
    model = replace(SMALL.model, pooling=before)
    tiny_stage("ce", model).save(tmp_path)
    objective = replace(SMALL.objective, **WITHOUT_WORDS)
    model = replace(model, kind="vldeformer", pooling=after)
    config = replace(SMALL, init=str(tmp_path), model=model, objective=objective)
    assert make_model(config, Scenes(4, seed=0))[0].config.pooling == after


@pytest.mark.parametrize("size", [16, 64])
def test_starting_from_a_checkpoint_of_another_size(finished: Path, size: int) -> None:
    """As from 224 to 384 pixels: positions are interpolated, nothing else changes."""
    image = replace(SMALL.model.image, size=size)
    config = replace(SMALL, init=str(finished / "best"), model=replace(SMALL.model, image=image))
    model, _ = make_model(config, Scenes(4, seed=0))
    first = LexLIP.from_pretrained(finished / "best")
    assert model.config == config.model
    others = {n for n, w in model.state_dict().items() if not torch.equal(w, resized_to(w, first, n))}
    assert others == {"image_encoder.body.pos_embed", "image_encoder.position"}
    tokens = (size // 8) ** 2 + 1
    assert model.image_encoder.positions == tokens
    photos = tiny_photos(2, size)
    with torch.no_grad():
        torch.testing.assert_close(model.raw_image(photos), first.raw_image(photos), rtol=1e-3, atol=1e-4)


def resized_to(weight: torch.Tensor, model: LexLIP, name: str) -> torch.Tensor:
    """The model's own weight of that name, or where it has another shape nothing like it."""
    own = model.state_dict()[name]
    return own if own.shape == weight.shape else torch.full_like(weight, math.nan)


def test_words_are_counted_in_a_sample_of_a_large_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scenes(40, seed=0)
    monkeypatch.setattr("lexlip.training.initialisation.COUNTED_PHOTOS", 12)
    counted = counted_captions(source, 5)
    of_photo = {caption: index for index, item in enumerate(source.items) for caption in item.captions}
    photos = [of_photo[captions[0]] for captions in counted]
    assert counted == [source.items[photo].captions for photo in photos]
    assert len(set(photos)) == 12
    assert photos == sorted(photos)
    assert counted == counted_captions(source, 5)
    assert counted != counted_captions(source, 6)


def test_the_first_token_of_a_photo_must_stand_for_all_of_it() -> None:
    image = ImageEncoderConfig(name="mobilenetv2_035", size=32)
    config = Config(model=replace(TINY, kind="be", pooling="cls", image=image), objective=CONTRASTIVE)
    with pytest.raises(ConfigError, match=r"'mobilenetv2_035' has no \[CLS\]; set model.framed_photos=true"):
        make_model(config, Scenes(8, seed=0))
    make_model(replace(config, model=replace(config.model, framed_photos=True)), Scenes(8, seed=0))


def test_only_linear_heads_can_be_fitted() -> None:
    config = Config(model=replace(TINY, kind="lightningdot", head="fitted"), objective=CONTRASTIVE)
    with pytest.raises(ConfigError, match=r"model\.head=fitted is for lexlip and dense models"):
        make_model(config, Scenes(8, seed=0))
