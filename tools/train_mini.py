"""Train the packaged model again: its stages, averages and the package; measure it on other photos, too.

    python tools/train_mini.py PHOTOS [WORK]

PHOTOS has flickr8k/train-*.tar, flickr8k/val-0000.tar, coco/train-0000.tar, coco/more-*.tar and
coco/val-0000.tar (docs/data.md). Everything that is made goes to WORK, by default runs. The pre-trained
encoders come from two pip packages. After an interruption, run the same command again. Every other photo of
the validation splits selects the checkpoint; the others are for the report.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from lexlip.models.model_folder import GRAPH, write_checksums
from studies.import_weights import fetch

ROOT = Path(__file__).parents[1]

FEW_ANCHORS = (
    *("objective.anchor_words=1", "optim.steps=400", "optim.lr=2e-4"),
    *("validate_every=200", "checkpoint_every=50", "seed=5"),
)
LAST = (
    *("objective.distillation=2", "objective.topk_contrastive=6"),
    *("objective.flops_image=0.07", "objective.flops_text=0.04"),
    *("optim.steps=400", "optim.warmup=0.05", "validate_every=400", "checkpoint_every=50", "seed=7"),
)


def halve(tar: Path, halves: tuple[Path, Path]) -> None:
    """Distribute the photos of a webdataset tar to two, in turn, each photo with all its files."""
    parts = [half.with_suffix(".part") for half in halves]
    with tarfile.open(tar) as whole, tarfile.open(parts[0], "w") as even, tarfile.open(parts[1], "w") as odd:
        number_of: dict[str, int] = {}
        for member in whole:
            number = number_of.setdefault(member.name.rpartition(".")[0], len(number_of))
            (even, odd)[number % 2].addfile(member, whole.extractfile(member))
    for part, half in zip(parts, halves, strict=True):
        part.replace(half)


def stage(work: Path, name: str, config: str, start: str | None, *settings: str) -> None:
    """Train a stage, or continue an interrupted training, unless it is done.

    Args:
        work: where runs are.
        name: of the run.
        config: in the folder configs.
        start: the run or model in `work` that it starts from.
        settings: further keys.
    """
    run = work / name
    done = run / "done"
    if done.exists():
        return
    resume = ["--resume"] if (run / "last").exists() else []
    init = [] if start is None else [f"init={work / start}"]
    python("-m", "lexlip", "pretrain", ROOT / "configs" / config, f"out={run}", *init, *settings, *resume)
    done.touch()


def average(work: Path, name: str, weight_of: Mapping[str, int]) -> None:
    """Average models in `work` into another one there."""
    parts = (f"{work / part}={weight}" for part, weight in weight_of.items())
    python(ROOT / "tools/studies/average_weights.py", work / name, *parts)


def enlarge(work: Path, name: str, of: str, size: int) -> None:
    """Make a copy of a model in `work` that sees photos at another size, in pixels along a side."""
    part = work / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(work / of, part)
    description = json.loads((part / "config.json").read_text(encoding="utf-8"))
    description["model"]["image"]["size"] = size
    (part / "config.json").write_text(json.dumps(description, indent=2), encoding="utf-8")
    (part / GRAPH).unlink(missing_ok=True)  # it is for the size before
    write_checksums(part, ["config.json"])
    part.replace(work / name)


def python(*arguments: str | Path) -> None:
    """Run Python; exit if it fails."""
    done = subprocess.run([sys.executable, *map(str, arguments)])
    if done.returncode:
        sys.exit(done.returncode)


def main(photos: Path, work: Path) -> None:
    splits = {name: photos / name / "val-0000.tar" for name in ("flickr8k", "coco")}
    for val in splits.values():
        if not val.is_file():
            sys.exit(f"{val} does not exist; docs/data.md says where the photos come from")
    work.mkdir(parents=True, exist_ok=True)
    text, image = fetch(work)
    chooses, reports = ([work / f"{name}-{half}.tar" for name in splits] for half in ("even", "odd"))
    for val, *halves in zip(splits.values(), chooses, reports, strict=True):
        if not halves[1].exists():
            halve(val, (halves[0], halves[1]))
    flickr, coco = f"{photos}/flickr8k/train-*.tar", f"{photos}/coco/more-*.tar"
    settings = (
        f"data.train=[{flickr}, {photos}/coco/train-0000.tar, {coco}]",
        f"data.val=[{', '.join(map(str, chooses))}]",
        f"model.image.weights={image}",
        f"model.text.name={text}",
    )
    sources = flickr, coco
    stage(work, "mini-heads", "mini-heads.yaml", None, *settings)
    stage(work, "mini", "mini.yaml", "mini-heads/last", *settings)
    stage(work, "mini-sparse", "mini-sparse.yaml", "mini/best", *settings)
    average(work, "mini-average", {"mini-sparse/last": 2, "mini/best": 1})
    teacher = work / "mini-teacher"
    if not (teacher / "balance.safetensors").exists():
        python("-m", "lexlip", "package", work / "mini-average", teacher, *sources)
    taught = *settings, f"teacher={teacher}"
    stage(work, "mini-few", "mini-sparse.yaml", "mini-average", *settings, *FEW_ANCHORS)
    stage(work, "mini-taught", "mini-taught.yaml", "mini-average", *taught)
    average(work, "mini-both", {"mini-few/last": 1, "mini-taught/last": 1})
    stage(work, "mini-last", "mini-taught.yaml", "mini-both", *taught, *LAST)
    average(work, "mini-mean", {"mini-last/last": 1, "mini-both": 1})
    if not (work / "mini-mean-256").exists():
        enlarge(work, "mini-mean-256", "mini-mean", 256)
    teacher = work / "mini-teacher-256"
    if not (teacher / "balance.safetensors").exists():
        python("-m", "lexlip", "package", work / "mini-mean-256", teacher, *sources)
    stage(work, "mini-larger", "mini-larger.yaml", "mini-mean", *settings, f"teacher={teacher}")
    average(work, "mini-end", {"mini-larger/last": 1, "mini-mean": 1})
    package = work / "package/mini"
    package.parent.mkdir(exist_ok=True)
    python("-m", "lexlip", "package", work / "mini-end", package, *sources)
    for source in (*splits.values(), *reports):
        print(f"\nlexlip evaluate {source} --model {package}", flush=True)
        python("-m", "lexlip", "evaluate", source, "--model", package)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python tools/train_mini.py PHOTOS [WORK]")
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) == 3 else "runs"))
