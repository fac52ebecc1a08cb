from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from lexlip.config import TextEncoderConfig
from lexlip.encoders.text import TextEncoder, load_tokenizer, read_tokenizer, word_tokenizer
from lexlip.errors import ModelError
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


def test_impossible_text_encoders(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(CAPTIONS)
    for config, message in [
        (TextEncoderConfig(name=str(tmp_path)), "transformers cannot make the text encoder"),
        (TextEncoderConfig(options={"hidden_size": 10, "num_attention_heads": 3}), "hidden size"),
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
