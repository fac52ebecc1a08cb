"""Fits how likely people are to say a photo's words; see `lexlip.sparse.likely`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from lexlip.data import Source
from lexlip.machine.device import autocast, pick_precision
from lexlip.machine.progress import ProgressBar
from lexlip.models.dual_encoder import to_rows
from lexlip.models.lexlip import LexLIP
from lexlip.queries.photo_vectors import PhotoPixels
from lexlip.sparse.likely import LikelyWords, scaled
from lexlip.words.vocabulary import caption_words

SUMS, STEPS, BATCH, RATE, PENALTY = 32, 800, 256, 0.02, 3e-3


def fit_likely(
    vectors: csr_matrix, said: csr_matrix, weights: NDArray[np.float64], seed: int = 0
) -> LikelyWords:
    """Return the regressions with the smallest cross-entropy, by Adam, with a penalty on the sums' weights.

    Args:
        vectors: of photos, float32 [n, V].
        said: which words their captions contain, [n, V].
        weights: of the photos, [n], such as how many captions each has.
        seed: of the photos of each step, and of the start.
    """
    generator = torch.Generator().manual_seed(seed)
    number, width = vectors.shape
    share = np.clip(np.asarray(said.astype(bool).mean(axis=0)).ravel(), 1e-5, 1 - 1e-5)
    scale = torch.full((width,), 2.0, requires_grad=True)
    bias = torch.logit(torch.from_numpy(share).float()).requires_grad_()
    inputs = (0.02 * torch.randn(width, SUMS, generator=generator)).requires_grad_()
    outputs = torch.zeros(SUMS, width, requires_grad=True)
    optimizer = torch.optim.Adam([scale, bias, inputs, outputs], RATE)
    rows = scaled(vectors)
    drawn = np.random.default_rng(seed).choice(number, (STEPS, BATCH), p=weights / weights.sum())
    for step, batch in enumerate(ProgressBar(drawn, "words that people say", delay=2)):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / STEPS)
        x = torch.from_numpy(rows[batch].toarray())
        goal = torch.from_numpy(said[batch].toarray().astype(np.float32)).clamp(max=1)
        odds = scale * x + (x @ inputs) @ outputs + bias
        loss = F.binary_cross_entropy_with_logits(odds, goal, reduction="sum") / BATCH
        loss = loss + PENALTY * (inputs.square().sum() + outputs.square().sum())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return LikelyWords(*(value.detach().numpy() for value in (scale, bias, inputs, outputs)))


class Captioned(NamedTuple):
    """Photos of the training data, with what people say of them.

    Attributes:
        vectors: float32 [n, V].
        said: which words their captions contain, [n, V].
        weights: how many captions each has, [n].
    """

    vectors: csr_matrix
    said: csr_matrix
    weights: NDArray[np.float64]


def encode_captioned(model: LexLIP, sources: Sequence[Source], workers: int = 2) -> Captioned:
    """Encode the photos of the training data that have captions.

    Photos are encoded without their mirror images, and in bf16 where the processor has it: they are many, and
    what is fitted to them does not need more.

    Raises:
        ValueError: no photo with captions can be read.
    """
    model.eval()
    precision = autocast(pick_precision("auto", model.device), model.device)
    parts: list[csr_matrix] = []
    said: list[csr_matrix] = []
    counts: list[int] = []
    for source in sources:
        captions = {item.id: item.captions for item in source.items}
        indices = source.captioned().tolist()
        photos = PhotoPixels(
            model.config.image, source, workers=workers, progress="photos and their words", indices=indices
        )
        for ids, pixels in photos.pixels():
            with torch.inference_mode(), precision:
                parts.append(to_rows(model.vectors(model.raw_image(pixels.to(model.device)))))
            said += [_present(model, captions[id]) for id in ids]
            counts += [len(captions[id]) for id in ids]
    if not parts:
        raise ValueError("no photo with captions can be read")
    return Captioned(vstack(parts, format="csr"), vstack(said, format="csr"), np.array(counts, float))


def _present(model: LexLIP, captions: Sequence[str]) -> csr_matrix:
    columns = sorted(set().union(*caption_words(model.vocabulary, model.tokenizer, captions)))
    return csr_matrix(
        (np.ones(len(columns), np.float32), ([0] * len(columns), columns)), shape=(1, len(model.vocabulary))
    )
