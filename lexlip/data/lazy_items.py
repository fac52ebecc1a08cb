"""Items that are made on demand, because there are too many to keep."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

import numpy as np

from lexlip.data.source import Item


class LazyItems(Sequence[Item]):
    """Items of several parts, one part after another.

    Args:
        sizes: the number of items in each part.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._starts = [0, *accumulate(sizes)]

    @abstractmethod
    def _item(self, part: int, index: int) -> Item: ...

    @abstractmethod
    def _captioned(self, part: int) -> np.ndarray:
        """Return the indices within a part of the items with captions, int64 [n]."""

    def locate(self, index: int) -> tuple[int, int]:
        """Return the part that an item is in, and its index there.

        Raises:
            IndexError: there is no such item.
        """
        index = range(len(self))[index]
        part = bisect_right(self._starts, index) - 1
        return part, index - self._starts[part]

    def captioned(self) -> np.ndarray:
        """Return the indices of the items with captions, int64 [n], in order."""
        starts = self._starts[:-1]
        parts = [start + self._captioned(part) for part, start in enumerate(starts)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return self._item(*self.locate(index))

    def __iter__(self) -> Iterator[Item]:
        for part, (start, end) in enumerate(zip(self._starts[:-1], self._starts[1:], strict=True)):
            for index in range(end - start):
                yield self._item(part, index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]
