"""Photos in tars, as img2dataset and webdataset write them: KEY.jpg, KEY.txt, KEY.json.

They are listed by the tars' headers, by several processes, kept in little memory, and read in place.

The lists of large tars are kept in $XDG_CACHE_HOME/lexlip/shards (~/.cache/lexlip/shards), so that the next
start does not walk through the tars again: one file for each tar, which may be deleted at any time. A list is
valid only for a tar with the same path, size and times of modification and change.
"""

from __future__ import annotations

import glob
import hashlib
import json
import multiprocessing
import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from anserini_bridge.given_files import parse_json
from lexlip.data.captions import Beside, caption_lines, clean_captions, decode_text
from lexlip.data.files import LARGEST_CAPTIONS, Place, cache_folder, open_file, reason_of
from lexlip.data.folder import NOT_UTF8, is_utf8, same_photos, shown
from lexlip.data.images import SUFFIXES
from lexlip.data.source import Item, LazyItems, Skipped, Source, Unlisted
from lexlip.data.tar_headers import Member, contents
from lexlip.errors import DataError, UnreadableImage
from lexlip.machine.output_files import replacing
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import cores, worker_context
from lexlip.words.plain_text import composed

VERSION = 4  # of the lists; tars with a list of another version are listed again
FEWEST = 1000  # photos of a tar whose list is kept
LITTLE = 1 << 28  # bytes of tars for which starting processes costs more than it saves
_bar = partial(ProgressBar, unit="tar", delay=2)  # seconds after which it is shown
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
        last = np.frombuffer(self.texts, dtype=np.uint8)[self.ends - 1]
        return np.flatnonzero(last)  # without captions a text ends with the zero byte


def list_shard(path: str | Path) -> Shard:
    """Return the photos of a tar, with `captions` (a list) or `caption` of KEY.json, or the lines of KEY.txt.

    What cannot be read is reported in `skipped`. So is damage; the photos before it are kept. Of two files
    with the same name the later one counts, as for tar. Of files of the same photo one is kept. OSError: the
    tar cannot be read. UnreadableImage: it is no file.
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
        for name in same_photos(photos):
            del photos[name]
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


def list_shards(paths: Sequence[str]) -> list[Shard]:
    """Return the photos of each tar, none of an unreadable one; DataError: a listing process was killed."""
    shards = {path: load(path) for path in _bar(paths, "reading lists of tars")}
    missing = [path for path, shard in shards.items() if shard is None]
    shards.update(zip(missing, _bar(_list(missing), "listing tars", len(missing)), strict=True))
    return [shard for path in paths if (shard := shards[path]) is not None]


def _list(paths: Sequence[str]) -> Iterator[Shard]:
    workers = min(cores(), len(paths))
    # daemons, such as the workers of a DataLoader, must not start processes
    if workers < 2 or multiprocessing.current_process().daemon or sum(map(_size, paths)) < LITTLE:
        yield from map(_list_and_keep, paths)
        return
    pool = ProcessPoolExecutor(workers, worker_context(), _leave_signals)
    try:
        yield from pool.map(_list_and_keep, paths)
    except BrokenProcessPool as error:
        raise DataError(
            "a process that listed tars was killed, or could not start: is there enough memory?"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_signals() -> None:
    """Let Ctrl-C end the command alone, which ends its processes, and SIGTERM a process in silence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _list_and_keep(path: str) -> Shard:
    try:
        key = key_of(path)  # before the listing: a tar that grows meanwhile is listed again
        shard = list_shard(path)
    except (OSError, UnreadableImage) as error:
        why = error.reason if isinstance(error, UnreadableImage) else reason_of(error)
        nothing = np.empty(0, dtype=np.int64)
        return Shard(b"", nothing, nothing, nothing, [Skipped("", why)])
    save(path, key, shard)
    return shard


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def key_of(path: str | Path) -> str:
    """Return what a list depends on: path, size and times of the tar; OSError: there is no such tar."""
    status = os.stat(path)  # noqa: PTH116
    state = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return json.dumps([VERSION, os.path.abspath(path), *state])  # noqa: PTH100


def load(path: str | Path) -> Shard | None:
    """Return the list of a tar; None if there is none, or if it is damaged or out of date."""
    try:
        with _file(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if arrays["key"].tobytes().decode() != key_of(path):
                return None
            skipped = [Skipped(*skip) for skip in json.loads(arrays["skipped"].tobytes())]
            return Shard(
                arrays["texts"].tobytes(), arrays["ends"], arrays["offsets"], arrays["sizes"], skipped
            )
    except Exception:  # a damaged file raises nearly anything; zip's checksums reveal all damage
        return None


def save(path: str | Path, key: str, shard: Shard) -> None:
    """Keep the list of a tar, given the tar's key before it was listed; do nothing if that is impossible."""
    if len(shard) < FEWEST:
        return
    texts = {"key": key.encode(), "texts": shard.texts, "skipped": json.dumps(shard.skipped).encode()}
    arrays = {name: np.frombuffer(text, dtype=np.uint8) for name, text in texts.items()}
    arrays |= {"ends": shard.ends, "offsets": shard.offsets, "sizes": shard.sizes}
    with suppress(OSError):
        file = _file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary, temporary.open("wb") as opened:
            np.savez(opened, **arrays)  # type: ignore[arg-type]


def _file(path: str | Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.abspath(path))).hexdigest()[:32]  # noqa: PTH100
    return cache_folder() / "shards" / f"{name}.npz"


MOST_TARS = 100_000  # that a pattern names


class WebDatasetSource(Source):
    """Photos in tars, listed once by the tars' headers and then read in place; nothing is unpacked.

    For captions see `list_shard`. The id of a photo is `SHARD.tar/KEY.jpg`, relative to the folder that holds
    all the tars; or to `root`, if these are not all. DataError: there is no photo in any of them.
    """

    def __init__(
        self, tars: Sequence[Path], name: str, may_be_empty: bool = False, root: str | None = None
    ) -> None:
        self.name = name
        self.tars = [str(tar.absolute()) for tar in tars]
        self.root = root or folder_of(tars)
        self.roots = [self.root]
        self._shards = list_shards(self.tars)
        names = [os.path.relpath(tar, self.root) for tar in self.tars]
        self.items = self._photos = LazyItems(self._shards, [f"{name}/" for name in names])
        skips = [
            (name, skip) for name, shard in zip(names, self._shards, strict=True) for skip in shard.skipped
        ]
        self.skipped = [
            Skipped(f"{name}/{skip.id}" if skip.id else name, skip.reason) for name, skip in skips
        ]
        self.unlisted = [Unlisted(name, skip.reason) for name, skip in skips if not skip.id]
        if not self.items and not may_be_empty:
            why = f" ({self.skipped[0].id}: {self.skipped[0].reason})" if self.skipped else ""
            raise DataError(f"no photos in the tars of {name}{why}")

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"

    def place(self, index: int) -> Place:
        number, within = self._photos.locate(index)
        shard = self._shards[number]
        return Place(self.tars[number], int(shard.offsets[within]), int(shard.sizes[within]))

    def captioned(self) -> np.ndarray:
        return self._photos.captioned()


def folder_of(tars: Sequence[Path]) -> str:
    return os.path.commonpath([str(tar.absolute().parent) for tar in tars])


def match_tars(pattern: str) -> list[Path]:
    """Return the tars that match a pattern, in order; braces hold a range or a list: {000..012}, {train,val}.

    DataError: there is none, or some that the braces name are missing.
    """
    paths: dict[Path, None] = {}
    missing = []
    names = list(islice(expand_braces(pattern), MOST_TARS + 1))
    if len(names) > MOST_TARS:
        raise DataError(f"{pattern} names too many tars: name at most {MOST_TARS:,}")
    for name in names:
        found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (a pattern may be absolute)
        if not found and not glob.has_magic(name):
            missing.append(name)
        paths.update((Path(path), None) for path in found if path.lower().endswith(".tar"))
    if len(missing) == 1:
        by = "" if missing == names else f" (named by {pattern})"
        raise DataError(f"{missing[0]} does not exist{by}")
    if missing:
        first = ", ".join(os.path.basename(name) for name in missing[:5])  # noqa: PTH119
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise DataError(f"{len(missing)} of the tars that {pattern} names do not exist: {first}{more}")
    if not paths:
        raise DataError(f"no tar matches {pattern}")
    return list(paths)


def expand_braces(pattern: str) -> Iterator[str]:
    """Yield the names of a pattern with braces: a-{08..10} gives a-08, a-09 and a-10."""
    brace = re.search(r"\{([^{}]*)\}", pattern)
    if brace is None:
        yield pattern
        return
    bounds = re.fullmatch(r"(\d{1,99})\.\.(\d{1,99})", brace[1])
    choices: Iterable[str]
    if bounds:
        width = len(bounds[1]) if bounds[1].startswith("0") else 0
        choices = (f"{number:0{width}}" for number in range(int(bounds[1]), int(bounds[2]) + 1))
    else:
        choices = brace[1].split(",")
    for choice in choices:
        yield from expand_braces(pattern[: brace.start()] + choice + pattern[brace.end() :])
