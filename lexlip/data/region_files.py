"""Regions that an object detector found in photos, from the files of other programs.

A folder has an .npz for each photo, with the arrays

    boxes        [n, 4]   x1, y1, x2, y2 in pixels
    features     [n, d]
    width        []       of the picture, in pixels, as is height
    height       []
    classes      [n, c]   how likely the detector finds each of its classes; may be left out

A .tsv is what bottom-up attention writes, a line for each photo: image_id, image_w, image_h, num_boxes, and
boxes and features as above, in base64 of float32.

Shapes: n regions, N regions that a model takes, d features, c classes.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexlip.config import RegionsConfig
from lexlip.data.caption_files import NamedPhotos
from lexlip.data.files import Place, path_of, read_place, reading_file
from lexlip.data.source import Source, View
from lexlip.errors import DataError, UnreadableImage

_COLUMNS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
_MOST_PIXELS, _LEAST_SIDE = 10**6, 1e-3  # so that areas are more than 0 in float32
_FINAL_NUMBER = re.compile(r"0*([0-9]+)$")
_LARGEST = 2**27  # bytes of a photo's arrays; of 100 regions with 2,048 features and 1,600 classes it is 3 MB
_BROKEN = (
    *(OSError, ValueError, KeyError, EOFError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
)


class Regions(NamedTuple):
    """What a detector found in one photo."""

    boxes: NDArray[np.float32]  # [n, 4], in pixels; each has an area
    features: NDArray[np.float32]  # [n, d]
    classes: NDArray[np.float32] | None  # [n, c]; each row sums to 1
    width: float
    height: float

    def array(self, wanted: RegionsConfig) -> NDArray[np.float32]:
        """Return them as a model takes them: [N, 7 + d + c], rows of 0 after the last one."""
        if self.features.shape[1] != wanted.features:
            raise ValueError(
                f"a region has {self.features.shape[1]} features, and the model takes {wanted.features}"
            )
        found = 0 if self.classes is None else self.classes.shape[1]
        if wanted.classes not in (0, found):
            raise ValueError(f"a region has {found} classes, and the model takes {wanted.classes}")
        x1, y1, x2, y2 = (self.boxes / np.array([self.width, self.height] * 2)).T
        boxes = np.stack([x1, y1, x2, y2, x2 - x1, y2 - y1, (x2 - x1) * (y2 - y1)], axis=1)
        classes = self.classes[:, : wanted.classes] if self.classes is not None else self.features[:, :0]
        whole = np.concatenate([boxes, self.features, classes], axis=1)[: wanted.most]
        return np.pad(whole, ((0, wanted.most - len(whole)), (0, 0))).astype(np.float32)


class WithRegions(View):
    """The photos of a source, each with the regions of a folder or .tsv.

    The regions of a photo have its path without the ending, or the end of it, as `NamedPhotos` compares them;
    or else the number that its name ends with: 391895 for COCO_val2014_000000391895.jpg. Those of others
    are left out. DataError: a photo has none, it is not clear which, or they cannot be listed.
    """

    def __init__(self, source: Source, regions: str) -> None:
        self.name, self.source, self.items, self.given = source.name, source, source.items, source.given
        self.roots, self.skipped = source.roots, source.skipped
        self.unlisted, self.left = source.unlisted, source.left
        path, regions = path_of(regions), regions or "''"
        self._files = _Folder(path) if path.is_dir() else _Table(path, regions)
        self._name_of = self._match(regions)

    def _match(self, regions: str) -> list[str]:
        """Return the name of each photo's regions."""
        rows = {row: str(PurePosixPath(item.id).with_suffix("")) for row, item in enumerate(self.items)}
        found, unclear = _found(self._files.places, rows)
        others = {row: _with_number(name) for row, name in rows.items() if row not in found}
        taken = set(found.values())
        left = [name for name in self._files.places if name not in taken]
        numbered, unclear_too = _found(left, others)
        if missing := others.keys() - numbered.keys():
            why = next(iter([*unclear, *unclear_too]), "")
            more = f", as {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(
                f"{self.items[min(missing)].id} of {self.name} has no regions in {regions}{more}"
                + (f" ({why})" if why else "")
            )
        found |= numbered
        return [found[row] for row in range(len(self.items))]

    def origin(self, index: int) -> tuple[Source, int]:
        return self.source, index

    def captioned(self) -> NDArray[np.int64]:
        return self.source.captioned()

    def regions(self, index: int, wanted: RegionsConfig) -> NDArray[np.float32]:
        name = self._name_of[index]
        place = self._files.places[name]
        try:
            return _checked(self._files.parse(read_place(place))).array(wanted)
        except UnreadableImage as error:
            why = error.reason
        except _BROKEN as error:
            why = " ".join(str(error).split()) or type(error).__name__
        of = "" if place.offset is None else f", image_id {name}"
        raise DataError(f"the regions in {place.file}{of} cannot be used: {why}")


def _found(names: Collection[str], paths: Mapping[int, str]) -> tuple[dict[int, str], list[str]]:
    """Return the names of photos that have them, by row, and why others are unclear."""
    photos = NamedPhotos[int](names)
    for row, path in paths.items():
        photos.add(path, row)
    found: dict[int, str] = {}
    unclear: list[str] = []
    for name in names:
        photo, why = photos.find(name)
        if photo is not None:
            found[photo] = name
        elif why:
            unclear.append(f"{name}: {why}")
    return found, unclear


def _with_number(path: str) -> str:
    """Return a path with the number that its name ends with, without zeros before it, as its name."""
    folder, slash, name = path.rpartition("/")
    number = _FINAL_NUMBER.search(name)
    return folder + slash + (number[1] if number else name)


# ---- files ----


class _Folder:
    """An .npz for each photo; `places` are by path below the folder, without the ending."""

    def __init__(self, path: Path) -> None:
        files = sorted(path.rglob("*.npz"))
        self.places = {file.relative_to(path).with_suffix("").as_posix(): Place(str(file)) for file in files}

    @staticmethod
    def parse(data: bytes) -> dict[str, Any]:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            if missing := {"boxes", "features", "width", "height"} - set(arrays.files):
                raise ValueError(f"it has no array '{min(missing)}'")
            if (size := sum(part.file_size for part in arrays.zip.infolist())) > _LARGEST:
                raise ValueError(f"it would take {size:,} bytes, which is more than {_LARGEST:,}")
            return {name: arrays[name] for name in arrays.files}


class _Table:
    """A line for each photo; `places` are by image_id. Of two lines of a photo the later one counts."""

    def __init__(self, path: Path, name: str) -> None:
        if path.suffix.lower() != ".tsv":
            raise DataError(f"{name} has no regions: give a folder of .npz, or a .tsv of bottom-up attention")
        self.places: dict[str, Place] = {}
        try:
            with reading_file(path) as file:
                start = 0
                for line in file:
                    if line.strip():
                        id = line.partition(b"\t")[0].decode(errors="replace")
                        self.places[id] = Place(str(path), start, len(line))
                    start += len(line)
        except UnreadableImage as error:
            raise DataError(f"cannot read {name}: {error.reason}") from error

    @staticmethod
    def parse(data: bytes) -> dict[str, Any]:
        columns = data.rstrip(b"\r\n").split(b"\t")
        if len(columns) != len(_COLUMNS):
            raise ValueError(f"it has {len(columns)} columns, not {', '.join(_COLUMNS)}")
        _, width, height, number, boxes, features = columns
        n = int(number)
        return {
            "width": float(width),
            "height": float(height),
            "boxes": _floats(boxes, "boxes", n),
            "features": _floats(features, "features", n),
        }


def _floats(text: bytes, what: str, n: int) -> NDArray[np.float32]:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its {what} are no base64") from error
    if n < 1 or not data or len(data) % (4 * n):
        raise ValueError(f"its {what} are {len(data)} bytes, which are not float32 of {n} regions")
    return np.frombuffer(data, "<f4").reshape(n, -1)


def _checked(arrays: Mapping[str, Any]) -> Regions:
    """Return the regions of a file's arrays; ValueError: they cannot be what a detector found."""
    boxes, features = _matrix(arrays, "boxes"), _matrix(arrays, "features")
    classes = _matrix(arrays, "classes") if "classes" in arrays else None
    width, height = (float(_numbers(arrays, name, 0)) for name in ("width", "height"))
    n = len(boxes)
    for name, matrix in (("features", features), ("classes", classes)):
        if matrix is not None and len(matrix) != n:
            raise ValueError(f"it has boxes of {n} regions, and {name} of {len(matrix)}")
    if boxes.shape[1] != 4:
        raise ValueError(f"a box has {boxes.shape[1]} numbers, not 4: x1, y1, x2, y2")
    if not (0 < width <= _MOST_PIXELS and 0 < height <= _MOST_PIXELS):
        raise ValueError(f"the picture is {width:g} x {height:g} pixels")
    most = np.array([width, height] * 2, dtype=np.float32)
    outside = (boxes < -1) | (boxes > most + 1)  # detectors round
    seen = boxes.clip(0, most)
    flat = seen[:, 2:] - seen[:, :2] < _LEAST_SIDE
    for wrong, why in ((outside, f"not in the picture of {width:g} x {height:g} pixels"), (flat, "empty")):
        if wrong.any():
            first = int(np.flatnonzero(wrong.any(axis=1))[0])
            raise ValueError(f"box {first}, {', '.join(f'{side:g}' for side in boxes[first])}, is {why}")
    if classes is not None:
        sums = classes.sum(axis=1, keepdims=True)
        if (classes < 0).any() or not (sums > 0).all():
            raise ValueError("its classes are no probabilities: some are negative, or all of a region are 0")
        classes = classes / sums
    return Regions(seen, features, classes, width, height)


def _matrix(arrays: Mapping[str, Any], name: str) -> NDArray[np.float32]:
    matrix = _numbers(arrays, name, 2)
    if not matrix.size:
        raise ValueError(f"its {name} are empty")
    return matrix


def _numbers(arrays: Mapping[str, Any], name: str, axes: int) -> NDArray[np.float32]:
    array = np.asarray(arrays[name])
    if array.dtype.kind not in "fiu" or array.ndim != axes:
        found = f"{array.dtype} of shape {list(array.shape)}"
        raise ValueError(f"its {name} are {found}, not numbers of {axes} axes")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError(f"its {name} have numbers that are not finite")
    return numbers
