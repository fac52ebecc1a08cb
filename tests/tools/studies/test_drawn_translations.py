from pathlib import Path

import pytest

from tools.studies import drawn_translations


def test_words_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("en\tde\ndog\tHund\nsnow\tSchnee\n", encoding="utf-8")
    monkeypatch.setattr(drawn_translations, "FILE", table)
    monkeypatch.setattr(drawn_translations, "DRAWN", 1)
    drawn_translations.main([])
    covered, drawn = capsys.readouterr().out.splitlines()
    assert covered == "de: 0.0% of 4742 words, 0.0% of those held"
    assert drawn in ("dog = Hund", "snow = Schnee")
