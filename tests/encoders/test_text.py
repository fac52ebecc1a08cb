from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    BertConfig,
    BertModel,
    BertTokenizerFast,
    SiglipTextConfig,
    SiglipTextModel,
)

from lexlip.config import TextEncoderConfig
from lexlip.encoders.text import TextEncoder, load_mlm_head, load_tokenizer, read_tokenizer, word_tokenizer
from lexlip.errors import ModelError
from lexlip.registry import SIGLIP_TEXT
from tests.encoders.some_encoders import kept_and_gradients
from tests.tiny import CAPTIONS, TINY

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a dog ##s run ##ning cat the , .".split()


@pytest.fixture(scope="module")
def hub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with word pieces as the hub keeps one."""
    folder = tmp_path_factory.mktemp("hub") / "tiny-bert"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(PIECES), max_position_embeddings=40, **sizes)).save_pretrained(folder)
    return folder


def test_a_saved_model_by_its_folder(hub_folder: Path) -> None:
    config = TextEncoderConfig(name=str(hub_folder), max_tokens=12)
    encoder = TextEncoder(config, load_tokenizer(config, [])).eval()
    ids, mask = encoder.tokenize(["the dogs running", "a cat"])
    assert [encoder.tokenizer.decode(row) for row in ids] == [
        "[CLS] the dogs running [SEP]",
        "[CLS] a cat [SEP] [PAD] [PAD] [PAD]",
    ]
    assert mask.sum(dim=1).tolist() == [7, 4]
    expected = BertModel.from_pretrained(hub_folder).eval()(ids, mask.long()).last_hidden_state
    torch.testing.assert_close(encoder(ids, mask), expected)
    assert encoder.body.pooler is None
    assert encoder.width == 16
    assert encoder.word_embeddings.shape == (len(PIECES), 16)


def test_options_change_a_saved_model(hub_folder: Path) -> None:
    config = TextEncoderConfig(name=str(hub_folder), options={"num_hidden_layers": 1})
    encoder = TextEncoder(config, load_tokenizer(config, []))
    assert len(encoder.body.encoder.layer) == 1


def test_the_architecture_makes_the_model_again(hub_folder: Path) -> None:
    config = TextEncoderConfig(name=str(hub_folder), options={"num_hidden_layers": 1})
    tokenizer = load_tokenizer(config, [])
    first = TextEncoder(config, tokenizer).eval()
    gone = replace(config, name="nowhere/to-be-found")
    second = TextEncoder(gone, tokenizer, architecture=first.architecture).eval()
    assert str(hub_folder) not in str(first.architecture)
    second.load_state_dict(first.state_dict())
    ids, mask = first.tokenize(["a dog"])
    assert torch.equal(first(ids, mask), second(ids, mask))


def test_a_random_bert_of_options() -> None:
    encoder = TextEncoder(TINY.text, load_tokenizer(TINY.text, CAPTIONS))
    assert encoder.width == 16
    assert len(encoder.word_embeddings) == len(encoder.tokenizer)


def test_a_siglip_takes_texts_that_are_filled_up() -> None:
    tokenizer, texts = word_tokenizer(CAPTIONS), [*CAPTIONS[:2], "dog", "dog " * 20]
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"vocab_size": len(tokenizer), "max_position_embeddings": 12, "pad_token_id": 3}
    torch.manual_seed(0)
    plain = SiglipTextModel(SiglipTextConfig(**sizes)).eval()
    architecture = {"model_type": SIGLIP_TEXT, **sizes}
    encoder = TextEncoder(TextEncoderConfig(max_tokens=12), tokenizer, architecture).eval()
    assert encoder.architecture["model_type"] == SIGLIP_TEXT
    weights = {name: weight for name, weight in plain.state_dict().items() if "head." not in name}
    encoder.body.load_state_dict(weights)
    filled = [
        row[:12] + [3] * (12 - len(row))
        for row in tokenizer(texts, truncation=True, max_length=12)["input_ids"]
    ]
    expected = plain(input_ids=torch.tensor(filled)).last_hidden_state
    ids, mask = encoder.tokenize(texts)
    torch.testing.assert_close(encoder(ids, mask), expected)
    ids, mask = encoder.tokenize(["dog"])
    assert ids.shape == (1, 3)
    torch.testing.assert_close(encoder(ids, mask), expected[2:3])


def test_captions_are_cut_and_keep_their_last_special_token() -> None:
    config = replace(TINY.text, max_tokens=5)
    encoder = TextEncoder(config, load_tokenizer(config, CAPTIONS))
    ids, mask = encoder.tokenize(["two dogs play in the snow", ""])
    assert encoder.tokenizer.decode(ids[0]) == "[CLS] two dogs play [SEP]"
    assert mask.sum(dim=1).tolist() == [5, 2]
    assert encoder.special_tokens(ids).tolist() == [[True, False, False, False, True], [True] * 5]


def test_words_are_lower_case_without_accents_and_signs_stand_alone() -> None:
    tokenizer = word_tokenizer(["A Café, by the sea!", "a red-brown dog"])
    tokens = tokenizer.tokenize("the CAFE; a dog!")
    assert tokens == ["the", "cafe", "[UNK]", "a", "dog", "!"]
    assert tokenizer.tokenize("red-brown") == ["red", "-", "brown"]
    ids = tokenizer("a dog")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "a", "dog", "[SEP]"]
    assert tokenizer.pad_token_id == 0


def test_a_word_tokenizer_depends_on_its_captions_alone(tmp_path: Path) -> None:
    first, again = word_tokenizer(CAPTIONS), word_tokenizer(list(CAPTIONS))
    assert first.get_vocab() == again.get_vocab()
    first.save_pretrained(tmp_path)
    assert read_tokenizer(str(tmp_path))(CAPTIONS)["input_ids"] == first(CAPTIONS)["input_ids"]


SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
}


def random_encoder(kind: str, **options: object) -> TextEncoder:
    torch.manual_seed(0)
    sizes = AutoConfig.for_model(kind, **{**SIZES, **options}).to_dict()  # DistilBERT has names of its own
    return TextEncoder(TextEncoderConfig(), word_tokenizer(CAPTIONS), sizes).eval()


def first_layer_input(encoder: TextEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    """[T, L, D], read from the running body."""
    seen = []
    layers = encoder.body.transformer if hasattr(encoder.body, "transformer") else encoder.body.encoder
    with layers.layer[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0])):
        encoder(ids, mask)
    return seen[0]


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "mpnet", "distilbert"])
def test_embed_is_what_the_first_layer_takes(kind: str) -> None:
    encoder = random_encoder(kind)
    pad = encoder.body.config.pad_token_id
    ids = torch.tensor([[4, 5, 6, 7, 8], [4, 9, 8, pad, pad]])
    with torch.no_grad():
        own = encoder.word_embeddings[ids[:, 0]]
        torch.testing.assert_close(encoder.embed(ids), first_layer_input(encoder, ids, ids != pad))
        torch.testing.assert_close(encoder.embed(ids, first=own), encoder.embed(ids))


def test_embed_replaces_the_first_word_by_formula() -> None:
    encoder = random_encoder("bert")
    ids = torch.tensor([[4, 5, 6], [7, 8, 0]])
    first = torch.randn(2, 16, requires_grad=True)
    states = encoder.embed(ids, first=first)
    layer = encoder.body.embeddings
    words = layer.word_embeddings.weight[ids]
    words = torch.stack([first, words[:, 1], words[:, 2]], dim=1)
    expected = layer.LayerNorm(
        words + layer.position_embeddings.weight[:3] + layer.token_type_embeddings.weight[0]
    )
    torch.testing.assert_close(states, expected)
    weights = torch.randn_like(states)
    (ours,) = torch.autograd.grad((states * weights).sum(), first)
    (plain,) = torch.autograd.grad((expected * weights).sum(), first)
    torch.testing.assert_close(ours, plain)
    assert plain.abs().max() > 0.01
    torch.testing.assert_close(encoder.embed(ids)[:, 1:], expected[:, 1:])  # the replacement does not stay


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("modernbert", {"pad_token_id": 0}, "type 'modernbert' adds no positions"),
        ("xlm", {"emb_dim": 16, "n_layers": 1, "n_heads": 2}, "type 'xlm' adds no positions"),
        (
            "electra",
            {"embedding_size": 8},
            "type 'electra' has word embeddings of width 8 and states of width 16",
        ),
    ],
)
def test_encoders_that_no_decoder_can_stand_on(kind: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        random_encoder(kind, **options).embed(torch.tensor([[4, 5]]))


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "mpnet", "distilbert"])
def test_the_mlm_head_of_a_checkpoint(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(kind, **SIZES)).eval()
    with torch.no_grad():
        for weight in model.parameters():  # biases start at 0
            weight.normal_()
    model.save_pretrained(tmp_path)
    ids = torch.tensor([[4, 5, 6, 7]])
    expected = model(ids).logits

    head = load_mlm_head(str(tmp_path))
    assert {name: tuple(weight.shape) for name, weight in head.items()} == {
        "dense.weight": (16, 16),
        "dense.bias": (16,),
        "norm.weight": (16,),
        "norm.bias": (16,),
        "bias": (30,),
    }
    encoder = TextEncoder(TextEncoderConfig(name=str(tmp_path)), word_tokenizer(CAPTIONS)).eval()
    hidden = F.gelu(encoder(ids, torch.ones_like(ids).bool()) @ head["dense.weight"].T + head["dense.bias"])
    hidden = F.layer_norm(hidden, (16,), head["norm.weight"], head["norm.bias"], eps=1e-12)
    logits = hidden @ encoder.word_embeddings.T + head["bias"]
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "clip_text_model"])
def test_a_checkpoint_without_an_mlm_head(kind: str, tmp_path: Path) -> None:
    tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    AutoModel.from_config(AutoConfig.for_model(kind, **SIZES, **tokens)).save_pretrained(tmp_path)
    assert load_mlm_head(str(tmp_path)) is None


def test_an_mlm_head_that_is_damaged(tmp_path: Path) -> None:
    model = AutoModelForMaskedLM.from_config(BertConfig(**SIZES))
    state = model.state_dict()
    del state["cls.predictions.transform.dense.weight"]
    model.save_pretrained(tmp_path, state_dict=state)
    assert load_mlm_head(str(tmp_path)) is None
    for folder in (tmp_path, tmp_path / "nothing"):
        (tmp_path / "model.safetensors").write_bytes(b"nonsense")
        with pytest.raises(ModelError, match="transformers cannot read the text encoder") as caught:
            load_mlm_head(str(folder))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_checkpointed_activations(kind: str) -> None:
    ids = torch.tensor([[4, 5, 6, 7], [4, 9, 8, 2]])
    encoder = random_encoder(kind, num_hidden_layers=3).train()

    def step() -> tuple[int, dict[str, Tensor]]:
        return kept_and_gradients(encoder, lambda: encoder(ids, torch.ones_like(ids).bool()))

    plain, expected = step()
    encoder.checkpoint_activations()
    less, gradients = step()
    assert less < 0.5 * plain
    torch.testing.assert_close(gradients, expected)


def test_bodies_that_cannot_be_checkpointed() -> None:
    encoder = random_encoder("mpnet")
    with pytest.raises(
        ModelError, match="cannot checkpoint the activations of a text encoder of type 'mpnet'"
    ):
        encoder.checkpoint_activations()


def test_impossible_text_encoders(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(CAPTIONS)
    for config, message in [
        (TextEncoderConfig(name=str(tmp_path)), "transformers cannot make the text encoder"),
        (TextEncoderConfig(options={"hidden_size": 10, "num_attention_heads": 3}), "hidden size"),
        (
            TextEncoderConfig(options={"hidden_siz": 10}),
            "hidden_siz, which BERT has not; did you mean hidden_size",
        ),
        (TextEncoderConfig(options={"colour": 10}), "colour, which BERT has not; known: .*hidden_size"),
    ]:
        with pytest.raises(ModelError, match=message) as caught:
            TextEncoder(config, tokenizer)
        assert "\n" not in str(caught.value)


def test_impossible_tokenizers(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.text needs a name, or a tokenizer"):
        load_tokenizer(TextEncoderConfig(), CAPTIONS)
    (tmp_path / "tokenizer.json").write_text("{}")
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ModelError, match="transformers cannot read the tokenizer") as caught:
            load_tokenizer(TextEncoderConfig(tokenizer=str(folder)), [])
        assert "\n" not in str(caught.value)
