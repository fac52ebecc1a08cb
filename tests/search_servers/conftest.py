from collections.abc import Iterator

import pytest

from lexlip.other_engines import ask
from lexlip.search_servers import photo_index
from tests.search_servers.real_index import KINDS, index_of_its_own


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of an index on a real server, which does not exist yet."""
    with index_of_its_own(request.param) as one:
        yield one


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing waits; how long it would have."""
    for name in (ask.KEY, ask.USER, ask.PASSWORD):
        monkeypatch.delenv(name, raising=False)
    waited: list[float] = []
    monkeypatch.setattr(photo_index.time, "sleep", waited.append)
    return waited
