"""Experiment configs: one YAML an experiment, validated against these dataclasses.

An unknown key, a wrong type or a missing file is a ConfigError that names the nearest known key.
``key=value`` overrides use dots: ``optim.lr=1e-4 data.train=[photos.tar]``.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from lexlip.errors import ConfigError


def _check_positive(section: str, config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise ConfigError(f"{section}{name} is {value}; it must be more than 0")


def _check_not_negative(section: str, config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= 0:
            raise ConfigError(f"{section}{name} is {getattr(config, name)}; it must not be negative")


@dataclass(frozen=True)
class SourceConfig:
    """A set of photos with captions. In YAML a plain string stands for ``{path: string}``."""

    path: str  # folder, tars, Karpathy JSON, table, or scenes:COUNT:SEED
    images: str | None = None  # root of the image files, where the path is a list of them
    split: str | None = None  # of a Karpathy JSON


@dataclass(frozen=True)
class DataConfig:
    train: tuple[SourceConfig, ...] = (SourceConfig("scenes:4000:0"),)
    val: tuple[SourceConfig, ...] = (SourceConfig("scenes:400:1000000"),)
    captions_per_image: int = 1  # drawn anew each epoch; more than one are positives of the same image
    crop: float = 1.0  # smallest area of the random crop, as a share of the photo; 1 is no crop
    flip: bool = False  # mirror half of the photos
    randaugment: tuple[int, int] = (0, 0)  # operations and magnitude; the paper's is (2, 9)
    workers: int = 2  # processes that decode photos; 0 decodes in the training process

    def __post_init__(self) -> None:
        for name in ("train", "val"):
            if not getattr(self, name):
                raise ConfigError(f"data.{name} names no photos; give it some, as in data.{name}=photos.tar")
        _check_positive("data.", self, "captions_per_image", "crop")
        _check_not_negative("data.", self, "workers")


@dataclass(frozen=True)
class ImageEncoderConfig:
    name: str = "vit_tiny_patch16_224"  # any timm model
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of timm.create_model
    weights: str | None = None  # None: random; "pretrained": timm's own; else a .safetensors file
    size: int = 224  # pixels of the square input
    resize: Literal["squash", "crop"] = "crop"  # to a square: squash keeps all, crop cuts the longer side
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    layers: int = 0  # fresh Transformer layers over the tokens, for convolutional encoders

    def __post_init__(self) -> None:
        _check_positive("model.image.", self, "size")
        _check_not_negative("model.image.", self, "layers")


@dataclass(frozen=True)
class TextEncoderConfig:
    name: str | None = None  # any transformers name or folder; None: a random BERT of `options`
    options: dict[str, Any] = field(default_factory=dict)  # overrides of the transformers config
    tokenizer: str | None = None  # None: that of `name`; "captions": whole words of the training captions
    max_tokens: int = 40

    def __post_init__(self) -> None:
        _check_positive("model.text.", self, "max_tokens")


@dataclass(frozen=True)
class VocabularyConfig:
    kind: Literal["all", "pieces", "words"] = "pieces"  # see lexlip.vocabulary
    min_count: int = 1  # of kind "words": times a word occurs in the training captions


@dataclass(frozen=True)
class ModelConfig:
    image: ImageEncoderConfig = ImageEncoderConfig()
    text: TextEncoderConfig = TextEncoderConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    special_positions: bool = False  # pool [CLS] and [SEP] too, as the public code does


@dataclass(frozen=True)
class ObjectiveConfig:
    """Weights of the losses; 0 leaves one out."""

    contrastive: float = 1.0  # L_baco, Eq. 15-16
    temperature: float = 0.05
    flops_image: float = 0.002  # Eq. 17
    flops_text: float = 0.002
    flops_warmup: float = 0.3  # share of the run over which the FLOPS weight grows quadratically
    flops_unit: bool = False  # FLOPS on unit vectors, as the public code does
    anchor_contrastive: float = 0.0  # image against the caption's bag of words
    anchor_align: float = 0.0  # 1 - cosine of the text vector and its bag of words
    anchor_words: float = 0.0  # the image bottleneck (Eq. 8) predicts its captions' words

    def __post_init__(self) -> None:
        losses = [field.name for field in dataclasses.fields(self) if field.name not in _NO_LOSSES]
        _check_not_negative("objective.", self, *losses, "flops_warmup")
        _check_positive("objective.", self, "temperature")
        if not any(getattr(self, name) for name in losses):
            raise ConfigError(
                f"all losses have weight 0; one of objective.{', '.join(losses)} must have more"
            )


_NO_LOSSES = ("temperature", "flops_warmup", "flops_unit")


@dataclass(frozen=True)
class OptimConfig:
    epochs: float = 10.0
    batch: int = 64  # images a step
    micro_batch: int | None = None  # images encoded at a time; the gradient does not depend on it
    lr: float = 5e-5
    lr_scale: dict[str, float] = field(default_factory=dict)  # factor by prefix of the parameter's name
    weight_decay: float = 0.01
    warmup: float = 0.1  # share of the steps
    clip: float = 1.0
    precision: Literal["fp32", "bf16", "fp16"] = "bf16"

    def __post_init__(self) -> None:
        _check_positive("optim.", self, "epochs", "batch", "micro_batch", "lr", "clip")
        _check_not_negative("optim.", self, "weight_decay", "warmup")


@dataclass(frozen=True)
class Config:
    name: str = "scenes"
    seed: int = 0
    out: str | None = None  # None: runs/NAME
    device: str = "auto"
    init: str | None = None  # checkpoint to start the weights from; the model section must agree
    validate_every: int = 200  # steps
    checkpoint_every: int = 200  # steps
    log_every: int = 10  # steps
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optim: OptimConfig = OptimConfig()

    def __post_init__(self) -> None:
        _check_positive("", self, "validate_every", "checkpoint_every", "log_every")


DEFAULT_CONFIG = Path(__file__).parent / "scenes.yaml"
"""The experiment that `lexlip pretrain` runs without a config."""

T = TypeVar("T")


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML config and apply ``key=value`` overrides.

    Raises:
        ConfigError: the file is missing or not YAML, a key is unknown, a value has the wrong type.
    """
    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold keys and values, as in 'optim: {{lr: 1e-4}}'")
    for override in overrides:
        _apply_override(tree, override)
    return from_dict(Config, tree)


def from_dict(cls: type[T], tree: Mapping[str, Any], where: str = "") -> T:
    """Build a dataclass from nested dictionaries, checking names and types.

    Raises:
        ConfigError: names the key and, for an unknown one, the nearest known.
    """
    hints = typing.get_type_hints(cls)
    for key in tree:
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"; did you mean {where}{near[0]}?" if near else f"; known: {', '.join(hints)}"
            raise ConfigError(f"unknown config key {where}{key}{hint}")
    values = {key: _convert(value, hints[key], f"{where}{key}") for key, value in tree.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ConfigError(f"config section {where.rstrip('.') or 'top level'}: {error}") from error


def to_dict(config: Any) -> dict[str, Any]:
    """The config as plain dictionaries and lists, for YAML and JSON."""
    plain: dict[str, Any] = _plain(dataclasses.asdict(config))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _apply_override(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"'{override}' is not of the form key=value, such as optim.lr=1e-4")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read the value of '{override}'") from error
    *parents, last = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"'{override}': {parent} is a value, not a section")
    tree[last] = value


def _convert(value: Any, hint: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if hint is SourceConfig and isinstance(value, str):
            return SourceConfig(value)
        if isinstance(value, Mapping):
            return from_dict(hint, value, f"{where}.")
    elif origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(value, next(a for a in arguments if a is not type(None)), where)
    elif origin is Literal:
        if value in arguments:
            return value
        raise ConfigError(f"{where} is {value!r}; it must be one of {', '.join(map(repr, arguments))}")
    elif origin is tuple:
        items = [value] if isinstance(value, (str, Mapping)) else value
        if isinstance(items, (list, tuple)):
            if arguments[-1] is Ellipsis:
                return tuple(_convert(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(items))
            if len(items) == len(arguments):
                return tuple(_convert(item, arguments[i], f"{where}[{i}]") for i, item in enumerate(items))
    elif origin is dict:
        if isinstance(value, Mapping):
            return {str(key): _convert(item, arguments[1], f"{where}.{key}") for key, item in value.items()}
    elif hint is float:
        # YAML reads 1e-4 (no dot) as a string
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            try:
                return float(value)
            except ValueError:
                pass
    elif hint is Any or (isinstance(value, hint) and not (hint is int and isinstance(value, bool))):
        return value
    raise ConfigError(f"{where} is {value!r}; it must be {_describe(hint)}")


def _describe(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if hint in names:
        return names[hint]
    return "a section of keys" if dataclasses.is_dataclass(hint) else f"of the form {hint}"
