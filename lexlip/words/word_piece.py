"""Splits plain English as BERT's tokenizer does: the package tokenizers takes a sixth of a search to load."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_LONGEST = 100  # characters of a word; longer ones are unknown
_MOST = 2000  # characters of a text; tokenizers splits longer ones faster
_LEFT_OUT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")  # controls
_WORD_OR_SIGN = re.compile(r"[^\s!-/:-@\[-`{-~]+|\S")
_RULES = {
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}
_OF_MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": _LONGEST,
}
_AROUND = [
    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
]
_OF_ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


class Pieces(NamedTuple):
    """What is asked of an Encoding of tokenizers, for a text that was not cut."""

    ids: list[int]
    overflowing: Sequence[Pieces] = ()
    offsets: Sequence[tuple[int, int]] = ()

    @property
    def attention_mask(self) -> list[int]:
        return [1] * len(self.ids)


class WordPiece:
    """A tokenizer.json of BERT in small letters, for texts in ASCII; the ids are those of tokenizers.

    Args:
        settings: what the file holds.

    Raises:
        ValueError, KeyError, TypeError: it has other rules.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.entries: dict[str, int] = settings["model"]["vocab"]
        begin, unknown, end = (self.entries[token] for token in ("[CLS]", "[UNK]", "[SEP]"))
        processor, added = settings["post_processor"], settings["added_tokens"]
        special = {token: processor["special_tokens"][token]["ids"] for token in ("[CLS]", "[SEP]")}
        if (
            {**settings["model"], "vocab": None} != {**_OF_MODEL, "vocab": None}
            or any(settings[part] != rule for part, rule in _RULES.items())
            or processor["single"] != _AROUND
            or special != {"[CLS]": [begin], "[SEP]": [end]}
            or not all(_OF_ADDED.items() <= token.items() for token in added)
            or any(self.entries.get(token["content"]) != token["id"] for token in added)
            or {*map(type, self.entries.values())} != {int}
        ):
            raise ValueError("other rules")
        self._begin, self._unknown, self._end = begin, unknown, end
        self._added = [token["content"] for token in added]

    def encode(self, text: str, special: bool) -> Pieces | None:
        """Return the pieces of a text, with [CLS] and [SEP] if `special`; None: it is long or not plain."""
        if len(text) > _MOST or not text.isascii() or any(token in text for token in self._added):
            return None
        words = _WORD_OR_SIGN.findall(_LEFT_OUT.sub("", text).lower())
        ids = [id for word in words for id in self._pieces(word)]
        return Pieces([self._begin, *ids, self._end] if special else ids)

    def _pieces(self, word: str) -> list[int]:
        """Return the longest entry that a word begins with, and so on for its rest."""
        if len(word) > _LONGEST:
            return [self._unknown]
        entries, ids, start, mark = self.entries, [], 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                if (id := entries.get(mark + word[start:end])) is not None:
                    break
            else:
                return [self._unknown]
            ids.append(id)
            start, mark = end, "##"
        return ids
