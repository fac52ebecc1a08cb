import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

from lexlip.config import Config, OptimConfig
from lexlip.data import Scenes
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.quantize import quantize
from lexlip.sparse.top_words import topk as sparse_topk
from lexlip.training import lexicon_fit
from lexlip.training.initialisation import make_model
from lexlip.training.lexicon_fit import fit_words, load_towers, make_lexicon, unit
from lexlip.training.run_folder import save_whole
from lexlip.training.step import make_optimizer
from tests.tiny import (
    CAPTIONS,
    TINY,
    check_vectors,
    tiny_batch,
    tiny_dense,
    tiny_method,
    tiny_model,
    tiny_photos,
)
from tests.tiny_clip import write_clip, write_siglip
from tests.training.test_step import step

PARTS = [caption.split() for caption in CAPTIONS]
MANY = [
    " ".join([*PARTS[first][:cut], *PARTS[second][cut:]])
    for first, second in itertools.product(range(6), repeat=2)
    for cut in range(1, 8)
] * 4
"""1,008 captions of the words that the tiny tokenizers know."""


def drawn(number: int = 500, width: int = 6, words: int = 200) -> tuple[np.ndarray, csr_matrix]:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(number, width))
    held = vectors @ rng.normal(size=(width, words)) + rng.normal(size=(number, words)) > 3
    held[:, 0] = np.arange(number) == 7  # a rare word
    return (vectors - vectors.mean(axis=0)).astype(np.float32), csr_matrix(held.astype(np.float32))


def test_words_are_the_ridge_regression_by_the_root_of_their_share() -> None:
    vectors, words = drawn()
    decoder, text_bias, photo_bias = fit_words(vectors, words)
    x, y = vectors.astype(np.float64), words.toarray()
    strength = lexicon_fit.RIDGE * np.trace(x.T @ x) / 6
    extended = np.concatenate([x, np.sqrt(strength) * np.eye(6)])  # a ridge is a least squares with more rows
    solution = np.linalg.lstsq(extended, np.concatenate([y, np.zeros((6, 200))]), rcond=None)[0]
    assert_allclose(decoder, solution.T / np.sqrt(y.mean(axis=0))[:, None], rtol=1e-3, atol=1e-4)
    raw = x @ decoder.T
    logits = np.sqrt(200) * raw / np.linalg.norm(raw, axis=1, keepdims=True)
    for bias, kept in ((text_bias, lexicon_fit.TEXT_WORDS), (photo_bias, lexicon_fit.PHOTO_WORDS)):
        assert ((logits + bias) > 0).sum(axis=1).mean() == pytest.approx(kept, abs=1)


def test_the_head_does_what_the_formula_says() -> None:
    model = make_lexicon(tiny_dense(), MANY, None, "words")
    dense = tiny_dense()
    head = {name: values.detach().numpy() for name, values in model.text_head.named_parameters()}
    centred = unit(dense.encode_text(CAPTIONS).toarray()) - head["mean"]
    raw = centred @ head["decoder"].T
    logits = np.sqrt(len(raw[0])) * raw / np.linalg.norm(raw, axis=1, keepdims=True) + head["bias"]
    expected = np.log1p(np.maximum(logits, 0))
    assert_allclose(model.encode_text(CAPTIONS).toarray(), expected, rtol=1e-3, atol=1e-4)
    assert_allclose(head["mean"], unit(dense.encode_text(MANY).toarray()).mean(axis=0), atol=1e-5)


def test_photos_give_the_mean_of_photos() -> None:
    scenes = Scenes(20, seed=0)
    model, dense = make_lexicon(tiny_dense(), MANY, scenes, "words"), tiny_dense()
    photos = dense.encode_image([scenes.image(row) for row in range(20)]).toarray()
    assert_allclose(model.image_head.mean.detach().numpy(), unit(photos).mean(axis=0), atol=1e-4)
    captions = sparse_topk(model.encode_text(MANY), SENTENCE_TOPK)
    assert_allclose(model.balance.photos.queries.toarray(), quantize(captions).toarray(), atol=1)
    assert model.balance.captions.queries.shape == (20, len(model.vocabulary))
    without = make_lexicon(tiny_dense(), MANY, None, "words")
    assert without.balance is None
    assert_allclose(without.image_head.mean.detach().numpy(), without.text_head.mean.detach().numpy())


@pytest.fixture(params=["clip", "siglip", "siglip2", "dense"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A dense model's."""
    folder = tmp_path / request.param
    if request.param == "clip":
        return write_clip(folder)
    if request.param != "dense":
        return write_siglip(folder, second=request.param == "siglip2")
    tiny_dense().save(folder)
    return folder


def test_it_is_saved_and_loaded_as_a_lexlip(folder: Path, tmp_path: Path) -> None:
    model = make_lexicon(load_towers(folder), MANY, None, "words")
    save_whole(model, tmp_path / "words")
    loaded, photos = LexLIP.from_pretrained(tmp_path / "words"), tiny_photos(3)
    assert loaded.identity == model.identity
    assert {"dogs", "snow", "bike"} <= set(loaded.vocabulary.words)
    by_network, by_words = (TextQueries(tmp_path / "words", encoder) for encoder in ("network", "words"))
    for ours, theirs in (
        (loaded.encode_text(CAPTIONS), model.encode_text(CAPTIONS)),
        (loaded.encode_image(photos), model.encode_image(photos)),
        (by_network.encode(CAPTIONS[0]), model.encode_text(CAPTIONS[:1])),
        (by_words.encode("two dogs"), model.encode_text(["two dogs"], "words")),
    ):
        assert ours.nnz
        check_vectors(ours, theirs)
    again = make_lexicon(load_towers(folder), MANY, None, "words")
    assert (again.encode_text(MANY[:50]) != model.encode_text(MANY[:50])).nnz == 0


def test_a_gap_between_photos_and_captions_does_not_matter() -> None:
    """Vectors that are moved by the mean of photos have the same words."""
    model = make_lexicon(tiny_dense(), MANY, Scenes(20, seed=0), "words")
    head = model.image_head
    states = model.pooled_image(model.image_encoder(tiny_photos(2)))
    before = head(states).detach().numpy()
    joint = torch.nn.functional.normalize(head.project(states), dim=1)
    gap = torch.full((16,), 0.7)
    head.mean.data += gap
    assert_allclose(head.logits(joint + gap).detach().numpy(), before, rtol=1e-4, atol=1e-4)
    head.mean.data -= gap
    head.decoder.data *= 3  # nor does the decoder's scale
    assert_allclose(head(states).detach().numpy(), before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "siglip"])
def test_it_can_be_trained_on(tmp_path: Path, kind: str) -> None:
    dense = tiny_dense() if kind == "dense" else load_towers(write_siglip(tmp_path / "siglip"))
    made = make_lexicon(dense, MANY, None, "words")
    save_whole(made, tmp_path / "words")
    fitted = replace(TINY, joint=16) if kind == "dense" else made.config
    config = Config(init=str(tmp_path / "words"), model=fitted)
    model, _ = make_model(config, Scenes(4, seed=0))
    method = tiny_method(config.objective, model)
    before = model.image_head.decoder.detach().clone()
    optimizer = make_optimizer(method, OptimConfig(lr=0.05))
    assert step(method, optimizer, tiny_batch(method)) is not None
    assert not torch.equal(before, model.image_head.decoder)
    with pytest.raises(ConfigError, match=r"model\.joint is of a model that `lexlip lexicon` made"):
        replace(config, init=None)
    with pytest.raises(ConfigError, match=r"model\.joint is for lexicon heads, and .*=dense has none"):
        replace(fitted, kind="dense")
    with pytest.raises(ConfigError, match=r"model\.pooling=last is of a model that .* made of a SigLIP"):
        replace(TINY, pooling="last")
    with pytest.raises(ConfigError, match=r"model\.pooling=end is for two separate encoders"):
        replace(TINY, kind="ce", pooling="end")


def test_what_cannot_be_fitted() -> None:
    with pytest.raises(DataError, match="10 captions are too few to fit words to: give at least 1,000"):
        make_lexicon(tiny_dense(), MANY[:10], None, "words")
    with pytest.raises(DataError, match=r"15 photos in .* are too few .* at least 16"):
        make_lexicon(tiny_dense(), MANY, Scenes(15, seed=0), "words")
    with pytest.raises(ModelError, match="no word occurs 4 times"):
        make_lexicon(tiny_dense(), ["the of a"] * 1000, None, "words")


def test_models_that_have_no_dense_vectors(tmp_path: Path) -> None:
    tiny_model().save(tmp_path / "lexlip")
    with pytest.raises(ModelError, match="is of kind lexlip, which has words already: give a CLIP, a SigLIP"):
        load_towers(tmp_path / "lexlip")
    with pytest.raises(
        ModelError, match="'bm25' is of kind bm25: give a CLIP, a SigLIP or a model of kind dense"
    ):
        load_towers("bm25")
