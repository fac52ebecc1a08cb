from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lexlip.config import VocabularyConfig
from lexlip.encoders.text import word_tokenizer
from lexlip.errors import ModelError
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.vocabulary import (
    Vocabulary,
    caption_words,
    entries_as_words,
    is_content_word,
    is_held,
    is_sign,
    tokenize_captions,
)
from tests.tiny import CAPTIONS

SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}


@pytest.fixture
def tokenizer():
    return word_tokenizer(CAPTIONS)


def test_kind_all_has_every_entry_in_the_tokenizer_s_order(tokenizer) -> None:
    vocabulary = Vocabulary.build(VocabularyConfig("all"), tokenizer, [])
    assert len(vocabulary) == len(tokenizer)
    assert list(vocabulary.token_ids) == list(range(len(tokenizer)))
    assert vocabulary.words == tuple(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))


def test_kind_pieces_leaves_out_special_and_unused_entries(tokenizer) -> None:
    tokenizer.add_tokens(["[unused7]", "unused7"])
    vocabulary = Vocabulary.build(VocabularyConfig("pieces"), tokenizer, [])
    assert set(tokenizer.get_vocab()) - set(vocabulary.words) == {*SPECIAL, "[unused7]"}
    assert {",", "a", "unused7"} <= set(vocabulary.words)


def test_kind_words_has_the_content_words_of_the_captions(tokenizer) -> None:
    vocabulary = Vocabulary.build(VocabularyConfig("words"), tokenizer, CAPTIONS[:2])
    assert set(vocabulary.words) == {"two", "dogs", "play", "snow", "brown", "dog", "jumps", "fence"}
    twice = Vocabulary.build(VocabularyConfig("words", min_count=2), tokenizer, CAPTIONS)
    assert set(twice.words) == {"play"}
    with pytest.raises(ModelError, match="no word occurs 99 times in the 6 training captions"):
        Vocabulary.build(VocabularyConfig("words", min_count=99), tokenizer, CAPTIONS)


def _word_piece():
    entries = ["[UNK]", "[CLS]", "[SEP]", "skate", "##board", "##s", "dog", "boards"]
    core = Tokenizer(models.WordPiece({entry: id for id, entry in enumerate(entries)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]")


def _sentence_piece():
    entries = ["<unk>", "▁skate", "board", "s", "▁dog", "▁boards", "▁", "▁the"]
    core = Tokenizer(models.Unigram([(entry, -1.0) for entry in entries], unk_id=0))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


def _gemma():
    """As SigLIP 2's, to which a sentence is one word, whose spaces belong to what follows."""
    tokenizer = _sentence_piece()
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return tokenizer


def _clip():
    """As CLIP's, which marks where a word ends: "dog" is one piece, and "skateboard" of several."""
    core = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=45, end_of_word_suffix="</w>", special_tokens=["<unk>"], show_progress=False
    )
    core.train_from_iterator(["dog dog dog dogs skate board boards boards ,"] * 20, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


def test_words_that_a_tokenizer_ends_with_a_mark_are_whole_words() -> None:
    tokenizer = _clip()
    assert len(tokenizer.tokenize("dog")) == 1
    assert len(tokenizer.tokenize("skateboards")) > 1
    captions = ["dog, skateboards skateboard", "dogs dog", "skateboard"]
    vocabulary = Vocabulary.build(VocabularyConfig("words", min_count=1), tokenizer, captions)
    assert set(vocabulary.words) == {"dog", "dogs", "skateboard", "skateboards"}
    for given in (tokenizer, tokenizer.backend_tokenizer):
        again = Vocabulary.from_words(vocabulary.words, given)
        assert replace(again, token_ids=None) == replace(vocabulary, token_ids=None)
    read = caption_words(vocabulary, tokenizer, [*captions, "boards skate", "dog dogs"])
    assert [{vocabulary.words[column] for column in row} for row in read] == [
        {"dog", "skateboard", "skateboards"},
        {"dog", "dogs"},
        {"skateboard"},
        set(),
        {"dog", "dogs"},
    ]


@pytest.mark.parametrize("make", [_word_piece, _sentence_piece, _gemma])
def test_kind_words_has_whole_words_of_several_pieces(make) -> None:
    captions = ["dog skateboards skateboard", "the dogs boards", "dog Skateboard skateboard"]
    tokenizer = make()
    vocabulary = Vocabulary.build(VocabularyConfig("words", min_count=1), tokenizer, captions)
    assert vocabulary.words == ("dog", "boards", "skateboard", "skateboards", "dogs")
    twice = Vocabulary.build(VocabularyConfig("words", min_count=2), tokenizer, captions)
    assert twice.words == ("dog", "skateboard")  # "skate" is none
    for given in (tokenizer, tokenizer.backend_tokenizer):
        again = Vocabulary.from_words(vocabulary.words, given)
        assert again.token_ids.tolist() == vocabulary.token_ids.tolist()
        assert replace(again, token_ids=None) == replace(vocabulary, token_ids=None)


@pytest.mark.parametrize("make", [_word_piece, _sentence_piece, _gemma])
def test_a_vocabulary_with_split_words_reads_whole_words(make) -> None:
    tokenizer = make()
    whole = Vocabulary.from_words(["dog", "skateboard", "dogs", "skate"], tokenizer)
    captions = ["skateboard dog", "dogs, skateboards", "skate dog skate", "boards"]
    ids = tokenize_captions(tokenizer, captions)
    assert [whole.columns(one) for one in ids] == [[1, 0], [2], [3, 0, 3], []]
    assert [whole.read(one)[:1] for one in ids] == [[1], [2], [3], [-1]]
    assert caption_words(whole, tokenizer, captions)[0] == {0, 1}
    rows = np.array([ids[0], ids[0]])
    assert whole.lookup(rows).tolist() == [[1, -1, 0]] * 2  # at its first piece
    pieces, starts = whole.pieces
    assert [list(part) for part in np.split(pieces, starts[1:])] == [
        tokenize_captions(tokenizer, [word])[0] for word in whole.words
    ]
    alone = Vocabulary.from_words(["dog", "skate"], tokenizer)
    assert [alone.columns(one) for one in ids[:2]] == [[1, 0], [0, 1]]  # as older models do


def test_punctuation_does_not_split_a_word() -> None:
    entries = ["<unk>", "▁Hund", "▁Hunde", ".", ",", "▁", "▁l", "eau", "'", "s"]
    core = Tokenizer(models.Unigram([(entry, -1.0) for entry in entries], unk_id=0))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")
    captions = ["Hund. Hund,", "Hunds Hunde l'eau"]
    for least, words in ((1, ("Hund", "Hunde", "Hunds")), (2, ("Hund",))):
        assert Vocabulary.build(VocabularyConfig("words", least), tokenizer, captions).words == words
    with pytest.raises(ModelError, match="no word occurs 3 times"):
        Vocabulary.build(VocabularyConfig("words", min_count=3), tokenizer, captions)


def _of(*entries: str) -> Tokenizer:
    return Tokenizer(models.WordLevel({entry: id for id, entry in enumerate(entries)}, unk_token=entries[0]))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["<unk>", "▁Hund", "e", "▁", "▁é", "."], ["##<unk>", "Hund", "##e", "##▁", "é", "##."]),
        (["e", "▁##e", "▁▁##e", "▁e", "▁a", "##e"], ["##e", "▁##e", "▁▁##e", "e", "a", "####e"]),
        (["[UNK]", "Hund", "##e", "##s", "▁Hund", "Ġ"], ["[UNK]", "Hund", "##e", "##s", "▁Hund", "Ġ"]),
        (["ĠMÃ¤dchen", "Ã¤", "ĠÃ", "Ã", "Ġ"], ["Mädchen", "##ä", "Ã", "##Ã", "##Ġ"]),
        (["<s>", "hund</w>", "ba", "Ã¤</w>", "Ã", "</w>"], ["<s>##", "hund", "ba##", "ä", "Ã##", "##"]),
        (["dog", "a", ","], ["dog", "a", ","]),
    ],
    ids=["SentencePiece", "collisions", "WordPiece", "bytes", "ends", "whole words"],
)
def test_entries_as_people_read_them(entries: list[str], words: list[str]) -> None:
    found = entries_as_words(_of(*entries))
    assert sorted(found, key=found.__getitem__) == words
    assert Vocabulary.from_words(words, _of(*entries)).token_ids.tolist() == list(range(len(entries)))


def test_columns(tokenizer) -> None:
    vocabulary = Vocabulary.from_words(["fence", "two", "snow"], tokenizer)
    [ids] = tokenize_captions(tokenizer, ["two two zebras in the snow, dogs"])
    assert vocabulary.columns(ids) == [1, 1, 2]
    assert vocabulary.columns([]) == []
    assert vocabulary.token_ids.dtype == np.int64
    for column, token in enumerate(vocabulary.token_ids):
        assert vocabulary.column_of_token[token] == column


def test_a_word_that_the_tokenizer_lacks(tokenizer) -> None:
    with pytest.raises(ModelError, match="'zebra' of the vocabulary cannot be made of the tokenizer's entr"):
        Vocabulary.from_words(["two", "zebra"], tokenizer)


def test_tokenize_captions_is_uncut_and_without_special_tokens(tokenizer) -> None:
    [ids] = tokenize_captions(tokenizer, ["dog " * 1000])
    assert ids == [tokenizer.get_vocab()["dog"]] * 1000
    assert tokenize_captions(tokenizer, []) == []


@pytest.mark.parametrize(
    ("entries", "content", "sign"),
    [
        ("dog 2 café Mädchen zwei hat", True, False),
        ("the The Über při l ##ing [CLS] snow_", False, False),
        (", ##.", False, True),
    ],
)
def test_kinds_of_entries(entries: str, content: bool, sign: bool) -> None:
    for entry in entries.split():
        assert (is_content_word(entry), is_sign(entry)) == (content, sign), entry


def test_function_words_include_those_of_the_measure() -> None:
    assert set("a an the in on of with is are and its".split()) <= FUNCTION_WORDS


def test_function_words_and_other_words_are_not_held(tokenizer) -> None:
    words = ["the", "dog", "snow"]
    lexicon = Vocabulary.from_words(words, tokenizer)
    [said] = caption_words(lexicon, tokenizer, ["the dog"])
    assert said == {0, 1}
    assert [words[column] for column in range(3) if is_held(column, lexicon, said)] == ["dog"]
