"""Saved models whose text half answers, and sentences for it."""

from pathlib import Path

import numpy as np
import torch

from lexlip.models.lexlip import LexLIP
from tests.tiny import CAPTIONS, tiny_model

SENTENCES = [
    *CAPTIONS,
    "",
    "?!",
    "zebra",
    "the of and",
    "dog " * 500,
    "[MASK] dog [SEP] cat [UNK]",
    "Two DOGS, two zébras in the snow",
    "犬 🐕 dog",
]


def saved(folder: Path, **changes: object) -> LexLIP:
    model = tiny_model(**changes)
    model.bag_of_words.set_weights(torch.linspace(0.1, 3, len(model.vocabulary)))
    model.save(folder)
    return model


def cosines(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of rows; 1 where both are empty."""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    empty = ~(found.any(axis=1) | expected.any(axis=1))
    return np.where(empty, 1, (found * expected).sum(axis=1) / np.maximum(lengths, 1e-12))
