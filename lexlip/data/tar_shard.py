"""The photos of one tar, listed by its headers and kept in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from anserini_bridge.given_files import parse_json
from lexlip.data.files import LARGEST_CAPTIONS, open_file
from lexlip.data.folder import NOT_UTF8, is_utf8, shown
from lexlip.data.formats import SUFFIXES
from lexlip.data.lazy_items import LazyItems
from lexlip.data.source import Item, Skipped, caption_lines, clean_captions
from lexlip.data.tar_headers import Member, contents
from lexlip.data.texts import Beside, decode_text
from lexlip.words.plain_text import composed

_CAPTIONS = (".json", ".txt")  # the first that has captions counts
_TAKEN = (*SUFFIXES, *_CAPTIONS)


@dataclass(frozen=True, eq=False, slots=True)
class Shard:
    r"""The n photos of a tar.

    They are kept in a few large objects rather than in millions of small ones: forked processes go on
    sharing these, as no references inside are counted.

    Attributes:
        texts: NAME \0 CAPTION \n CAPTION ... of each photo, in UTF-8.
        ends: where each photo's text ends, int64 [n].
        offsets: where each photo's bytes begin in the tar, int64 [n].
        sizes: bytes of each photo, int64 [n].
        skipped: what is unusable, by its name in the tar; "" is the tar itself.
    """

    texts: bytes
    ends: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    skipped: list[Skipped]

    @classmethod
    def of(cls, photos: Sequence[tuple[Member, tuple[str, ...]]], skipped: list[Skipped]) -> Shard:
        """Pack photos and their captions."""
        texts = [
            (member.name + "\0" + "\n".join(captions)).encode(errors="replace") for member, captions in photos
        ]
        return cls(
            b"".join(texts),
            np.cumsum([len(text) for text in texts], dtype=np.int64),
            np.array([member.offset for member, _ in photos], dtype=np.int64),
            np.array([member.size for member, _ in photos], dtype=np.int64),
            skipped,
        )

    def __len__(self) -> int:
        return len(self.ends)

    def item(self, index: int, prefix: str) -> Item:
        """Return a photo, with `prefix` before its name."""
        start = int(self.ends[index - 1]) if index else 0
        name, _, captions = self.texts[start : int(self.ends[index])].decode().partition("\0")
        return Item(prefix + name, tuple(captions.split("\n")) if captions else ())

    def captioned(self) -> np.ndarray:
        """Return the indices of the photos that have captions, int64 [m]."""
        last = np.frombuffer(self.texts, dtype=np.uint8)[self.ends - 1]
        return np.flatnonzero(last)  # without captions a text ends with the zero byte


class ShardItems(LazyItems):
    """The photos of shards; each shard's prefix comes before their names."""

    def __init__(self, prefixes: Sequence[str], shards: Sequence[Shard]) -> None:
        super().__init__([len(shard) for shard in shards])
        self._prefixes, self._shards = prefixes, shards

    def _item(self, part: int, index: int) -> Item:
        return self._shards[part].item(index, self._prefixes[part])

    def _captioned(self, part: int) -> np.ndarray:
        return self._shards[part].captioned()


def list_shard(path: str | Path) -> Shard:
    """Return the photos of a tar, with `captions` (a list) or `caption` of KEY.json, or the lines of KEY.txt.

    What cannot be read is reported in `skipped`. So is damage; the photos before it are kept. Of two files
    with the same name the later one counts, as for tar.

    Raises:
        OSError: the tar cannot be read.
        UnreadableImage: it is no file.
    """
    photos: dict[str, Member] = {}  # by name
    texts: dict[str, Member] = {}  # captions, by name
    with open_file(path) as file:
        found = contents(file)
        skipped = [Skipped(shown(name), why) for name, why in found.skipped if _suffix(name) in _TAKEN]
        for name, member in found.files.items():
            suffix = _suffix(name)
            if suffix in _CAPTIONS:
                texts[name] = member
            elif suffix not in SUFFIXES:
                continue
            elif "\0" not in name and is_utf8(name):
                photos[name] = member
            else:
                skipped.append(Skipped(shown(name), NOT_UTF8))
        if found.damage:
            skipped.append(Skipped("", f"{found.damage}; {len(photos)} photos before that are kept"))
        keys = [name.rpartition(".")[0] for name in photos]
        beside = Beside(texts)
        named = [[beside.find(key, suffix) for suffix in _CAPTIONS] for key in keys]
        captioned = [
            (member, _captions(file, [texts[name] for name in names if name], skipped))
            for member, names in zip(photos.values(), named, strict=True)
        ]
    known = set(map(composed, keys))
    alone = dict.fromkeys(key for name in texts if composed(key := name.rpartition(".")[0]) not in known)
    skipped += [Skipped(key, "no image") for key in alone]
    return Shard.of(captioned, skipped)


def _suffix(name: str) -> str:
    """Return the last suffix of a name, in lower case; "" for hidden files, such as those that macOS adds."""
    key, dot, suffix = name.rpartition(".")
    return "" if not key or key.rpartition("/")[2].startswith(".") else (dot + suffix).lower()


def _captions(file: BinaryIO, texts: Sequence[Member], skipped: list[Skipped]) -> tuple[str, ...]:
    """Return the captions of the first file that has some; what cannot be read goes to `skipped`."""
    for name, offset, size, _ in texts:
        file.seek(offset)
        try:
            if size > LARGEST_CAPTIONS:
                raise ValueError(f"{size:,} bytes: more than {LARGEST_CAPTIONS:,}")
            data = file.read(size)
            captions = _of_json(data) if _suffix(name) == ".json" else caption_lines(data)
        except ValueError as error:
            skipped.append(Skipped(shown(name), str(error)))
            continue
        if captions:
            return captions
    return ()


def _of_json(data: bytes) -> tuple[str, ...]:
    text = decode_text(data)
    try:
        fields = parse_json(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        return ()
    return clean_captions(fields.get("captions")) or clean_captions([fields.get("caption")])
