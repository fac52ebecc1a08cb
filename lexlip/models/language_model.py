"""The text half of a model for sentences in other languages: a folder of its own, beside the model's.

A text encoder that knows many languages gives the words of a model's lexicon, as the model itself does for
English. So photos stay as they are indexed, and one index answers both. The folder holds

config.json        kind "languages", name and identity; `models`, the identities of the models whose indexes
                   it may search; `lexicon`, the SHA-256 of their vocabulary.txt; the encoder's architecture
model.safetensors  the weights of text_encoder.body (a BERT) and text_head (a LexiconHead), compressed
tokenizer.json and tokenizer_config.json, as transformers writes them
words.txt.gz       words of other languages, one per line, sorted: the word, a tab, and codes of languages;
                   with "=" before it if it is English, too, or English alone; and phrases that English uses
                   ("=grand prix"), without accents
checksums.txt      of these files

The pip package lexlip-languages brings one, see `installed`.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from lexlip.errors import EXTRAS, MissingPackage
from lexlip.models.compression import BLOCKS, INT4, compress, int4_rows
from lexlip.models.model_folder import (
    FORMAT,
    WEIGHTS,
    check_kind,
    damaged,
    model_folder,
    read_description,
    sha256,
    write_checksums,
)
from lexlip.words.plain_text import folded

KIND = "languages"
PACKAGE = "lexlip_languages"
WORDS = "words.txt.gz"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
LONGEST = 5  # words of a phrase that is looked for
MAX_TOKENS = 40  # of a sentence, that are read
SHORTEST = 3  # letters of a word whose plurals are known
PLURALS = {
    "it": [("i", "o"), ("i", "e"), ("e", "a")],
    "nl": [("en", ""), ("s", "")],
    "sv": [("ar", ""), ("ar", "e"), ("or", "a"), ("er", "")],
    "da": [("er", ""), ("e", "")],
    "no": [("er", "")],
    "pl": [("y", ""), ("y", "a"), ("i", ""), ("i", "a")],
    "cs": [("y", ""), ("y", "a")],
    "tr": [("lar", ""), ("ler", "")],
}
"""Endings of plurals that the list lacks, and what is in their place in a word that it may have."""


def write_language_model(
    folder: Path,
    weights: Mapping[str, NDArray[Any]],
    architecture: Mapping[str, Any],
    tokenizer: Path,
    words: Path,
    model: str | Path,
) -> str:
    """Write a folder as described above, with 4 bits a weight for the table of pieces; return its identity.

    Args:
        folder: is made, or its files are replaced.
        weights: text_encoder.body.* as `BertModel` names them (without a pooler), and text_head.dense.weight,
            .dense.bias, .norm.weight, .norm.bias, .decoder and .bias, float.
        architecture: the encoder's, see `lexlip.encoders.text.architecture_of`.
        tokenizer: a folder with TOKENIZER.
        words: a file as WORDS.
        model: the name or folder of the model that it was distilled from.

    Raises:
        ModelError: there is no such model.
    """
    from safetensors.numpy import save

    of = model_folder(model)
    folder.mkdir(parents=True, exist_ok=True)
    table = next(name for name in weights if name.endswith("word_embeddings.weight"))
    stored = compress({name: weight for name, weight in weights.items() if name != table})
    stored[table + INT4], stored[table + BLOCKS] = int4_rows(weights[table])
    (folder / WEIGHTS).write_bytes(save(stored))
    for file in TOKENIZER:  # without the spaces of transformers, which are half of it
        told = json.loads((tokenizer / file).read_text(encoding="utf-8"))
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        (folder / file).write_text(text, encoding="utf-8")
    (folder / WORDS).write_bytes(words.read_bytes())
    identity = f"{KIND}@{sha256(folder / WEIGHTS)[:12]}"
    description = {
        "format": FORMAT,
        "kind": KIND,
        "name": KIND,
        "identity": identity,
        "models": [read_description(of)["identity"]],
        "lexicon": lexicon_of(of),
        "model": {"text": {"max_tokens": MAX_TOKENS}, "special_positions": True, "mean_position": True},
        "text_architecture": dict(architecture),
    }
    (folder / "config.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    write_checksums(folder, [WEIGHTS, "config.json", WORDS, *TOKENIZER])
    return identity


def lexicon_of(folder: Path) -> str:
    """Return what tells a model's lexicon from others: the SHA-256 of its words, one per line."""
    return sha256(folder / "vocabulary.txt")


def how_to_install(beside: Path = Path(__file__).parents[2] / "languages") -> str:
    """Return the command that installs the package, which in a clone lies beside this one."""
    in_a_clone = (beside / "pyproject.toml").is_file()
    return "pip install ./languages, in the clone of LexLIP" if in_a_clone else EXTRAS[PACKAGE]


def installed() -> Path | None:
    """Return the folder that the package lexlip-languages brings; None: it is not installed."""
    try:
        import lexlip_languages
    except ModuleNotFoundError:
        return None
    return Path(lexlip_languages.FOLDER)


def check_installed() -> Path:
    """Return what `installed` does; MissingPackage: it is not."""
    folder = installed()
    if folder is None:
        raise MissingPackage(f"this needs lexlip-languages: {how_to_install()}", name=PACKAGE)
    return folder


class Elsewhere(NamedTuple):
    """Languages that have a word or a phrase, by their codes; and whether it is English, too."""

    languages: tuple[str, ...]
    english: bool


def elsewhere(folder: Path, word: str) -> Elsewhere | None:
    """Return what a folder knows of a word in other languages; None: nothing.

    ModelError: its words cannot be read.
    """
    forms = dict.fromkeys((word.lower(), word.lower().replace("ß", "ss")))  # "Schloß", as it was written
    line = next(filter(None, (line_of(folder / WORDS, form) for form in forms)), "")
    return Elsewhere(tuple(line.partition("\t")[2].split()), english=line.startswith("=")) if line else None


def plural_of(folder: Path, word: str) -> list[str]:
    """Return languages in which a word that no list has is the plural of one that English lacks: "koty"."""
    found = []
    for code, endings in PLURALS.items():
        for ending, instead in endings:
            if word.endswith(ending) and len(base := word.lower().removesuffix(ending) + instead) >= SHORTEST:
                one = elsewhere(folder, base)
                if one is not None and code in one.languages and not one.english:
                    found.append(code)
    return list(dict.fromkeys(found))


def line_of(file: Path, word: str) -> str:
    """Return the line of a sorted file whose first column is a word, perhaps behind "="; "": there is none.

    ModelError: the file cannot be read.
    """
    lines = read_lines(file)

    def line_at(place: int) -> str:
        return lines[lines.rfind("\n", 0, place) + 1 : lines.find("\n", place)]

    def word_at(place: int) -> str:
        return line_at(place).partition("\t")[0].removeprefix("=")

    place = bisect_left(range(len(lines)), word, key=word_at)  # faster than to take 100,000 lines apart
    return line_at(place) if place < len(lines) and word_at(place) == word else ""


def english_phrase(folder: Path, words: Sequence[str]) -> Elsewhere | None:
    """Return what a folder knows of words that English uses as one phrase, "grand prix"; None: they are none.

    ModelError: its words cannot be read.
    """
    phrase = folded(" ".join(words))
    found = (elsewhere(folder, one) for one in (phrase, phrase.removesuffix("s")) if " " in one)
    return next(filter(None, found), None)


def without_english_phrases(folder: Path, words: Sequence[str]) -> list[str]:
    """Return the words of a sentence that are in no phrase that English uses; ModelError as `elsewhere`."""
    kept, place = [], 0
    while place < len(words):
        ends = range(min(place + LONGEST, len(words)), place + 1, -1)
        end = next((end for end in ends if english_phrase(folder, words[place:end])), place)
        if end == place:
            kept.append(words[place])
        place = max(end, place + 1)
    return kept


@cache
def read_lines(file: Path) -> str:
    """Return the text of a file that gzip has packed; ModelError: it cannot be read."""
    import gzip  # English does without

    try:
        return gzip.decompress(file.read_bytes()).decode()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise damaged(file.parent, error) from error


def fits(folder: Path, model: Path, identity: str) -> bool:
    """Return whether the encoder in a folder speaks the words of a model, given by folder and identity.

    ModelError: the encoder's folder is damaged.
    """
    description = read_description(folder)
    check_kind(folder, description, KIND)
    try:
        return identity in description["models"] and description["lexicon"] == lexicon_of(model)
    except (KeyError, TypeError) as error:
        raise damaged(folder, error) from error
