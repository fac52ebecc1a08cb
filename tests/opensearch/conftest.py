import pytest

from lexlip.opensearch import photo_index
from lexlip.other_engines import ask


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing waits; how long it would have."""
    for name in (ask.KEY, ask.USER, ask.PASSWORD):
        monkeypatch.delenv(name, raising=False)
    waited: list[float] = []
    monkeypatch.setattr(photo_index.time, "sleep", waited.append)
    return waited
