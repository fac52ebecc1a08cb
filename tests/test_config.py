from pathlib import Path

import pytest
import yaml

from lexlip.config import (
    DEFAULT_CONFIG,
    Config,
    DataConfig,
    ModelConfig,
    OptimConfig,
    SourceConfig,
    from_dict,
    load_config,
    to_dict,
)
from lexlip.errors import ConfigError

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))


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
          image: {options: {depth: 2}, mean: [0, 0.5, 1]}
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
    assert config.model.image.options == {"depth": 2}
    assert config.model.image.mean == (0.0, 0.5, 1.0)
    assert config.optim.lr == 1e-4  # YAML itself reads 1e-4 as text
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
        ("optim.precision=fp8", "optim.precision is 'fp8'; it must be one of 'fp32', 'bf16', 'fp16'"),
        ("data.randaugment=[1]", "data.randaugment is \\[1\\]"),
        ("data.train=[{split: val}]", "data.train\\[0\\].*path"),
        ("data.train=[]", "data.train names no photos"),
        ("optim.batch=0", "optim.batch is 0; it must be more than 0"),
        ("optim.micro_batch=0", "optim.micro_batch is 0; it must be more than 0"),
        ("optim.epochs=-1", "optim.epochs is -1.0; it must be more than 0"),
        ("optim.lr=.nan", "optim.lr is nan; it must be more than 0"),
        ("log_every=0", "log_every is 0; it must be more than 0"),
        ("objective.temperature=0", "objective.temperature is 0.0; it must be more than 0"),
        ("objective.flops_text=-1", "objective.flops_text is -1.0; it must not be negative"),
        ("data.workers=-1", "data.workers is -1; it must not be negative"),
        ("objective={contrastive: 0, flops_image: 0, flops_text: 0}", "all losses have weight 0"),
    ],
)
def test_impossible_values(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, "seed: 0", override)
    assert "\n" not in str(caught.value)


def test_impossible_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the config .*nothing\.yaml: No such file"):
        load_config(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match=r"cannot read the config .*: Is a directory"):
        load_config(tmp_path)
    for text in ("a: [", "a: b: c", "\0"):
        with pytest.raises(ConfigError, match=r"experiment\.yaml is not YAML") as caught:
            load(tmp_path, text)
        assert "\n" not in str(caught.value)
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


@pytest.mark.parametrize("path", [DEFAULT_CONFIG, *CONFIGS], ids=lambda path: path.name)
def test_shipped_configs_load(path: Path) -> None:
    photos = ["data.train=photos.tar", "data.val=photos.tar"] if path != DEFAULT_CONFIG else []
    assert load_config(path, photos).name == path.stem
