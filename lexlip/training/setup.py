"""Everything that a run needs before its first step."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from lexlip.config import Config
from lexlip.data import Source, open_sources
from lexlip.encoders.text import load_mlm_head
from lexlip.errors import DataError
from lexlip.machine.device import pick_precision
from lexlip.models.lexlip import LexLIP
from lexlip.training.augmentation import AugmentedPhotos
from lexlip.training.batches import Batch, Collate
from lexlip.training.checkpoint import State, load_checkpoint
from lexlip.training.distributed import Processes
from lexlip.training.frozen_views import FrozenViews, encode_views
from lexlip.training.initialisation import counted_captions, make_model
from lexlip.training.loading import Order, caption_counts, count_steps, load_batches
from lexlip.training.log import Log
from lexlip.training.method import Method
from lexlip.training.new_words import add_words
from lexlip.training.optimizer import make_optimizer
from lexlip.training.teacher import find_teacher
from lexlip.words.vocabulary import Vocabulary


@dataclass
class Run:
    """A run that is ready to train.

    Attributes:
        config: the experiment.
        folder: RUN.
        processes: who trains together.
        method: the model and what its training needs.
        optimizer: of its parameters.
        scaler: of its gradients, for fp16.
        batches: this process's, from step `first` on.
        first: the step to begin with.
        steps: of the whole run.
        val: photos to validate on.
        state: the best checkpoint so far.
        log: progress bar and metrics.jsonl.
    """

    config: Config
    folder: Path
    processes: Processes
    method: Method
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    batches: Iterator[Batch]
    first: int
    steps: int
    val: Source
    state: State
    log: Log


def set_up(
    config: Config, folder: Path, resume: bool, processes: Processes, views: FrozenViews | None = None
) -> Run:
    """Open photos, make or load the model, and start the workers.

    Args:
        config: the experiment.
        folder: RUN.
        resume: go on from RUN/last.
        processes: who trains together.
        views: of the photos, which another run with the same image encoder encoded; None encodes them.

    Raises:
        LexLIPError: photos, encoders, the config or the checkpoint cannot be used.
    """
    torch.manual_seed(config.seed)
    train, val = open_sources(config.data.train), open_sources(config.data.val)
    if not len(val.captioned()):
        raise DataError(f"{val.name} has no captions to validate with; name other photos in data.val")
    counts = caption_counts(train) if config.data.epoch == "pairs" else None
    steps = count_steps(train, config.data, config.optim, counts)
    processes.part(config.optim.batch)  # enough photos for all
    start = replace(config, init=str(folder / "last")) if resume else config
    model, vocabulary = make_model(start, train, progress=processes.first)
    new: tuple[str, ...] = ()
    if config.new_words and not resume:
        assert isinstance(model, LexLIP)
        new = add_words(model, counted_captions(train, config.seed), config.new_words)
        vocabulary = model.vocabulary
    model.to(processes.device)
    if config.optim.checkpoint_activations:
        model.checkpoint_activations()
    precision = pick_precision(config.optim.precision, processes.device)
    key_dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    teacher = None if config.teacher is None else find_teacher(config.teacher, train, folder, processes)
    method = Method(model, vocabulary, config.objective, key_dtype, teacher)
    if config.objective.masks and not model.can.words and start.init is None and config.model.text.name:
        method.own_head.copy_mlm_head(load_mlm_head(config.model.text.name), method.pieces)
    method.to(processes.device)
    processes.same_weights(method)
    optimizer = make_optimizer(method, config.optim)
    scaler = torch.amp.GradScaler(processes.device.type, enabled=precision == "fp16")
    torch.manual_seed(config.seed + processes.rank)  # dropout differs between processes
    first, state, same_processes = 0, State(), True
    if resume:
        first, state, same_processes = load_checkpoint(folder, method, optimizer, scaler, processes)
    if config.optim.compile:
        model.compile_encoders()

    data, image, seed = config.data, config.model.image, config.seed
    photos = AugmentedPhotos(train, data, image, seed)
    if data.views:
        views_file = folder / "views.npy"
        photos.views = views or encode_views(
            model.image_encoder, photos, train.captioned(), config, views_file, processes
        )
    sizes = data.sizes or (image.size,)
    batch, part = config.optim.batch, processes.part
    topics = None
    if teacher is not None and data.alike:
        topics = teacher.topics(train.captioned(), data.alike, seed)
    order = Order(
        train.captioned(), batch, steps, first, seed, sizes, part, counts, data.sample, topics, data.alike
    )
    collate = Collate(config.objective, model.tokenizer, config.model.text.max_tokens, vocabulary, seed)
    batches = load_batches(photos, order, collate, data.workers, processes.device.type == "cuda")
    log = Log(folder, first, steps, config.log_every, processes)
    _describe(log, train, val, model, vocabulary, steps, processes)
    if new:
        log.write(
            f"{len(new)} of the words are new: {textwrap.shorten(', '.join(new), 200, placeholder=' …')}"
        )
    elif config.new_words and not resume:
        log.write(f"no new word occurs {config.new_words} times in the captions")
    if resume:
        log.write(f"going on at step {first}")
    if not same_processes:
        log.write("another number of processes than before: dropout differs from an uninterrupted run")
    return Run(config, folder, processes, method, optimizer, scaler, batches, first, steps, val, state, log)


def _describe(
    log: Log,
    train: Source,
    val: Source,
    model: torch.nn.Module,
    vocabulary: Vocabulary,
    steps: int,
    processes: Processes,
) -> None:
    """Say what is trained, and which photos are left out."""
    for skipped in [*train.skipped, *val.skipped]:
        log.write(f"skipped {skipped.id}: {skipped.reason}")
    without = np.setdiff1d(np.arange(len(train)), train.captioned())
    if len(without):
        log.write(
            f"{len(without)} photos have no caption and are left out, such as"
            f" {train.items[int(without[0])].id}"
        )
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    device = f"{processes.world} x " * (processes.world > 1) + processes.device.type
    log.write(
        f"{len(train)} photos, {len(vocabulary)} words, {parameters:.1f}M parameters, {steps} steps on"
        f" {device}"
    )
