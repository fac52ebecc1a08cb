"""The papers' tables from nothing but photos: the runs that they need, what is missing of these, and recalls.

reproductions.yaml says which runs a table needs; `lexlip pretrain` trains them.
"""

from __future__ import annotations

import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from lexlip.config import Config
from lexlip.config_files import DEFAULT_CONFIG, from_dict, load_phases
from lexlip.errors import DataError
from lexlip.training.run_folder import check_run, is_finished

FILE = Path(__file__).with_name("reproductions.yaml")
RECALLS = [f"{way} R@{k}" for way in ("T2I", "I2T") for k in (1, 5, 10)]
SPEED = 0.4 * 312e12  # operations a second of an A100, at 40 % of its bf16 peak, as the configs reckon

RunState = Literal["finished", "begun", "to train"]


@dataclass(frozen=True)
class DeclaredRun:
    """A run as reproductions.yaml has it."""

    config: str
    after: str | None = None
    changes: tuple[str, ...] = ()
    eflop: float | None = None


@dataclass(frozen=True)
class DeclaredRow:
    name: str
    run: str
    photos: str
    paper: tuple[float, ...] = ()


@dataclass(frozen=True)
class DeclaredTable:
    title: str
    preset: str | None  # None: its configs' own keys
    rows: tuple[DeclaredRow, ...]
    shares: bool = False


@dataclass(frozen=True)
class Declared:
    """All of reproductions.yaml."""

    runs: dict[str, DeclaredRun]
    tables: dict[str, DeclaredTable]


def declared() -> Declared:
    """Read reproductions.yaml."""
    tree = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return Declared(
        {name: from_dict(DeclaredRun, keys) for name, keys in tree["runs"].items()},
        {name: from_dict(DeclaredTable, keys) for name, keys in tree["tables"].items()},
    )


@dataclass(frozen=True)
class Run:
    """A run of one seed."""

    name: str
    seed: int
    after: Run | None
    arguments: tuple[str, ...]  # of `lexlip pretrain`
    eflop: float | None

    @cached_property
    def phases(self) -> list[Config]:
        """Return its config, or those of its phases."""
        config, overrides = self.arguments[0], self.arguments
        if "=" in config:
            return load_phases(DEFAULT_CONFIG, overrides)
        return load_phases(config, overrides[1:])

    @property
    def folder(self) -> Path:
        return self.phases[-1].folder

    def photos(self, split: Literal["train", "val"]) -> list[str]:
        """Return the sources that it is trained or validated on, each once."""
        sources = (source.path for config in self.phases for source in getattr(config.data, split))
        return list(dict.fromkeys(sources))

    @property
    def state(self) -> RunState:
        """How far it is; ConfigError: its folder holds a run of another config."""
        begun = [config for config in self.phases if (config.folder / "last").exists()]
        for config in begun:
            check_run(config, resume=True)
        if is_finished(self.folder):
            return "finished"
        return "begun" if begun else "to train"

    @property
    def line(self) -> str:
        """The command that trains it."""
        return shlex.join(["lexlip", "pretrain", *self.arguments])

    @property
    def gpu_hours(self) -> float | None:
        """Hours of one A100 at 40 % of its bf16 peak, computed and not measured; None: unknown."""
        return None if self.eflop is None else self.eflop * 1e18 / SPEED / 3600

    def missing(self, processes: int) -> list[str]:
        """Return what keeps it from starting, a sentence each, but for the run before it."""
        from lexlip.training.plan import plan_phases

        plans = plan_phases(self.phases, processes, resume=self.state == "begun")
        sentences = dict.fromkeys(what for plan in plans for what in plan.missing)
        return [what for what in sentences if self.after is None or not what.startswith("init: ")]

    def train(self, resume: bool, processes: int) -> None:
        """Train it in a process of its own, or in several; DataError: it failed, and has said why."""
        alone = [sys.executable, "-m", "lexlip", "pretrain"]
        several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        program = alone if processes == 1 else [sys.executable, *several, *alone[1:]]
        command = [*program, *self.arguments, *(["--resume"] if resume else [])]
        done = subprocess.run(command, stdout=2, check=False)  # what it prints is no part of the table
        if done.returncode:
            raise DataError(
                f"the run {self.folder} ended with exit code {done.returncode}; mend what it says, then go on"
                " with the same command and --resume"
            )


@dataclass(frozen=True)
class Row:
    name: str
    photos: str  # that it is measured on
    runs: tuple[Run, ...]  # the last run of each seed
    paper: tuple[float, ...]


@dataclass(frozen=True)
class MeasuredRow:
    """The recalls of a row, [seeds][T2I R@1, 5, 10, I2T R@1, 5, 10]."""

    row: Row
    recalls: list[list[float]] = field(default_factory=list)

    @property
    def means(self) -> list[float]:
        return [statistics.fmean(of_seeds) for of_seeds in zip(*self.recalls, strict=True)]

    @property
    def deviations(self) -> list[float] | None:
        """The standard deviations over seeds, of a sample; None with one seed."""
        if len(self.recalls) < 2:
            return None
        return [statistics.stdev(of_seeds) for of_seeds in zip(*self.recalls, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.row.name,
            "photos": self.row.photos,
            "runs": [str(run.folder) for run in self.row.runs],
            "recalls": self.recalls,
            "mean": dict(zip(RECALLS, self.means, strict=True)),
            "deviation": self.deviations and dict(zip(RECALLS, self.deviations, strict=True)),
            "paper": dict(zip(RECALLS, self.row.paper, strict=True)) if self.row.paper else None,
        }


def rows_of(
    table: DeclaredTable,
    preset: str | None,
    seeds: int,
    out: Path,
    changes: Sequence[str] = (),
    photos: str | None = None,
) -> list[Row]:
    """Return the rows of a table with the runs that they need, in OUT/PRESET/NAME-SEED or OUT/own/NAME-SEED.

    `changes` are of every run's config; `photos` are measured on instead of the declared ones. What runs
    share is in OUT/prepared.
    """
    known = declared().runs
    made: dict[tuple[str, int], Run] = {}

    def run_of(name: str, seed: int) -> Run:
        if (name, seed) not in made:
            given = known[name]
            after = None if given.after is None else run_of(given.after, seed)
            folder = out / (preset or "own") / f"{name}-{seed}"
            arguments = (
                *([] if given.config == "scenes" else [f"configs/{given.config}.yaml"]),
                *([] if preset is None else [f"preset={preset}"]),
                *given.changes,
                *([f"prepared={out / 'prepared'}"] if table.shares else []),
                *changes,
                f"seed={seed}",
                f"name={name}",
                f"out={folder}",
                *([] if after is None else [f"init={after.folder / 'best'}"]),
            )
            made[name, seed] = Run(name, seed, after, arguments, given.eflop)
        return made[name, seed]

    return [
        Row(
            row.name,
            photos or row.photos,
            tuple(run_of(row.run, seed) for seed in range(seeds)),
            row.paper,
        )
        for row in table.rows
    ]


def runs_of(rows: Sequence[Row]) -> list[Run]:
    """Return all runs that rows need, each once and after the run that it starts from."""
    found: dict[Path, Run] = {}

    def add(run: Run) -> None:
        if run.after is not None:
            add(run.after)
        found.setdefault(run.folder, run)

    for row in rows:
        for run in row.runs:
            add(run)
    return list(found.values())


def to_train(rows: Sequence[Row]) -> list[Run]:
    """Return the runs that are still to be trained, in this order: those of `runs_of` that rows lack.

    What a finished run started from is not needed any more.
    """
    needed: set[Path] = set()

    def need(run: Run) -> None:
        if run.state == "finished":
            return
        needed.add(run.folder)
        if run.state == "to train" and run.after is not None:
            need(run.after)

    for row in rows:
        for run in row.runs:
            need(run)
    return [run for run in runs_of(rows) if run.folder in needed]


def measure_rows(
    rows: Sequence[Row], workers: int, device: str, topk_words: int | None = None
) -> Iterator[MeasuredRow]:
    """Yield each row's recalls by its runs' best checkpoints, with float vectors.

    Documents keep `topk_words` words, or all. ModelError: a dense model has no words.
    """
    from lexlip.data import open_source
    from lexlip.measure.evaluate import evaluate
    from lexlip.models.load import load_model
    from lexlip.search.engines.exact import engine_for

    for row in rows:
        photos, recalls = open_source(row.photos), []
        for run in row.runs:
            model = load_model(run.folder / "best", device)
            report = evaluate(model, photos, engine_for(model, "exact")[1], topk_words, workers=workers)
            recalls.append([*report.t2i.values(), *report.i2t.values()])
        yield MeasuredRow(row, recalls)
