"""Reads experiment configs: one YAML file each, checked against the dataclasses of `lexlip.config`.

An unknown key, a wrong type or a missing file is a ConfigError; it names the nearest known key.
``key=value`` overrides use dots: ``optim.lr=1e-4 data.train=[photos.tar]``.

The configs of the repository's folder ``configs`` come along, under the same names: ``configs/own.yaml`` is
one's own file of that name, or else the one that comes along.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from lexlip.config import PRESETS, Config, SourceConfig, shown
from lexlip.errors import ConfigError

DEFAULT_CONFIG = Path(__file__).parent / "scenes.yaml"
"""The experiment that `lexlip pretrain` runs without a config."""

FOLDER = "configs"
_PLACES = Path(__file__).parent / FOLDER, Path(__file__).parents[1] / FOLDER  # of a package, of a clone
COMING_ALONG = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
"""The folder of the configs that come along."""

RESERVED = ("best", "last", "start", "prepared", "checkpoints")  # names in RUN that no phase may have
OF_ALL_PHASES = ("name", "out", "device", "phase")  # keys that no phase may have; "init" only the first

T = TypeVar("T")


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number, as PyYAML, which follows YAML 1.1, reads only 1.0e-4; takes no key twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        known: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in known and key.value != "<<":
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value} stands there twice", problem_mark=key.start_mark
                )
            known.add(key.value)
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML config of one run; see `load_phases`.

    Raises:
        ConfigError: as `load_phases` does, or the config has phases.
    """
    configs = load_phases(path, overrides)
    if len(configs) > 1:
        names = ", ".join(str(config.phase) for config in configs)
        raise ConfigError(f"{path} has several phases, {names}, and this needs the config of one run")
    return configs[0]


def load_phases(path: str | Path, overrides: Sequence[str] = ()) -> list[Config]:
    """Read a YAML config and apply ``key=value`` overrides; return its phases, or the config alone.

    ``extends: FILE`` at the top names another config, as seen from the same folder, which this one adds to or
    changes. ``configs/NAME.yaml`` may also be one that comes along. A preset's keys count as if they stood
    where it is named: more than those of the configs below, less than the others there.

    ``phases: {NAME: {…}, …}`` trains one phase after another. Each has the config's keys and its own, which
    count where they differ, and starts from the best checkpoint of the phase before. The last phase's run is
    RUN, and those before it are RUN/NAME. An override is for every phase, unless it begins with
    ``phases.NAME.``.

    Raises:
        ConfigError: the file is missing or not YAML, a key is unknown, a value has the wrong type, a phase
            has a key that is the whole config's.
    """
    path = Path(path)
    layers = _read_layers(path if path.is_absolute() else _or_coming_along(path))
    phases = _sections(_merged(layers).get("phases", {"": {}}))
    layers = [{key: value for key, value in layer.items() if key != "phases"} for layer in layers]
    for_all = [override for override in overrides if not override.startswith("phases.")]
    for override in overrides:
        if override not in for_all:
            name = override.split(".")[1]
            if name not in phases:
                raise ConfigError(f"'{shown(override)}': the config has no phase {name!r}")
            _apply_override({"phases": phases}, override)
    _check_phases(phases)
    configs: list[Config] = []
    for number, (name, keys) in enumerate(phases.items(), 1):
        own = keys | ({"phase": name} if name else {})
        merged = _with_preset([*layers, own], for_all)
        for override in for_all:
            _apply_override(merged, override)
        if configs:
            merged["init"] = str(configs[-1].folder / "best")
        if merged.get("teacher") == "init":
            if merged.get("init") is None:
                raise ConfigError(
                    "teacher=init is the model that a run starts from: name that one, too (init=)"
                )
            merged["teacher"] = merged["init"]
        config = _without_queue(from_dict(Config, merged))
        if number < len(phases):
            config = dataclasses.replace(config, out=str(config.folder / name))
        configs.append(config)
    return configs


def _with_preset(layers: Sequence[dict[str, Any]], overrides: Sequence[str]) -> dict[str, Any]:
    """Return layers of keys as one, the lowest first, with the preset's below the layer that names it.

    If an override names it, its keys count more than all layers.
    """
    named: dict[str, Any] = {}
    for override in overrides:
        if override.startswith("preset="):
            _apply_override(named, override)
    layers = [*layers, named]
    place = max((number for number, layer in enumerate(layers) if "preset" in layer), default=0)
    preset = PRESETS.get(str(layers[place].get("preset")), {})
    return copy.deepcopy(_merged([*layers[:place], preset, *layers[place:]]))


def _without_queue(config: Config) -> Config:
    """Return a config whose fine-tuning has no queue if it says so."""
    if not config.finetuning or config.objective.queue_in_finetuning:
        return config
    return dataclasses.replace(config, objective=dataclasses.replace(config.objective, queue=0))


def _sections(given: Any) -> dict[str, dict[str, Any]]:
    """Return the keys of each phase by its name."""
    if not (isinstance(given, dict) and given and all(isinstance(keys, dict) for keys in given.values())):
        raise ConfigError("phases must hold a section of keys for each phase, by its name")
    return {str(name): copy.deepcopy(keys) for name, keys in given.items()}  # anchors share them


def _check_phases(phases: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ConfigError if a phase has no name of a folder, or a key that is the whole config's."""
    for number, (name, keys) in enumerate(phases.items()):
        if name and (not re.fullmatch(r"\w[\w-]*", name) or name in RESERVED):
            raise ConfigError(f"phases: {name!r} cannot be the name of a folder in the run's")
        for key in OF_ALL_PHASES if number == 0 else (*OF_ALL_PHASES, "init"):
            if key in keys:
                raise ConfigError(f"phases: {key} of {name!r} is that of the whole config: leave it out here")


def _read_layers(path: Path, above: tuple[Path, ...] = ()) -> list[dict[str, Any]]:
    """Return the keys of a config and of those that it extends, the lowest first."""
    if path in above:
        raise ConfigError(f"{path} extends itself")
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}{_known(path)}") from error
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # a ValueError: not UTF-8, or no such number or date
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold keys and values, as in 'optim: {{lr: 1e-4}}'")
    below = tree.pop("extends", None)
    if below is None:
        return [tree]
    return [*_read_layers(_or_coming_along(path.parent / str(below)), (*above, path)), tree]


def _or_coming_along(path: Path) -> Path:
    """Return the path of a config, or, of one in a folder `configs` that lacks it, where it comes along."""
    other = COMING_ALONG / path.name
    return other if path.parent.name == FOLDER and not path.exists() and other.is_file() else path


def _known(path: Path) -> str:
    """Return the end of the sentence about a config that does not exist: which ones come along."""
    if path.parent.name not in (FOLDER, ""):
        return ""
    names = ", ".join(sorted(config.stem for config in COMING_ALONG.glob("*.yaml")))
    return f"; these come along, as {FOLDER}/NAME.yaml: {names}"


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both trees merged; where they differ, `above` counts."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            merged[key] = _merge(below[key], above[key])
    return merged


def _merged(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return layers of keys as one; where they differ, the last counts."""
    return functools.reduce(_merge, layers, {})


def from_dict(cls: type[T], tree: Mapping[str, Any], where: str = "") -> T:
    """Build a dataclass from nested dictionaries; ConfigError names a wrong key, and the nearest known."""
    hints = typing.get_type_hints(cls)
    for key in tree:
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1) or _within(cls, str(key))
            hint = f"; did you mean {where}{near[0]}?" if near else f"; known: {', '.join(hints)}"
            raise ConfigError(f"unknown config key {where}{key}{hint}")
    values = {key: _convert(value, hints[key], f"{where}{key}") for key, value in tree.items()}
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    missing = [f.name for f in fields if _required(f) and f.name not in values]
    if missing:
        raise ConfigError(f"{where}{missing[0]} is missing")
    return cls(**values)


def _within(cls: type, name: str) -> list[str]:
    """Return the keys of that name in the sections of a section, such as optim.lr."""
    found = []
    for key, hint in typing.get_type_hints(cls).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            found += [f"{key}.{name}"] if name in typing.get_type_hints(hint) else []
            found += [f"{key}.{inner}" for inner in _within(hint, name)]
    return found


def first_difference(one: Any, other: Any, where: str = "") -> tuple[str, Any, Any]:
    """Return the first key whose value differs in two trees of `to_dict`, and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return first_difference(one.get(key), other.get(key), f"{where}.{key}" if where else key)
    return where, one, other


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def to_dict(config: Any) -> dict[str, Any]:
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
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(
            f"cannot read the value of '{shown(override)}': it must be YAML, which takes a text with braces,"
            " brackets or colons in quotes"
        ) from error
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
        raise ConfigError(
            f"{where} is {shown(repr(value))}; it must be one of {', '.join(map(repr, arguments))}"
        )
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
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf
    elif hint is Any or (isinstance(value, hint) and not (hint is int and isinstance(value, bool))):
        return value
    raise ConfigError(f"{where} is {shown(repr(value))}; it must be {_describe(hint)}")


def _describe(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if hint in names:
        return names[hint]
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        if arguments[-1] is Ellipsis:
            return "a list, as in [a, b]"
        return f"a list of {len(arguments)}, as in [{', '.join('abc'[: len(arguments)])}]"
    return "a section of keys, as in {key: value}" if arguments else "a section of keys"
