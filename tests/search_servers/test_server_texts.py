"""Text in the photos of an index on real servers: `make test-servers`."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lexlip.indexing import reading
from tests.cli.conftest import Run, as_json
from tests.indexing.test_text_reader import sign
from tests.search_servers.real_index import COUNTS, indexed

pytestmark = pytest.mark.servers


def test_text_in_photos(lexlip: Run, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, kept, found and forgotten as in a folder; a moved photo and a copy are not read again."""
    pytest.importorskip("rapidocr")
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, text in enumerate(("EXIT 12", "Menu\nWatermelon", "12 EXIT")):
        sign(text).save(photos / f"{number}.png")

    def both(*more: object) -> dict[str, Any]:
        """Index at both places; return what was read, and see that both answer alike."""
        here, there = as_json(lexlip, "index", "photos", *more), indexed(lexlip, address, *more)
        told = {name: there[name] for name in there if "text" in name or name in COUNTS}
        assert told == {name: here[name] for name in told}
        for query in ('text:"exit 12"', "text:watermellon", "watermelon", "text:cinema", "12 exit"):
            ours, theirs = (
                as_json(lexlip, "search", query, *where)
                for where in (("--index", ".lexlip"), ("--server", address))
            )
            assert [(hit["id"], hit["words"].keys()) for hit in ours["hits"]] == [
                (hit["id"], hit["words"].keys()) for hit in theirs["hits"]
            ]
            assert ours["unmet"] == theirs["unmet"]
        return {name: there[name] for name in ("text_read", "with_text", "text_failed", "text_unread")}

    assert list(both().values()) == [0, 0, 0, 0]
    assert list(both("--text").values()) == [3, 3, 0, 0]
    held = as_json(lexlip, "search", 'text:"exit 12"', "--server", address)["hits"]
    assert [hit["id"] for hit in held] == ["0.png"]
    sign("Cinema").save(photos / "3.png")
    (photos / "0.png").rename(photos / "moved.png")
    shutil.copy(photos / "1.png", photos / "copy.png")
    (photos / "2.png").touch()
    assert list(both().values()) == [1, 5, 0, 0]

    class Fails(reading.TextReader):
        def read(self, photo):  # type: ignore[no-untyped-def]
            raise RuntimeError("a shape that the network does not take")

    sign("Theatre").save(photos / "4.png")
    with monkeypatch.context() as patched:
        patched.setattr(reading, "TextReader", Fails)
        assert list(both().values()) == [0, 5, 1, 0]
    assert list(both().values()) == [0, 5, 0, 0]
    assert list(both("--no-text").values()) == [0, 0, 0, 0]
    assert list(both().values()) == [0, 0, 0, 0]
