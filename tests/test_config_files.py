import dataclasses
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lexlip.config import (
    PRESETS,
    Config,
    DataConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimConfig,
    SourceConfig,
)
from lexlip.config_files import COMING_ALONG, DEFAULT_CONFIG, from_dict, load_config, load_phases, to_dict
from lexlip.errors import ConfigError
from lexlip.models.model_folder import model_folder, read_description

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
PHOTOS = ["data.train=photos.tar", "data.val=photos.tar"]


def load(tmp_path: Path, text: str, *overrides: str) -> Config:
    path = tmp_path / "experiment.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Config()


def test_values_of_every_type(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        """
        name: trial
        data:
          train: [photos.tar, {path: captions.json, images: photos, split: train}]
          val: val.tar
          randaugment: [2, 9]
          flip: true
        model:
          image: {options: {depth: 2, eps: 1e-6}, mean: [0, 0.5, 1]}
        optim:
          lr: 1e-4
          epochs: 3
          micro_batch: null
          lr_scale: {text_encoder: 0}
        """,
    )
    assert config.data.train == (
        SourceConfig("photos.tar"),
        SourceConfig("captions.json", images="photos", split="train"),
    )
    assert config.data.val == (SourceConfig("val.tar"),)
    assert config.data.randaugment == (2, 9)
    assert config.data.flip is True
    assert config.model.image.options == {"depth": 2, "eps": 1e-6}  # as numbers, not text
    assert config.model.image.mean == (0.0, 0.5, 1.0)
    assert config.optim.lr == 1e-4  # YAML 1.1 itself reads 1e-4 as text
    assert isinstance(config.optim.epochs, float)
    assert config.optim.micro_batch is None
    assert config.optim.lr_scale == {"text_encoder": 0.0}


def test_overrides(tmp_path: Path) -> None:
    text = "optim: {lr: 0.1, batch: 8}"
    overrides = ["optim.lr=1e-4", "data.train=[a.tar, b.tar]", "data.val=scenes:3:1", "out=elsewhere/x"]
    config = load(tmp_path, text, *overrides, "model.image.options.depth=3", "optim.lr=2e-4")
    assert (config.optim.lr, config.optim.batch, config.out) == (2e-4, 8, "elsewhere/x")
    assert config.data.train == (SourceConfig("a.tar"), SourceConfig("b.tar"))
    assert config.data.val == (SourceConfig("scenes:3:1"),)
    assert config.model.image.options == {"depth": 3}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.lr", "'optim.lr' is not of the form key=value"),
        ("=3", "'=3' is not of the form"),
        ("optim.batch=[1", "cannot read the value of 'optim.batch=\\[1'"),
        ("seed.x=1", "'seed.x=1': seed is a value, not a section"),
        ("optim.learning_rate=1", "unknown config key optim.learning_rate"),
        ("optim.bach=1", "unknown config key optim.bach; did you mean optim.batch\\?"),
        ("modl.image=1", "did you mean model\\?"),
        ("optim.batch=many", "optim.batch is 'many'; it must be a whole number"),
        ("optim.batch=1.5", "optim.batch is 1.5; it must be a whole number"),
        ("optim.batch=true", "optim.batch is True; it must be a whole number"),
        ("optim.lr=fast", "optim.lr is 'fast'; it must be a number"),
        ("optim.lr=true", "optim.lr is True; it must be a number"),
        ("data.flip=1", "data.flip is 1; it must be true or false"),
        ("name=3", "name is 3; it must be text"),
        ("data=3", "data is 3; it must be a section of keys"),
        ("optim.precision=fp8", "optim.precision is 'fp8'; it must be one of 'auto', 'bf16', 'fp16', 'fp32'"),
        ("optim.betas=[0.9]", "optim.betas is \\[0.9\\]; it must be a list of 2, as in \\[a, b\\]"),
        ("model.image.mean=0.5", "model.image.mean is 0.5; it must be a list of 3, as in \\[a, b, c\\]"),
        ("optim.lr_scale=0", "optim.lr_scale is 0; it must be a section of keys, as in {key: value}"),
        ("lr=1e-4", "unknown config key lr; did you mean optim.lr\\?"),
        ("patch=16", "unknown config key patch; known: name, preset"),
        ("size=96", "unknown config key size; did you mean model.image.size\\?"),
        ("data.val=[val-{0..3}.tar]", "it must be YAML, which takes a text with braces, .* in quotes"),
        ("data.randaugment=[1]", "data.randaugment is \\[1\\]"),
        (
            "data.randaugment=[2, 40]",
            "data.randaugment is \\[2, 40\\]; it must be a number of operations and a",
        ),
        ("data.train=[{split: val}]", "^data.train\\[0\\].path is missing$"),
        ("data.train=5", "^data.train is 5; it must be a list, as in \\[a, b\\]$"),
        ("data.sizes=224", "^data.sizes is 224; it must be a list"),
        ("data.train=[]", "data.train names no photos"),
        ("objective.mask_encoder=0.6", "mask_decoder is 0.5; .* at least mask_encoder=0.6"),
        ("model.kind=colbert", "model.kind is 'colbert'; it must be one of 'lexlip', 'dense'"),
        ("preset=public", "preset is 'public'; it must be one of 'fixed', 'faithful', 'paper'"),
        ("objective={contrastive: 0, flops_image: 0, flops_text: 0}", "all losses have weight 0"),
    ],
)
def test_impossible_values(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, "seed: 0", override)
    assert "\n" not in str(caught.value)


BEYOND = {
    "be more than 0": "optim.batch=0 optim.micro_batch=0 optim.epochs=-1 optim.lr=.nan log_every=0"
    " objective.temperature=0 data.sizes=[112,0] data.captions_per_image=0 objective.topk=[16,0]"
    " model.vocabulary.min_count=-3",
    "not be negative": "seed=-1 objective.flops_text=-1 data.workers=-1 objective.queue=-1 objective.mlm=-0.1"
    " objective.topk_contrastive=-1",
    "be between 0 and 1": "data.crop=7 objective.momentum=1.5 objective.mask_decoder=2",
}


@pytest.mark.parametrize(
    ("override", "must"), [(one, must) for must, several in BEYOND.items() for one in several.split()]
)
def test_numbers_beyond_their_limits(tmp_path: Path, override: str, must: str) -> None:
    key, _, value = override.partition("=")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "seed: 0", override)
    said, _, rule = str(caught.value).partition("; it must ")
    number = value.strip(".").replace(",", ", ")
    assert said in (f"{key} is {number}", f"{key} is {number}.0")
    assert rule == must or rule.startswith(f"{must}, ")


def flat(tree: dict[str, Any], *above: str) -> dict[tuple[str, ...], Any]:
    """A config's values by their path."""
    values = {}
    for key, value in tree.items():
        values |= flat(value, *above, key) if isinstance(value, dict) else {(*above, key): value}
    return values


def presets_of_the_docs() -> dict[str, dict[tuple[str, ...], Any]]:
    """The keys of each preset in the table of docs/papers.md, which names the source of every value."""
    lines = (ROOT / "docs" / "papers.md").read_text().splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| key | "))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[head:])
    (_, *names), _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    assert names == ["fixed", "faithful", "paper", "in the authors' code", "in the paper"]
    assert all(all(row) and len(row) == 6 for row in rows)
    keys = [tuple(row[0].strip("`").split(".")) for row in rows]
    columns = zip(*(row[1:4] for row in rows), strict=True)
    return {
        name: dict(zip(keys, map(yaml.safe_load, column), strict=True))
        for name, column in zip(names[:3], columns, strict=True)
    }


def test_presets(tmp_path: Path) -> None:
    """Each is what the table says; all keys that it does not name are the defaults."""
    defaults, documented = flat(to_dict(Config())), presets_of_the_docs()
    assert list(documented) == list(PRESETS)
    for name, keys in documented.items():
        assert flat(to_dict(load(tmp_path, f"preset: {name}"))) == {**defaults, **keys, ("preset",): name}
        assert flat(PRESETS[name]).items() <= keys.items()


def test_a_preset_counts_more_than_the_configs_below_and_less_than_what_stands_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "base.yaml").write_text("objective: {flops_image: 0.5, flops_text: 0.5, temperature: 0.3}\n")
    above = "extends: base.yaml\npreset: faithful\nobjective: {flops_text: 0.7}\n"
    for text, overrides, flops in (
        ("extends: base.yaml\n", [], (0.5, 0.5)),
        (above, [], (0.002, 0.7)),
        (above, ["objective.flops_text=0.9"], (0.002, 0.9)),
        (above, ["preset=paper"], (0.001, 0.001)),
        (above, ["objective.flops_image=0.9", "preset=paper"], (0.9, 0.001)),
        (above, ["preset=fixed"], (0.5, 0.7)),  # which stands for no keys
    ):
        objective = load(tmp_path, text, *overrides).objective
        assert (objective.flops_image, objective.flops_text) == flops
        assert objective.temperature == 0.3
    assert PRESETS["paper"]["objective"]["flops_image"] == 0.001  # no override has changed it


def test_the_paper_drops_its_queues_before_fine_tuning(tmp_path: Path) -> None:
    text = "objective: {queue: 8}\n"
    for preset, finetuning, queue in (
        ("paper", "true", 0),
        ("paper", "false", 8),
        ("faithful", "true", 8),
        ("fixed", "true", 8),
    ):
        found = load(tmp_path, f"{text}preset: {preset}\nfinetuning: {finetuning}\n")
        assert found.objective.queue == queue
    assert (
        load(tmp_path, f"{text}finetuning: true", "objective.queue_in_finetuning=false").objective.queue == 0
    )


def test_what_a_config_says_itself_counts_more_than_its_preset(tmp_path: Path) -> None:
    text = """
        preset: faithful
        model: {vocabulary: {min_count: 3}}
        objective: {flops_unit: false, temperature: 0.1}
    """
    config = load(tmp_path, text)
    assert (config.model.vocabulary.kind, config.model.vocabulary.min_count) == ("all", 3)
    assert config.model.special_positions is True
    assert config.objective.flops_unit is False
    assert config.objective.same_image_negatives is True
    assert config.objective.temperature == 0.1
    overridden = load(tmp_path, text, "model.vocabulary.kind=words", "objective.flops_warmup=0.2")
    assert overridden.model.vocabulary.kind == "words"
    assert overridden.objective.flops_warmup == 0.2
    assert overridden.objective.same_image_negatives is True
    assert load(tmp_path, text, "preset=fixed").objective.same_image_negatives is False
    assert load(tmp_path, "seed: 1", "preset=faithful").objective.same_image_negatives is True


def test_a_config_with_a_preset_survives_yaml(tmp_path: Path) -> None:
    """A run's config.yaml holds every value, and is read again to resume."""
    config = load(tmp_path, "preset: faithful", "objective.flops_unit=false")
    path = tmp_path / "written.yaml"
    path.write_text(yaml.safe_dump(to_dict(config)))
    assert load_config(path) == config


OF_WORDS = "flops_image=0.1 flops_text=0.1 anchor_contrastive=0.1 anchor_align=0.1 anchor_words=0.1 topk=[16]"


@pytest.mark.parametrize("weight", OF_WORDS.split())
def test_losses_of_words_are_not_for_a_dense_model(tmp_path: Path, weight: str) -> None:
    key = weight.partition("=")[0]
    dense = ["model.kind=dense", "objective.flops_image=0", "objective.flops_text=0"]
    assert load(tmp_path, "", *dense).model.kind == "dense"
    zero = r"\[\]" if key == "topk" else "0"
    says = rf"objective\.{key} is for weighted words.* set it to {zero}"
    with pytest.raises(ConfigError, match=says) as caught:
        load(tmp_path, "", *dense, f"objective.{weight}")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"objective\.flops_image is for weighted words"):
        load(tmp_path, "", "model.kind=dense")


def test_what_objectives_need() -> None:
    def needs(**weights: float) -> tuple[bool, bool, bool]:
        objective = ObjectiveConfig(**weights)
        return objective.masks, objective.decodes, objective.anchors

    assert needs() == (False, False, False)
    assert needs(mlm=1) == (True, False, False)
    assert needs(image_to_text=1) == needs(text_to_text=1) == (True, True, False)
    assert (
        needs(anchor_align=1) == needs(anchor_words=1) == needs(anchor_contrastive=1) == (False, False, True)
    )


def test_impossible_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the config .*nothing\.yaml: No such file"):
        load_config(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match=r"cannot read the config .*: Is a directory"):
        load_config(tmp_path)
    for text in ("a: [", "a: b: c", "\0", "? [a, b]\n: 1", "optim: {? {lr: 1}: 2}"):
        with pytest.raises(ConfigError, match=r"experiment\.yaml is not YAML") as caught:
            load(tmp_path, text)
        assert "\n" not in str(caught.value)
    for text in ("optim: {lr: 1, batch: 2, lr: 3}", "optim:\n  lr: 1\nseed: 1\noptim:\n  batch: 2"):
        with pytest.raises(ConfigError, match=r"is not YAML: (lr|optim) stands there twice .* line (1|4)"):
            load(tmp_path, text)
    with pytest.raises(ConfigError, match="must hold keys and values"):
        load(tmp_path, "- a")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ConfigError, match="is not YAML"):
        load_config(tmp_path / "latin.yaml")


def test_a_config_survives_yaml() -> None:
    config = Config(
        data=DataConfig(train=(SourceConfig("a", "b", "c"),)), optim=OptimConfig(lr=3e-4, lr_scale={"x": 0.1})
    )
    assert from_dict(Config, yaml.safe_load(yaml.safe_dump(to_dict(config)))) == config
    assert from_dict(ModelConfig, to_dict(config.model)) == config.model


SHIPPED = [DEFAULT_CONFIG, *CONFIGS]


def load_shipped(path: Path) -> Config:
    """Of one with phases the last."""
    return load_phases(path, PHOTOS if path != DEFAULT_CONFIG else [])[-1]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_configs_load(path: Path) -> None:
    named = load_shipped(path).name
    assert path.stem.startswith(named) or path.stem == "base"  # which others extend


def test_shipped_configs_are_of_runs_of_their_own() -> None:
    names = [load_shipped(path).name for path in SHIPPED if path.stem != "base"]
    assert len(set(names)) == len(names)


def test_a_config_that_extends_another(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("preset: faithful\noptim: {lr: 0.1, batch: 8}\nseed: 3\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "middle.yaml").write_text("extends: ../base.yaml\noptim: {batch: 9}\nname: middle\n")
    text = "extends: deep/middle.yaml\noptim: {epochs: 2}\nobjective: {flops_unit: false}\n"
    config = load(tmp_path, text, "seed=4")
    assert (config.optim.lr, config.optim.batch, config.optim.epochs) == (0.1, 9, 2)
    assert (config.name, config.seed) == ("middle", 4)
    assert config.objective.same_image_negatives is True  # of the preset that the lowest names
    assert config.objective.flops_unit is False
    assert load_config(tmp_path / "base.yaml").seed == 3


PHASES = """
name: three
optim: {lr: 0.1, batch: 8}
phases:
  first: {objective: {mlm: 1}}
  second: {seed: 2, optim: {lr: 0.2}}
  third: {model: {image: {size: 96}}}
"""


def test_phases_go_on_from_one_another(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(PHASES)
    first, second, third = load_phases(tmp_path / "experiment.yaml", ["optim.batch=9", "phases.third.seed=7"])
    assert [config.phase for config in (first, second, third)] == ["first", "second", "third"]
    assert [str(config.folder) for config in (first, second, third)] == [
        "runs/three/first",
        "runs/three/second",
        "runs/three",
    ]
    assert [config.init for config in (first, second, third)] == [
        None,
        "runs/three/first/best",
        "runs/three/second/best",
    ]
    assert [(config.optim.lr, config.optim.batch) for config in (first, second, third)] == [
        (0.1, 9),
        (0.2, 9),
        (0.1, 9),
    ]
    assert (first.objective.mlm, second.objective.mlm) == (1, 0)
    assert [config.seed for config in (first, second, third)] == [0, 2, 7]
    assert third.model.image.size == 96


def test_an_override_is_for_every_phase(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(PHASES)
    given = ["optim.lr=0.3", "out=elsewhere", "init=mini", "phases.second.optim.steps=5"]
    configs = load_phases(tmp_path / "experiment.yaml", given)
    assert [config.optim.lr for config in configs] == [0.3] * 3
    assert [config.optim.steps for config in configs] == [None, 5, None]
    assert [str(config.folder) for config in configs] == ["elsewhere/first", "elsewhere/second", "elsewhere"]
    assert [config.init for config in configs] == ["mini", "elsewhere/first/best", "elsewhere/second/best"]


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ("[]", "phases must hold a section of keys for each phase, by its name"),
        ("{}", "phases must hold a section of keys for each phase, by its name"),
        ("{a: 3}", "phases must hold a section of keys for each phase, by its name"),
        ("{a: {b: 3}}", "unknown config key b"),
        ("{best: {}, c: {}}", "phases: 'best' cannot be the name of a folder in the run's"),
        ("{../a: {}, c: {}}", "phases: '../a' cannot be the name of a folder in the run's"),
        ("{a: {out: b}, c: {}}", "phases: out of 'a' is that of the whole config: leave it out here"),
        ("{a: {init: b}, c: {init: b}}", "phases: init of 'c' is that of the whole config"),
    ],
)
def test_impossible_phases(tmp_path: Path, phases: str, message: str) -> None:
    (tmp_path / "experiment.yaml").write_text(f"phases: {phases}")
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        load_phases(tmp_path / "experiment.yaml")


@pytest.mark.parametrize("override", ["phases.first.name=a", "phases.first.out=a", "phases.second.init=mini"])
def test_overrides_of_a_phase_that_are_the_whole_configs(tmp_path: Path, override: str) -> None:
    (tmp_path / "experiment.yaml").write_text(PHASES)
    with pytest.raises(ConfigError, match="is that of the whole config: leave it out here"):
        load_phases(tmp_path / "experiment.yaml", [override])


def test_overrides_of_a_phase_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(PHASES)
    for path in (tmp_path / "experiment.yaml", COMING_ALONG / "own.yaml"):
        with pytest.raises(ConfigError, match=r"^'phases\.fourth\.seed=3': the config has no phase 'fou"):
            load_phases(path, ["phases.fourth.seed=3"])


def test_phases_that_share_a_section_are_overridden_one_by_one(tmp_path: Path) -> None:
    text = "phases: {a: &a {objective: {queue: 64}}, b: {<<: *a, seed: 1}}"
    (tmp_path / "experiment.yaml").write_text(text)
    first, second = load_phases(tmp_path / "experiment.yaml", ["phases.a.objective.queue=7"])
    assert (first.objective.queue, second.objective.queue, second.seed) == (7, 64, 1)


def test_names_of_phases_may_be_numbers(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text("phases: {1: {seed: 1}, 2: {seed: 2}}")
    first, second = load_phases(tmp_path / "experiment.yaml", ["phases.2.seed=3"])
    assert (first.phase, first.seed, second.phase, second.seed) == ("1", 1, "2", 3)


def test_phases_are_no_single_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"several phases, first, second, third, and this needs the config"):
        load(tmp_path, PHASES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: nothing.yaml", r"cannot read the config .*nothing\.yaml: No such file"),
        ("extends: experiment.yaml", r"experiment\.yaml extends itself"),
        ("extends: other.yaml", r"experiment\.yaml extends itself"),
        ("extends: ../{folder}/experiment.yaml", r"experiment\.yaml"),
        ("extends: list.yaml", r"list\.yaml must hold keys and values"),
    ],
)
def test_impossible_extensions(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "other.yaml").write_text("extends: experiment.yaml")
    (tmp_path / "list.yaml").write_text("- a")
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, text.replace("{folder}", tmp_path.name))
    assert "\n" not in str(caught.value)


def test_configs_that_come_along_are_found_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what they extend; a file of one's own comes first, and may extend them."""
    expected = load_config(COMING_ALONG / "own.yaml", PHOTOS)
    assert expected == load_config(CONFIGS[0].parent / "own.yaml", PHOTOS)
    monkeypatch.chdir(tmp_path)
    assert load_config("configs/own.yaml", PHOTOS) == expected
    (tmp_path / "mine.yaml").write_text("extends: configs/own.yaml\nseed: 3\n")
    assert load_config("mine.yaml", PHOTOS) == dataclasses.replace(expected, seed=3)
    assert load_config(tmp_path / "mine.yaml", PHOTOS) == dataclasses.replace(expected, seed=3)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.yaml").write_text("extends: own.yaml\nseed: 4\n")
    assert load_config("configs/mine.yaml", PHOTOS).seed == 4
    (tmp_path / "configs" / "mini-heads.yaml").write_text("seed: 5\n")  # is not what own.yaml extends
    assert load_config("configs/own.yaml", PHOTOS) == expected
    (tmp_path / "configs" / "own.yaml").write_text("seed: 6\n")
    assert load_config("configs/own.yaml", PHOTOS).seed == 6


def test_what_comes_along_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ", ".join(sorted(path.stem for path in CONFIGS))
    (tmp_path / "mine.yaml").write_text("extends: configs/none.yaml")
    for given, missing in (("configs/none.yaml",) * 2, ("own.yaml",) * 2, ("mine.yaml", "configs/none.yaml")):
        with pytest.raises(ConfigError) as caught:
            load_config(given)
        assert str(caught.value) == (
            f"cannot read the config {missing}: No such file or directory; these come along, as"
            f" configs/NAME.yaml: {names}"
        )
    for elsewhere in (tmp_path / "configs" / "own.yaml", "runs/none.yaml"):  # what a full path names is meant
        with pytest.raises(ConfigError, match=r"No such file or directory"):
            load_config(elsewhere)


def test_a_wheel_has_them_where_they_are_looked_for(tmp_path: Path) -> None:
    """`make release` does the same with the wheel itself."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    without = shutil.ignore_patterns("__pycache__", "weights", "photos", "java")
    for folder in wheel["only-include"]:
        shutil.copytree(ROOT / folder, tmp_path / wheel["sources"].get(folder, folder), ignore=without)
    code = f"""
from lexlip.config_files import COMING_ALONG, load_config
print(COMING_ALONG, load_config("configs/own.yaml", {PHOTOS}).name)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "lexlip" / "data",
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{tmp_path}/lexlip/configs own\n", done.stderr


@pytest.mark.parametrize("name", ["cc4.3m-phase1", "cc14.3m-phase2", "coco-finetune", "ablation-phase1"])
def test_the_faithful_preset_reaches_the_papers_runs(name: str) -> None:
    path = next(path for path in CONFIGS if path.stem == name)
    config = load_config(path, ["preset=faithful", "data.train=[a.tar]", "data.val=[b.tar]"])
    assert config.model.vocabulary.kind == "all"
    assert config.model.special_positions
    assert config.objective.same_image_negatives
    assert config.objective.flops_unit
    assert config.objective.flops_image == config.objective.flops_text == 0.002
    if "finetune" in name:
        paper = load_config(path, ["preset=paper", "data.train=[a.tar]", "data.val=[b.tar]"])
        assert (config.objective.queue, paper.objective.queue) == (11520, 0)


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.stem != "base"], ids=lambda path: path.stem
)
def test_a_run_is_validated_once_an_epoch_or_more_often(path: Path) -> None:
    for config in load_phases(path, PHOTOS):
        if not config.interpolate:  # its best lie on the way to its end
            assert config.data.expected is not None
            assert config.validate_every <= config.data.expected // config.optim.batch


def test_own_photos_are_as_large_as_those_of_the_model_that_is_trained_on() -> None:
    config = load_config(COMING_ALONG / "own.yaml", PHOTOS)
    start = read_description(model_folder(str(config.init)))["model"]["image"]
    assert (config.model.image.size, config.model.image.mirror) == (start["size"], start["mirror"])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_steps_of_an_epoch_are_those_that_the_head_of_a_config_says(path: Path) -> None:
    head = path.read_text(encoding="utf-8").partition("\nname: ")[0]
    said = re.findall(r"([\d,]+) steps per epoch", head)
    config = load_phases(path, PHOTOS)[-1]
    if said and config.data.expected:
        assert [int(number.replace(",", "")) for number in said] == [
            config.data.expected // config.optim.batch
        ]


def launch_lines(path: Path) -> list[list[str]]:
    """The arguments of each `lexlip pretrain` in a config's head, and those that it says are for COCO."""
    head = path.read_text(encoding="utf-8").partition("\nname: ")[0].replace("\\\n#", "")
    lines = re.findall(r"^# (?:torchrun .* -m )?lexlip pretrain (configs/\S+)(.*)$", head, re.MULTILINE)
    lines += [(f"configs/{path.name}", rest) for rest in re.findall(r"^# COCO:( '.*)$", head, re.MULTILINE)]
    return [[config, *shlex.split(rest)] for config, rest in lines]


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if not path.stem.startswith("mini")], ids=lambda path: path.stem
)
def test_launch_lines_are_runs_of_their_own(path: Path) -> None:
    """A line for other photos has another name: the run of the first ones stays."""
    names = [load_phases(config, [*PHOTOS, *overrides])[-1].name for config, *overrides in launch_lines(path)]
    assert len(set(names)) == len(names)
    assert names or path.stem in ("base", "ablation-phase1")


def keys_of(cls: type, where: str = "") -> Iterator[tuple[str, Any]]:
    """All keys of a config with their types, those of sections too."""
    for key, hint in typing.get_type_hints(cls).items():
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from keys_of(hint, f"{where}{key}.")
        else:
            yield f"{where}{key}", hint


KEYS = dict(keys_of(Config))
INTEGERS = ["1" + "0" * zeros for zeros in (22, 4000, 9000)]
HUGE = [*INTEGERS, *(f"-{number}" for number in INTEGERS), "1e300", "1e400", ".inf", "-.inf", ".nan"]
ODD = [*"true -1 0 1.5 x '' ~ [] [x] {} [[1]] 2020-13-45".split(), "{a: 1}", "&a [*a]"]
WRAPPED = [form.format(huge) for form in ("[{0}]", "[{0}, {0}]", "{{a: {0}}}") for huge in HUGE]


def of_numbers(hint: Any) -> bool:
    return hint in (int, float) or any(map(of_numbers, typing.get_args(hint)))


@pytest.mark.parametrize("key", KEYS)
def test_any_key_with_any_value(tmp_path: Path, key: str) -> None:
    """Either it is taken, or one sentence names the key; no number is too large to compute with."""
    for value in [*HUGE, *ODD, *(WRAPPED if typing.get_args(KEYS[key]) else [])]:
        try:
            load(tmp_path, "", f"{key}={value}")
        except ConfigError as error:
            said = str(error)
            assert key in said, (value, said)
            assert "\n" not in said
            assert len(said) < 400
        else:
            assert value in ODD or not of_numbers(KEYS[key]), value


@pytest.mark.parametrize("key", [key for key, hint in KEYS.items() if hint in (int, float)])
def test_what_a_number_may_be_is_said(tmp_path: Path, key: str) -> None:
    numbers = r"more than [02], and at most [\d,]+|between 0 and 1"
    for value in (INTEGERS[0], ".inf", ".nan"):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, "", f"{key}={value}")
        key_and_value = rf"{re.escape(key)} is \S+; it must"
        assert re.fullmatch(
            rf"{key_and_value} (be ({numbers}|a whole number)|not be negative, and at most [\d,]+)",
            str(caught.value),
        )


@pytest.mark.parametrize("value", HUGE)
def test_numbers_within_options(tmp_path: Path, value: str) -> None:
    for key in ("model.image.options", "model.text.options"):
        for form in ("{{a: {0}}}", "{{a: [1, {0}]}}", "{{a: {{b: {0}}}}}"):
            with pytest.raises(ConfigError, match=key):
                load(tmp_path, "", f"{key}={form.format(value)}")
