import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from lexlip.config import Config, ObjectiveConfig
from lexlip.data import Scenes
from lexlip.encoders.image import to_pixels
from lexlip.models.dense import Dense
from lexlip.models.lexlip import LexLIP
from lexlip.training.head_fits import (
    RIDGE,
    companions,
    fit_image_tokens,
    fit_text_head,
    inverse_document_frequency,
    ridge,
)
from lexlip.training.initialisation import make_model
from tests.tiny import TINY, tiny_model, tiny_photos, tiny_stage

WIDE = replace(TINY, text=replace(TINY.text, options={**TINY.text.options, "hidden_size": 128}))
SCENES = Scenes(200, seed=0)
CONTRASTIVE = ObjectiveConfig(flops_image=0, flops_text=0)


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


@pytest.mark.parametrize("alike", [False, True])
def test_what_does_not_tell_words_apart_leaves_the_heads_alone(alike: bool) -> None:
    """Captions without a word of the lexicon, and words with equal states."""
    model = tiny_model()
    if alike:
        model.text_encoder.word_embeddings.data[:] = 1.0
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    captions = [caption for item in SCENES.items for caption in item.captions]
    assert not fit_text_head(model, captions if alike else ["zebras", ""])
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


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
