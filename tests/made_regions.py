"""Photos with captions, and files of a detector's regions in them as other programs write these."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lexlip.config import ImageEncoderConfig, ModelConfig
from tests.tiny import WITHOUT_DROPOUT

WORDS = "dog cat boat tree car house bird fish".split()
WIDTH, HEIGHT = 64, 48
FEATURES, CLASSES = 12, len(WORDS) + 1


def made_regions(words: list[str], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A region for each word, whose features and class are the word's but for noise, and up to two more."""
    of_words = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    classes = [WORDS.index(word) for word in words] + [CLASSES - 1] * int(rng.integers(3))
    corners = rng.uniform(0, 30, (len(classes), 2))
    chances = np.full((len(classes), CLASSES), 0.1 / (CLASSES - 1))
    chances[range(len(classes)), classes] = 0.9
    return {
        "boxes": np.hstack([corners, corners + rng.uniform(2, 15, corners.shape)]).astype(np.float32),
        "features": (of_words[classes] + rng.normal(size=(len(classes), FEATURES)) / 10).astype(np.float32),
        "classes": chances.astype(np.float32),
        "width": np.array(WIDTH),
        "height": np.array(HEIGHT),
    }


def write_photos(
    folder: Path, number: int, seed: int = 0, name: str = "{}"
) -> dict[str, dict[str, np.ndarray]]:
    """Black photos, whose captions have three words; return the regions by the name of the photo."""
    folder.mkdir(parents=True)
    rng, regions = np.random.default_rng(seed), {}
    for photo in map(name.format, range(number)):
        words = rng.choice(WORDS, 3, replace=False).tolist()
        Image.new("RGB", (WIDTH, HEIGHT)).save(folder / f"{photo}.png")
        (folder / f"{photo}.txt").write_text(f"a {words[0]}, a {words[1]} and a {words[2]}\n")
        regions[photo] = made_regions(words, rng)
    return regions


def write_folder(folder: Path, regions: dict[str, dict[str, np.ndarray]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, arrays in regions.items():
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def write_table(file: Path, regions: dict[str, dict[str, np.ndarray]]) -> Path:
    """Write what `csv.DictWriter(file, delimiter="\\t")` of bottom-up attention does."""
    lines = [
        [
            name,
            str(arrays["width"]),
            str(arrays["height"]),
            str(len(arrays["boxes"])),
            base64.b64encode(arrays["boxes"]).decode(),
            base64.b64encode(arrays["features"]).decode(),
        ]
        for name, arrays in regions.items()
    ]
    file.write_bytes("".join("\t".join(line) + "\r\n" for line in lines).encode())
    return file


def region_model(kind: str = "lightningdot", layers: int = 1, classes: int = CLASSES) -> ModelConfig:
    """A tiny model of such regions without dropout in its text encoder, up to five a photo."""
    options = {"features": FEATURES, "classes": classes, "most": 5}
    image = ImageEncoderConfig(name="regions", options=options, layers=layers)
    return replace(WITHOUT_DROPOUT, kind=kind, image=image)


def drawn_regions(numbers: Sequence[int], seed: int = 0) -> Tensor:
    """Photos of so many regions each, as models take them."""
    rng, photos = np.random.default_rng(seed), np.zeros((len(numbers), 5, 7 + FEATURES + CLASSES), np.float32)
    for photo, number in zip(photos, numbers, strict=True):
        arrays = made_regions(WORDS[:number], rng)
        photo[:number, :4] = arrays["boxes"][:number] / ([WIDTH, HEIGHT] * 2)
        photo[:, 4:6] = photo[:, 2:4] - photo[:, :2]
        photo[:, 6] = photo[:, 4] * photo[:, 5]
        photo[:number, 7:] = np.hstack([arrays["features"], arrays["classes"]])[:number]
    return torch.from_numpy(photos)
