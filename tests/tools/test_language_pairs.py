"""Pairs of words out of dictionaries in the formats that these have."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from tools import language_pairs as tool

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def number(value: int) -> str:
    """Return a number as dictd writes it (RFC 2229's server)."""
    return (number(value // 64) if value > 63 else "") + DIGITS[value % 64]


def write_freedict(folder: Path, name: str, entries: dict[str, str]) -> None:
    content, index = b"00-database-info\nnothing" * 9, [f"00databaseinfo\tA\t{number(200)}"]
    for head, entry in entries.items():
        told = entry.encode()
        index.append(f"{head}\t{number(len(content))}\t{number(len(told))}")
        content += told
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"freedict-{name}.dict.dz").write_bytes(gzip.compress(content))
    (folder / f"freedict-{name}.index").write_text("\n".join(index), encoding="utf-8")


def test_dictionaries_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "LANGUAGES", {"spa": "es"})
    entries = {
        "dog": 'dog /dɔɡ/ <n>\n1. perro, can (old)\n2. seguir\n     "a dog\'s life"\n see: {cat}',
        "boy": "Boy /bɔi/\n  chico",
        "zymurgy": "zymurgy\ncimurgia",
    }
    write_freedict(tmp_path / "dictd", "eng-spa", entries)
    write_freedict(tmp_path / "dictd", "spa-eng", {"nieve": "nieve /ˈnjeβe/\nsnow, ice cream"})
    lines = ["犬 [いぬ] /(n) (1) dog (Canis)/(P)/", "狗 [いぬ] /(n) dog/", "走る [はしる] /(v5r) to run/(P)/"]
    (tmp_path / "edict").mkdir()
    (tmp_path / "edict/edict").write_bytes("\n".join(lines).encode("euc-jp"))
    chinese = {
        "all": [
            ["雪", "雪", "xue3", "snow; snowfall", [], []],
            ["貓", "猫", "mao1", ["cat", "CL:隻"], [], []],
        ]
    }
    (tmp_path / "all.js").write_text(f"export default {json.dumps(chinese)}\n", encoding="utf-8")
    korean = (
        "\ufeffCOPY m_korean (wordid, word, syn, def) FROM stdin;\n1\t개\t\tdog, counter (thing)\t1\n\\.\n"
    )
    (tmp_path / "ezcorean_6000.sql").write_text(korean, encoding="utf-8")
    found = tool.read(tmp_path, tmp_path / "all.js", tmp_path).of
    assert found == {
        "es": {"dog": ["perro", "can", "seguir"], "boy": ["chico"], "snow": ["nieve"]},
        "ja": {"dog": ["犬"], "run": ["走る"]},
        "zh": {"snow": ["雪"], "cat": ["猫"]},
        "ko": {"dog": ["개"], "counter": ["개"]},
    }


def test_the_nearest_two_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = tool.Pairs()
    pairs.add("de", "a dog", ["Bandhaken", "Hund", "Köter"])
    pairs.add("de", "snow", ["Schnee"])
    places = {"dog": 0.0, "Hund": 0.1, "Köter": 0.2, "Bandhaken": 2.0}

    class Nearness:
        def __init__(self, folder: Path) -> None:
            assert folder == Path("e5")

        def vectors(self, texts: list[str]) -> torch.Tensor:
            angles = torch.tensor([places[text] for text in texts])
            return torch.stack([angles.cos(), angles.sin()], dim=1)

    monkeypatch.setattr(tool, "read", lambda *_: pairs)
    monkeypatch.setattr(tool, "Nearness", Nearness)
    tool.main(tmp_path, tmp_path, tmp_path, Path("e5"), tmp_path / "pairs.tsv")
    assert (tmp_path / "pairs.tsv").read_text() == "de\tHund\tdog\nde\tKöter\tdog\nde\tSchnee\tsnow\n"
