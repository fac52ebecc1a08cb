"""Photos in a folder and the folders below it."""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from lexlip.data.captions import Beside, caption_lines
from lexlip.data.files import LEADS_OUT, leads_out, out_of_reach, read_beside, reason_of
from lexlip.data.images import ENDINGS, SUFFIXES
from lexlip.data.source import Item, Skipped, Source, Unlisted
from lexlip.errors import UnreadableImage
from lexlip.words.plain_text import composed, readable, whole

NOT_UTF8 = "the name is not UTF-8"
BESIDE_RAW = (*ENDINGS["JPEG"], *ENDINGS["HEIF"])  # as which cameras and phones write the same photo
MOST_NAMED = 20  # kinds of files that are named with their number

Matches = Callable[[str], bool]
"""Whether patterns match a path below a source; the path of a folder ends with a slash."""

_DATA_FOLDER = re.compile(r"data-[1-9][0-9]*")
_NAMES = (
    *("@eaDir", "#recycle", "#snapshot", "@tmp", "@sharebin"),  # Synology
    *("@Recycle", "@Recently-Snapshot", "@__thumb", "@Transcode", ".@__thumb"),  # QNAP
    *("$RECYCLE.BIN", "RECYCLER", "RECYCLED", "System Volume Information", "FOUND.000"),  # Windows
    *("__MACOSX", "Network Trash Folder", "Temporary Items"),  # macOS
    *("lost+found", "trashbox", "files_trashbin", "files_versions"),  # Linux, Buffalo, Nextcloud
)
_PATTERNS = (
    *map(re.escape, _NAMES),
    r"[^/]+\.lrdata",  # previews of Lightroom
    r"[^/]+\.photoslibrary/resources",  # and of Apple's Photos
    r"[^/]+\.photolibrary/(?:Previews|Thumbnails)",
)
_SYSTEMS = re.compile(rf"(?:^|/)(?:{'|'.join(_PATTERNS)})/", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:^|/)\.")


class Listing(NamedTuple):
    """Files below a folder, as sorted POSIX paths relative to it; `sides` are XMP files.

    `unlisted` are folders that could not be listed, and links that lead to something out of reach. `left` is
    how many files are neither photos nor tars, by what becomes of them, see `lexlip.data.source.LEFT`. `raws`
    are RAW files beside photos, see `also_raw`; they are among those that are left.
    """

    photos: list[str]
    tars: list[str]
    texts: set[str]
    skipped: list[Skipped]
    sides: set[str]
    unlisted: list[Unlisted]
    left: Counter[str] = Counter()  # noqa: RUF012 (nobody changes it)
    raws: Collection[str] = ()


def walk(root: Path, excluded: Matches | None = None, included: Matches | None = None) -> Listing:
    """Return the photos, tars, texts and XMP files below a folder.

    Folders that hold an index are left out, and what `why_left_out` names; nothing is looked at in there. A
    link to a folder is followed, but each folder is visited once, so that loops of links end.
    """
    found = Listing([], [], set(), [], set(), [], Counter())
    kinds: Counter[str] = Counter()
    systems: Counter[str] = Counter()
    folders = [""]
    links: list[str] = []  # visited last, so that a file is named by its real folder if that is below too
    visited = set()
    real_root = os.path.realpath(root)
    while folders or links:
        folder = folders.pop() if folders else links.pop()
        try:
            status = (root / folder).stat()
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(root / folder) as scanned:
                entries = list(scanned)
            if _is_index({entry.name for entry in entries}):
                found.left["index"] += 1
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                fate = _sort_in(entry, name, found, folders, links, excluded, included)
                beside = found.texts if name in found.texts else found.sides
                if name in beside and _is_of_elsewhere(entry, real_root):
                    beside.remove(name)
                    found.skipped.append(Skipped(name, LEADS_OUT))
                    fate = "named"
                found.left[fate] += 1
                if fate == "other":
                    kinds[_suffix(name)] += 1
                elif fate == "system":
                    systems[f"{entry.name}/"] += 1
        except OSError as error:
            found.unlisted.append(Unlisted(folder, reason_of(error)))
            found.left["named"] += 1
    found.skipped.extend(Skipped(place.id or str(root), place.reason) for place in found.unlisted)
    for names in (found.photos, found.tars, found.skipped):
        names.sort()
    del found.left[""]
    if raws := also_raw(found.photos):
        found = found._replace(photos=[name for name in found.photos if name not in raws], raws=raws)
        found.left["beside"] += len(raws)
    _tell_beside(found, kinds)
    of_systems = "folders of thumbnails and deleted files, which --include takes"
    for what, numbers in (("files of other kinds", kinds), (of_systems, systems)):
        if numbers.total():
            found.skipped.append(Skipped(".", f"{what}: {_named(numbers)}"))
    return found


def why_left_out(path: str, included: Matches | None = None) -> str:
    """Return "hidden" or "system" for a path that is left out, or lies below one that is; else "".

    The path is below the source; that of a folder ends with a slash. What is `included` is taken anyway.
    """
    why = "hidden" if _HIDDEN.search(path) else "system" if _SYSTEMS.search(path) else ""
    return "" if why and included is not None and included(path) else why


def also_raw(photos: Collection[str]) -> set[str]:
    """Return the RAW files beside which the same photo lies as a JPEG or HEIC: IMG_1.CR2 beside IMG_1.JPG."""
    raws = {name: _stem(name) for name in photos if _suffix(name) in ENDINGS["RAW"]}
    if not raws:
        return set()
    others = {_stem(name) for name in photos if _suffix(name) in BESIDE_RAW}
    return {name for name, stem in raws.items() if stem in others}


def _tell_beside(found: Listing, kinds: Counter[str]) -> None:
    """Count the texts and XMP files that are beside a photo, though it may be unusable, and the others."""
    if not (found.texts or found.sides):
        return
    skipped = (skip.id for skip in found.skipped)
    photos = {composed(name) for name in (*found.photos, *found.raws, *skipped)}
    stems = photos.union(photo.rpartition(".")[0] for photo in photos)
    for name in (*found.texts, *found.sides):
        beside = composed(name.rpartition(".")[0]) in stems
        found.left["beside" if beside else "other"] += 1
        kinds[_suffix(name)] += not beside


def _is_of_elsewhere(entry: os.DirEntry[str], real_root: str) -> bool:
    """Return whether a file beside a photo is a link to a file elsewhere."""
    return entry.is_symlink() and leads_out(entry.path, os.path.realpath(entry.path), [real_root])


def holds_index(folder: Path) -> bool:
    """Return whether a folder holds an index, whose files and thumbnails are no photos to search."""
    try:
        return _is_index(set(os.listdir(folder)))  # noqa: PTH208
    except OSError:
        return False


def _named(numbers: Counter[str]) -> str:
    """Return in words how many there are of each name; of many names the rarest in one number."""
    ordered = sorted((-number, name) for name, number in numbers.items() if number)
    named = [f"{-number} {name or 'without a suffix'}" for number, name in ordered[:MOST_NAMED]]
    rest = -sum(number for number, _ in ordered[MOST_NAMED:])
    return ", ".join([*named, f"{rest} others"] if rest else named)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 (a Path per file is slow)


def _stem(name: str) -> str:
    """Return a name without its suffix, composed."""
    return composed(name.rpartition(".")[0])


def _is_index(names: set[str]) -> bool:
    return "index.json" in names and any(map(_DATA_FOLDER.fullmatch, names))


def _sort_in(
    entry: os.DirEntry[str],
    name: str,
    found: Listing,
    folders: list[str],
    links: list[str],
    excluded: Matches | None,
    included: Matches | None,
) -> str:
    """Return what becomes of an entry, see `lexlip.data.source.LEFT`; "" is listed, "other" is not taken."""
    suffix = _suffix(entry.name)
    kind, unlisted = _kind(entry, suffix)
    path = f"{name}/" if kind == "folder" or unlisted else name
    if fate := why_left_out(path, included):
        return fate
    if excluded is not None and excluded(path):
        return "excluded"
    if not is_utf8(name):
        if kind != "folder" and suffix not in SUFFIXES:
            return "other"
        found.skipped.append(Skipped(shown(name), NOT_UTF8))
        return "named"
    if unlisted:
        found.unlisted.append(Unlisted(name, unlisted, 1 if suffix in SUFFIXES else None))
        return "named"
    if kind == "folder":
        (links if entry.is_symlink() else folders).append(name)
    elif kind != "file":
        if suffix not in (*SUFFIXES, ".tar"):
            return "other"
        found.skipped.append(Skipped(name, kind))
        return "named"
    elif suffix in SUFFIXES:
        found.photos.append(name)
    elif suffix == ".tar":
        found.tars.append(name)
    elif suffix == ".txt":
        found.texts.add(name)
    elif suffix == ".xmp":
        found.sides.add(name)
    else:
        return "other"
    return ""


def _kind(entry: os.DirEntry[str], suffix: str) -> tuple[str, str]:
    """Return what an entry is: "folder", "file", or what to say of another one; and why it is out of reach.

    A link may lead to what cannot be looked at, or to itself. If it leads to nothing it may have been a
    folder or a tar of a disk that is not mounted now; but if a photo is gone, its link is one photo less.
    """
    try:
        if entry.is_dir():
            return "folder", ""
        if entry.is_file():
            return "file", ""
        if not entry.is_symlink() or entry.stat():
            return "not a file", ""
    except OSError as error:
        if out_of_reach(error):
            return "", reason_of(error)
    lost = suffix not in (*SUFFIXES, ".txt", ".xmp")
    return "a link to nothing", "a link to nothing" if lost else ""


def shown(name: str) -> str:
    """Return a name that is not UTF-8 with its bytes as escapes."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no file can have it
        return readable(name)


def is_utf8(name: str) -> bool:
    """Return whether a name can be stored."""
    return whole(name) == name


class FolderSource(Source):
    """Photos below a folder, with files beside them: what `walk` has listed.

    `NAME.txt` beside a photo holds its captions, one per line; `NAME.xmp` or `NAME.jpg.xmp` what photo
    programs write about it. If a RAW file is the same photo, so does `NAME.cr2.xmp`. The id of a photo is its
    path relative to the folder.
    """

    def __init__(self, root: Path, listing: Listing, name: str) -> None:
        self.name = name
        self.root = root.absolute()
        self.roots = [str(self.root)]
        self.skipped, self.unlisted = list(listing.skipped), listing.unlisted
        self.left = listing.left + Counter(named=len(listing.tars))
        self.skipped += [
            Skipped(tar, "a tar among photos: give it by itself to read it") for tar in listing.tars
        ]
        texts = Beside(listing.texts)
        self.items = [Item(photo, self._captions(photo, texts)) for photo in listing.photos]
        self._sides = Beside(listing.sides)
        self._raws: dict[str, list[str]] = {}
        for raw in sorted(listing.raws):
            self._raws.setdefault(_stem(raw), []).append(raw)

    def _captions(self, photo: str, texts: Beside) -> tuple[str, ...]:
        text = texts.find(photo.rpartition(".")[0], ".txt")
        if text is None:
            return ()
        try:
            return caption_lines(read_beside(f"{self.root}/{text}", self.real_roots))
        except (UnreadableImage, ValueError) as error:
            self.skipped.append(Skipped(text, getattr(error, "reason", str(error))))
            return ()

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"

    def sides(self, index: int) -> Sequence[str]:
        photo = self.items[index].id
        raws = self._raws.get(_stem(photo), ()) if _suffix(photo) in BESIDE_RAW else ()
        stems = (photo, *raws, photo.rpartition(".")[0])
        found = (self._sides.find(stem, ".xmp") for stem in stems)
        return [f"{self.root}/{name}" for name in found if name is not None]
