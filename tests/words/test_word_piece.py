import gzip
import json
import random
from typing import Any

import pytest
from tokenizers import Tokenizer

from lexlip.models.model_folder import PACKAGED
from lexlip.words.word_piece import WordPiece

FILE = PACKAGED / "mini" / "tokenizer.json"
CAPTIONS = PACKAGED.parent / "captions" / "coco.txt.gz"
ODD = [
    *("", " ", "\0", "\t\n\r\v\f", "a\vb\x1cc\x7fd", "it's $5.99", "[cls] [MASK", "[ CLS]", "##ing un##able"),
    *("x" * 100, "x" * 101, "dog" * 34, "".join(map(chr, range(128)))),
]


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def test_plain_texts_have_the_ids_of_tokenizers(settings: dict[str, Any]) -> None:
    plain, tokenizer = WordPiece(settings), Tokenizer.from_file(str(FILE))
    rng, letters = random.Random(0), [*map(chr, range(128)), *"ghostly them##[] " * 8]
    drawn = ["".join(rng.choices(letters, k=rng.randrange(40))) for _ in range(5000)]
    captions = gzip.decompress(CAPTIONS.read_bytes()).decode().splitlines()
    known = 0
    for text in [*ODD, *drawn, *captions, *plain.entries]:
        for special in (False, True):
            found = plain.encode(text, special)
            if found is None:
                assert not text.isascii() or text in plain.entries  # such as "[MASK]"
            else:
                assert found.ids == tokenizer.encode(text, add_special_tokens=special).ids, text
                assert found.attention_mask == [1] * len(found.ids)
                known += 1
    assert known > 2 * (len(ODD) + len(drawn) + 0.99 * len(captions))


def test_other_texts_are_left_to_tokenizers(settings: dict[str, Any]) -> None:
    plain = WordPiece(settings)
    for text in ("café", "犬", "a\u00a0dog", "’", "a [MASK] dog", "x[SEP]", "dog " * 501):
        assert plain.encode(text, True) is None


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["normalizer", "lowercase"], False),
        (["normalizer", "strip_accents"], True),
        (["pre_tokenizer", "type"], "Whitespace"),
        (["model", "type"], "WordLevel"),
        (["model", "continuing_subword_prefix"], "@@"),
        (["model", "max_input_chars_per_word"], 200),
        (["model", "vocab", "dog"], 0.5),
        (["model", "vocab", "[SEP]"], 7),
        (["post_processor", "single"], []),
        (["added_tokens", 0, "lstrip"], True),
        (["added_tokens", 0, "content"], "dog"),
        (["added_tokens"], [5]),
        (["model"], None),
    ],
)
def test_other_rules_are_refused(settings: dict[str, Any], place: list[Any], value: object) -> None:
    changed = inner = json.loads(json.dumps(settings))
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        WordPiece(changed)
