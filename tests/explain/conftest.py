from tests.search.conftest import indexed

__all__ = ["indexed"]
