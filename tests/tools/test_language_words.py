import gzip
import json
from pathlib import Path

import pytest

from tools.language_words import FALSE_FRIENDS, LEXICON, main

KEYWORDS = {
    "en": {"🐕": {"tts": ["dog"], "default": ["dog", "pet", "puppy dog"]}, "👶": {"tts": ["baby"]}},
    "de": {
        "🐕": {"tts": ["Hund"], "default": ["Haustier", "Tier im Haus", "dog", "Pudel"]},
        "👶": {"tts": ["Baby"], "default": ["Kind", "Säugling", "jung", "ab"]},
    },
    "nl": {"🐕": {"tts": ["hond"]}, "👶": {"default": ["kind"]}},
    "cs": {"🐕": {"tts": ["pes", "犬"]}},
    "ga": {"🐕": {"tts": ["madra"]}},
    "fr": {},  # as it is where CLDR has none yet
}


def test_words_that_tell_another_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.language_words.LANGUAGES", ["de", "nl", "cs", "fr"])
    monkeypatch.setattr("tools.language_words.PLURALS", {"de": ("e",)})
    monkeypatch.setattr("tools.language_words.FALSE_FRIENDS", {"de": "kind", "nl": "kind"})
    (tmp_path / "table").write_text("en\tfr\ncigarette\tcigarette\nhorse\tcheval\nsun\tcoucher de soleil\n")
    monkeypatch.setattr("tools.language_words.TABLE", tmp_path / "table")
    for code, symbols in KEYWORDS.items():
        (tmp_path / "annotations" / code).mkdir(parents=True)
        content = {"annotations": {"annotations": symbols} if symbols else {}}
        (tmp_path / "annotations" / code / "annotations.json").write_text(json.dumps(content))
    (tmp_path / "dictionary").write_text("Jung\npudel\npuppy\nCigarettes\n")
    main(tmp_path / "annotations", tmp_path / "dictionary", tmp_path / "words.txt.gz")
    lines = gzip.decompress((tmp_path / "words.txt.gz").read_bytes()).decode().splitlines()
    assert " ".join(lines).replace("\t", ":").split(" ") == [
        *("cheval:fr", "=cigarettes:fr"),  # of the table, and what it would take for one of its words
        *("haustier:de", "haustiere:de", "hond:nl", "hund:de", "hunde:de", "=jung:de", "=kind:de", "nl"),
        *("pes:cs", "=pudel:de", "säugling:de", "säuglinge:de"),
    ]


def test_false_friends_are_words_of_the_lexicon() -> None:
    friends = {word for words in FALSE_FRIENDS.values() for word in words.split()}
    assert friends <= {*LEXICON.read_text(encoding="utf-8").split()}
