import hashlib
import hmac
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lexlip.retrieval import seal as module
from lexlip.retrieval.seal import seal, sealed_tables, why_unsealed

SAID: dict[str, Any] = {
    "given": {"sources": [["/a", "../a", ""]]},
    "root": "/a/",
    "relative": False,
    "listed": 1.0,
}
TABLES = {"photos-1.sqlite": "ab" * 32}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "lexlip"


def test_the_key_is_the_user_s_own(state: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        codes = {one["seal"]["code"] for one in threads.map(lambda _: seal(SAID, TABLES), range(32))}
    (key,) = state.iterdir()
    assert len(key.read_bytes()) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    said = {name: SAID.get(name) for name in ("given", "source", "root", "relative")}
    text = json.dumps([said, TABLES], sort_keys=True)
    assert codes == {hmac.new(key.read_bytes(), text.encode(), hashlib.sha256).hexdigest()}


def test_what_is_sealed_cannot_be_changed(state: Path) -> None:
    sealed = seal(SAID, TABLES)
    assert sealed_tables({**sealed, "listed": 2.0, "captions": {}}) == TABLES
    others: list[dict[str, Any]] = [
        {"given": {"sources": [["/"]]}},
        {"source": "/"},
        {"root": "/"},
        {"relative": True},
        {"seal": {**sealed["seal"], "tables": {"photos-1.sqlite": "cd" * 32}}},
        {"seal": {**sealed["seal"], "code": "ä"}},
    ]
    for other in others:
        assert sealed_tables({**sealed, **other}) == {}
    (state / "index-key").unlink()
    assert sealed_tables(sealed) == {}
    assert not (state / "index-key").exists()
    assert sealed_tables(SAID) == {}
    assert "has not made" in why_unsealed(sealed)
    assert why_unsealed(seal(SAID, TABLES)) == ""


@pytest.mark.parametrize("way", ["a file is there", "no home", "damaged"])
def test_without_a_key_nothing_is_sealed(state: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "a file is there":
        state.parent.write_text("")
    elif way == "no home":
        monkeypatch.setenv("XDG_STATE_HOME", "relative")
        monkeypatch.setattr(module.os.path, "expanduser", lambda path: path)
    else:
        state.mkdir(parents=True)
        (state / "index-key").write_bytes(b"short")
    assert seal(SAID | {"seal": 1}, TABLES) == SAID
    said = why_unsealed(SAID)
    assert said.startswith("this user's key cannot be kept (")
    assert {"a file is there": str(state), "no home": "XDG_STATE_HOME", "damaged": "delete it"}[way] in said


def test_a_home_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sealed_tables(seal(SAID, TABLES)) == TABLES
    assert (tmp_path / ".local" / "state" / "lexlip" / "index-key").is_file()
