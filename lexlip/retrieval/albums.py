"""Albums: lists of photos that people make of an index, in files that other programs can read.

::

    DIR/albums/NAME.txt      ids of photos in UTF-8, one a line

What updates an index lets them follow photos that have moved, and else leaves them as they are. An id that
the index does not hold, or no longer, stays in its album, and is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from anserini_bridge.storage import atomic_write, remove
from lexlip.data.files import read_file
from lexlip.errors import DataError, UnreadableImage, writing
from lexlip.words.file_names import file_name, same_name
from lexlip.words.plain_text import composed, readable

FOLDER = "albums"  # in the index's folder
LONGEST = 48  # characters of a name

_ENDING = ".txt"
_LARGEST = 2**27  # bytes of a file
_NAMED = 10  # albums, in place of one that there is not
_PATIENCE = 10.0  # seconds to wait for another writer


def check_name(name: str) -> str:
    """Return the name of an album in Unicode's NFC; DataError: not every system can have such a file."""
    name = composed(name)
    if not 0 < len(name) <= LONGEST:
        raise DataError(f"the name of an album has 1 to {LONGEST} characters, not {len(name):,}")
    if file_name(f"{name}{_ENDING}") != f"{name}{_ENDING}" or name.strip(" .") != name:
        raise DataError(
            f"'{readable(name)}' is no name for an album: give letters, digits, and signs other than"
            ' < > : " / \\ | ? *'
        )
    return name


def check_ids(ids: Iterable[str]) -> list[str]:
    """Return the ids of photos, each once; DataError: an album, which is lines of ids, cannot hold one."""
    ids = list(dict.fromkeys(ids))
    if broken := next((id for id in ids if not _can_hold(id)), None):
        raise DataError(f"'{readable(broken)}' has an end of line in its name: no album can hold it")
    return ids


def without_broken(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the ids that an album can hold, and the others; if it can hold none, `Albums.change` says so."""
    ids = list(ids)
    fine = list(filter(_can_hold, ids))
    return (fine, [id for id in ids if not _can_hold(id)]) if fine else (ids, [])


def _can_hold(id: str) -> bool:
    return not {"\n", "\r"}.intersection(id)


def no_album(name: str, albums: Sequence[str]) -> DataError:
    """Return the error to raise if there is none of this name, given the names of those that there are."""
    more = f" and {len(albums) - _NAMED:,} more" if len(albums) > _NAMED else ""
    known = f"albums are {', '.join(map(readable, albums[:_NAMED]))}{more}" if albums else "there is none yet"
    return DataError(f"there is no album '{readable(name)}'; {known}")


class Albums:
    """The albums of an index; processes and threads may change them at the same time.

    Names that differ in capitals alone are one.
    """

    def __init__(self, index: str | Path) -> None:
        self.folder = Path(index) / FOLDER

    def names(self) -> list[str]:
        """Return the names of all albums."""
        return sorted(self._files())

    def ids(self, name: str) -> list[str]:
        """Return the ids of an album, each once, in the order in which they were added.

        Raises:
            DataError: there is no such album, or it cannot be read; or the name is none.
        """
        wanted, files = same_name(check_name(name)), self._files()
        file = next((file for one, file in files.items() if same_name(one) == wanted), None)
        if file is None:
            raise no_album(name, sorted(files))
        return _read(file)

    def all(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the name and the ids of each album, see `ids`; those that cannot be read are passed over."""
        for name, file in sorted(self._files().items()):
            with suppress(DataError):
                yield name, _read(file)

    def holding(self, id: str) -> list[str]:
        """Return the names of the albums that a photo is in; those that cannot be read are passed over."""
        return [name for name, ids in self.all() if id in ids]

    def change(self, name: str, add: Iterable[str] = (), remove_ids: Iterable[str] = ()) -> int:
        """Add photos to an album, which is made if there is none, and take others out; the last ends it.

        Returns:
            How many were added that were not in it.

        Raises:
            DataError: the name, or an id, cannot be that of an album; or it cannot be written.
        """
        name, add, gone = check_name(name), check_ids(add), set(remove_ids)
        with self._changing(name) as file:
            before = _read(file) if file.exists() else []
            after = [id for id in dict.fromkeys([*before, *add]) if id not in gone]
            if not after:
                remove(file)
            elif after != before:
                with atomic_write(file) as written:
                    written.write("".join(f"{id}\n" for id in after))
        return len(set(after) - set(before))

    @contextmanager
    def following(self, moved: Mapping[str, str]) -> Iterator[None]:
        """Let albums follow photos that have moved, while an index gets their new ids.

        Meanwhile albums hold both ids: if that is interrupted, no album has lost a photo. What cannot be
        changed stays.

        Args:
            moved: their new ids by the former ones.
        """
        held = []
        for name, ids in self.all() if moved else ():
            if former := [id for id in ids if _can_hold(moved.get(id, "\n"))]:
                new = [moved[id] for id in former]
                held.append((name, new, [id for id in former if id not in new]))  # files may be renumbered
        for name, new, _ in held:
            with suppress(DataError):
                self.change(name, new)
        yield
        for name, new, former in held:
            with suppress(DataError):
                self.change(name, new, former)

    @contextmanager
    def _changing(self, name: str) -> Iterator[Path]:
        """Give the file of an album, there or not, which nobody else writes meanwhile."""
        from filelock import FileLock, Timeout  # takes some time; who searches writes no album

        with writing(f"the album {readable(name)}"):
            if self.folder.is_symlink():  # a stranger's index may lead to any folder
                raise DataError(f"{self.folder} is a link, so albums there are not changed: make it a folder")
            self.folder.mkdir(exist_ok=True)
            try:
                with FileLock(self.folder / ".lock", timeout=_PATIENCE):
                    found = {same_name(one): file for one, file in self._files().items()}
                    yield found.get(same_name(name), self.folder / f"{name}{_ENDING}")
            except Timeout:
                raise DataError("another process writes albums of this index: try again") from None

    def _files(self) -> dict[str, Path]:
        """Return the files of all albums by name; of names that are one, the first."""
        found: dict[str, tuple[str, Path]] = {}
        with suppress(OSError):
            for file in sorted(self.folder.iterdir()):
                if file.suffix == _ENDING:
                    with suppress(DataError):  # not an album
                        name = check_name(file.stem)
                        found.setdefault(same_name(name), (name, file))
        return dict(found.values())


def _read(file: Path) -> list[str]:
    """Return the lines of a file; an editor may have marked it, or ended lines, as Windows does."""
    try:
        text = read_file(file, most=_LARGEST).decode("utf-8-sig")
    except UnreadableImage as error:
        raise DataError(f"the album {file} cannot be read: {error.reason}") from None
    except UnicodeDecodeError:
        raise DataError(f"the album {file} is not UTF-8: write it anew") from None
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return list(dict.fromkeys(filter(None, lines)))
