import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lexlip.measure.pool import typed_words
from lexlip.models.compression import compress, expand, from_int4, int4_rows
from lexlip.models.lexlip import LexLIP
from lexlip.queries.saved_model import SavedWeights, TypedWords
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse.typed_words import Typed
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.vocabulary import Vocabulary
from tests.queries.saved_models import SENTENCES, saved
from tests.tiny import CAPTIONS, tiny_model


def test_the_tokens_are_those_of_transformers(tmp_path: Path) -> None:
    model = saved(tmp_path)
    model.text_encoder.tokenize(SENTENCES)  # leaves padding and truncation in the tokenizer
    model.save(tmp_path)
    tokenizer = TextQueries(tmp_path).tokenizer
    for sentence in SENTENCES:
        ids, _ = model.text_encoder.tokenize([sentence])
        assert tokenizer.sentence(sentence).tolist() == ids[0].tolist()
    special = set(model.text_encoder.tokenizer.all_special_ids) - {model.text_encoder.tokenizer.mask_token_id}
    assert set(tokenizer.special.tolist()) == special


def test_a_sentence_that_is_too_long(tmp_path: Path) -> None:
    saved(tmp_path)
    tokenizer = TextQueries(tmp_path).tokenizer
    assert tokenizer.unread("a dog") == tokenizer.unread("") == ""
    long = "dog " * 100 + "snow"
    unread = tokenizer.unread(long)
    assert unread.endswith("dog snow")
    assert long.endswith(unread)
    read = long.removesuffix(unread)
    assert tokenizer.sentence(read).tolist() == tokenizer.sentence(long).tolist()
    assert tokenizer.unread(read) == ""


def test_plain_sentences_do_without_tokenizers(run_python: Callable[..., Any]) -> None:
    code = (
        "import sys; from lexlip.queries.text_queries import TextQueries; queries = TextQueries('mini');"
        "print([len(queries.encode(text).data) > 0 and 'tokenizers' in sys.modules for text in sys.argv[1:]])"
    )
    result = run_python("-c", code, "A dog on a couch!", "a café")
    assert (result.stdout, result.stderr) == ("[False, True]\n", "")


def test_sentences_have_the_tokens_of_tokenizers() -> None:
    tokenizer = TextQueries("mini").tokenizer
    for sentence in SENTENCES:  # too long ones, and special tokens, too
        for special in (False, True):
            found = tokenizer.encode(sentence, add_special_tokens=special)
            expected = tokenizer.core.encode(sentence, add_special_tokens=special)
            assert (found.ids, len(found.overflowing)) == (expected.ids, len(expected.overflowing))


@pytest.fixture(scope="module")
def model() -> LexLIP:
    return tiny_model()


@pytest.fixture(scope="module")
def typed(model: LexLIP) -> TypedWords:
    return typed_words(model)


@pytest.mark.parametrize(
    ("text", "words", "number", "alone"),
    [
        ("dog", ["dog"], 1, True),
        ("a dog", ["dog"], 1, True),  # one content word
        ("brown dog", ["brown", "dog"], 2, True),
        ("a brown dog", ["brown", "dog"], 2, False),
        ("Dog, DOG; dog!", ["dog"], 3, True),
        ("dog dog dog", ["dog"], 1, True),
        ("a dog and a dog", ["dog"], 1, False),
        ("the quokka", [], 1, True),
        ("a quokka beside a dog", ["dog"], 2, False),
        ("snow_dog's-bike", ["snow", "dog", "bike"], 3, False),  # "s" is a function word
        ("the of and", [], 0, False),
        ("", [], 0, True),
        ("?!", [], 0, True),
    ],
)
def test_what_a_text_holds(typed: TypedWords, text: str, words: list[str], number: int, alone: bool) -> None:
    found = typed.of(text)
    assert [typed.vocabulary.words[column] for column in found.columns] == words
    assert (found.number, found.alone) == (number, alone)


def test_captions_by_plain_splitting(typed: TypedWords) -> None:
    for caption in CAPTIONS:
        parts = re.sub(r"[^a-z]", " ", caption.lower()).split()
        content = [part for part in parts if part not in FUNCTION_WORDS]
        own = [typed.vocabulary.words.index(part) for part in content]
        expected = Typed(list(dict.fromkeys(own)), len(set(content)), content == parts)
        assert typed.of(caption) == expected
        assert typed.missing(caption) == []


def test_what_the_vocabulary_lacks(typed: TypedWords) -> None:
    assert typed.missing("the Quokka and a dog of Zürich") == ["Quokka", "Zürich"]
    assert typed.columns("quokka") == (-1,)
    assert len(typed.columns("dog")) == 1


def test_words_of_several_pieces() -> None:
    queries = TextQueries("mini")
    typed, words = queries.typed, queries.vocabulary.words
    assert queries.vocabulary.split
    for column in list(queries.vocabulary.split)[:50]:
        assert typed.of(f"a {words[column]} there").columns == [column]
        assert typed.columns(words[column]) == (column,)
    assert typed.columns("okapi") == (-1,)  # made of pieces, but none of the words
    assert typed.of("okapi").columns == []


def test_pieces_of_a_vocabulary_that_reads_pieces() -> None:
    """A piece of a word that the vocabulary lacks may be one of its words."""
    tokenizer = TextQueries("mini").tokenizer
    assert tokenizer.core.encode("doghouse", add_special_tokens=False).tokens == ["dog", "##house"]
    pieces = Vocabulary.from_words(["cat", "dog", "##house"], tokenizer.core)
    typed = TypedWords(pieces, tokenizer.core, tokenizer.unknown)
    assert typed.columns("doghouse") == (1, 2)
    assert typed.of("a doghouse") == Typed([1], 1, True)  # what continues a word is none
    assert typed.missing("doghouse cathouse catdog") == ["catdog"]


WORDS = "text_encoder.body.embeddings.word_embeddings.weight"


@pytest.mark.parametrize("small", [False, True])
def test_weights_are_those_of_the_file(tmp_path: Path, small: bool) -> None:
    model = tiny_model()
    model.save(tmp_path, small=small)
    plain = expand(load_file(tmp_path / "model.safetensors"))
    with SavedWeights(tmp_path) as weights:
        assert weights.shape("text_head.bias") == [len(model.vocabulary)]
        assert np.array_equal(weights.vector("text_head.bias"), plain["text_head.bias"].astype(np.float32))
        assert np.array_equal(weights.tensor(WORDS), plain[WORDS])
        whole, scales = weights.matrix(WORDS)
    assert whole.dtype == np.int8
    step = np.abs(plain[WORDS]).max(axis=1) / 127  # each row has its own scale
    assert (np.abs(whole * scales[:, None] - plain[WORDS]) <= 0.51 * step[:, None] + 1e-6).all()


def test_rows_in_four_and_in_eight_bits(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    packed, scales = int4_rows(matrix)
    stored = {**compress({"eight": matrix, "bias": matrix[0]}), "four.int4": packed, "four.blocks": scales}
    save_file(stored, tmp_path / "model.safetensors")
    ids = np.array([3, 0, 3])
    with SavedWeights(tmp_path) as weights:
        for name in ("eight", "four"):
            floats = weights.floats(name)
            np.testing.assert_array_equal(weights.rows(name)(ids), floats[ids])
            integers, of_rows = weights.matrix(name)
            assert integers.dtype == np.int8
            np.testing.assert_allclose(integers * of_rows[:, None], floats, atol=0.51 * of_rows.max())
        np.testing.assert_array_equal(weights.floats("four"), from_int4(packed, scales))
