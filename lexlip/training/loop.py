"""A training run, from its config to its last checkpoint: set up, and one visible loop."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from lexlip.config import Config
from lexlip.data import Source, UnreadableImage, open_sources, spread
from lexlip.encoders.text import load_mlm_head
from lexlip.errors import ConfigError, DataError, LexLIPError, ModelError
from lexlip.explain.weighted_words import words_of_picture
from lexlip.machine.device import pick_precision
from lexlip.machine.resources import keep_freed_memory
from lexlip.measure.evaluate import evaluate
from lexlip.measure.pairs import evaluate_pairs
from lexlip.measure.pool import embed_pool
from lexlip.measure.recalls import Report
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import WEIGHTS
from lexlip.models.one_transformer import OneTransformer
from lexlip.search.engines.exact import engine_for
from lexlip.training.augmentation import AugmentedPhotos, FrozenViews
from lexlip.training.averages import average
from lexlip.training.batches import Batch, Collate
from lexlip.training.checkpoint import State, forget_start, load_checkpoint, save_best, save_checkpoint
from lexlip.training.distributed import Processes
from lexlip.training.initialisation import add_words, counted_captions
from lexlip.training.loading import Order, load_batches
from lexlip.training.log import Log, check_log
from lexlip.training.method import Method
from lexlip.training.prepared import frozen_views, prepare_model, starting_model, taught_by
from lexlip.training.run_folder import begin_run, best_of, phase_to_begin_with, validations, way_on
from lexlip.training.schedule import Schedule, set_learning_rate
from lexlip.training.step import SkippedStep, Step, gradient_shares, make_optimizer, train_step
from lexlip.words.plain_text import counted
from lexlip.words.vocabulary import Vocabulary

FAILURES = 10  # steps in a row without a finite gradient, or a readable photo, that end a run
PAIRED_PHOTOS = 100  # among which a cross-encoder is validated, all photos with all captions

SHOWN, WORDS = 3, 8  # photos whose words a run prints at its end, and how many


def pretrain(config: Config | Sequence[Config], resume: bool = False) -> Path:
    """Train a model as a config says, alone or with the processes that torchrun started; return RUN.

    Writes RUN/config.yaml, RUN/metrics.jsonl, RUN/last and RUN/best (see lexlip.training.checkpoint),
    where RUN is `config.out` or runs/NAME. The best checkpoint has the highest mean recall on `data.val`;
    what a run starts from (`config.init`) counts as one, of step 0. It may have lost at most a point on
    `data.others`.
    With `resume` goes on from RUN/last; under torchrun, begins if there is none.

    Several configs are phases (see `lexlip.config_files.load_phases`), trained one after another; `resume`
    goes on in the one that was interrupted.

    Raises:
        LexLIPError: photos, encoders or the config cannot be used, RUN exists already, or with `resume` it
            does not.
    """
    phases = [config] if isinstance(config, Config) else config
    for phase in phases:
        check_log(phase)
    # Some CPUs multiply denormal numbers over a hundred times slower. Set before the first parallel
    # operation, as its threads inherit it.
    torch.set_flush_denormal(True)
    keep_freed_memory()
    try:
        with Processes(phases[0].device) as processes:
            first = phase_to_begin_with(phases, resume) if processes.first else 0
            for phase in phases[processes.collect(first)[0] :]:
                folder, resume = begin_run(phase, resume, processes)
                run = set_up(phase, folder, resume, processes)
                if phase.init is not None and not resume:
                    consider_start(run)
                train(run)
                resume = False
    finally:
        torch.set_flush_denormal(False)
    return folder


def prepare(config: Config | Sequence[Config]) -> Path:
    """Make what `pretrain` needs before its first step, and another machine can make; return RUN.

    That is the new model, with fitted heads (RUN/prepared), and the teacher's vectors. `pretrain` uses what
    belongs to its config, photos and weights, and makes the rest anew. LexLIPError: as `pretrain` raises it.
    """
    phases = [config] if isinstance(config, Config) else config
    with Processes(phases[0].device) as processes:
        if processes.world > 1:
            raise ConfigError("one process prepares a run: leave out torchrun")
        phase_to_begin_with(phases, resume=False)
        for phase in phases:
            folder, _ = begin_run(phase, False, processes)
            train = open_sources(phase.data.train)
            Order(train, phase).check()
            if phase.init is None:
                prepare_model(phase, train, folder)
            if phase.teacher is not None:
                taught_by(phase, train, folder, processes)
    return folder


@dataclass
class Run:
    config: Config
    folder: Path  # RUN
    processes: Processes
    method: Method
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler  # of the gradients, for fp16
    batches: Iterator[Batch]  # this process's, from step `first` on
    first: int  # the step to begin with
    schedule: Schedule
    val: Source
    others: Source | None  # photos that the run is not for
    state: State
    log: Log


def train(run: Run) -> None:
    """Train to the end of a run, with validations and checkpoints."""
    config, method, processes = run.config, run.method, run.processes
    schedule, state = run.schedule, run.state
    method.train()
    failed = 0
    for step, batch in enumerate(run.batches, run.first):
        run.log.report_unreadable(batch)
        batch = batch.to(processes.device)
        steps = schedule.steps(step)
        lr = set_learning_rate(run.optimizer, config.optim, step, steps)
        method.take_turn(step)
        try:
            given = Step(method, batch, config.optim, step / steps, processes, run.scaler)
            outcome = train_step(given, run.optimizer)
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                "the GPU's memory is too small for a step; lower optim.micro_batch, or set"
                " optim.checkpoint_activations=true"
            ) from error
        done = step + 1
        if isinstance(outcome, SkippedStep):
            run.log.skip(done, outcome.value)
        else:
            run.log.step(done, outcome, lr, len(batch.photos))
        failed = failed + 1 if outcome in (SkippedStep.NOT_FINITE, SkippedStep.NO_PHOTO) else 0
        schedule.count(done)
        if failed == FAILURES or (state.ended and failed == done):
            raise _failed(run, outcome, failed, done)
        run.log.bar.total = schedule.steps(done)
        best = schedule.validates(done) and consider(run, done, gradient_shares(given))
        if state.ended and consider_between(run, done):
            best = False
        if best or schedule.saves(done):
            save(run, done, ("best",) if best else ())
        if state.ended:
            break
    if processes.first:
        forget_start(run.folder)
        if isinstance(method.model, LexLIP):
            for line in words_seen(method.model, run.val):
                run.log.write(line)
        if config.init is not None:
            for line in gain(run):
                run.log.write(line)
    processes.wait()
    run.log.close()


def _failed(run: Run, outcome: object, failed: int, done: int) -> LexLIPError:
    """Return the error to raise if so many steps in a row, up to `done`, have trained nothing."""
    steps = f"in {counted(failed, 'step')} in a row, the last of them {done};"
    if outcome is SkippedStep.NO_PHOTO:
        again = way_on(run.folder)
        return DataError(f"no photo of a batch could be read {steps} when they are mended, {again}")
    return ModelError(
        f"the gradient was not finite {steps} start again with a lower optim.lr or optim.precision=fp32"
    )


def consider_start(run: Run) -> None:
    """Validate and save what a run starts from; it draws the same numbers afterwards."""
    device = run.processes.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        consider(run, 0)
    save(run, 0, ("start", "best") if run.config.interpolate else ("best",))


def consider_between(run: Run, step: int) -> bool:
    """Validate weights between those of the start and of the end; return whether the best are among them.

    The method of WiSE-FT (Wortsman et al., 2022, arXiv 2109.01903): (1 - way) start + way end keeps much of
    what the start knew and the end has forgotten. The model has the end's weights again afterwards.
    """
    if not run.config.interpolate:
        return False
    model, best = run.method.model, None
    start = load_file(run.folder / "start" / WEIGHTS)
    end = {name: value.cpu().clone() for name, value in model.state_dict().items()}
    for way in run.config.interpolate:
        model.load_state_dict(average([start, end], [1 - way, way]))
        if consider(run, step, way=way):
            best = way
    if best is not None and run.processes.first:
        model.load_state_dict(average([start, end], [1 - best, best]))
        save_best(run.folder, f"step-{step:08d}-way-{best:g}", model)
    model.load_state_dict(end)
    return best is not None


def consider(
    run: Run, step: int, gradient: Mapping[str, float] | None = None, way: float | None = None
) -> bool:
    """Validate the model as it is; return whether it is the best so far, by `best_of`."""
    found = False, 0.0
    if run.processes.first:
        model, workers = run.method.model, run.config.data.workers
        own = validate(model, run.val, workers)
        others = None if run.others is None else validate(model, run.others, workers)
        run.log.validation(step, own, others, gradient, way)
        rows = validations(run.folder)
        found = best_of(rows) is rows[-1], own.mean_recall
    best, recall = run.processes.collect(found)[0]
    if best:
        run.state.best, run.state.best_step = recall, step
    run.log.restart()
    run.method.train()
    run.schedule.validated()
    return best


def gain(run: Run) -> Iterator[str]:
    """Yield what RUN/best has gained over the start on `data.val`, and what that costs on `data.others`."""
    rows = validations(run.folder)
    start, best = rows[0], best_of(rows)
    if start.step:
        return  # an older version began this run, without a validation of its start
    yield f"gained on {run.val.name}: {_recalls(start.own, best.own)}"
    if best is start:
        if run.others is None:
            why, remedy = "no weights were better there", "lower optim.lr"
        else:
            why = "no weights were better there and lost at most a point on the others"
            remedy = "give interpolate smaller shares"
        yield f"{why}, so the start is the best: {remedy}, or add photos"
    if run.others is not None and start.others is not None and best.others is not None:
        yield f"in return, on {run.others.name}: {_recalls(start.others, best.others)}"
    elif run.config.phase is None:
        yield (
            f"to see what it forgets of other photos: lexlip package {run.folder} FOLDER, then compare"
            f" lexlip evaluate PHOTOS --model FOLDER with --model {run.config.init}"
        )


def _recalls(before: Report, after: Report) -> str:
    numbers = {
        "mean recall": (before.mean_recall, after.mean_recall),
        "R@1 text to image": (before.t2i["R@1"], after.t2i["R@1"]),
        "image to text": (before.i2t["R@1"], after.i2t["R@1"]),
    }
    return ", ".join(f"{name} {old:.1f} → {new:.1f}" for name, (old, new) in numbers.items())


def save(run: Run, step: int, links: Sequence[str]) -> None:
    """Save what `--resume` needs to go on after a step; `links` besides `last` point to it."""
    parts = run.method, run.optimizer, run.scaler, run.state, run.processes
    save_checkpoint(run.folder, step, *parts, links)
    run.schedule.saved()


def validate(model: DualEncoder, val: Source, workers: int) -> Report:
    """Return the recalls among all photos; for a cross-encoder among PAIRED_PHOTOS with a caption each."""
    if model.can.vectors:
        _, brute_force = engine_for(model, "exact")
        return evaluate(model, val, brute_force, workers=workers)
    assert isinstance(model, OneTransformer)
    captioned = val.captioned()
    few = [int(captioned[row]) for row in spread(len(captioned), PAIRED_PHOTOS)]
    return evaluate_pairs(model, embed_pool(model, val, workers, indices=few, captions=1))


def words_seen(model: LexLIP, val: Source) -> Iterator[str]:
    """Yield the heaviest words of some photos, with a caption each: what the model says, for people."""
    captioned = val.captioned()
    for row in spread(len(captioned), SHOWN):
        photo = int(captioned[row])
        with suppress(UnreadableImage):  # the validation has named it
            seen = words_of_picture(model, val.image(photo)).first(WORDS).weights
            yield f"  {val.items[photo].captions[0]}"
            yield "    " + "  ".join(f"{word} {weight:.2f}" for word, weight in seen.items())


# ---- everything that a run needs before its first step ----


def set_up(
    config: Config, folder: Path, resume: bool, processes: Processes, views: FrozenViews | None = None
) -> Run:
    """Open photos, make or load the model, and start the workers.

    With `views` the photos are not encoded by a frozen image body: another run with the same one did it.
    LexLIPError: photos, encoders, the config or the checkpoint cannot be used.
    """
    torch.manual_seed(config.seed)
    regions = config.model.image.regions
    train, val = open_sources(config.data.train, regions), open_sources(config.data.val, regions)
    others = open_sources(config.data.others, regions) if config.data.others else None
    for key, source in (("val", val), ("others", others)):
        if source is not None and not len(source.captioned()):
            raise DataError(
                f"{source.name} has no captions to validate with; name other photos in data.{key}"
            )
    order = Order(train, config, processes.part)
    order.check()
    processes.part(config.optim.batch)  # enough photos for all
    start = replace(config, init=str(folder / "last")) if resume else config
    model, vocabulary = starting_model(start, train, folder, processes)
    new: tuple[str, ...] = ()
    if config.new_words and not resume:
        assert isinstance(model, LexLIP)
        new = add_words(model, counted_captions(train, config.seed), config.new_words)
        vocabulary = model.vocabulary
    method = _method_of(start, model, vocabulary, train, folder, processes)
    optimizer = make_optimizer(method, config.optim)
    precision = pick_precision(config.optim.precision, processes.device)
    scaler = torch.amp.GradScaler(processes.device.type, enabled=precision == "fp16")
    torch.manual_seed(config.seed + processes.rank)  # dropout differs between processes
    state, same_processes = State(), True
    if resume:
        order.first, state, same_processes = load_checkpoint(folder, method, optimizer, scaler, processes)
        if state.ended:
            order.steps = order.first
    if config.optim.compile:
        model.compile_encoders()
    photos = AugmentedPhotos(train, config.data, config.model.image, config.seed)
    if config.data.views:
        photos.views = views or frozen_views(
            model.image_encoder, photos, order.seen, config, folder, processes
        )
        method.begin_at(photos.views.until)
    if method.teacher is not None and config.data.alike:
        order.topics = method.teacher.topics(order.photos, config.data.alike, config.seed, processes)
    max_tokens = config.model.text.max_tokens
    collate = Collate(config.objective, model.tokenizer, max_tokens, vocabulary, config.seed)
    pinned = processes.device.type == "cuda"
    batches = load_batches(photos, order, collate, config.data.workers, pinned)
    schedule = Schedule(config, order.steps, state, processes)
    board = "tensorboard" in config.log
    log = Log(folder, order.first, order.steps, config.log_every, processes, board)
    length = f"{config.optim.minutes:g} minutes" if order.steps is None else counted(order.steps, "step")
    _describe(log, config.phase, train, val, order.seen, model, vocabulary, length)
    if new:
        some = textwrap.shorten(", ".join(new), 200, placeholder=" …")
        log.write(f"{len(new)} of the words are new: {some}")
    elif config.new_words and not resume:
        log.write(f"no new word occurs {counted(config.new_words, 'time')} in the captions")
    if resume:
        log.write(f"going on at step {order.first}")
    if not same_processes:
        log.write("another number of processes than before: dropout differs from an uninterrupted run")
    parts = config, folder, processes, method, optimizer, scaler, batches, order.first
    return Run(*parts, schedule, val, others, state, log)


def _method_of(
    config: Config,
    model: DualEncoder,
    vocabulary: Vocabulary,
    train: Source,
    folder: Path,
    processes: Processes,
) -> Method:
    """Return the method of a model on the device, with the same weights in all processes."""
    model.to(processes.device)
    if config.optim.checkpoint_activations:
        model.checkpoint_activations()
    precision = pick_precision(config.optim.precision, processes.device)
    exact = precision == "fp32" or model.metric == "dot"  # dot products are not limited to 1, as cosines are
    key_dtype = torch.float32 if exact else torch.bfloat16
    teacher = None if config.teacher is None else taught_by(config, train, folder, processes)
    method = Method(model, vocabulary, config.objective, key_dtype, teacher)
    if config.objective.masks and not model.can.words and config.init is None and config.model.text.name:
        method.own_head.copy_mlm_head(load_mlm_head(config.model.text.name), method.pieces)
    method.to(processes.device)
    processes.same_weights(method)
    return method


def _describe(
    log: Log,
    phase: str | None,
    train: Source,
    val: Source,
    seen: np.ndarray,
    model: DualEncoder,
    vocabulary: Vocabulary,
    length: str,
) -> None:
    """Say what is trained, which photos are left out, and which of `val` are among those that are `seen`."""
    for skipped in [*train.skipped, *val.skipped]:
        log.write(f"skipped {skipped.id}: {skipped.reason}")
    without = np.setdiff1d(np.arange(len(train)), train.captioned())
    if len(without):
        example = train.items[int(without[0])].id
        are = "has no caption and is" if len(without) == 1 else "have no caption and are"
        log.write(f"{counted(len(without), 'photo')} {are} left out, such as {example}")
    if log.processes.first and (again := _trained_on(train, seen, val)):
        of = counted(len(val.captioned()), "validation photo")
        too_good = "so its recalls are too good: name other photos in data.val"
        log.write(f"note: the run trains on {again} of its {of}, {too_good}")
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    processes = log.processes
    device = f"{processes.world} x " * (processes.world > 1) + processes.device.type
    what = f"{counted(len(train), 'photo')}, {counted(len(vocabulary), 'word')}"
    what += f", {parameters:.1f}M parameters, {length}"
    log.write(f"{'' if phase is None else f'{phase}: '}{what} on {device}")


def _trained_on(train: Source, seen: np.ndarray, val: Source) -> int:
    """Return how many photos of `val` are `seen` in training, by their files; drawn ones have none."""
    paths = {path for row in val.captioned() if (path := val.path(int(row))).startswith("/")}
    return len(paths.intersection(train.path(int(row)) for row in seen)) if paths else 0
