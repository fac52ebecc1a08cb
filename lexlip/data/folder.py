"""Photos in a folder and the folders below it."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from lexlip.data.captions import Beside, caption_lines
from lexlip.data.files import LEADS_OUT, leads_out, out_of_reach, read_beside, reason_of
from lexlip.data.images import ENDINGS, SUFFIXES
from lexlip.data.source import Item, Skipped, Source, Unlisted
from lexlip.data.takeout import is_titled, key_of_json, keys_of_photo
from lexlip.errors import DataError, UnreadableImage
from lexlip.words.plain_text import composed, readable, whole

NOT_UTF8 = "the name is not UTF-8"
BESIDE_RAW = (*ENDINGS["JPEG"], *ENDINGS["HEIF"])  # as which cameras and phones write the same photo
_OF_PHONES = (".mov", ".mp4", ".aae")  # of Live Photos the film, and how a photo was edited
_EDITS = (
    "edited",
    "bearbeitet",
    "bewerkt",
    "modifié",
    "modificato",
    "ha editado",
    "editat",
    "edytowane",
    "編集済み",
)
"""How Google Photos calls an edited copy, in the language of its user."""
_EDITED = re.compile(
    rf"(?:(?<=\AIMG_)|(?<=/IMG_))E(?=\d{{4}}\Z)|(?<=[^/])-(?:{'|'.join(_EDITS)})(?=(?:\(\d+\))?\Z)"
)
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
    """Files below a folder, as sorted POSIX paths relative to it; `sides` are XMP files, and all JSON files.

    `unlisted` are folders that could not be listed, and links that lead to something out of reach. `left` is
    how many files are neither photos nor tars, by what becomes of them, see `lexlip.data.source.LEFT`. `same`
    are files of the same photo as one that is listed, see `same_photos`; they are among those that are left.
    """

    photos: list[str]
    tars: list[str]
    texts: set[str]
    skipped: list[Skipped]
    sides: set[str]
    unlisted: list[Unlisted]
    left: Counter[str] = Counter()  # noqa: RUF012 (nobody changes it)
    same: Mapping[str, str] = {}


def walk(
    root: Path,
    excluded: Matches | None = None,
    included: Matches | None = None,
    damaged: Collection[str] = (),
) -> Listing:
    """Return the photos, tars, texts, XMP and JSON files below a folder.

    Photos whose absolute paths are among the `damaged` stand for no other file of the same photo.

    Folders that hold an index are left out, and what `why_left_out` names; nothing is looked at in there. A
    link to a folder is followed, but each folder is visited once, so that loops of links end.
    """
    found = Listing([], [], set(), [], set(), [], Counter())
    kinds: Counter[str] = Counter()
    systems: Counter[str] = Counter()
    of_phones: list[str] = []
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
                if name in beside and not _is_json(name) and _is_of_elsewhere(entry, real_root):
                    beside.remove(name)
                    found.skipped.append(Skipped(name, LEADS_OUT))
                    fate = "named"
                if fate == "other" and _suffix(name) in _OF_PHONES:
                    of_phones.append(name)
                    fate = ""  # until all photos are known
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
    above = f"{root.absolute()}/"
    usable = [name for name in found.photos if above + name not in damaged] if damaged else found.photos
    if same := same_photos(usable):
        found = found._replace(photos=[name for name in found.photos if name not in same], same=same)
        found.left["beside"] += len(same)
    _tell_beside(found, of_phones, kinds)
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


def same_photos(photos: Collection[str]) -> dict[str, str]:
    """Return the files that show the same photo as another one, and that: the one that people look at.

    A RAW file is the same photo as its JPEG or HEIC (IMG_1.CR2 and IMG_1.JPG), and what a phone has taken as
    its edited copy (IMG_1234.HEIC and IMG_E1234.JPG of iPhones; a.jpg and a-edited.jpg of Google Photos).
    """
    shown: dict[str, str] = {}
    if raws := [name for name in photos if _suffix(name) in ENDINGS["RAW"]]:
        developed = {_stem(name): name for name in photos if _suffix(name) in BESIDE_RAW}
        shown.update((raw, developed[_stem(raw)]) for raw in raws if _stem(raw) in developed)
    maybe = (name for name in photos if _may_be_edited(name))
    if edited := {original: name for name in maybe if (original := _original(name))}:
        shown.update((name, edited[_stem(name)]) for name in photos if _stem(name) in edited)
    return {name: shown.get(other, other) for name, other in shown.items()}


def _may_be_edited(name: str) -> bool:
    """Return whether to look closer at a name: half a million are told apart in a moment."""
    phone = "IMG_E" in name or "-ed" in name or "-be" in name
    return phone or "-mod" in name or "-ha ed" in name or "-編" in name


def _original(name: str) -> str:
    """Return the name, without a suffix, of what a photo is an edited copy of; "" if it is none."""
    original, edits = _EDITED.subn("", _stem(name))
    return original if edits else ""


def _called(photo: str) -> Iterator[str]:
    """Yield how Google Takeout may call a photo; an edited copy is called as its original."""
    yield photo
    if _may_be_edited(photo) and (original := _original(photo)):
        yield f"{original}.{photo.rpartition('.')[2]}"


def _takeout_keys(photo: str, folders: Collection[str]) -> Iterator[str]:
    """Yield by what a photo's JSON file of Google Takeout is found.

    There is none in other folders than these, which hold JSON files.
    """
    if composed(photo).rpartition("/")[0] in folders:
        for name in _called(photo):
            yield from keys_of_photo(name)


def _folders(names: Iterable[str]) -> set[str]:
    return {name.rpartition("/")[0] for name in names}


def _tell_beside(found: Listing, of_phones: Sequence[str], kinds: Counter[str]) -> None:
    """Count the files that are beside a photo, though it may be unusable, and the others.

    They are texts, XMP files, JSON files of Google Takeout, and what phones store beside photos.
    """
    files = (*found.texts, *found.sides, *of_phones)
    if not files:
        return
    skipped = (skip.id for skip in found.skipped)
    photos = {composed(name) for name in (*found.photos, *found.same, *skipped)}
    stems = photos.union(photo.rpartition(".")[0] for photo in photos)
    wanted = {key_of_json(name) for name in found.sides if _is_json(name)}
    folders = _folders(wanted)
    keys = (
        {key for photo in photos for key in _takeout_keys(photo, folders) if key in wanted} if wanted else ()
    )
    for name in files:
        beside = key_of_json(name) in keys if _is_json(name) else _stem(name) in stems
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


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")


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
    if not name.isascii() and (kind == "folder" or suffix in SUFFIXES):
        _check_encoding(name)
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
    elif suffix in (".xmp", ".json"):
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
    lost = suffix not in (*SUFFIXES, ".txt", ".xmp", ".json")
    return "a link to nothing", "a link to nothing" if lost else ""


def shown(name: str) -> str:
    """Return a name that is not UTF-8 with its bytes as escapes."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no file can have it
        return readable(name)


def _check_encoding(name: str) -> None:
    """Raise DataError if Python does not take names as UTF-8: an update would lose all those photos."""
    if (encoding := sys.getfilesystemencoding()) != "utf-8":
        raise DataError(
            f"Python takes names as {encoding} here, and {shown(name)} is none: set PYTHONUTF8=1, or a locale"
            " of UTF-8, such as LC_ALL=C.UTF-8"
        )


def is_utf8(name: str) -> bool:
    """Return whether a name can be stored."""
    return whole(name) == name


class FolderSource(Source):
    """Photos below a folder, with files beside them: what `walk` has listed.

    `NAME.txt` beside a photo holds its captions, one per line; `NAME.xmp` or `NAME.jpg.xmp` what photo
    programs write about it; JSON files of Google Takeout are told by their content, too. Those of files that
    are the same photo come after its own (`NAME.cr2.xmp`). The id of a photo is its path relative to the
    folder.
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
        self._same: dict[str, list[str]] = {}
        for name, photo in sorted(listing.same.items()):
            self._same.setdefault(photo, []).append(name)
        texts = Beside(listing.texts)
        self.items = [Item(photo, self._captions(photo, texts)) for photo in listing.photos]
        self._sides = Beside(name for name in listing.sides if not _is_json(name))
        self._takeout = {key_of_json(name): name for name in sorted(listing.sides) if _is_json(name)}
        self._with_json = _folders(self._takeout)

    def _names(self, photo: str) -> dict[str, list[str]]:
        """Return by names without suffix those of a photo and of the files that are the same one."""
        names: dict[str, list[str]] = {}
        for name in (photo, *self._same.get(photo, ())):
            names.setdefault(name.rpartition(".")[0], []).append(name)
        return names

    def _captions(self, photo: str, texts: Beside) -> tuple[str, ...]:
        text = next(filter(None, (texts.find(stem, ".txt") for stem in self._names(photo))), None)
        if text is None:
            return ()
        try:
            return caption_lines(read_beside(f"{self.root}/{text}", self.real_roots))
        except (UnreadableImage, ValueError) as error:
            self.skipped.append(Skipped(text, getattr(error, "reason", str(error))))
            return ()

    def path(self, index: int) -> str:
        return f"{self.root}/{self.items[index].id}"

    def same(self, index: int) -> Sequence[str]:
        return self._same.get(self.items[index].id, ())

    def sides(self, index: int) -> Sequence[str]:
        names = self._names(self.items[index].id)
        stems = (stem for without, those in names.items() for stem in (*those, without))
        found = dict.fromkeys(self._sides.find(stem, ".xmp") for stem in stems)
        if self._takeout:
            photos = chain.from_iterable(names.values())
            keys = (key for photo in photos for key in _takeout_keys(photo, self._with_json))
            found.update(dict.fromkeys(map(self._takeout.get, keys)))
        return [f"{self.root}/{name}" for name in found if name is not None]

    def _is_titled(self, index: int, path: str, title: str) -> bool:
        photos = chain.from_iterable(self._names(self.items[index].id).values())
        return any(is_titled(path, title, name) for photo in photos for name in _called(photo))
