import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.config import RegionsConfig, SourceConfig
from lexlip.data import Source, open_source
from lexlip.data.open import open_library, open_sources
from lexlip.data.region_files import WithRegions
from lexlip.data.source import Concat, Given, Subset
from lexlip.errors import DataError
from tests.made_regions import CLASSES, FEATURES, HEIGHT, WIDTH, write_folder, write_photos, write_table

WANTED = RegionsConfig(FEATURES, CLASSES, 6)
WITHOUT_CLASSES = RegionsConfig(FEATURES, 0, 6)


def plain(arrays: dict[str, np.ndarray], classes: bool) -> np.ndarray:
    """A row for each of the first six regions: its box in seven numbers, features and classes."""
    rows = []
    for number, (x1, y1, x2, y2) in enumerate(arrays["boxes"].tolist()):
        box = [x1 / WIDTH, y1 / HEIGHT, x2 / WIDTH, y2 / HEIGHT, (x2 - x1) / WIDTH, (y2 - y1) / HEIGHT]
        more = arrays["classes"][number].tolist() if classes else []
        rows.append([*box, box[4] * box[5], *arrays["features"][number].tolist(), *more])
    rows += [[0.0] * len(rows[0])] * (6 - len(rows))
    return np.array(rows[:6])


def write_one(folder: Path, **changes: Any) -> Path:
    """A photo, and its regions in a folder with other arrays, None for none."""
    regions = write_photos(folder / "photos", 1)
    arrays = {name: array for name, array in {**regions["0"], **changes}.items() if array is not None}
    return write_folder(folder / "regions", {"0": arrays})


def check_photos(source: Source, regions: dict[str, dict[str, np.ndarray]], classes: bool) -> None:
    wanted = WANTED if classes else WITHOUT_CLASSES
    assert len(source) == len(regions)
    for row, item in enumerate(source.items):
        found = source.regions(row, wanted)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, plain(regions[Path(item.id).stem], classes), rtol=1e-5)


def test_an_npz_for_each_photo(tmp_path: Path) -> None:
    regions = write_photos(tmp_path / "photos", 5)
    where = write_folder(tmp_path / "regions", regions)
    source = WithRegions(open_source(tmp_path / "photos"), str(where))
    check_photos(pickle.loads(pickle.dumps(source)), regions, classes=True)
    assert [item.captions for item in source.items] == [item.captions for item in source.source.items]
    assert source.image(2).size == (WIDTH, HEIGHT)
    assert source.captioned().tolist() == list(range(5))
    np.testing.assert_equal(Subset(source, [3]).regions(0, WANTED), source.regions(3, WANTED))
    both = Concat([open_source(tmp_path / "photos"), source])
    np.testing.assert_equal(both.regions(7, WANTED), source.regions(2, WANTED))
    with pytest.raises(DataError, match=r"it is not said where those of .*photos are: give --regions"):
        both.regions(0, WANTED)


@pytest.mark.parametrize("name", ["{}", "COCO_val2014_{:012}"])
def test_the_table_of_bottom_up_attention(tmp_path: Path, name: str) -> None:
    regions = write_photos(tmp_path / "photos", 5, name=name)
    by_number = {str(number): arrays for number, arrays in enumerate(regions.values())}
    others = {
        "77": regions[name.format(0)],
        "3": regions[name.format(4)],
    }  # of no photo, and an old line
    where = write_table(tmp_path / "regions.tsv", others)
    where.write_bytes(where.read_bytes() + write_table(tmp_path / "more.tsv", by_number).read_bytes() + b"\n")
    config = SourceConfig(str(tmp_path / "photos"), regions=str(where))
    check_photos(open_sources([config]), regions, classes=False)


def test_photos_of_one_name_have_their_own(tmp_path: Path) -> None:
    one, two = (write_photos(tmp_path / "photos" / name, 1, seed) for seed, name in enumerate("ab"))
    where = write_folder(tmp_path / "regions", {})
    for name, regions in (("a", one), ("b", two)):
        write_folder(where / name, regions)
    source = WithRegions(open_library(Given((str(tmp_path / "photos"),))), str(where))
    for row, regions in enumerate((one, two)):
        np.testing.assert_allclose(source.regions(row, WANTED), plain(regions["0"], True), rtol=1e-5)
    flat = write_folder(tmp_path / "flat", one)
    with pytest.raises(
        DataError, match=r"a/0\.png .* has no regions in .*, as 1 more \(0: it may be a/0 or "
    ):
        WithRegions(source.source, str(flat))


NAN = np.full((3, FEATURES), np.nan)
BOXES = np.array([[0, 0, 5, 5], [1, 1, 4, 4], [2, 2, 3, 3]])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"features": NAN, "boxes": BOXES, "classes": None}, "its features have numbers that are not finite"),
        ({"boxes": BOXES * 20}, "box 0, 0, 0, 100, 100, is not in the picture of 64 x 48 pixels"),
        ({"boxes": BOXES - 3}, "box 0, -3, -3, 2, 2, is not in the picture of 64 x 48 pixels"),
        ({"boxes": BOXES[:, [0, 1, 0, 3]]}, "box 0, 0, 0, 0, 5, is empty"),
        ({"boxes": BOXES[:1].repeat(3, 0) - [0.9, 0, 5.5, 0]}, "box 0, -0.9, 0, -0.5, 5, is empty"),
        ({"boxes": BOXES, "features": np.ones((2, FEATURES))}, "it has boxes of 3 regions, and features of"),
        ({"boxes": BOXES[:, :3]}, "a box has 3 numbers, not 4: x1, y1, x2, y2"),
        ({"boxes": BOXES[:0]}, "its boxes are empty"),
        ({"boxes": None}, "it has no array 'boxes'"),
        ({"boxes": np.array(["a"])}, r"its boxes are <U1 of shape \[1\], not numbers of 2 axes"),
        ({"width": np.array([64, 64])}, r"its width are int64 of shape \[2\], not numbers of 0 axes"),
        ({"height": np.array(0)}, "the picture is 64 x 0 pixels"),
        ({"features": np.ones((3, 5)), "boxes": BOXES, "classes": None}, "a region has 5 features"),
        ({"classes": None}, r"a region has 0 classes, and the model takes 9"),
    ],
)  # fmt: skip
def test_what_no_detector_found_is_named(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    if "boxes" in changes and changes["boxes"] is not None and len(changes["boxes"]) == 3:
        changes = {"features": np.ones((3, FEATURES)), "classes": None, **changes}
    where = write_one(tmp_path, **changes)
    source = WithRegions(open_source(tmp_path / "photos"), str(where))
    with pytest.raises(DataError, match=rf"^the regions in .*0\.npz cannot be used: {why}"):
        source.regions(0, WANTED)


def test_classes_are_made_to_sum_to_one_and_are_no_logits(tmp_path: Path) -> None:
    arrays = write_photos(tmp_path / "photos", 1)["0"]
    for factor in (0.5, -1):  # without the background, and logits
        write_folder(tmp_path / "regions", {"0": {**arrays, "classes": factor * arrays["classes"]}})
        source = WithRegions(open_source(tmp_path / "photos"), str(tmp_path / "regions"))
        if factor > 0:
            np.testing.assert_allclose(source.regions(0, WANTED), plain(arrays, True), rtol=1e-5)
        else:
            with pytest.raises(DataError, match="its classes are no probabilities"):
                source.regions(0, WANTED)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"==", b"=*", "its (boxes|features) are no base64"),
        (b"\t64\t", b"\t", "it has 5 columns, not image_id, image_w"),
        (b"\t64\t", b"\tnan\t", "its width have numbers that are not finite"),
        (b"\t64\t", b"\twide\t", "could not convert string to float"),
        (b"\t48\t", b"\t48\t1", "its boxes are .* bytes, which are not float32 of 1. regions"),
        (b"\t48\t", b"\t48\t-", "its boxes are .* bytes, which are not float32 of -. regions"),
        (b"\t48\t", b"\t48\t\xff", "invalid literal for int"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, old: bytes, new: bytes, why: str) -> None:
    regions = write_photos(tmp_path / "photos", 4)
    where = write_table(tmp_path / "regions.tsv", regions)
    assert old in where.read_bytes()
    where.write_bytes(where.read_bytes().replace(old, new))
    source = WithRegions(open_source(tmp_path / "photos"), str(where))
    with pytest.raises(DataError, match=rf"^the regions in .*regions\.tsv, image_id . cannot be used: {why}"):
        [source.regions(row, WITHOUT_CLASSES) for row in range(4)]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    regions = write_photos(tmp_path / "photos", 3)
    photos = open_source(tmp_path / "photos")
    del regions["1"]
    where = write_folder(tmp_path / "regions", regions)
    with pytest.raises(DataError, match=r"^1\.png of .*photos has no regions in .*regions$"):
        WithRegions(photos, str(where))
    with pytest.raises(DataError, match=r"^cannot read .*none\.tsv: "):
        WithRegions(photos, str(tmp_path / "none.tsv"))
    with pytest.raises(DataError, match=r"^.*0\.png has no regions: give a folder of \.npz"):
        WithRegions(photos, str(tmp_path / "photos" / "0.png"))


def test_broken_files_are_named(tmp_path: Path) -> None:
    where = write_one(tmp_path)
    source = WithRegions(open_source(tmp_path / "photos"), str(where))
    file = where / "0.npz"
    whole = file.read_bytes()
    pickled = np.array([{}], dtype=object)
    for content in (b"", b"PK", whole[: len(whole) // 2], b"\x93NUMPY"):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"^the regions in .*0\.npz cannot be used: ."):
            source.regions(0, WANTED)
    np.savez(file, boxes=pickled, features=pickled, width=1, height=1)
    with pytest.raises(DataError, match="cannot be used: Object arrays cannot be loaded"):
        source.regions(0, WANTED)
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("boxes", "features", "width", "height"):
            archive.writestr(f"{name}.npy", b"no array")
    with pytest.raises(DataError, match=r"cannot be used: ."):
        source.regions(0, WANTED)
    np.savez_compressed(file, boxes=np.zeros((2**23, 4)), features=np.zeros(1), width=1, height=1)
    assert file.stat().st_size < 2**20
    with pytest.raises(DataError, match=r"cannot be used: it would take 268,43\d,\d{3} bytes"):
        source.regions(0, WANTED)
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1)) | {"shape": (2**60,)}
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("boxes", "features", "width", "height"):
            with archive.open(f"{name}.npy", "w") as array:
                np.lib.format.write_array_header_1_0(array, header)
    with pytest.raises(DataError, match=r"cannot be used: ."):
        source.regions(0, WANTED)
    file.unlink()
    with pytest.raises(DataError, match=r"0\.npz cannot be used: "):
        source.regions(0, WANTED)
