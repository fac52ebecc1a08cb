import gzip
import json
from pathlib import Path

import pytest

from tools.language_words import DICTIONARY, FALSE_FRIENDS, LARGER, LEXICON, main

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
    (tmp_path / "table").write_text(
        "en\tfr\ncigarette\tcigarette\nhorse\tcheval\nsun\tcoucher de soleil\nmorning\tpetit déjeuner\n"
    )
    monkeypatch.setattr("tools.language_words.TABLE", tmp_path / "table")
    for code, symbols in KEYWORDS.items():
        (tmp_path / "annotations" / code).mkdir(parents=True)
        content = {"annotations": {"annotations": symbols} if symbols else {}}
        (tmp_path / "annotations" / code / "annotations.json").write_text(json.dumps(content))
    (tmp_path / "dictionaries").mkdir()
    larger = "hund\nKombucha's\nKombucha\n"
    for name, words in {DICTIONARY: "Jung\npudel\npuppy\nCigarettes\n", LARGER[0]: larger}.items():
        (tmp_path / "dictionaries" / name).write_text(words)
    (tmp_path / "dictionaries" / LARGER[1]).write_text("dog\nox\n")
    (tmp_path / "wordnet").mkdir()
    for kind in ("adj", "adv", "verb"):
        for name in (f"index.{kind}", f"{kind}.exc"):
            (tmp_path / "wordnet" / name).write_text("")
    entries = (
        "  1 licence|petit_cheval n 1|petit_dejeuner n 1|hot_dog n 1|cheval n 1|le_cheval n 1|l_enfant n 1"
    )
    (tmp_path / "wordnet" / "index.noun").write_text(entries.replace("|", "\n") + "\n")
    (tmp_path / "wordnet" / "noun.exc").write_text("petits_chevaux petit_cheval\nmise_en_place-s mise\n")
    monkeypatch.setattr("tools.language_words.MORE_PHRASES", "\nc'est la vie,\nla vie\n")
    main(*(tmp_path / name for name in ("annotations", "dictionaries", "wordnet", "words.txt.gz")))
    lines = gzip.decompress((tmp_path / "words.txt.gz").read_bytes()).decode().splitlines()
    phrases = [line for line in lines if " " in line.partition("\t")[0]]
    assert phrases == ["=c est la vie\t", "=la vie\t", "=mise en place s\t", "=petit cheval\t"]
    assert " ".join(line for line in lines if line not in phrases).replace("\t", ":").split(" ") == [
        *("cheval:fr", "=cigarettes:fr"),  # of the table, and what it would take for one of its words
        *("haustier:de", "haustiere:de", "hond:nl", "hund:de", "hunde:de", "=jung:de", "=kind:de", "nl"),
        *("=kombucha:", "pes:cs", "=pudel:de", "säugling:de", "säuglinge:de"),
    ]


def test_false_friends_are_words_of_the_lexicon() -> None:
    friends = {word for words in FALSE_FRIENDS.values() for word in words.split()}
    assert friends <= {*LEXICON.read_text(encoding="utf-8").split()}
