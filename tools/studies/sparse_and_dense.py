"""Compare sparse and dense vectors: the same towers, photos, steps and tries for each.

    python -m tools.studies.sparse_and_dense PHOTOS [WORK] [SYSTEM ...]

PHOTOS has flickr8k/train-*.tar, flickr8k/val-0000.tar and coco/train-0000.tar (docs/data.md). Each SYSTEM
(sparse, anchors, dense; by default all) starts from heads that are fitted in closed form. It is trained with
three learning rates and three temperatures, then with two more seeds where it was best. The image body is
frozen, and all runs share its views of the photos. Figures go to WORK/SYSTEM.jsonl, by default under
runs/sparse-and-dense, a line for each run. After an interruption, run the same command again.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from lexlip.config import Config
from lexlip.config_files import load_config
from lexlip.data import open_source, open_sources
from lexlip.measure.evaluate import measure
from lexlip.measure.pool import encode_pool
from lexlip.models.load import load_model
from lexlip.search.engines.exact import engine_for
from lexlip.training.augmentation import AugmentedPhotos, FrozenViews, encode_views
from lexlip.training.distributed import Processes
from lexlip.training.initialisation import make_model
from lexlip.training.loop import set_up, train
from lexlip.training.run_folder import begin_run

from .import_weights import fetch

ROOT = Path(__file__).parents[2]
RATES = (2e-4, 4e-4, 8e-4)
TEMPERATURES = (0.03, 0.05, 0.1)
SEEDS = (1, 2, 3)
SAME = (
    "optim.epochs=3",
    "data.captions_per_image=1",
    "data.views=2",
    "data.workers=0",
    "data.val=[scenes:8:0]",  # what counts is measured after training
    "model.head=fitted",
    "model.companions=0",
    "validate_every=100000",
    "checkpoint_every=100000",
)
PLAIN = (
    "objective.topk=[]",
    "objective.anchor_contrastive=0",
    "objective.anchor_align=0",
    "objective.anchor_words=0",
)
SYSTEMS = {
    "sparse": PLAIN,
    "anchors": (),
    "dense": (
        *PLAIN,
        "model.kind=dense",
        "model.pooling=mean",
        "objective.flops_image=0",
        "objective.flops_text=0",
        "optim.lr_scale={image_encoder.body: 0, text_encoder: 0.2, text_encoder.body.embeddings: 0}",
    ),
}
TOPKS = (None, 32)

Setting = tuple[int, float, float]
"""A seed, a learning rate and a temperature."""
Figures = dict[str, dict[str, Any]]
"""By what documents keep ("all", "top-32" or "dense"): the recalls and words@10."""


def config_of(system: str, photos: Path, encoders: tuple[Path, Path]) -> Config:
    """Return what all runs of a system share; `encoders` are those of texts and of images."""
    settings = (
        f"data.train=[{photos}/flickr8k/train-*.tar, {photos}/coco/train-0000.tar]",
        f"model.text.name={encoders[0]}",
        f"model.image.weights={encoders[1]}",
    )
    return load_config(ROOT / "configs/mini-frozen.yaml", [*settings, *SAME, *SYSTEMS[system]])


def views_of(config: Config, file: Path) -> FrozenViews:
    """Return the frozen body's views of the training photos; they are encoded once."""
    source = open_sources(config.data.train)
    if not file.exists():
        part = file.with_name("views.part.npy")
        model, _ = make_model(replace(config, model=replace(config.model, head="random")), source)
        model.image_encoder.body.requires_grad_(False)
        photos = AugmentedPhotos(source, config.data, config.model.image, config.seed)
        views = encode_views(model.image_encoder, photos, source.captioned(), config, part, Processes("cpu"))
        if views.unreadable:
            sys.exit(f"{len(views.unreadable)} photos cannot be read; all must be readable to compare")
        np.save(part, views.states)
        part.replace(file)
    return FrozenViews(np.load(file, mmap_mode="r"), source.captioned(), {}, None)


def run(config: Config, setting: Setting, views: FrozenViews, val: Path, folder: Path) -> Figures:
    """Train and measure once, unless that is done; return the figures."""
    seed, rate, temperature = setting
    log, done = folder.with_suffix(".jsonl"), dict(zip(("seed", "rate", "temperature"), setting, strict=True))
    for line in log.read_text().splitlines() if log.exists() else ():
        row = json.loads(line)
        if done.items() <= row.items():
            return dict(row["figures"])
    place = folder / f"seed-{seed}-rate-{rate:g}-temperature-{temperature:g}"
    config = replace(config, seed=seed)
    start = folder / f"start-{seed}"
    if not (start / "config.json").exists():
        print(f"{start}: fitting the heads", flush=True)
        make_model(config, open_sources(config.data.train))[0].save(start)
    config = replace(
        config,
        init=str(start),
        out=str(place),
        optim=replace(config.optim, lr=rate),
        objective=replace(config.objective, temperature=temperature),
    )
    if place.exists():
        shutil.rmtree(place)  # an interrupted run
    processes = Processes("cpu")
    train(set_up(config, *begin_run(config, False, processes), processes, views))
    figures = measured(place / "last", val)
    with log.open("a") as file:
        file.write(json.dumps({**done, "figures": figures}) + "\n")
    shutil.rmtree(place / "checkpoints")
    return figures


def measured(checkpoint: Path, val: Path) -> Figures:
    """Return a model's recalls by what documents keep: "all", "top-32" or "dense"."""
    model = load_model(checkpoint)
    vectors = encode_pool(model, open_source(val), progress="")
    dense = model.vocabulary is None
    _, engine = engine_for(model)
    reports = {topk: measure(vectors, engine, topk) for topk in ((None,) if dense else TOPKS)}
    names = {None: "dense" if dense else "all", 32: "top-32"}
    return {
        names[topk]: {
            "t2i": report.t2i,
            "i2t": report.i2t,
            "mean": report.mean_recall,
            "words@10": report.words_at_10,
        }
        for topk, report in reports.items()
    }


def compare(system: str, config: Config, views: FrozenViews, val: Path, folder: Path) -> None:
    """Try all rates and temperatures, repeat the best of each kind of documents, and print them."""
    tried = {
        (SEEDS[0], rate, temperature): run(config, (SEEDS[0], rate, temperature), views, val, folder)
        for rate, temperature in product(RATES, TEMPERATURES)
    }
    for documents in next(iter(tried.values())):
        (_, rate, temperature), _ = max(tried.items(), key=lambda item: item[1][documents]["mean"])
        repeated = [run(config, (seed, rate, temperature), views, val, folder)[documents] for seed in SEEDS]
        columns = [
            [figures[direction][f"R@{k}"] for figures in repeated]
            for direction, k in product(("t2i", "i2t"), (1, 5, 10))
        ]
        columns.append([figures["mean"] for figures in repeated])
        cells = [f"{mean(column):.1f} ± {stdev(column):.1f}" for column in columns]
        print(f"| {system} | {documents} | {rate:g} | {temperature:g} | {' | '.join(cells)} |", flush=True)


def main(photos: Path, work: Path, systems: list[str]) -> None:
    val = photos / "flickr8k/val-0000.tar"
    if not val.is_file():
        sys.exit(f"{val} does not exist; docs/data.md says where the photos come from")
    work.mkdir(parents=True, exist_ok=True)
    encoders = fetch(work)
    for system in systems:
        folder = work / system
        folder.mkdir(exist_ok=True)
        config = config_of(system, photos, encoders)
        compare(system, config, views_of(config, work / "views.npy"), val, folder)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not arguments or not set(arguments[2:]) <= set(SYSTEMS):
        sys.exit(f"usage: python -m tools.studies.sparse_and_dense PHOTOS [WORK] [{' | '.join(SYSTEMS)}] ...")
    main(
        Path(arguments[0]),
        Path(arguments[1] if len(arguments) > 1 else "runs/sparse-and-dense"),
        arguments[2:] or list(SYSTEMS),
    )
