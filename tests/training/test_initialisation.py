import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
from lexlip.encoders.image import to_pixels
from lexlip.encoders.text import word_tokenizer
from lexlip.errors import ConfigError, ModelError
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.training.initialisation import (
    RIDGE,
    companions,
    counted_captions,
    fit_image_tokens,
    fit_text_head,
    inverse_document_frequency,
    make_model,
    ridge,
)
from lexlip.training.loop import pretrain
from lexlip.training.method import Method
from tests.tiny import TINY, tiny_model, tiny_photos, tiny_stage
from tests.training.small_run import SMALL, WITH_QUEUES

WIDE = replace(TINY, text=replace(TINY.text, options={**TINY.text.options, "hidden_size": 128}))
SCENES = Scenes(200, seed=0)
SIZES = {k: v for k, v in TINY.text.options.items() if k != "max_position_embeddings"}
CAPTIONS = [caption for item in SCENES.items for caption in item.captions]


@pytest.fixture(scope="module")
def fitted() -> LexLIP:
    return make_model(Config(model=WIDE), SCENES)[0].eval()


def test_words_start_from_their_rarity() -> None:
    model = tiny_model()
    weights = inverse_document_frequency(model, ["two dogs", "two dogs play", "two", "two cats"])
    of = dict(zip(model.vocabulary.words, weights.tolist(), strict=True))
    mean = sum(math.log(1 + 4 / (1 + {"two": 4, "dogs": 2, "play": 1}.get(w, 0))) for w in of) / len(of)
    assert of["two"] == pytest.approx(math.log(1 + 4 / 5) / mean)
    assert of["dogs"] == pytest.approx(math.log(1 + 4 / 3) / mean)
    assert of["two"] < of["dogs"] < of["play"] < of["snow"]


def test_a_caption_starts_as_its_own_words(fitted: LexLIP) -> None:
    unseen = [caption for item in Scenes(20, seed=10**6).items for caption in item.captions]
    vectors, present = fitted.encode_text(unseen).toarray(), fitted.words_present(unseen).numpy()
    assert vectors[present].mean() == pytest.approx(math.log(1 + 0.7), rel=0.2)
    assert vectors[present].min() > 0
    lightest = np.where(present, vectors, np.inf).min(axis=1)
    others = np.where(present, 0, vectors)
    assert (others < lightest[:, None]).mean() > 0.95
    assert 1 < np.diff(fitted.encode_text(unseen).indptr).mean() / present.sum(axis=1).mean() < 4


def test_images_start_with_words_to_learn_from(fitted: LexLIP) -> None:
    assert torch.equal(fitted.image_head.decoder, fitted.text_head.decoder)
    raw = fitted.raw_image(tiny_photos(8))
    assert ((raw > 0).float().mean(dim=1) > 0.25).all()
    fitted.vectors(raw).sum().backward()
    assert fitted.image_head.decoder.grad is not None
    assert (fitted.image_head.decoder.grad.norm(dim=1) > 0).float().mean() > 0.5


def test_the_decoder_is_directions_of_word_embeddings(fitted: LexLIP) -> None:
    embeddings = fitted.text_encoder.word_embeddings[torch.from_numpy(fitted.vocabulary.token_ids)].detach()
    centred = embeddings - embeddings.mean(dim=0)
    cosines = torch.nn.functional.cosine_similarity(fitted.text_head.decoder, centred)
    torch.testing.assert_close(cosines, torch.ones_like(cosines))
    lengths = fitted.text_head.decoder.norm(dim=1)
    torch.testing.assert_close(lengths, lengths[:1].expand_as(lengths))


def test_the_regression_is_that_of_least_squares() -> None:
    torch.manual_seed(0)
    inputs, targets, weights = torch.randn(50, 6) + 0.3, torch.randn(50, 6), torch.rand(50) + 0.1
    weight, bias = ridge(inputs, targets, weights)
    x, roots = np.c_[inputs.double(), np.ones(50)], np.sqrt(weights.double().numpy())[:, None]
    gram = (roots * x).T @ (roots * x)
    penalty = np.sqrt(1e-3 * np.diag(gram).mean()) * np.eye(7)
    rows = np.r_[roots * x, penalty], np.r_[roots * targets.double().numpy(), np.zeros((7, 6))]
    solution = np.linalg.lstsq(*rows, rcond=None)[0]
    solution /= (x @ solution).std(ddof=1)
    np.testing.assert_allclose(weight.T, solution[:6], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bias, solution[6], rtol=1e-4, atol=1e-5)


def test_nothing_else_changes_and_the_same_captions_give_the_same_start() -> None:
    model, other = tiny_model(WIDE).train(), tiny_model(WIDE).train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    captions = ["two dogs play in the snow", "a man in a red shirt rides a bike"] * 3
    assert fit_text_head(model, captions)
    assert fit_text_head(other, captions)
    assert model.training
    assert all(torch.equal(weight, other.state_dict()[name]) for name, weight in model.state_dict().items())
    changed = {n for n, weight in model.state_dict().items() if not torch.equal(weight, before[n])}
    heads = {"text_head.dense.weight", "text_head.dense.bias", "text_head.decoder", "text_head.bias"}
    assert changed == heads | {"image_head.decoder"}


def test_captions_without_a_word_of_the_lexicon_leave_the_heads_alone() -> None:
    model = tiny_model()
    before = model.text_head.decoder.clone()
    assert not fit_text_head(model, ["zebras", ""])
    assert torch.equal(model.text_head.decoder, before)


WIDER = {**SIZES, "hidden_size": 32, "embedding_size": 16}
MOBILE_BERT = MobileBertConfig(true_hidden_size=32, intra_bottleneck_size=32, **WIDER)


def text_of(folder: Path) -> TextEncoderConfig:
    return TextEncoderConfig(str(folder), max_tokens=40)


def test_states_that_do_not_tell_words_apart_leave_the_heads_alone() -> None:
    model = tiny_model()
    model.text_encoder.word_embeddings.data[:] = 1.0
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    assert not fit_text_head(model, CAPTIONS)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_checkpoints_in_half_precision(dtype: torch.dtype, kind: type, tmp_path: Path) -> None:
    tokenizer = word_tokenizer(CAPTIONS)
    tokenizer.save_pretrained(tmp_path)
    kind(BertConfig(vocab_size=len(tokenizer), **SIZES)).to(dtype).save_pretrained(tmp_path)
    model, _ = make_model(Config(model=replace(TINY, text=text_of(tmp_path))), SCENES)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.encode_text(CAPTIONS[:3]).nnz > 0


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (ElectraConfig(**WIDER), ElectraModel),
        (AlbertConfig(**WIDER), AlbertModel),
        (MOBILE_BERT, MobileBertModel),
        (MOBILE_BERT, MobileBertForMaskedLM),
    ],
    ids=["ELECTRA", "ALBERT", "MobileBERT", "MobileBERT with a head"],
)
def test_words_narrower_than_states(config: PreTrainedConfig, kind: type, tmp_path: Path) -> None:
    tokenizer = word_tokenizer(CAPTIONS)
    tokenizer.save_pretrained(tmp_path)
    config.vocab_size = len(tokenizer)
    kind(config).save_pretrained(tmp_path)
    model, _ = make_model(Config(model=replace(TINY, text=text_of(tmp_path))), SCENES)
    assert model.text_head.decoder.shape[1] == 16
    if kind in (ElectraModel, AlbertModel):  # at random, MobileBERT's states do not tell words apart
        assert model.text_head.bias[0] < 0
    assert model.encode_text(CAPTIONS[:3]).nnz > 0


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A checkpoint in the hub's format, with a masked-language-model head."""
    tmp_path = tmp_path / "bert"
    tokenizer = word_tokenizer(CAPTIONS)
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(1)
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **SIZES)).save_pretrained(tmp_path)
    return tmp_path


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
    text = replace(TINY.text, name=str(bert) if trained else None, tokenizer=str(bert), options={})
    if not trained:
        text = replace(text, options=TINY.text.options)
    model, _ = make_model(
        Config(model=replace(TINY, text=text, head=head, vocabulary=VocabularyConfig("words"))), SCENES
    )
    theirs = BertForMaskedLM.from_pretrained(bert).cls.predictions.transform.dense.weight
    assert torch.equal(model.text_head.dense.weight, theirs) == own
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


def test_a_dense_model_predicts_masked_words_with_the_checkpoints_own_head(
    bert: Path, tmp_path: Path
) -> None:
    run = pretrain(run_from(bert, tmp_path / "run", kind="dense"))
    found = load_file(run / "last" / "left_behind.safetensors")["own_head.dense.weight"]
    theirs = BertForMaskedLM.from_pretrained(bert).cls.predictions.transform.dense.weight
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["lexlip", "dense"])
def test_a_run_goes_on_without_what_it_started_from(bert: Path, tmp_path: Path, kind: str) -> None:
    config = run_from(bert, tmp_path / "run", kind=kind)
    run = pretrain(config)
    shutil.rmtree(bert)
    assert pretrain(config, resume=True) == run


def test_companions_are_the_words_with_the_highest_t_scores() -> None:
    source = Scenes(60, seed=1)
    model = tiny_model()
    captions_of = [item.captions for item in source.items]
    words = model.vocabulary.words
    captions, photos = [], []
    for texts in captions_of:
        sets = [set(re.findall(r"\w+", text.lower())) & set(words) for text in texts]
        captions += sets
        photos += [set().union(*sets)] * len(sets)
    found = companions(model, captions_of, 2)
    assert found.shape == (len(words), 2)
    some = 0
    for row, word in enumerate(words):
        scores = []
        for column, other in enumerate(words):
            together = sum(word in c and other in p for c, p in zip(captions, photos, strict=True))
            chance = sum(word in c for c in captions) * sum(other in p for p in photos) / len(captions)
            if column != row and together:
                scores.append(((together - chance) / math.sqrt(together), column))
        best = sorted((score for score, _ in scores if score > 0), reverse=True)[:2]
        of = {column: score for score, column in scores}
        taken = [of.get(int(column), 0.0) for column in found[row]]
        assert taken == pytest.approx(best + [0.0] * (2 - len(best)))
        assert all(int(column) == row for column in found[row][len(best) :])
        some += len(best)
    assert some > 10


@torch.no_grad()
def test_tokens_of_photos_start_as_the_words_that_lexlip_sees_there() -> None:
    """Against a ridge regression of numpy's, of positions taken one at a time."""
    words, photos = tiny_model(), tiny_photos(20)
    model = tiny_stage("ce")
    model.image_encoder.load_state_dict(words.image_encoder.state_dict())
    fit_image_tokens(model, words, photos.split(8))
    embeddings = words.text_encoder.word_embeddings[torch.from_numpy(words.vocabulary.token_ids)].numpy()
    states, means = [], []
    for state in words.image_encoder(photos).flatten(0, 1):
        logits = words.image_head(state[None, None], torch.ones(1, 1, dtype=torch.bool))[0]
        p = np.log1p(np.maximum(logits.numpy(), 0))
        best = np.argsort(-p, kind="stable")[:5]
        if p[best].sum() > 0:
            states.append(np.append(state.numpy(), 1.0).astype(np.float64))
            means.append((p[best, None] * embeddings[best]).sum(axis=0) / p[best].sum())
    x, y = np.array(states), np.array(means)
    gram = x.T @ x
    gram += 1e-3 * np.diag(gram).mean() * np.eye(len(gram))
    expected = x @ np.linalg.solve(gram, x.T @ y)
    expected *= embeddings.std(ddof=1) / expected.std(ddof=1)
    found = model.image_projection(torch.tensor(x[:, :-1], dtype=torch.float32)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3)
    norm = model.text_encoder.body.embeddings.LayerNorm
    torch.testing.assert_close(model.image_norm.state_dict(), norm.state_dict())


@torch.no_grad()
def test_photos_without_words_leave_the_tokens_as_they_were() -> None:
    words, model = tiny_model(), tiny_stage("ce")
    words.image_head.bias.fill_(-1e3)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    fit_image_tokens(model, words, [tiny_photos(2)])
    torch.testing.assert_close(model.state_dict(), before)


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
        (
            {"image": replace(SMALL.model.image, resize="squash")},
            r"model\.image\.resize is squash, but init=.*",
        ),
        ({"text": replace(TINY.text, max_tokens=7)}, r"model\.text\.max_tokens is 7, but init=.* with 40"),
        ({"vocabulary": VocabularyConfig("all")}, r"model\.vocabulary\.kind is all, but init=.* with words"),
        ({"special_positions": True}, r"special_positions is True, but init=.* with False"),
        ({"pooling": "mean"}, r"pooling is mean, but init=.* with None"),
    ],
)
def test_starting_from_a_checkpoint_of_another_model(
    finished: Path, changes: dict[str, Any], message: str
) -> None:
    objective = replace(SMALL.objective, flops_image=0, flops_text=0, anchor_contrastive=0, anchor_words=0)
    config = replace(
        SMALL, init=str(finished / "best"), model=replace(SMALL.model, **changes), objective=objective
    )
    with pytest.raises((ConfigError, ModelError), match=message) as caught:
        make_model(config, Scenes(4, seed=0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["dense", "ce", "lightningdot"])
def test_starting_from_the_encoders_of_another_kind(finished: Path, tmp_path: Path, kind: str) -> None:
    losses = {"flops_image": 0.0, "flops_text": 0.0, "anchor_contrastive": 0.0, "anchor_words": 0.0}
    if kind == "ce":
        losses |= {"contrastive": 0.0, "matching": 1.0}
    objective, model = replace(SMALL.objective, **losses), replace(SMALL.model, kind=kind)
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
    objective = replace(SMALL.objective, flops_image=0, flops_text=0, anchor_contrastive=0, anchor_words=0)
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


CONTRASTIVE = ObjectiveConfig(flops_image=0, flops_text=0)


def test_the_first_token_of_a_photo_must_stand_for_all_of_it() -> None:
    image = ImageEncoderConfig(name="mobilenetv2_035", size=32)
    config = Config(model=replace(TINY, kind="be", pooling="cls", image=image), objective=CONTRASTIVE)
    with pytest.raises(ConfigError, match=r"'mobilenetv2_035' has no \[CLS\]; set model.framed_photos=true"):
        make_model(config, Scenes(8, seed=0))
    make_model(replace(config, model=replace(config.model, framed_photos=True)), Scenes(8, seed=0))


def test_fitted_projections_are_those_of_ridge_regression() -> None:
    """A photo starts at the ridge regression of its captions' mean vector, a caption at its own state."""
    photos = Scenes(40, seed=3)
    model = replace(TINY, kind="dense", head="fitted", pooling="mean")
    config = Config(model=model, objective=CONTRASTIVE)
    torch.manual_seed(0)
    dense, _ = make_model(config, photos)
    assert isinstance(dense, Dense)
    dense.eval()
    with torch.no_grad():
        ids, mask = dense.text_encoder.tokenize([c for item in photos.items for c in item.captions])
        states = dense.text_encoder(ids, mask)
        texts = (states * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        texts = texts - texts.mean(dim=0)
        raw = dense.raw_text(ids, mask)
        torch.testing.assert_close(raw / raw.std(), texts / texts.std(), rtol=1e-3, atol=1e-3)
        counts = [len(item.captions) for item in photos.items]
        targets = torch.stack([part.mean(dim=0) for part in texts.split(counts)]).double()
        pixels = torch.stack([to_pixels(photos.image(row), TINY.image) for row in range(len(photos))])
        inputs = dense.image_encoder(pixels).mean(dim=1)
        x = torch.cat([inputs, torch.ones(len(inputs), 1)], dim=1).double()
        gram = x.T @ x
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram))
        expected = x @ torch.linalg.solve(gram + ridge, x.T @ targets)
        found = dense.raw_image(pixels).double()
        torch.testing.assert_close(found / found.std(), expected / expected.std(), rtol=1e-3, atol=1e-3)
        for projection in (dense.text_projection, dense.image_projection):
            fresh = torch.nn.Linear(projection.in_features, projection.out_features).weight.std()
            assert float(projection.weight.square().mean().sqrt()) == pytest.approx(float(fresh), rel=0.1)


def test_only_linear_heads_can_be_fitted() -> None:
    config = Config(model=replace(TINY, kind="lightningdot", head="fitted"), objective=CONTRASTIVE)
    with pytest.raises(ConfigError, match=r"model\.head=fitted is for lexlip and dense models"):
        make_model(config, Scenes(8, seed=0))
