"""Convert COCO or Flickr30k, as downloaded, to tars for each of Karpathy's splits.

    python tools/prepare_karpathy.py coco ~/Downloads data/coco
    python tools/prepare_karpathy.py flickr30k ~/Downloads data/flickr30k

Archives are read as they are; nothing is unpacked. See docs/data.md.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import click
from tqdm import tqdm

from downloads import DAMAGE, checksum, preparing, read_checksums, reading, verify_checksums, write_checksums
from lexlip.data.captions import clean_captions, split_name
from lexlip.data.tar_headers import members
from lexlip.errors import DataError

CAPTIONS = "caption_datasets.zip"  # as downloaded, with the split files of all data sets
SUMS = "SHA256SUMS"


class DataSet(NamedTuple):
    """What is downloaded, and how many photos each of Karpathy's splits has."""

    archives: tuple[str, ...]
    page: str
    counts: dict[str, int]


DATA_SETS = {
    "coco": DataSet(
        ("train2014.zip", "val2014.zip"),
        "https://cocodataset.org/#download",
        {"train": 113_287, "val": 5_000, "test": 5_000},
    ),
    "flickr30k": DataSet(
        ("flickr30k-images.tar.gz",),
        "https://shannon.cs.illinois.edu/DenotationGraph/",
        {"train": 29_000, "val": 1_014, "test": 1_000},
    ),
}


class Photo(NamedTuple):
    """One photo of a split file."""

    filename: str
    split: str
    captions: tuple[str, ...]
    id: object  # cocoid if there is one, otherwise imgid

    @property
    def key(self) -> str:
        return PurePosixPath(self.filename).stem


def prepare(name: str, downloads: Path, output: Path, checksums: Path | None, per_tar: int) -> dict[str, int]:
    """Write SPLIT-NNNN.tar and SHA256SUMS to `output`; complete tars of an earlier run are kept.

    Returns:
        The number of photos of each split.

    Raises:
        DataError: a download is missing, damaged or not the expected one, or `output` holds other tars.
        OSError: `output` cannot be written.
    """
    data_set = DATA_SETS[name]
    archives = [_download(downloads / archive, data_set.page) for archive in data_set.archives]
    split_file = downloads / f"dataset_{name}.json"
    if not split_file.is_file():
        page = "https://cs.stanford.edu/people/karpathy/deepimagesent/"
        split_file = _download(downloads / CAPTIONS, page)
    if checksums is not None:
        verify_checksums([*archives, split_file], checksums)
    photos = _read_split_file(split_file, f"dataset_{name}.json")
    counts = Counter(photo.split for photo in photos.values())
    if counts != data_set.counts:
        raise DataError(f"{split_file} has {dict(counts)} photos, Karpathy's has {data_set.counts}")
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        sums = Sums(output / SUMS)
        writers = {split: stack.enter_context(SplitWriter(output, split, per_tar, sums)) for split in counts}
        bar = stack.enter_context(tqdm(total=len(photos), desc=name, unit="photo", disable=None, delay=2))
        for archive in archives:
            try:
                for filename, read in _contents(archive):
                    photo = photos.pop(filename, None)
                    if photo is not None:
                        writers[photo.split].add(photo, read)
                        bar.update()
            except (gzip.BadGzipFile, *DAMAGE) as error:
                if archive.suffix != ".zip":  # the CRC comes last: the tars written so far count no more
                    sums.clear()
                raise DataError(f"{archive} is damaged: {error}; download it again") from error
        if photos:
            raise DataError(
                f"{len(photos)} photos that {split_file.name} names are not in"
                f" {', '.join(data_set.archives)} (the first is {next(iter(photos))})"
            )
        written = {tar for writer in writers.values() for tar in writer.close()}
    if others := sums.names() - written:
        raise DataError(
            f"{output} holds other tars, such as {min(others)}: remove them, or name a new folder"
        )
    return dict(counts)


def _download(path: Path, page: str) -> Path:
    if not path.is_file():
        raise DataError(f"{path} does not exist: download {path.name} from {page}")
    return path


def _read_split_file(path: Path, name: str) -> dict[str, Photo]:
    """Return the photos of Karpathy's split file, by file name; the file may be in a zip."""
    with reading(path, "does not hold a split file of Karpathy's"):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                inside = next((n for n in archive.namelist() if PurePosixPath(n).name == name), None)
                if inside is None:
                    raise DataError(f"{path} has no {name}")
                content = archive.read(inside)
        else:
            content = path.read_bytes()
        photos = [_photo(image) for image in json.loads(content)["images"]]
    return {photo.filename: photo for photo in photos}


def _photo(image: dict[str, Any]) -> Photo:
    captions = clean_captions([sentence["raw"] for sentence in image["sentences"]])
    id = image.get("cocoid", image.get("imgid"))
    return Photo(image["filename"], split_name(image["split"]), captions, id)


class Sums:
    """The checksums of the complete tars, written after each tar."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sums = read_checksums(path) if path.exists() else {}

    def names(self) -> set[str]:
        return set(self._sums)

    def holds(self, tar: Path) -> bool:
        return tar.is_file() and self._sums.get(tar.name) == checksum(tar)

    def add(self, tar: Path) -> None:
        self._sums[tar.name] = checksum(tar)
        write_checksums(self.path, self._sums)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


class SplitWriter:
    """Writes the photos of a split to tars of `per_tar` photos, with KEY.jpg, KEY.txt and KEY.json each.

    A tar gets its name when it is complete; one that is complete already is not written again.
    """

    def __init__(self, output: Path, split: str, per_tar: int, sums: Sums) -> None:
        self.output, self.split, self.per_tar, self.sums = output, split, per_tar, sums
        self.count = 0
        self.written: list[str] = []
        self._tar: tarfile.TarFile | None = None
        self._kept: set[str] = set()  # keys of the tar that is complete already

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._tar is not None:  # not complete
            try:
                self._tar.close()
            finally:
                self._partial.unlink(missing_ok=True)

    def add(self, photo: Photo, read: Callable[[], bytes]) -> None:
        """Write one photo; `read` is called only if its tar is not complete yet.

        Raises:
            DataError: the photo cannot be read.
        """
        if self.count % self.per_tar == 0:
            self._begin()
        self.count += 1
        if self._tar is not None:
            fields = {"captions": photo.captions, "filename": photo.filename, "id": photo.id}
            self._write(photo.filename, read())
            self._write(f"{photo.key}.txt", "".join(f"{c}\n" for c in photo.captions).encode())
            self._write(f"{photo.key}.json", json.dumps({**fields, "split": photo.split}).encode())
        elif photo.filename not in self._kept:
            raise DataError(f"{self._path} holds other photos: remove it, or name a new folder")
        if self.count % self.per_tar == 0:
            self._end()

    def close(self) -> list[str]:
        """Completes the last tar. Returns the names of all."""
        if self.count % self.per_tar:
            self._end()
        return self.written

    def _begin(self) -> None:
        name = f"{self.split}-{self.count // self.per_tar:04}.tar"
        self._path, self._partial = self.output / name, self.output / f".{name}.part"
        if self.sums.holds(self._path):
            with self._path.open("rb") as file:
                self._kept = {member.name for member in members(file)}
        else:
            self._tar = tarfile.open(self._partial, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115

    def _write(self, name: str, data: bytes) -> None:
        assert self._tar is not None
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self._tar.addfile(info, io.BytesIO(data))

    def _end(self) -> None:
        if self._tar is not None:
            self._tar.close()
            self._tar = None
            self._partial.replace(self._path)
            self.sums.add(self._path)
        self.written.append(self._path.name)


def _contents(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the files of an archive in order: the name without folders, and what reads it before the next."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                yield PurePosixPath(entry.filename).name, partial(zipped.read, entry)  # checks the CRC
        return
    with gzip.open(archive) as plain:
        with tarfile.open(fileobj=plain, mode="r|") as tar:
            for info in tar:
                if info.isreg():
                    yield PurePosixPath(info.name).name, partial(_extract, tar, info)
        while plain.read(1 << 20):  # to the end, where the CRC is
            pass


def _extract(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file: IO[bytes] | None = tar.extractfile(info)
    assert file is not None
    return file.read()


@click.command(help=(__doc__ or "").replace("    python", "\b\n    python", 1))
@click.argument("data_set", type=click.Choice(list(DATA_SETS)))
@click.argument("downloads", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--checksums", type=click.Path(path_type=Path), help="Verify the downloads with these sums.")
@click.option("--per-tar", type=click.IntRange(1), default=5000, show_default=True, help="Photos in a tar.")
def main(data_set: str, downloads: Path, output: Path, checksums: Path | None, per_tar: int) -> None:
    with preparing(output, "the same command goes on with the next tar"):
        counts = prepare(data_set, downloads, output, checksums, per_tar)
    for split, count in counts.items():
        click.echo(f"{split}: {count:,} photos in {output}/{split}-*.tar")


if __name__ == "__main__":
    main()
