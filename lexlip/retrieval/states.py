"""States of an index that are searched by several threads, while a newer one takes their place."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, Self, TypeVar


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Shared(Generic[T]):
    """A value that several use, and that the last of them closes; who makes this is the first one."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._users, self._lock = 1, threading.Lock()

    def take(self) -> Self:
        """Become a user, too, while there is one."""
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        """Use it no more."""
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self.value.close()


class Renewed(Generic[T]):
    """What searches one state of an index and can move to another one, as a whole."""

    def __init__(self, state: T) -> None:
        self._changing = threading.Lock()
        self._now = Shared(state)

    @contextmanager
    def hold(self) -> Iterator[Self]:
        """Give a copy that stays in the state of now, whatever happens to this one."""
        held = copy.copy(self)
        with self._changing:
            held._now = self._now.take()
        try:
            yield held
        finally:
            held._now.release()

    def move(self, state: T) -> None:
        """Search another state from now on."""
        with self._changing:
            old, self._now = self._now, Shared(state)
        old.release()

    def close(self) -> None:
        """Close it; who holds it still searches."""
        self._now.release()
