import gzip
import json
from pathlib import Path

import pytest

from tools.language_names import align, main

KEYWORDS = {
    "en": {
        "🐕": {"tts": ["dog"], "default": ["dog", "pet"]},
        "🐶": {"tts": ["dog face"], "default": ["dog", "pet"]},
        "🐈": {"tts": ["cat"], "default": ["cat", "pet"]},
        "☃": {"tts": ["snowman"], "default": ["snow", "cold"]},
        "❄": {"tts": ["snowflake"], "default": ["snow", "cold"]},
        "⛄": {"tts": ["snowman without snow"], "default": ["snow"]},
    },
    "tr": {
        "🐕": {"tts": ["köpek"], "default": ["hayvan"]},
        "🐶": {"tts": ["köpek yüzü"], "default": ["köpek", "hayvan"]},
        "🐈": {"tts": ["Kedi"], "default": ["hayvan", "evcil hayvan"]},
        "☃": {"default": ["kar", "soğuk", "na"]},
        "❄": {"default": ["kar", "soğuk", "na"]},
        "⛄": {"default": ["kar", "na"]},
    },
    "pl": {"🐕": {"tts": ["pies"]}, "🐈": {"tts": ["kot"]}},
    "de": {"🐈": {"tts": ["Katze"]}},
    "zh-Hant": {"🐈": {"tts": ["貓"]}},
    "sr-Latn": {"🐈": {"tts": ["mačka"]}},
}
LEXICON = ("dog", "cat", "pet", "snow", "cold", "pies")


def test_words_that_stand_for_the_same_emoji() -> None:
    found = align(KEYWORDS["en"], KEYWORDS["tr"], set(LEXICON))
    assert found == {
        "köpek": "dog",
        "kedi": "cat",
        "hayvan": "pet",
        "kar": "snow",
        "na": "snow",
        "soğuk": "cold",
    }


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"lexicon": "\n".join(LEXICON), "table": "en\tde\ncat\tKatze\n"}.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(f"tools.language_names.{name.upper()}", tmp_path / name)
    (tmp_path / "words.txt.gz").write_bytes(gzip.compress(b"=kedi\t\nsoguk\taz\n"))
    for code, emoji in KEYWORDS.items():
        (tmp_path / "annotations" / code).mkdir(parents=True)
        content = {"annotations": {"annotations": emoji}}
        (tmp_path / "annotations" / code / "annotations.json").write_text(json.dumps(content))
    main(*(tmp_path / name for name in ("annotations", "words.txt.gz", "names.tsv.gz")))
    assert gzip.decompress((tmp_path / "names.tsv.gz").read_bytes()).decode().splitlines() == [
        *("hayvan\tpet tr", "kar\tsnow tr", "kopek\tdog tr", "kot\tcat pl", "köpek\tdog tr"),
        *("soğuk\tcold tr", "貓\tcat zh"),  # neither English words, nor of two letters
    ]
