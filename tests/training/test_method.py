from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lexlip.config import ObjectiveConfig
from lexlip.training.batches import NOT_MASKED, Batch, MaskedTokens, Tokens
from lexlip.training.method import Method, bottleneck
from tests.tiny import TINY, WITHOUT_DROPOUT, tiny_batch, tiny_dense, tiny_method, tiny_model

ALONE = {"contrastive": 0.0, "flops_image": 0.0, "flops_text": 0.0}
PHASE_1 = {"mlm": 1.0, "image_to_text": 1.0, "text_to_text": 1.0}
QUEUES = ObjectiveConfig(queue=9)
MASKED = ("encoder_ids", "encoder_labels", "decoder_ids", "decoder_labels")


def logits_of(method: Method, states: Tensor) -> Tensor:
    """[..., V] of states: BERT's head, whole, as its softmax takes them."""
    head = method.text_head
    logits = head.norm(F.gelu(head.dense(states))) @ head.decoder.t() + head.bias
    return method.objective.softmax_scale * logits


def cross_entropy(method: Method, states: Tensor, labels: Tensor) -> float:
    logits = logits_of(method, states)
    found = [
        float(F.cross_entropy(logits[t, p][None], labels[t, p][None]))
        for t, p in torch.nonzero(labels != NOT_MASKED).tolist()
    ]
    assert found
    return sum(found)


def decoded(method: Method, decoder: torch.nn.Module, first: Tensor, batch: Batch) -> float:
    """The cross-entropy of the decoder's masked words, one caption at a time, without padding."""
    encoder, total = method.model.text_encoder, 0.0
    for text, (ids, mask) in enumerate(zip(batch.masked.decoder_ids, batch.captions.mask, strict=True)):
        length = int(mask.sum())
        words = encoder.word_embeddings[ids[None, :length]].clone()
        words[0, 0] = first[text]
        states = decoder(encoder.body.embeddings(inputs_embeds=words), mask[None, :length])
        if (batch.masked.decoder_labels[text] != NOT_MASKED).any():
            total += cross_entropy(method, states, batch.masked.decoder_labels[text][None, :length])
    return total


@pytest.mark.parametrize("kind", ["lexlip", "dense"])
@pytest.mark.parametrize("share", [False, True])
@torch.no_grad()
def test_the_losses_of_phase_1(kind: str, share: bool) -> None:
    objective = ObjectiveConfig(
        **{**ALONE, **PHASE_1}, share_decoder=share, softmax_scale=2.5 if share else 1
    )
    method = tiny_method(objective, tiny_model() if kind == "lexlip" else tiny_dense()).eval()
    model, batch = method.model, tiny_batch(method)
    raw, sums = method(batch)

    for row, photo in enumerate(batch.photos.pixels):
        torch.testing.assert_close(raw["image"][row], model.raw_image(photo[None])[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(raw["text"], model.raw_text(batch.captions.ids, batch.captions.mask))

    states = model.text_encoder(batch.masked.encoder_ids, batch.captions.mask)
    masked = model.raw_text(batch.masked.encoder_ids, batch.captions.mask)
    firsts = [raw["image"][batch.owners], masked]
    if kind == "lexlip":
        embeddings = method.pieces(model.text_encoder.word_embeddings)
        firsts = [bottleneck(objective.softmax_scale * first, embeddings) for first in firsts]
    expected = {
        "mlm": cross_entropy(method, states, batch.masked.encoder_labels),
        "image_to_text": decoded(method, method.image_decoder, firsts[0], batch),
        "text_to_text": decoded(method, method.text_decoder, firsts[1], batch),
    }
    assert {name: float(value) for name, value in sums.items()} == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("names", [["mlm"], ["image_to_text"], ["text_to_text"], ["mlm", "text_to_text"], []])
def test_only_what_is_asked_for_is_computed(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The masked caption is encoded for L_t2t too, but masked words are not predicted without L_self."""
    calls: list[int] = []
    plain = Method.cross_entropy

    def counted(self: Method, states: Tensor, labels: Tensor) -> Tensor:
        calls.append(len(states))
        return plain(self, states, labels)

    monkeypatch.setattr(Method, "cross_entropy", counted)
    method = tiny_method(ObjectiveConfig(**dict.fromkeys(names, 1.0)))
    assert set(method(tiny_batch(method))[1]) == set(names)
    assert sum(calls) == 7 * len(names)  # captions
    assert hasattr(method, "image_decoder") == bool({"image_to_text", "text_to_text"} & set(names))
    assert not hasattr(method, "keys")


def moved(method: Method) -> set[str]:
    """The parts of a method that have a gradient other than 0."""
    names = {n for n, p in method.named_parameters() if p.grad is not None and (p.grad != 0).any()}
    method.zero_grad(set_to_none=True)
    parts = {
        "image encoder": "model.image_encoder.",
        "image head": "model.image_head.",
        "text embeddings": "model.text_encoder.body.embeddings.",
        "text layers": "model.text_encoder.body.encoder.",
        "text head": "model.text_head.",
        "image decoder": "image_decoder.",
        "text decoder": "text_decoder.",
        "keys": "keys.",
    }
    return {part for part, prefix in parts.items() if any(name.startswith(prefix) for name in names)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mlm", {"text embeddings", "text layers", "text head"}),
        ("image_to_text", {"image encoder", "image head", "image decoder", "text embeddings", "text head"}),
        ("text_to_text", {"text embeddings", "text layers", "text decoder", "text head"}),
    ],
)
def test_where_the_gradient_goes(name: str, expected: set[str]) -> None:
    method = tiny_method(ObjectiveConfig(**{**ALONE, name: 1.0}, queue=9)).train()
    _, sums = method(tiny_batch(method))
    sums[name].backward()
    assert moved(method) == expected


def test_the_image_s_words_move_only_through_the_decoder_s_input() -> None:
    """The bottleneck's word embeddings are held still: words that no caption holds get no gradient."""
    method = tiny_method(ObjectiveConfig(**{**ALONE, "image_to_text": 1.0}))
    batch = tiny_batch(method, owners=(0, 1))
    asked = (batch.masked.decoder_labels != NOT_MASKED).any(dim=1, keepdim=True)  # of words in the lexicon
    method(batch)[1]["image_to_text"].backward()
    gradient = method.model.text_encoder.word_embeddings.grad
    used = set(batch.masked.decoder_ids[:, 1:][(batch.captions.mask & asked)[:, 1:]].tolist())
    assert used
    assert set(torch.nonzero(gradient.abs().sum(dim=1))[:, 0].tolist()) == used
    assert len(used) < len(gradient)


@pytest.mark.parametrize("name", ["mlm", "image_to_text", "text_to_text"])
def test_captions_without_a_word_left_do_no_harm(name: str) -> None:
    """A caption of one word that is masked, or of unknown words alone, has nothing to pool."""
    method = tiny_method(ObjectiveConfig(**{**ALONE, name: 1.0}))
    batch = tiny_batch(method, owners=(0, 1, 2))
    parts = {"captions": ("ids", "mask"), "masked": MASKED}
    new = {f: getattr(getattr(batch, part), f).clone() for part in parts for f in parts[part]}
    to_ids = method.model.text_encoder.tokenizer.convert_tokens_to_ids
    for row, (word, label) in enumerate(
        [("dog", method.model.vocabulary.words.index("dog")), ("[UNK]", NOT_MASKED)]
    ):
        new["mask"][row] = torch.arange(batch.captions.mask.shape[1]) < 3
        for field in ("ids", "encoder_ids", "decoder_ids"):
            masked = label != NOT_MASKED and field != "ids"
            new[field][row, :3] = torch.tensor(to_ids(["[CLS]", "[MASK]" if masked else word, "[SEP]"]))
            new[field][row, 3:] = to_ids("[PAD]")
        for field in ("encoder_labels", "decoder_labels"):
            new[field][row] = NOT_MASKED
            new[field][row, 1] = label
    batch = replace(
        batch, captions=Tokens(new["ids"], new["mask"]), masked=MaskedTokens(*(new[f] for f in MASKED))
    )
    raw, sums = method(batch)
    loss = sums[name] + torch.relu(raw["text"]).sum()
    assert loss.isfinite()
    loss.backward()
    broken = [n for n, p in method.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
    assert broken == []


def test_a_shared_decoder_is_one_of_the_text_encoder_s_measures() -> None:
    apart, shared = (tiny_method(ObjectiveConfig(**PHASE_1, share_decoder=share)) for share in (False, True))
    assert shared.image_decoder is shared.text_decoder
    assert apart.image_decoder is not apart.text_decoder
    ours, theirs = (next(d.parameters()) for d in (apart.image_decoder, apart.text_decoder))
    assert not torch.equal(ours, theirs)
    decoder = count(shared.image_decoder.parameters())
    assert count(apart.parameters()) == count(shared.parameters()) + decoder
    still = tiny_method(ObjectiveConfig(**PHASE_1), tiny_model(WITHOUT_DROPOUT))
    for method, dropout in ((apart, 0.1), (still, 0.0)):
        layer = method.text_decoder.layers.layers[0]
        assert (layer.self_attn.embed_dim, layer.self_attn.num_heads, layer.dropout.p) == (16, 2, dropout)


def count(parameters: Iterable[Tensor]) -> int:
    return sum(p.numel() for p in parameters)


def test_keys_start_as_the_model_and_learn_nothing_themselves() -> None:
    method = tiny_method(QUEUES, tiny_model(seed=3)).train()
    model = method.model.state_dict()
    assert method.keys.state_dict().keys() == model.keys()
    assert all(torch.equal(value, model[name]) for name, value in method.keys.state_dict().items())
    ours = {p.data_ptr() for p in method.model.parameters()}
    assert not any(p.requires_grad or p.data_ptr() in ours for p in method.keys.parameters())
    assert method.model.training
    assert not method.keys.training


def test_key_vectors_are_the_key_encoders_without_dropout() -> None:
    method = tiny_method(QUEUES).train()
    batch = tiny_batch(method)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(1.0)
    vectors = method.key_vectors(batch)
    keys = method.keys
    assert not vectors["image"].requires_grad
    for name, raw in (
        ("image", keys.raw_image(batch.photos.pixels)),
        ("text", keys.raw_text(batch.captions.ids, batch.captions.mask)),
    ):
        torch.testing.assert_close(vectors[name], torch.log(1 + torch.relu(raw)))
        assert (vectors[name] > 0).any()


def test_what_is_left_behind_is_not_the_model_s() -> None:
    everything = ObjectiveConfig(**PHASE_1, queue=9)
    method = tiny_method(everything)
    parts = {name.split(".")[0] for name in method.left_behind()}
    assert parts == {"image_decoder", "text_decoder", "keys", "image_queue", "text_queue"}
    model = {f"model.{name}" for name in method.model.state_dict()}
    assert method.state_dict().keys() == model | method.left_behind().keys()
    assert tiny_method(ObjectiveConfig()).left_behind() == {}
    dense = tiny_method(ObjectiveConfig(**{**ALONE, "mlm": 1.0}), tiny_dense())
    assert {name.split(".")[0] for name in dense.left_behind()} == {"own_head"}
    assert dense.text_head is dense.own_head
    assert method.text_head is method.model.text_head
    assert method.model.config == TINY
