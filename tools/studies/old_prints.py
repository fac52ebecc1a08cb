"""Make an album of old prints out of photos with captions: photos of a kind that `mini` has not learned.

    python -m tools.studies.old_prints SOURCE OUT [TRAIN] [VAL]

OUT/old gets TRAIN and VAL of the photos (500 and 250) as scans of prints: brown, soft, faded, with grain, a
crease and a border; OUT/others the rest as they are. Each has a captions.csv with splits. So one can measure
what `lexlip pretrain configs/own.yaml` gains on one's own photos and loses on others.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from lexlip.data import Source, open_source

PAPER = (235, 228, 210)
BROWN = (1, 0.92, 0.78)  # of the three colours, how much is left


def old_print(photo: Image.Image, generator: random.Random) -> Image.Image:
    """Return a photo as the scan of an old print."""
    grey = np.asarray(photo.convert("L").filter(ImageFilter.GaussianBlur(0.7)), np.float64)
    height, width = grey.shape
    faded = 45 + generator.uniform(0.6, 0.75) * grey
    faded += np.random.default_rng(generator.randrange(2**30)).normal(0, 7, grey.shape)
    crease = generator.randrange(width)
    faded[:, max(0, crease - 1) : crease + 1] += 60
    rows, columns = np.mgrid[:height, :width]
    from_middle = (columns / width - 0.5) ** 2 + (rows / height - 0.5) ** 2
    faded = np.clip(faded - generator.uniform(10, 40) * from_middle * 4, 0, 255)
    picture = Image.fromarray((faded[..., None] * BROWN).astype(np.uint8))
    border = int(8 + generator.random() * 8)
    paper = Image.new("RGB", (width + 2 * border, height + 2 * border), PAPER)
    paper.paste(picture, (border, border))
    return paper


def main(source: Source, out: Path, train: int = 500, val: int = 250) -> None:
    """Write both; they are the same each time."""
    generator = random.Random(0)
    numbers = sorted(range(len(source)), key=lambda number: source.items[number].id)
    generator.shuffle(numbers)
    old, others = numbers[: train + val], numbers[train + val :]
    splits = ["train"] * train + ["val"] * val
    _write(source, out / "old", zip(old, splits, strict=True), lambda photo: old_print(photo, generator))
    _write(source, out / "others", ((number, "val") for number in others), lambda photo: photo)


def _write(
    source: Source,
    folder: Path,
    photos: Iterable[tuple[int, str]],
    made: Callable[[Image.Image], Image.Image],
) -> None:
    folder.mkdir(parents=True)
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["image", "caption", "split"])
        for number, split in photos:
            name = f"{Path(source.items[number].id).stem}.jpg"
            made(source.image(number)).convert("RGB").save(folder / name, quality=88)
            table.writerows([name, caption, split] for caption in source.items[number].captions)


if __name__ == "__main__":
    main(open_source(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5]))
