"""The phases one after another, each from the last one's best, on scenes few enough to know by heart."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lexlip.config import Config, DataConfig, ObjectiveConfig, OptimConfig, SourceConfig
from lexlip.config_files import load_phases, to_dict
from lexlip.data import Scenes
from lexlip.errors import ConfigError
from lexlip.models.load import load_model
from lexlip.models.model_folder import read_description
from lexlip.training.log import Log
from lexlip.training.loop import pretrain
from lexlip.training.plan import plan_phases
from lexlip.training.run_folder import lineage, read_config, training_of
from tests.tiny import WITHOUT_DROPOUT
from tests.training.run_folders import metrics
from tests.training.small_run import SMALL

PHOTOS = 12
CHANCE = (100 / PHOTOS) * (1 + 5 + 10) / 3  # mean of R@1, R@5 and R@10
PHASE_1 = {"mlm": 1.0, "image_to_text": 1.0, "text_to_text": 1.0}
NO_WORDS = {"flops_image": 0.0, "flops_text": 0.0}
QUEUE = {"queue": 30, "momentum": 0.9}
GUESSING = math.log(1 + 27)  # loss of one positive among at least 27 keys of other photos

IMAGE = replace(
    WITHOUT_DROPOUT.image, options={"patch_size": 8, "embed_dim": 32, "depth": 1, "num_heads": 2}, size=32
)
TEXT = replace(
    WITHOUT_DROPOUT.text, options={**WITHOUT_DROPOUT.text.options, "hidden_size": 32, "intermediate_size": 64}
)
MODELS = {
    "lexlip": replace(WITHOUT_DROPOUT, image=IMAGE, text=TEXT),
    "dense": replace(WITHOUT_DROPOUT, image=IMAGE, text=TEXT, kind="dense"),
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn scenes with one caption each."""
    folder, source = tmp_path_factory.mktemp("scenes"), Scenes(PHOTOS, seed=0)
    for index, item in enumerate(source.items):
        source.image(index).save(folder / f"{index}.png")
        (folder / f"{index}.txt").write_text(item.captions[0] + "\n")
    return folder


def run(scenes: Path, out: Path, kind: str, weights: dict[str, Any], **changes: Any) -> Path:
    photos, optim = (
        (SourceConfig(str(scenes)),),
        {"epochs": 40, "lr": 5e-3 if kind == "lexlip" else 2e-3, **changes.pop("optim", {})},
    )
    objective = ObjectiveConfig(**{**(NO_WORDS if kind == "dense" else {}), **weights})
    return pretrain(
        Config(
            out=str(out),
            validate_every=1000,
            checkpoint_every=1000,
            log_every=1,
            data=DataConfig(photos, photos, workers=0, sizes=changes.pop("sizes", ())),
            model=changes.pop("model", MODELS[kind]),
            objective=objective,
            optim=OptimConfig(batch=PHOTOS, precision="fp32", **optim),
            **changes,
        )
    )


def learned(folder: Path) -> tuple[dict[str, tuple[float, float]], float]:
    """Each part of the loss at the start and at the end, as means of five steps, and the mean recall."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps, last = [row for row in rows if "val" not in row], rows[-1]
    means = {
        name: (sum(s[name] for s in steps[:5]) / 5, sum(s[name] for s in steps[-5:]) / 5) for name in steps[0]
    }
    recalls = [*last["val"]["t2i"].values(), *last["val"]["i2t"].values()]
    return means, sum(recalls) / len(recalls)


def test_phase_1_lowers_each_of_its_losses(scenes: Path, tmp_path: Path) -> None:
    losses, _ = learned(run(scenes, tmp_path / "run", "lexlip", PHASE_1, optim={"epochs": 30}))
    for name in ("contrastive", *PHASE_1):
        before, after = losses[name]
        assert after < 0.95 * before, name


@pytest.fixture
def three(tmp_path: Path) -> list[Config]:
    """Phases of a few steps each, in one file."""
    small = replace(SMALL, out=str(tmp_path / "run"), validate_every=100, checkpoint_every=2)
    phases = {
        "phase-1": {"objective": PHASE_1},
        "phase-2": {"objective": {"queue": 21}},
        "tuned": {"model": {"image": {"size": 48}}},
    }
    (tmp_path / "three.yaml").write_text(yaml.safe_dump({**to_dict(small), "phases": phases}))
    return load_phases(tmp_path / "three.yaml", ["optim.steps=4"])


def test_a_phase_may_be_taught_by_the_one_before(tmp_path: Path) -> None:
    taught = {"teacher": "init", "objective": {"distillation": 1.0}}
    small = replace(SMALL, out=str(tmp_path / "run"), validate_every=100)
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump({**to_dict(small), "phases": {"alone": {}, "taught": taught}}))
    phases = load_phases(file, ["optim.steps=2"])
    assert phases[1].teacher == phases[1].init == str(tmp_path / "run/alone/best")
    assert not any(plan.missing for plan in plan_phases(phases))
    run = pretrain(phases)
    with np.load(run / "teacher.npz") as kept:
        assert str(kept["identity"]) == read_description(run / "alone/best")["identity"]
    assert "distillation" in (run / "metrics.jsonl").read_text()
    with pytest.raises(ConfigError, match=r"teacher=init is the model that a run starts from: name that one"):
        load_phases(file, ["phases.alone.teacher=init", "phases.alone.objective.distillation=1"])


def test_a_phase_starts_from_the_best_of_the_one_before(three: list[Config], tmp_path: Path) -> None:
    run = pretrain(three)
    assert run == tmp_path / "run"
    runs = [run / "phase-1", run / "phase-2", run]
    assert [read_config(folder) for folder in runs] == three
    assert lineage(run).runs == runs[::-1]
    assert training_of([run]).steps == 12  # type: ignore[union-attr]
    assert load_model(run / "best").config.image.size == 48
    with pytest.raises(ConfigError, match="phase-1 holds a run already; go on with --resume"):
        pretrain(three)


def test_a_run_that_was_moved_has_its_phases(three: list[Config], tmp_path: Path) -> None:
    pretrain(three).rename(tmp_path / "moved")
    moved = tmp_path / "moved"
    assert lineage(moved).runs == [moved, moved / "phase-2", moved / "phase-1"]


def test_a_plan_of_phases(three: list[Config], tmp_path: Path) -> None:
    assert [(plan.steps, plan.missing) for plan in plan_phases(three)] == [(4, [])] * 3
    other = replace(three[2], model=replace(three[2].model, companions=3))
    disagrees = "model.companions is 3, but init="
    assert [what.startswith(disagrees) for what in plan_phases([*three[:2], other])[2].missing] == [True]
    pretrain(three[:2])
    planned = plan_phases(three, resume=True)
    assert [(plan.config.phase, plan.missing) for plan in planned] == [("phase-2", []), ("tuned", [])]
    changed = [replace(three[0], seed=9), *three[1:]]
    with pytest.raises(ConfigError, match=r"phase-1/config\.yaml differs from this config"):
        pretrain(changed, resume=True)


@pytest.mark.parametrize(("phase", "step"), [(0, 3), (1, 1), (1, 3), (2, 4)])
def test_an_interrupted_phase_goes_on(
    three: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: int, step: int
) -> None:
    steps: list[tuple[str | None, int]] = []
    log = Log.step

    def interrupt_once(self: Log, number: int, *arguments: Any) -> None:
        name = read_config(self.file.parent).phase
        steps.append((name, number))
        if (name, number) == (three[phase].phase, step) and steps.count((name, number)) == 1:
            raise KeyboardInterrupt
        log(self, number, *arguments)

    monkeypatch.setattr(Log, "step", interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        pretrain(three)
    pretrain(three, resume=True)
    again = range((step - 1) // 2 * 2 + 1, step + 1)  # since the last checkpoint
    all_steps = [(config.phase, number) for config in three for number in range(1, 5)]
    assert sorted(steps) == sorted([*all_steps, *((three[phase].phase, number) for number in again)])
    for config in three:
        start = [] if config.init is None else [0]
        assert [row["step"] for row in metrics(config.folder)] == [*start, 1, 2, 3, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_the_phases(kind: str, scenes: Path, tmp_path: Path) -> None:
    """Up to a minute a kind."""
    first = run(scenes, tmp_path / "phase-1", kind, PHASE_1, optim={"epochs": 150})
    losses, recall = learned(first)
    for name in ("contrastive", *PHASE_1):
        before, after = losses[name]
        assert after < 0.7 * before, name
    assert recall > 1.5 * CHANCE

    init, gently = str(first / "best"), {"lr": 1e-3}
    second = run(scenes, tmp_path / "phase-2", kind, QUEUE, init=init, sizes=(32, 16), optim=gently)
    losses, recall = learned(second)
    assert losses["contrastive"][1] < 0.75 * GUESSING  # at the start the queue is empty, and the loss small
    assert recall > 1.5 * CHANCE

    init, larger = str(second / "best"), replace(MODELS[kind], image=replace(IMAGE, size=48))
    third = run(scenes, tmp_path / "tuned", kind, QUEUE, init=init, model=larger, optim=gently)
    losses, recall = learned(third)
    assert losses["contrastive"][1] < 0.75 * GUESSING
    assert recall > 1.5 * CHANCE
    assert load_model(third / "best").config.image.size == 48
