import pytest

from lexlip.other_engines import ask
from lexlip.search_servers import photo_index


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing waits; how long it would have."""
    for name in (ask.KEY, ask.USER, ask.PASSWORD):
        monkeypatch.delenv(name, raising=False)
    waited: list[float] = []
    monkeypatch.setattr(photo_index.time, "sleep", waited.append)
    return waited
