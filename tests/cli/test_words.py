import json
import re
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import open_source
from lexlip.measure.words import photo_words
from lexlip.models.lexlip import LexLIP
from lexlip.words.function_words import FUNCTION_WORDS
from lexlip.words.plain_text import forms_together
from tests.cli.conftest import Run, as_json, error
from tests.tiny import CAPTIONS, tiny_dense


def words(lexlip: Run, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = as_json(lexlip, "words", *arguments)
    return answer


def test_words_are_those_of_the_library(lexlip: Run, photos: Path, model_folder: Path) -> None:
    (photos / "bad.jpg").touch()
    answer = words(lexlip, "photos", "--topk", 4)
    assert answer["skipped"] == [{"id": "bad.jpg", "reason": "empty file"}]
    model = LexLIP.from_pretrained(model_folder).fold_batch_norms()
    expected, _ = photo_words(model, open_source(photos), 4, range(7), workers=0)
    assert answer["photos"] == json.loads(json.dumps([photo.to_dict() for photo in expected]))
    assert [photo["path"] for photo in answer["photos"]] == [f"{photos}/{number}.jpg" for number in range(6)]


def test_words_of_the_captions_are_held(lexlip: Run, photos: Path) -> None:
    held = 0
    for photo in words(lexlip, "photos", "--topk", 1000)["photos"]:
        spoken = {word for caption in photo["captions"] for word in re.findall(r"\w+", caption.lower())}
        assert set(photo["held"]) == (spoken & set(photo["words"])) - FUNCTION_WORDS
        held += len(photo["held"])
    assert held


def test_text_marks_held_words(lexlip: Run, photos: Path) -> None:
    answer = words(lexlip, "photos")
    lines = lexlip("words", "photos").stdout.splitlines()
    assert lines[::2] == [photo["path"] for photo in answer["photos"]]
    for line, photo in zip(lines[1::2], answer["photos"], strict=True):
        shown = dict(part.strip("()").rsplit(":", 1) for part in line.split())
        groups = forms_together(photo["words"])
        assert [word.rstrip("*") for word in shown] == [word for forms in groups for word in forms]
        assert line.count("(") == sum(len(forms) > 1 for forms in groups)
        assert {word.rstrip("*") for word in shown if word.endswith("*")} == set(photo["held"])


def test_photos_come_from_all_over(lexlip: Run, photos: Path) -> None:
    assert [p["id"] for p in words(lexlip, "photos", "--photos", 3)["photos"]] == ["0.jpg", "2.jpg", "4.jpg"]
    assert len(words(lexlip, "photos", "--photos", 100)["photos"]) == 6


def test_html(lexlip: Run, photos: Path) -> None:
    result = lexlip("words", "photos", "--html", "words.html", "--photos", 2)
    assert result.stdout.endswith("\ncontact sheet: words.html\n")
    page = Path("words.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == page.count("data:image/jpeg;base64,") == 2
    assert CAPTIONS[0] in page


def test_bad_input(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    assert error(lexlip("words", "nowhere", code=2)) == "nowhere does not exist"
    assert "no-such-model" in error(lexlip("words", "photos", "--model", "no-such-model", code=2))
    tiny_dense().save(tmp_path / "dense")
    assert "dense" in error(lexlip("words", "photos", "--model", tmp_path / "dense", code=2))
    result = lexlip("words", "photos", "--html", "none/words.html", code=2)
    assert error(result).startswith("cannot write the contact sheet none/words.html")
    for photo in photos.glob("*.jpg"):
        photo.write_text("text")
    assert error(lexlip("words", "photos", code=2)).startswith(
        "no photo in photos can be read (6 tried; 0.jpg"
    )


@pytest.mark.parametrize("page", [".", "none/words.html", "photos", "x" * 300])
def test_a_page_that_cannot_be_written_is_found_out_before_the_work(
    page: str, lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lexlip.models.lexlip.LexLIP.from_pretrained", lambda name: pytest.fail("work"))
    assert error(lexlip("words", "photos", "--html", page, code=2)).startswith(
        f"cannot write the contact sheet {page}: "
    )
