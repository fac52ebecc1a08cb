"""The training loop."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor
from tqdm import tqdm

from lexlip.config import Config, ObjectiveConfig, load_config, to_dict
from lexlip.data import Source
from lexlip.encoders.text import load_tokenizer
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.evaluation.evaluate import evaluate
from lexlip.models.lexlip import LexLIP
from lexlip.objectives.total import total_loss
from lexlip.search.engines import exact_engine
from lexlip.training.batches import Batch, Inputs, open_configured, training_batches
from lexlip.training.checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from lexlip.training.device import pick_device
from lexlip.training.step import Loss, backward, make_optimizer, set_learning_rate
from lexlip.vocabulary import Vocabulary, tokenize_captions


def pretrain(config: Config, resume: bool = False) -> Path:
    """Train a model as a config says.

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
    run = Path(config.out or f"runs/{config.name}")
    _check_run(run, config, resume)
    device = pick_device(config.device)
    torch.manual_seed(config.seed)
    train, val = open_configured(config.data.train), open_configured(config.data.val)
    model = make_model(config, train).to(device)
    optimizer = make_optimizer(model, config.optim)
    scaler = torch.amp.GradScaler(device.type, enabled=config.optim.precision == "fp16")
    state: dict[str, Any] = {"step": 0, "best": -1.0, "best_step": 0}
    if resume:
        state = load_checkpoint(run, model, optimizer)
        set_random_state(state, device)
        scaler.load_state_dict(state["scaler"])
    first = state["step"]
    batches, steps = training_batches(train, config, first)
    log = Log(run, first, steps)
    for skipped in [*train.skipped, *val.skipped]:
        log.write(f"skipped {skipped.id}: {skipped.reason}")
    log.write(
        f"{len(train)} photos, V = {len(model.vocabulary)}, {_millions(model)}, {steps} steps on {device}"
        + (f", going on at step {first}" if resume else "")
    )

    model.train()
    for step, batch in enumerate(batches, first):
        progress = step / steps
        lr = set_learning_rate(optimizer, config.optim, step, steps)
        log.report_unreadable(batch)
        if batch.captions:
            inputs = Inputs.of(batch, model)
            micro, precision = config.optim.micro_batch, config.optim.precision
            parts = backward(model, inputs, _loss(config.objective, progress), micro, precision, scaler)
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.optim.clip)
            if not torch.isfinite(norm) and not scaler.is_enabled():
                raise ModelError(
                    f"the gradient is not finite at step {step}; lower optim.lr, or use precision=fp32"
                )
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            log.step(step + 1, {**parts, "grad": norm}, lr, len(inputs.pixels), config.log_every)

        done = step + 1
        if done % config.validate_every == 0 or done == steps:
            report = evaluate(model, val, exact_engine, workers=config.data.workers)
            model.train()
            score = report.mean_recall
            log.validation(done, report.to_dict(), score)
            if score > state["best"]:
                state.update(best=score, best_step=done)
        is_best = state["best_step"] == done
        if is_best or done % config.checkpoint_every == 0 or done == steps:
            saved = {**state, **random_state(device), "scaler": scaler.state_dict()}
            del saved["step"]
            save_checkpoint(run, done, model, optimizer, saved, best=is_best)
    log.close()
    return run


def make_model(config: Config, train: Source) -> LexLIP:
    """The model at the start of a run: from `init`, or new with a vocabulary from the captions.

    Raises:
        LexLIPError: it cannot be made, or `init` is another model than the config describes.
    """
    if config.init is not None:
        model = LexLIP.from_pretrained(config.init)
        _check_agreement(config, model)
        model.name = config.name
        return model
    captions = [caption for item in train.items for caption in item.captions]
    if not captions:
        raise DataError(f"{train.name} has no captions to train on")
    tokenizer = load_tokenizer(config.model.text, captions)
    vocabulary = Vocabulary.build(config.model.vocabulary, tokenizer, captions)
    model = LexLIP(config.model, tokenizer, vocabulary, name=config.name)
    model.bag_of_words.start_from(inverse_document_frequency(model, captions))
    return model


def _check_agreement(config: Config, model: LexLIP) -> None:
    """The model section must be that of `init`, but for where weights and tokenizer came from."""
    asked, saved = to_dict(config.model), to_dict(model.config)
    for section, origins in (("image", ["weights"]), ("text", ["name", "tokenizer"]), ("vocabulary", [])):
        for key in asked[section].keys() - origins:
            if asked[section][key] != saved[section][key]:
                raise ConfigError(
                    f"model.{section}.{key} is {asked[section][key]}, but init={config.init} was trained"
                    f" with {saved[section][key]}"
                )


def inverse_document_frequency(model: LexLIP, captions: list[str]) -> Tensor:
    """log(1 + N / (1 + df)) of each word over N captions, [V], divided by its mean."""
    counts: Counter[int] = Counter()
    for ids in tokenize_captions(model.text_encoder.tokenizer, captions):
        counts.update(set(model.vocabulary.columns(ids)))
    frequency = torch.tensor([counts[column] for column in range(len(model.vocabulary))])
    weights = torch.log1p(len(captions) / (1 + frequency))
    return weights / weights.mean()


class Log:
    """Progress bar, one line every so many steps, and RUN/metrics.jsonl."""

    def __init__(self, run: Path, first: int, steps: int) -> None:
        self.path = run / "metrics.jsonl"
        kept = [line for line in _whole_lines(self.path) if json.loads(line)["step"] <= first]
        self.path.write_text("".join(kept), encoding="utf-8")
        self.bar = tqdm(total=steps, initial=first, unit="step", desc="pretrain", disable=None)
        self.started, self.samples = time.perf_counter(), 0

    def write(self, line: str) -> None:
        tqdm.write(line, file=sys.stderr)

    def report_unreadable(self, batch: Batch) -> None:
        for reason in batch.unreadable:
            self.write(f"skipped {reason}")

    def step(self, step: int, parts: Mapping[str, Tensor], lr: float, samples: int, every: int) -> None:
        self.bar.update()
        self.samples += samples
        if step % every:
            return
        now = time.perf_counter()
        values = {name: float(value) for name, value in parts.items()}
        values |= {
            "lr": lr,
            "samples_per_s": self.samples / (now - self.started),
            "memory_mb": _peak_memory_mb(),
        }
        self.started, self.samples = now, 0
        self._metrics({"step": step, **values})
        self.write(f"step {step:6d}  " + "  ".join(f"{name} {value:.4g}" for name, value in values.items()))

    def validation(self, step: int, report: Mapping[str, Any], score: float) -> None:
        self._metrics({"step": step, "val": report})
        t2i, i2t = report["t2i"], report["i2t"]
        self.write(
            f"step {step:6d}  val  mean recall {score:.2f}"
            f"  T2I {t2i['R@1']:.1f} / {t2i['R@5']:.1f} / {t2i['R@10']:.1f}"
            f"  I2T {i2t['R@1']:.1f} / {i2t['R@5']:.1f} / {i2t['R@10']:.1f}"
            f"  terms {report['terms_image']:.1f} / {report['terms_text']:.1f}"
            f"  words@10 {report['words@10']:.3f}"
        )
        self.started, self.samples = time.perf_counter(), 0

    def close(self) -> None:
        self.bar.close()

    def _metrics(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _loss(config: ObjectiveConfig, progress: float) -> Loss:
    return lambda outputs, inputs: total_loss(
        outputs, inputs.image_of_text, inputs.word_counts, config, progress
    )


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


def _peak_memory_mb() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if os.uname().sysname == "Darwin" else 2**10)
