"""A first stage without an index; each test says what it needs of it."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from lexlip.queries.query_language import Query
from lexlip.retrieval.first_stage import FirstStage, Results


class PlainStage(FirstStage):
    index = Path("index")
    metadata: Any = SimpleNamespace(
        encoder="clip@1",
        created="2024-01-01",
        directory="data-3",
        extra={"root": "/photos/", "relative": False},
    )
    encoder: Any = None

    def encode(self, query: str | Query) -> str:
        return self.sentence(query)

    def search(self, queries: Sequence[Any], k: int, allowed: Any = None) -> Results:
        raise NotImplementedError

    def allow(self, ids: Sequence[str] | None, without: Sequence[str] = (), but: Collection[str] = ()) -> Any:
        assert ids is None
        assert not without

    def like(self, id: str) -> str:
        return id

    def hold(self) -> AbstractContextManager[Self]:
        return nullcontext(self)

    def refresh(self) -> bool:
        return False

    def close(self) -> None:
        pass
