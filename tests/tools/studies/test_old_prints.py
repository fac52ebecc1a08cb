import csv
from pathlib import Path

import numpy as np
from PIL import Image

from lexlip.data import Scenes
from tools.studies.old_prints import main


def test_prints_are_grey_and_faded_and_the_same_each_time(tmp_path: Path) -> None:
    source = Scenes(12, 0)
    for name in ("one", "two"):
        main(source, tmp_path / name, 6, 2)
    for file in (tmp_path / "one").glob("*/*"):
        assert file.read_bytes() == (tmp_path / "two" / file.parent.name / file.name).read_bytes()
    whole = {Path(item.id).stem: item.captions for item in source.items}
    for folder, photos in (("old", 8), ("others", 4)):
        with (tmp_path / "one" / folder / "captions.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        names = list(dict.fromkeys(row["image"] for row in rows))
        assert len(names) == photos
        for name in names:
            assert tuple(r["caption"] for r in rows if r["image"] == name) == whole.pop(Path(name).stem)
            red, _, blue = np.asarray(Image.open(tmp_path / "one" / folder / name), float).mean((0, 1))
            assert folder == "others" or red > 1.1 * blue
        splits = {row["image"]: row["split"] for row in rows}
        assert list(splits.values()) == (["train"] * 6 + ["val"] * 2 if folder == "old" else ["val"] * 4)
    assert not whole
