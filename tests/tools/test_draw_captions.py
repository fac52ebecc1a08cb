"""Captions that come along, drawn of tiny tars."""

import gzip
import sys
from pathlib import Path

import pytest

from lexlip.cli.lexicon import PACKAGED
from tests.data.pictures import jpeg, write_tar
from tools import draw_captions as tool


def test_every_run_of_photos_gives_its_rarest_caption() -> None:
    photos = [["a dog"], ["a dog", "a cat"], ["the cat"], ["a cat on a boat"]]
    assert tool.draw(photos, 4) == ["a dog", "a cat", "the cat", "a cat on a boat"]
    assert tool.draw(photos, 2) == ["a dog", "a cat on a boat"]


def test_what_is_held_out_stays_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions = [
        "a dog runs",
        "a held cat",
        "A Cow Eats",
        "what the shit",
        "café",
        " ".join("a" * 21),
        "a dog runs",
    ]
    texts = {f"{number}.txt": caption.encode() for number, caption in enumerate(captions)}
    photos = {f"{number}.jpg": jpeg() for number in range(len(captions))}
    write_tar(tmp_path / "train.tar", dict(sorted({**photos, **texts}.items())))
    write_tar(tmp_path / "val.tar", {"0.jpg": jpeg(), "0.txt": b"a cow eats"})
    (tmp_path / "held_out.txt").write_text("1\n")
    monkeypatch.setattr(tool, "NUMBER", 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["", "out.gz", "train.tar", "--without", "held_out.txt", "--unlike", "val.tar"]
    )
    tool.main()
    made = Path("out.gz").read_bytes()
    assert gzip.decompress(made) == b"a dog runs\n"
    tool.main()
    assert Path("out.gz").read_bytes() == made


def test_what_comes_along() -> None:
    lines = gzip.decompress(PACKAGED.read_bytes()).decode("ascii").splitlines()
    assert len(lines) == len({line.lower() for line in lines}) == tool.NUMBER
    assert all(tool.is_fit(line, set()) for line in lines)
    assert (PACKAGED.parent / "LICENSES.md").is_file()
