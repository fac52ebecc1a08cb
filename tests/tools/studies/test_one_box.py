import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from lexlip.data import Scenes
from tests.tiny import CAPTIONS
from tools.studies.one_box import main


def test_given_words_find_all_photos_that_have_some(
    tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twelve photos, whose captions are somewhere else in each of four turns."""
    scenes, tar = Scenes(12, seed=4), tmp_path / "photos.tar"
    with tarfile.open(tar, "w") as file:
        for number in range(12):
            picture = BytesIO()
            scenes.image(number).save(picture, "JPEG")
            said = [f"{CAPTIONS[number % len(CAPTIONS)]} number{number}", f"number{number}"]
            for suffix, data in (
                ("jpg", picture.getvalue()),
                ("json", json.dumps({"captions": said}).encode()),
            ):
                member = tarfile.TarInfo(f"{number:03d}.{suffix}")
                member.size = len(data)
                file.addfile(member, BytesIO(data))
    monkeypatch.setattr("tools.studies.one_box.MODEL", str(model_folder))
    monkeypatch.setattr("lexlip.search.named_photos.LEAST_NAMED", 0.6)  # main sets it
    main(tar, tmp_path / "work", [0.8])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if "by " in line]
    assert [row[0] for row in rows] == [
        "by what they show",
        "by given words",
        "by both, 0.8 of the words",
    ] * 2
    assert all(row[1:4] == ["100.0"] * 3 for row in rows if "given" in row[0])
    assert rows[1][4] == "0.0"
    assert rows[2][1:4] == ["100.0"] * 3
