"""What a training step costs beyond the encoders, in time and memory, for three variants of the lexicon head.

A step is the forward and backward pass of both towers with the in-batch contrastive loss and, if there is a
lexicon head, FLOPS. The variants:

    encoders   no head: states are averaged over positions (a dense dual encoder)
    naive      Eq. 3 to the letter: autograd differentiates the whole [B, P, V] weights
    lean       the head of this project
    compiled   lean, with encoders compiled by torch.compile; on request
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lexlip.config import ImageEncoderConfig, TextEncoderConfig
from lexlip.encoders.image import ImageEncoder
from lexlip.encoders.lexicon import LexiconHead, sparse_vector
from lexlip.encoders.text import TextEncoder, word_tokenizer
from lexlip.errors import ConfigError
from lexlip.machine import resources
from lexlip.machine.device import autocast, pick_device, pick_precision
from lexlip.machine.progress import ProgressBar
from lexlip.machine.resources import keep_freed_memory, memory_mb, peak_memory_mb
from lexlip.objectives.losses import contrastive, flops

PIECES = 30_522  # entries of BERT's tokenizer
TOKENS = (8, 20)  # fewest and most of a caption, [CLS] and [SEP] included
TEMPERATURE, FLOPS_WEIGHT = 0.05, 0.002
SIDES = ("image", "text")


@dataclass(frozen=True)
class Size:
    """Towers of one width, with random weights."""

    image: ImageEncoderConfig
    text: TextEncoderConfig
    vocabulary: int  # V, words of the lexicon
    frozen: tuple[str, ...] = ()  # prefixes of parameters, from "image_encoder." or "text_encoder." on


SIZES = {
    "mini": Size(  # the towers of configs/mini-phase1.yaml
        ImageEncoderConfig("mobilenetv2_100", {"pad_type": "same"}, size=160, layers=2),
        TextEncoderConfig(
            options={
                **{"vocab_size": PIECES, "hidden_size": 384, "intermediate_size": 1536},
                **{"num_hidden_layers": 4, "num_attention_heads": 12},
            }
        ),
        vocabulary=2_500,
        frozen=(
            *(f"image_encoder.body.{of}." for of in ("conv_stem", "bn1", "blocks.0", "blocks.1", "blocks.2")),
            "text_encoder.body.embeddings.",
        ),
    ),
    "base": Size(
        ImageEncoderConfig("vit_base_patch16_224"),
        TextEncoderConfig(options={"vocab_size": PIECES}),
        vocabulary=PIECES,
    ),
}


@dataclass(frozen=True)
class StepSettings:
    """What a step consists of."""

    size: Size
    batch: int  # B, photos
    captions: int  # of a photo; T = B * captions texts
    terms: int  # words of a vector, roughly; the others get no gradient
    precision: str
    device: str
    threads: int  # on a CPU


class TrainingStep:
    """One step with a random batch, by variant.

    Raises:
        ConfigError: the vocabulary has no more than `terms` words, or there is no such device.
    """

    def __init__(self, settings: StepSettings) -> None:
        size, batch, captions = settings.size, settings.batch, settings.captions
        if settings.terms >= size.vocabulary:
            raise ConfigError(f"{settings.terms} terms are too many for {size.vocabulary} words")
        self.settings, self.device = settings, pick_device(settings.device)
        self.precision = pick_precision(settings.precision, self.device)
        torch.set_num_threads(settings.threads)
        torch.set_flush_denormal(True)  # as in training: denormal numbers are many times slower
        keep_freed_memory()  # as in training
        torch.manual_seed(0)
        text_encoder = TextEncoder(size.text, word_tokenizer(["a"]))
        image_encoder = ImageEncoder(size.image, text_encoder.width)
        embeddings = text_encoder.word_embeddings[: size.vocabulary]
        widths = {"image": image_encoder.width, "text": text_encoder.width}
        self.heads = {side: LexiconHead(widths[side], embeddings) for side in SIDES}
        self.modules = nn.ModuleDict(
            {"image_encoder": image_encoder, "text_encoder": text_encoder, "heads": nn.ModuleDict(self.heads)}
        )
        for name, parameter in self.modules.named_parameters():
            parameter.requires_grad_(not name.startswith(size.frozen))
        self.modules.to(self.device).train()
        self._encoders: dict[str, Callable[..., Tensor]] = {"image": image_encoder, "text": text_encoder}

        pixels = torch.randint(256, (batch, 3, size.image.size, size.image.size), dtype=torch.uint8)
        lengths = torch.randint(TOKENS[0], TOKENS[1] + 1, (batch * captions, 1))
        mask = torch.arange(int(lengths.max())) < lengths
        ids = torch.randint(size.vocabulary, mask.shape)
        self.inputs = {
            "image": (pixels.to(self.device),),
            "text": (ids.to(self.device), mask.to(self.device)),
        }
        self.image_of_text = torch.arange(batch, device=self.device).repeat_interleave(captions)
        image_mask = torch.ones(batch, image_encoder.positions, dtype=torch.bool)
        image_mask[:, : image_encoder.prefix_tokens] = False
        text_mask = mask.clone()
        text_mask[:, 0] = False  # [CLS]
        self.masks = {"image": image_mask.to(self.device), "text": text_mask.to(self.device)}
        self.terms = {side: self._set_bias(side) for side in SIDES}

    def run(self, variant: str) -> float:
        """Run forward and backward; return the seconds that they took.

        Raises:
            ConfigError: the step does not fit into memory, or torch.compile fails.
        """
        self.modules.zero_grad(set_to_none=True)
        try:
            self._synchronize()
            start = time.perf_counter()
            self._loss(variant).backward()
            self._synchronize()
            return time.perf_counter() - start
        except RuntimeError as error:  # what torch raises for both
            why = " ".join(str(error).split())
            if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in why:
                raise _does_not_fit(variant, self.settings) from error
            if variant == "compiled":
                raise ConfigError(f"torch.compile fails here, leave it out: {why[:200]}") from error
            raise

    def _loss(self, variant: str) -> Tensor:
        encoders = self._compiled if variant == "compiled" else self._encoders
        vectors = {}
        with self._autocast():
            for side in SIDES:
                states = encoders[side](*self.inputs[side])
                if variant == "encoders":
                    vectors[side] = states.float().mean(dim=1)
                elif variant == "naive":
                    vectors[side] = naive_vectors(self.heads[side], states, self.masks[side])
                else:
                    vectors[side] = sparse_vector(self.heads[side](states, self.masks[side]))
        loss = contrastive(vectors["image"], vectors["text"], self.image_of_text, TEMPERATURE)
        if variant != "encoders":
            loss = loss + FLOPS_WEIGHT * sum(flops(vectors[side].mean(dim=0)) for side in SIDES)
        return loss

    @cached_property
    def _compiled(self) -> dict[str, Callable[..., Tensor]]:
        return {side: torch.compile(encoder) for side, encoder in self._encoders.items()}

    @torch.no_grad()
    def _set_bias(self, side: str) -> float:
        """Make vectors as sparse as the settings say; return how many terms they have on average."""
        head = self.heads[side]
        with self._autocast():
            logits = head(self._encoders[side](*self.inputs[side]), self.masks[side])
        head.bias.sub_(logits.topk(self.settings.terms + 1, dim=1).values[:, -1].mean())
        return float((logits + head.bias > 0).sum(dim=1).float().mean())

    def _autocast(self) -> torch.autocast:
        return autocast(self.precision, self.device)

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def naive_vectors(head: LexiconHead, states: Tensor, mask: Tensor) -> Tensor:
    """Return p of Eq. 3, [B, V], as the maximum over the weights of all positions, [B, P, V]."""
    logits = F.linear(head.hidden(states), head.decoder, head.bias)
    weights = torch.log1p(F.relu(logits)) * mask[:, :, None]
    return weights.max(dim=1).values.float()


def measure(
    settings: StepSettings, rounds: int, compiled: bool = False, progress: bool = False
) -> dict[str, Any]:
    """Measure the time and memory of a step, by variant.

    Times are medians over `rounds`. Every variant runs once in each round, so that a machine that slows down
    slows all of them; a ratio is the median of the ratios within the rounds. Memory is the peak of two steps
    in a process of their own, minus what it held before them (parameters and batch). Gradients count.

    Returns:
        {"conditions": {...}, "variants": {name: {"step_ms", "samples_per_s" (photos), "peak_mb" (10^6
        bytes), "ratio" (time over that of "encoders")}}}

    Raises:
        ConfigError: see `TrainingStep`.
    """
    variants = ["encoders", "naive", "lean", *(["compiled"] if compiled else [])]
    peaks: dict[str, float] = {}
    seconds: dict[str, list[float]] = {variant: [] for variant in variants}
    step = TrainingStep(settings)
    with ProgressBar(total=len(variants) * (rounds + 2), unit="step", disable=not progress) as bar:
        for variant in variants:
            bar.set_description(f"{variant}, memory")
            killed = _does_not_fit(variant, settings)
            peaks[variant] = resources.in_own_process(peak_memory, settings, variant, killed=killed)
            bar.update()
        for number in range(rounds + 1):  # the first warms up
            for variant in variants:
                bar.set_description(variant)
                taken = step.run(variant)
                if number > 0:
                    seconds[variant].append(taken)
                bar.update()
    rows = {
        variant: {
            "step_ms": 1000 * median(taken),
            "samples_per_s": settings.batch / median(taken),
            "peak_mb": peaks[variant],
            "ratio": median(t / bare for t, bare in zip(taken, seconds["encoders"], strict=True)),
        }
        for variant, taken in seconds.items()
    }
    return {"conditions": _conditions(step, rounds), "variants": rows}


def _conditions(step: TrainingStep, rounds: int) -> dict[str, Any]:
    settings = step.settings
    return {
        "batch": settings.batch,
        "captions": settings.captions,
        "pixels": settings.size.image.size,
        "image_positions": step.masks["image"].shape[1],
        "text_positions": step.masks["text"].shape[1],
        "vocabulary": settings.size.vocabulary,
        "terms_image": step.terms["image"],
        "terms_text": step.terms["text"],
        "precision": step.precision,
        "device": str(step.device),
        "threads": settings.threads,
        "rounds": rounds,
        "torch": torch.__version__,
    }


def peak_memory(settings: StepSettings, variant: str) -> float:
    """Return the MB (10^6 bytes) that two steps take at their peak, beyond the model and its batch.

    On a CPU that is compared with the most that the process ever held, so it needs a process of its own.
    """
    step = TrainingStep(settings)
    cuda = step.device.type == "cuda"
    before = torch.cuda.memory_allocated(step.device) / 1e6 if cuda else memory_mb()
    if cuda:
        torch.cuda.reset_peak_memory_stats(step.device)
    for _ in range(2):
        step.run(variant)
    peak = torch.cuda.max_memory_allocated(step.device) / 1e6 if cuda else peak_memory_mb()
    return peak - before


def _does_not_fit(variant: str, settings: StepSettings) -> ConfigError:
    return ConfigError(
        f"the step '{variant}' does not fit into memory at a batch of {settings.batch}; lower --batch"
    )
