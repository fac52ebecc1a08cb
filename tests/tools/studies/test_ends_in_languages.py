import json
from pathlib import Path

from tools.studies.ends_in_languages import names_of_signs

NAMES = {
    "en": {"→": ["right arrow"], "🐕": ["dog"], "➖": ["minus"], "🔘": ["radio button"]},
    "de": {"→": ["Pfeil nach rechts"], "🐕": ["Hund"], "➖": ["minus"]},
}


def test_names_of_signs(tmp_path: Path) -> None:
    for code, names in NAMES.items():
        signs = {sign: {"tts": name} for sign, name in names.items()} | {"?": {"default": ["what"]}}
        (tmp_path / code).mkdir()
        content = {"annotations": {"annotations": signs}}
        (tmp_path / code / "annotations.json").write_text(json.dumps(content), encoding="utf-8")
    assert names_of_signs(tmp_path, "en") == ["right arrow", "minus", "radio button"]
    assert names_of_signs(tmp_path, "de") == ["Pfeil nach rechts", "minus"]
