"""The training loop."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from lexlip.config import Config
from lexlip.config_files import load_config, to_dict
from lexlip.data import Source
from lexlip.data.source import spread
from lexlip.encoders.text import load_mlm_head, load_tokenizer
from lexlip.encoding import PhotoPixels
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.evaluation.evaluate import Report, evaluate
from lexlip.evaluation.pairs import embed_source, evaluate_pairs
from lexlip.memory import keep_freed_memory
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.folder import kind_of
from lexlip.models.kinds import KINDS, load_start
from lexlip.models.lexlip import LexLIP
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.engines import engine_for
from lexlip.training.batches import Batch, Photos
from lexlip.training.checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from lexlip.training.device import pick_precision
from lexlip.training.loading import open_configured, training_batches
from lexlip.training.processes import Processes
from lexlip.training.start import companions, fit_image_tokens, fit_text_head, inverse_document_frequency
from lexlip.training.step import make_optimizer, set_learning_rate, train_step
from lexlip.training.trainee import Trainee
from lexlip.training.views import encode_views
from lexlip.vocabulary import Vocabulary

PAIRED_PHOTOS = 100  # that a cross-encoder is validated on, all with all
FITTED_PHOTOS = 256  # that a photo's tokens are fitted to words with
COUNTED_PHOTOS = 500_000  # enough to know the words of any larger collection


def pretrain(config: Config, resume: bool = False) -> Path:
    """Train a model as a config says, alone or with the processes that torchrun started.

    Writes RUN/config.yaml, RUN/metrics.jsonl, RUN/last and RUN/best (see lexlip.training.checkpoint),
    where RUN is `config.out` or runs/NAME. The best is chosen by the mean of the recalls on `data.val`.

    Args:
        config: the experiment.
        resume: go on from RUN/last.

    Returns:
        RUN.

    Raises:
        LexLIPError: photos, encoders or the config are unusable, or RUN exists already (or does not,
            with `resume`).
    """
    # Products of denormal numbers are over a hundred times slower on some CPUs. Set before the first
    # parallel operation, whose threads inherit it.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    run = Path(config.out or f"runs/{config.name}")
    processes = Processes(config.device)
    try:
        if processes.first:
            _check_run(run, config, resume)
        _train(config, run, resume, processes)
    finally:
        processes.close()
        torch.set_flush_denormal(False)
    return run


def _train(config: Config, run: Path, resume: bool, processes: Processes) -> None:
    torch.manual_seed(config.seed)
    train, val = open_configured(config.data.train), open_configured(config.data.val)
    if not len(val.captioned()):
        raise DataError(f"{val.name} has no captions to validate with; name other photos in data.val")
    start = replace(config, init=str(run / "last")) if resume else config
    model, vocabulary = make_model(start, train, progress=processes.first)
    model.to(processes.device)
    if config.optim.checkpoint_activations:
        model.checkpoint_activations()
    precision = pick_precision(config.optim.precision, processes.device)
    keys = torch.float32 if precision == "fp32" else torch.bfloat16
    trainee = Trainee(model, vocabulary, config.objective, keys)
    has_own_head = config.objective.masks and not isinstance(model, LexLIP)
    if has_own_head and start.init is None and config.model.text.name:
        trainee.own_head.start_from(load_mlm_head(config.model.text.name), trainee.columns)
    trainee.to(processes.device)
    processes.same_weights(trainee)
    optimizer = make_optimizer(trainee, config.optim)
    scaler = torch.amp.GradScaler(processes.device.type, enabled=precision == "fp16")
    state: dict[str, Any] = {"step": 0, "best": -1.0, "best_step": 0}
    torch.manual_seed(config.seed + processes.rank)  # dropout differs from process to process
    if resume:
        state = load_checkpoint(run, trainee, optimizer)
        resumed = set_random_state(state, processes)
        scaler.load_state_dict(state["scaler"])
    if config.optim.compile:
        model.compile_encoders()
    first = state["step"]
    tokenizer = model.text_encoder.tokenizer
    views = None
    if config.data.views:
        photos, which = Photos(train, config), train.captioned()
        views = encode_views(model.image_encoder, photos, which, config, run / "views.npy", processes)
    batches, steps = training_batches(train, config, tokenizer, vocabulary, first, processes, views)
    log = Log(run, first, steps, processes)
    for skipped in [*train.skipped, *val.skipped]:
        log.write(f"skipped {skipped.id}: {skipped.reason}")
    bare = np.setdiff1d(np.arange(len(train)), train.captioned())
    if len(bare):
        log.write(f"{len(bare)} photos have no caption, such as {train.items[int(bare[0])].id}: left out")
    log.write(
        f"{len(train)} photos, V = {len(vocabulary)}, {_millions(model)}, {steps} steps on"
        f" {f'{processes.world} x ' if processes.world > 1 else ''}{processes.device.type}"
        + (f", going on at step {first}" if resume else "")
    )
    if resume and not resumed:
        log.write("another number of processes than before: dropout will differ from an uninterrupted run")

    trainee.train()
    for step, batch in enumerate(batches, first):
        lr = set_learning_rate(optimizer, config.optim, step, steps)
        log.report_unreadable(batch)
        batch = batch.to(processes.device)
        trainee.take_turn(step)
        try:
            parts = train_step(trainee, batch, optimizer, scaler, config.optim, step / steps, processes)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                "the GPU's memory is too small for a step; lower optim.micro_batch, or set"
                " optim.checkpoint_activations=true"
            ) from error
        if parts is not None:
            if not torch.isfinite(parts["grad"]) and not scaler.get_scale() > 1:  # fp16 tries smaller scales
                raise ModelError(
                    f"the gradient is not finite at step {step}; lower optim.lr, or use precision=fp32"
                )
            log.step(step + 1, parts, lr, len(batch.photos), config.log_every)

        done = step + 1
        if done % config.validate_every == 0 or done == steps:
            if processes.first:
                report = _validate(model, val, config.data.workers)
                log.validation(done, report.to_dict(), report.mean_recall)
                if report.mean_recall > state["best"]:
                    state.update(best=report.mean_recall, best_step=done)
            state = processes.collect(state)[0]  # all must save together
            log.restart()
            trainee.train()
        is_best = state["best_step"] == done
        if is_best or done % config.checkpoint_every == 0 or done == steps:
            saved = {**state, **random_state(processes), "scaler": scaler.state_dict()}
            del saved["step"]
            if processes.first:
                save_checkpoint(run, done, trainee, optimizer, saved, best=is_best)
    processes.wait()
    log.close()


def _validate(model: DualEncoder, val: Source, workers: int) -> Report:
    """Recalls among all photos; of a cross-encoder among PAIRED_PHOTOS of them with a caption each."""
    if model.has_vectors:
        _, brute_force = engine_for(model, "exact")
        return evaluate(model, val, brute_force, workers=workers)
    assert isinstance(model, OneTransformer)
    captioned = val.captioned()
    few = [int(captioned[row]) for row in spread(len(captioned), PAIRED_PHOTOS)]
    return evaluate_pairs(model, embed_source(model, val, workers, indices=few, captions=1))


def make_model(config: Config, train: Source, progress: bool = False) -> tuple[DualEncoder, Vocabulary]:
    """The model at the start of a run: from `init`, or new with a vocabulary from the captions.

    Returns:
        The model, and the words that masked captions are predicted among: its own where it has any.

    Raises:
        LexLIPError: it cannot be made, or `init` is another model than the config describes.
    """
    if config.init is not None:
        model = load_start(config.init, config.model)
        _check_agreement(config, model)
        if model.config.image.size != config.model.image.size:
            model.resize(config.model.image.size)
        if isinstance(model, OneTransformer):
            model.config = replace(model.config, pooling=config.model.pooling)
        model.name = config.name
        if model.vocabulary is not None:
            return model, model.vocabulary
        if isinstance(model, OneTransformer) and kind_of(config.init) == LexLIP.kind:
            few = PhotoPixels(model.config.image, train, indices=spread(len(train), FITTED_PHOTOS))
            photos = [pixels for _, pixels in few.pixels()]
            fit_image_tokens(model, LexLIP.from_pretrained(config.init), photos)
        captions = [caption for texts in _captions(config, train) for caption in texts]
        return model, _vocabulary(config, model.text_encoder.tokenizer, captions)
    captions_of = _captions(config, train)
    captions = [caption for texts in captions_of for caption in texts]
    tokenizer = load_tokenizer(config.model.text, captions)
    vocabulary = _vocabulary(config, tokenizer, captions)
    model = KINDS[config.model.kind](config.model, tokenizer, vocabulary, name=config.name)
    if isinstance(model, LexLIP):
        m = config.model.companions
        columns = companions(model, captions_of, m) if m else None
        model.bag_of_words.start_from(inverse_document_frequency(model, captions), columns)
        to_fit = config.model.head == "fitted" or (config.model.head == "auto" and not model.trained_head)
        if to_fit and not fit_text_head(model, captions, progress) and progress:
            why = "the text encoder's states do not tell words apart: the heads start at random"
            tqdm.write(why, sys.stderr)
    return model, vocabulary


def _captions(config: Config, train: Source) -> list[tuple[str, ...]]:
    """What words are counted in: the captions of each photo, or of COUNTED_PHOTOS drawn from the seed."""
    rows: Iterable[int] = range(len(train))
    if len(train) > COUNTED_PHOTOS:
        numbers = np.random.default_rng(config.seed)
        rows = np.sort(numbers.choice(len(train), COUNTED_PHOTOS, replace=False)).tolist()
    captions = [train.items[row].captions for row in rows]
    if not any(captions):
        raise DataError(f"{train.name} has no captions to train on")
    return captions


def _vocabulary(config: Config, tokenizer: PreTrainedTokenizerBase, captions: list[str]) -> Vocabulary:
    return Vocabulary.build(config.model.vocabulary, tokenizer, captions)


def _check_agreement(config: Config, model: DualEncoder) -> None:
    """The model section must be that of `init`, but for the photos' size, for where weights, tokenizer and
    the start of the heads came from, and for which tokens of one Transformer are a vector."""
    asked, saved = _leaves(to_dict(config.model)), _leaves(to_dict(model.config))
    free = {"kind", "image.weights", "image.size", "text.name", "text.tokenizer", "head"}
    if isinstance(model, OneTransformer) or config.model.pooling is None:
        free.add("pooling")
    for key in asked.keys() - free:
        if asked[key] != saved[key]:
            raise ConfigError(
                f"model.{key} is {asked[key]}, but init={config.init} was trained with {saved[key]}"
            )


def _leaves(model: dict[str, Any]) -> dict[str, Any]:
    """The model section with its subsections' keys as "image.size"."""
    leaves: dict[str, Any] = {}
    for key, value in model.items():
        leaves |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return leaves


class Log:
    """Progress bar, one line every so many steps, and RUN/metrics.jsonl."""

    def __init__(self, run: Path, first: int, steps: int, processes: Processes) -> None:
        self.path, self.processes = run / "metrics.jsonl", processes
        self.restart()
        self.bar = tqdm(
            total=steps, initial=first, unit="step", desc="pretrain", disable=not processes.first or None
        )
        if not processes.first:
            return
        kept = [line for line in _whole_lines(self.path) if json.loads(line)["step"] <= first]
        self.path.write_text("".join(kept), encoding="utf-8")

    def restart(self) -> None:
        """Count photos a second from now on."""
        self.started, self.samples = time.perf_counter(), 0
        self.parts: dict[str, Tensor] = {}  # the latest of each, as losses may take turns

    def write(self, line: str) -> None:
        if self.processes.first:
            tqdm.write(line, file=sys.stderr)

    def report_unreadable(self, batch: Batch) -> None:
        for reason in batch.unreadable:  # each process has its own
            tqdm.write(f"skipped {reason}", file=sys.stderr)

    def step(self, step: int, parts: Mapping[str, Tensor], lr: float, samples: int, every: int) -> None:
        self.bar.update()
        self.samples += samples
        self.parts |= parts
        if step % every:
            return
        # each process has its share of every part
        numbers = [*(float(value) for value in self.parts.values()), float(self.samples)]
        *sums, encoded = self.processes.sum(numbers)
        seconds = time.perf_counter() - self.started
        values = dict(zip(self.parts, sums, strict=True))
        memory = _peak_memory_mb(self.processes.device)
        values |= {"lr": lr, "samples_per_s": encoded / seconds, "memory_mb": memory}
        self.restart()
        if self.processes.first:
            self._metrics({"step": step, **values})
        self.write(f"step {step:6d}  " + "  ".join(f"{name} {value:.4g}" for name, value in values.items()))

    def validation(self, step: int, report: Mapping[str, Any], score: float) -> None:
        self._metrics({"step": step, "val": report})
        t2i, i2t = report["t2i"], report["i2t"]
        words = ""
        if report["words@10"] is not None:
            terms = f"{report['terms_image']:.1f} / {report['terms_text']:.1f}"
            words = f"  terms {terms}  words@10 {report['words@10']:.3f}"
        self.write(
            f"step {step:6d}  val  mean recall {score:.2f}"
            f"  T2I {t2i['R@1']:.1f} / {t2i['R@5']:.1f} / {t2i['R@10']:.1f}"
            f"  I2T {i2t['R@1']:.1f} / {i2t['R@5']:.1f} / {i2t['R@10']:.1f}"
            f"{words}"
        )

    def close(self) -> None:
        self.bar.close()

    def _metrics(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _check_run(run: Path, config: Config, resume: bool) -> None:
    written = run / "config.yaml"
    if resume:
        if not (run / "last").exists():
            raise ConfigError(
                f"there is nothing to resume in {run}: it has no checkpoint yet; leave out --resume"
            )
        if load_config(written) != config:
            raise ConfigError(
                f"{written} differs from this config; resume with what that file says, or use another out="
            )
        return
    if (run / "last").exists():
        raise ConfigError(
            f"{run} holds a run already; go on with --resume, or choose another with out=FOLDER"
        )
    run.mkdir(parents=True, exist_ok=True)
    written.write_text(yaml.safe_dump(to_dict(config), sort_keys=False), encoding="utf-8")


def _whole_lines(path: Path) -> Iterator[str]:
    """Lines with their ends; one that a killed run left unfinished is not among them."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        yield from (line for line in lines if line.endswith("\n"))


def _millions(model: torch.nn.Module) -> str:
    return f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters"


def _peak_memory_mb(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if os.uname().sysname == "Darwin" else 2**10)
