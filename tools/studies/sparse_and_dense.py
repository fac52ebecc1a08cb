"""Compare sparse and dense vectors: the same towers, photos, steps and tries for each.

    python -m tools.studies.sparse_and_dense PHOTOS [WORK] [SYSTEM ...]

PHOTOS has flickr8k/train-*.tar, flickr8k/val-0000.tar and coco/train-0000.tar (docs/data.md). Each SYSTEM
(see SYSTEMS; by default all) starts from heads that are fitted in closed form. It is trained with three
learning rates and three temperatures, then with two more seeds where it was best. The image body is frozen,
and all runs share its views of the photos. Those systems whose words are made of dense vectors start from the
best model of the system `dense` with the same seed, so that is trained first. Figures go to
WORK/SYSTEM.jsonl, by default under runs/sparse-and-dense, a line for each run. After an interruption, run the
same command again.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from lexlip.models.contract import QueryEncoder
from lexlip.models.load import load_model
from lexlip.search.engines.exact import engine_for
from lexlip.training.augmentation import AugmentedPhotos, FrozenViews, encode_views
from lexlip.training.distributed import Processes
from lexlip.training.initialisation import make_model
from lexlip.training.lexicon_fit import load_towers, make_lexicon
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


@dataclass(frozen=True)
class System:
    """What is trained.

    Attributes:
        config: its file in configs/.
        settings: changes to it.
        of_dense: whether its words are made of the vectors of the system `dense`.
        query_encoder: how captions are encoded when it is measured.
    """

    config: str
    settings: tuple[str, ...] = ()
    of_dense: bool = False
    query_encoder: QueryEncoder = "network"


SYSTEMS = {
    "sparse": System("mini-frozen", PLAIN),
    "anchors": System("mini-frozen"),
    "dense": System(
        "mini-frozen",
        (
            *PLAIN,
            "model.kind=dense",
            "model.pooling=mean",
            "objective.flops_image=0",
            "objective.flops_text=0",
            "optim.lr_scale={image_encoder.body: 0, text_encoder: 0.2, text_encoder.body.embeddings: 0}",
        ),
    ),
    "d2s": System("mini-d2s", of_dense=True),
    "self-distilled": System("mini-self-distilled", of_dense=True),
    "caption-gated": System("mini-caption-gated", query_encoder="words"),
}
TOPKS = (None, 32)

Setting = tuple[int, float, float]
"""A seed, a learning rate and a temperature."""
Figures = dict[str, dict[str, Any]]
"""By what documents keep ("all", "top-32" or "dense"): the recalls and words@10."""


def config_of(name: str, photos: Path, encoders: tuple[Path, Path]) -> Config:
    """Return what all runs of a system share; `encoders` are those of texts and of images."""
    system = SYSTEMS[name]
    settings = (
        f"data.train=[{photos}/flickr8k/train-*.tar, {photos}/coco/train-0000.tar]",
        f"model.text.name={encoders[0]}",
        f"model.image.weights={encoders[1]}",
    )
    return load_config(ROOT / f"configs/{system.config}.yaml", [*settings, *SAME, *system.settings])


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


@dataclass(frozen=True)
class Study:
    """Where a comparison takes place, and with what.

    Attributes:
        configs: by system, what all of its runs share.
        views: the frozen body's views of the training photos.
        val: the photos that are searched.
        work: the folder of figures and models.
    """

    configs: Mapping[str, Config]
    views: FrozenViews
    val: Path
    work: Path

    def run(self, name: str, setting: Setting) -> Figures:
        """Train and measure once, unless that is done; return the figures."""
        log, done = (
            self.work / f"{name}.jsonl",
            dict(zip(("seed", "rate", "temperature"), setting, strict=True)),
        )
        for line in log.read_text().splitlines() if log.exists() else ():
            row = json.loads(line)
            if done.items() <= row.items():
                return dict(row["figures"])
        model = self.trained(name, setting)
        figures = measured(model, self.val, SYSTEMS[name].query_encoder)
        with log.open("a") as file:
            file.write(json.dumps({**done, "figures": figures}) + "\n")
        if name != "dense":  # which others start from
            shutil.rmtree(model)
        return figures

    def trained(self, name: str, setting: Setting) -> Path:
        """Return the folder of a trained model; train it unless it is there."""
        seed, rate, temperature = setting
        place = self.work / name / f"seed-{seed}-rate-{rate:g}-temperature-{temperature:g}"
        model = place / "model"
        if model.exists():
            return model
        config = replace(self.configs[name], seed=seed)
        config = replace(
            config,
            init=str(self.start(name, seed)),
            out=str(place),
            optim=replace(config.optim, lr=rate),
            objective=replace(config.objective, temperature=temperature),
        )
        if place.exists():
            shutil.rmtree(place)  # an interrupted run
        processes = Processes("cpu")
        train(set_up(config, *begin_run(config, False, processes), processes, self.views))
        (place / "last").resolve().rename(model)
        shutil.rmtree(place / "checkpoints")
        return model

    def start(self, name: str, seed: int) -> Path:
        """Return the folder of the model that runs with a seed start from; make it unless it is there."""
        of_dense = SYSTEMS[name].of_dense
        folder = self.work / ("words-of-dense" if of_dense else name) / f"start-{seed}"
        if (folder / "config.json").exists():
            return folder
        print(f"{folder}: fitting the heads", flush=True)
        config = replace(self.configs[name], seed=seed)
        source = open_sources(config.data.train)
        if of_dense:
            _, rate, temperature = best(self.tried("dense"), "dense")
            dense = load_towers(self.trained("dense", (seed, rate, temperature)))
            captions = [caption for item in source.items for caption in item.captions]
            make_lexicon(dense, captions, source, "words-of-dense").save(folder)
        else:
            make_model(config, source)[0].save(folder)
        return folder

    def tried(self, name: str) -> dict[Setting, Figures]:
        """Return the figures of a system with all rates and temperatures."""
        settings = [(SEEDS[0], rate, temperature) for rate, temperature in product(RATES, TEMPERATURES)]
        return {setting: self.run(name, setting) for setting in settings}

    def compare(self, name: str) -> None:
        """Try all rates and temperatures, repeat the best of each kind of documents, and print them."""
        tried = self.tried(name)
        for documents in next(iter(tried.values())):
            _, rate, temperature = best(tried, documents)
            repeated = [self.run(name, (seed, rate, temperature))[documents] for seed in SEEDS]
            columns = [
                [figures[direction][f"R@{k}"] for figures in repeated]
                for direction, k in product(("t2i", "i2t"), (1, 5, 10))
            ]
            columns.append([figures["mean"] for figures in repeated])
            cells = [f"{mean(column):.1f} ± {stdev(column):.1f}" for column in columns]
            print(f"| {name} | {documents} | {rate:g} | {temperature:g} | {' | '.join(cells)} |", flush=True)


def best(tried: Mapping[Setting, Figures], documents: str) -> Setting:
    """Return the setting of the highest mean recall."""
    return max(tried, key=lambda setting: tried[setting][documents]["mean"])


def measured(checkpoint: Path, val: Path, query_encoder: QueryEncoder = "network") -> Figures:
    """Return a model's recalls by what documents keep: "all", "top-32" or "dense"."""
    model = load_model(checkpoint)
    vectors = encode_pool(model, open_source(val), query_encoder, progress="")
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


def main(photos: Path, work: Path, systems: list[str]) -> None:
    val = photos / "flickr8k/val-0000.tar"
    if not val.is_file():
        sys.exit(f"{val} does not exist; docs/data.md says where the photos come from")
    work.mkdir(parents=True, exist_ok=True)
    encoders = fetch(work)
    configs = {name: config_of(name, photos, encoders) for name in SYSTEMS}
    study = Study(configs, views_of(configs["sparse"], work / "views.npy"), val, work)
    for name in systems:
        study.compare(name)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not arguments or not set(arguments[2:]) <= set(SYSTEMS):
        sys.exit(f"usage: python -m tools.studies.sparse_and_dense PHOTOS [WORK] [{' | '.join(SYSTEMS)}] ...")
    main(
        Path(arguments[0]),
        Path(arguments[1] if len(arguments) > 1 else "runs/sparse-and-dense"),
        arguments[2:] or list(SYSTEMS),
    )
