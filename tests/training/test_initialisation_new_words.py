"""Words that a run adds to the model that it starts from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lexlip.config import VocabularyConfig
from lexlip.config_files import load_config
from lexlip.data import Scenes
from lexlip.encoders.text import load_tokenizer
from lexlip.errors import ConfigError
from lexlip.models.lexlip import LexLIP
from lexlip.training.head_fits import companions
from lexlip.training.initialisation import add_words
from lexlip.training.loop import pretrain
from lexlip.training.plan import plan
from lexlip.words.vocabulary import Vocabulary
from tests.tiny import CAPTIONS, TINY, tiny_photos
from tests.training.small_run import SMALL

OWN = [["a whippet plays in the snow", "a whippet runs"], ["two whippets", "a whippet and a dog"]]


def model_before(companion_words: int = 0) -> LexLIP:
    """A model whose tokenizer knows the words of OWN, and whose vocabulary does not."""
    torch.manual_seed(0)
    tokenizer = load_tokenizer(TINY.text, [*CAPTIONS, *(caption for texts in OWN for caption in texts)])
    vocabulary = Vocabulary.build(VocabularyConfig("words"), tokenizer, CAPTIONS)
    return LexLIP(replace(TINY, companions=companion_words), tokenizer, vocabulary).eval()


def test_words_join_at_the_end_and_the_others_stay() -> None:
    model, before = model_before(2), model_before(2)
    assert add_words(model, OWN, min_count=3) == ("whippet",)
    number = len(before.vocabulary)
    assert model.vocabulary.words == (*before.vocabulary.words, "whippet")
    assert model.dimensions == number + 1
    for name, weight in before.state_dict().items():
        now = model.state_dict()[name]
        assert torch.equal(now[:number] if now.shape != weight.shape else now, weight), name
    texts, photos = [*CAPTIONS, "a man"], tiny_photos(3)
    for old, new in (
        (before.encode_text(texts), model.encode_text(texts)),
        (before.encode_text(texts, "words"), model.encode_text(texts, "words")),
        (before.encode_image(photos), model.encode_image(photos)),
    ):
        np.testing.assert_allclose(new[:, :number].toarray(), old.toarray(), atol=1e-6)
    assert model.encode_text("a whippet", "words")[0, number] > 0
    assert before.encode_text("a whippet", "words").nnz == 0


def test_rows_are_those_of_a_ridge_regression() -> None:
    """Against numpy's least squares over all old words."""
    model = model_before()
    with torch.no_grad():
        model.image_head.decoder.normal_()
    old = model.image_head.decoder.detach().double().numpy().copy()
    add_words(model, OWN, min_count=1)
    embeddings = model.text_encoder.word_embeddings.detach().double().numpy()[model.vocabulary.token_ids]
    x = np.c_[embeddings, np.ones(len(embeddings))]
    gram = x[: len(old)].T @ x[: len(old)]
    gram += 1e-3 * np.diag(gram).mean() * np.eye(len(gram))
    solution = np.linalg.solve(gram, x[: len(old)].T @ old)
    solution /= (x[: len(old)] @ solution).std(ddof=1)
    expected = x[len(old) :] @ solution * old.std(ddof=1)
    assert len(expected) > 1
    np.testing.assert_allclose(model.image_head.decoder.detach()[len(old) :], expected, rtol=1e-3, atol=1e-4)
    bias = model.image_head.bias.detach()
    assert bias[-1].item() == pytest.approx(bias[: len(old)].mean().item())


def test_companions_are_those_of_a_new_model() -> None:
    model = model_before(2)
    add_words(model, OWN, min_count=1)
    assert torch.equal(model.bag_of_words.columns[-1], companions(model, OWN, 2)[-1])
    weight = torch.nn.functional.softplus(model.bag_of_words.weight.detach())
    torch.testing.assert_close(model.bag_of_words.values.detach()[-1], 0.05 * weight[-1].expand(2))


def test_captions_without_new_words_change_nothing() -> None:
    model = model_before()
    assert add_words(model, [CAPTIONS], min_count=1) == ()
    assert model.vocabulary.words == model_before().vocabulary.words


def test_a_run_adds_words_once_and_another_goes_on_from_it(tmp_path: Path) -> None:
    """Pieces of words that the first model has no column for; a resumed run has the same words."""
    before = model_before()
    before.save(tmp_path / "before")
    changes = {"model": before.config, "checkpoint_every": 1, "new_words": 1}
    config = replace(SMALL, init=str(tmp_path / "before"), out=str(tmp_path / "run"), **changes)
    scenes = Scenes(16, seed=0)
    known = set(before.vocabulary.words)
    captions = " ".join(caption for item in scenes.items for caption in item.captions).split()
    expected = {w for w in captions if w in before.tokenizer.get_vocab()} - known
    found = plan(config)
    assert found.missing == []
    run = pretrain(config)
    after = LexLIP.from_pretrained(run / "last")
    assert set(after.vocabulary.words[len(known) :]) <= expected
    again = pretrain(replace(config, out=str(tmp_path / "again"), init=str(run / "last"), new_words=0))
    assert LexLIP.from_pretrained(again / "last").vocabulary.words == after.vocabulary.words
    assert pretrain(config, resume=True) == run


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["new_words=3"], r"new_words adds .*: give a lexlip model \(init=\)"),
        (["new_words=3", "init=mini", "model.kind=dense"], "new_words adds"),
        (["new_words=-1"], "new_words is -1; it must not be negative"),
        (["new_words=3", "init=mini", "model.vocabulary.kind=pieces"], "model.vocabulary.kind is pieces"),
    ],
)
def test_where_words_cannot_be_added(overrides: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("objective: {flops_image: 0, flops_text: 0}\n")
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "own.yaml", overrides)
