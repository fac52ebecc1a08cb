"""What a run prints, and its metrics.jsonl; with `log: [tensorboard]` the same figures for TensorBoard."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from tqdm import tqdm

from anserini_bridge.storage import atomic_write
from lexlip.config import Config
from lexlip.errors import needing_extras
from lexlip.machine.resources import peak_memory_mb
from lexlip.measure.recalls import Report
from lexlip.training.batches import Batch
from lexlip.training.distributed import Processes
from lexlip.training.run_folder import writing_run

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


@needing_extras()
def check_log(config: Config) -> None:
    """Raise MissingPackage, before a run, if what it is to be logged with is not installed."""
    if "tensorboard" in config.log:
        import torch.utils.tensorboard  # noqa: F401


class Log:
    """A progress bar, one line every so many steps, and RUN/metrics.jsonl, of the first process.

    Lines of metrics.jsonl after the step to begin with are removed. With `tensorboard` their numbers are also
    in RUN/tensorboard, which then shows no later steps either.
    """

    def __init__(
        self,
        folder: Path,
        first: int,
        steps: int | None,
        every: int,
        processes: Processes,
        tensorboard: bool = False,
    ) -> None:
        self.file, self.every, self.processes = folder / "metrics.jsonl", every, processes
        self.board: SummaryWriter | None = None
        self.restart()
        self.bar = tqdm(
            total=steps, initial=first, unit="step", desc="pretrain", disable=not processes.first or None
        )
        if processes.first:
            kept = [line for line in self._complete_lines() if json.loads(line)["step"] <= first]
            with writing_run(folder), atomic_write(self.file) as file:
                file.write("".join(kept))
            if tensorboard:
                from torch.utils.tensorboard import SummaryWriter

                with writing_run(folder):
                    self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=first and first + 1)

    def restart(self) -> None:
        """Measure photos per second from now on."""
        self.started, self.samples = time.perf_counter(), 0
        self.parts: dict[str, Tensor] = {}  # the latest value of each, as losses may take turns

    def write(self, line: str) -> None:
        if self.processes.first:
            tqdm.write(line, file=sys.stderr)

    def report_unreadable(self, batch: Batch) -> None:
        """Print which photos of a batch could not be read; each process has its own."""
        for reason in batch.unreadable:
            tqdm.write(f"skipped {reason}", file=sys.stderr)

    def skip(self, step: int, why: str) -> None:
        self.bar.update()
        self.write(f"step {step:6d}  skipped: {why}")

    def step(self, step: int, parts: Mapping[str, Tensor], lr: float, samples: int) -> None:
        """Note a step's losses; every so many steps print and write them."""
        self.bar.update()
        self.samples += samples
        self.parts |= parts
        if step % self.every:
            return
        # each process has its share of every loss
        values = [*torch.stack([part.float() for part in self.parts.values()]).tolist(), float(self.samples)]
        *sums, encoded = self.processes.sum(values)
        seconds = time.perf_counter() - self.started
        row = dict(zip(self.parts, sums, strict=True))
        row |= {"lr": lr, "samples_per_s": encoded / seconds, "memory_mb": self._memory_mb()}
        self.restart()
        if self.processes.first:
            self._append({"step": step, **row})
        self.write(f"step {step:6d}  " + "  ".join(f"{name} {value:.4g}" for name, value in row.items()))

    def validation(
        self,
        step: int,
        report: Report,
        others: Report | None = None,
        gradient: Mapping[str, float] | None = None,
        way: float | None = None,
    ) -> None:
        """Print and write a validation, that on other photos, and each loss's share of the gradient.

        `way`: how far the weights are from the start's to this step's, if they are between.
        """
        row: dict[str, Any] = {"step": step} | ({} if way is None else {"way": way})
        row |= {"val": report.to_dict()} | ({} if others is None else {"others": others.to_dict()})
        self._append({**row, "gradient": gradient or {}})
        words = ""
        if report.words_at_10 is not None:
            terms = f"{report.terms_image:.1f} / {report.terms_text:.1f}"
            words = f"  terms {terms}  words@10 {report.words_in_words}"
        recalls = "  ".join(
            f"{name} " + " / ".join(f"{found[k]:.1f}" for k in ("R@1", "R@5", "R@10"))
            for name, found in (("T2I", report.t2i), ("I2T", report.i2t))
        )
        at = "" if way is None else f" at {way:g} of the way"
        self.write(f"step {step:6d}  val{at}  mean recall {report.mean_recall:.2f}  {recalls}{words}")
        if others is not None:
            self.write(f"step {step:6d}  others{at}  mean recall {others.mean_recall:.2f}")
        if gradient:
            shares = "  ".join(f"{name} {share:.0%}" for name, share in gradient.items())
            self.write(f"step {step:6d}  gradient  {shares}")

    def close(self) -> None:
        self.bar.close()
        if self.board is not None:
            self.board.close()

    def _memory_mb(self) -> float:
        """Return the peak memory of the GPU, or of this process on a CPU, in MB (10^6 bytes)."""
        if self.processes.device.type == "cuda":
            return torch.cuda.max_memory_allocated() / 1e6
        return peak_memory_mb()

    def _append(self, row: Mapping[str, Any]) -> None:
        with writing_run(self.file.parent), self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            if self.board is not None:
                for name, number in scalars(row):
                    self.board.add_scalar(name, number, row["step"])
                self.board.flush()

    def _complete_lines(self) -> list[str]:
        """Return the lines of the file with their ends, without one that a killed run left incomplete."""
        if not self.file.exists():
            return []
        lines = self.file.read_text(encoding="utf-8").splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]


def scalars(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a line of metrics.jsonl with their names in TensorBoard, such as val/t2i/R@1.

    A step's own are below train/; those of weights on the way to a step below way-0.5/ and the like.
    """
    validated = "val" in row
    way = f"way-{row['way']:g}/" if "way" in row else ""
    figures = {key: value for key, value in row.items() if key not in ("step", "way")}
    yield from _numbers(figures, way if validated else "train/")


def _numbers(figures: Mapping[str, Any], where: str) -> Iterator[tuple[str, float]]:
    for key, value in figures.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{where}{key}/")
        elif isinstance(value, int | float):
            yield f"{where}{key}", float(value)
