"""Queries, options of every command, and configs, with values that people and programs give by mistake."""

from __future__ import annotations

import dataclasses
import shutil
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import click

from .contract import Broken, Place, attack
from .mutations import VALUES, mutate_tree, perhaps_mutated, text
from .prepare import KINDS, give_towns, index_of
from .processes import check_end, invoke, refusals, shown

DATES = ("", "2014", "2014-13", "2014-02-30", "0000", "x", "\ud800")
CURSORS = ("e30", "AAAA", "eyJzdGF0ZSI6IjEifQ")
NUMBERS = ("0", "1", "2", "-1", "1e3", "nan", "inf", "3.5", "999999", "1" * 40, "", "x")
FIELDS = ("near", "name", "folder", "caption", "text")
NEAR = (
    *("45.7,4.8", "45.7 4.8", "0,0", "90,180", "-91,0", "nan,nan", "1e5,2", "1" + " " * 900 + "x", "9" * 900),
    *("lyon", "paris, texas", ",", "lyon,,", "1," * 400, "٤٥,٣", "+1,-1", '"'),
)
WITHIN = ("20km", "0", "1e9km", "9" * 400, "-1", "5mi", "nan", "1" + " " * 900 + "x", "99999999km")
ALBUMS = ("circles", "Circles", "none", "..", "a/b", "con", "", "x" * 99)
RUN = "index optimize search explain words evaluate doctor pretrain keywords export".split()
"""Commands that are run; of the others, which serve or measure for long, only the options are read."""
SOURCES = (
    *("library", "library/0.jpg", "library/0.txt", "library/.lexlip", "tiny.yaml", "missing", "missing/x"),
    *("scenes:2:0", "scenes:0:0", "scenes:x", "a-{0..3}.tar", "{", "*.tar", "[", "", ".", "~", "-", "--"),
    *("a=b", "optim.lr=x", "out=x", "/dev/null", "two red circles", "new/x.jsonl", "near:45.1,4.8"),
    *("text:exit", "45.1,4.8", "20km", "circles", "opensearch", "elasticsearch"),
)
"""What may stand for a path, a source or a sentence, below the try's folder."""


@cache
def _open(prepared: Path, kind: str) -> Any:
    from lexlip.search.photo_search import PhotoSearch

    give_towns(prepared)
    return PhotoSearch(index_of(prepared, kind))


@attack("fuzz.queries", 1500, 75, 30)
def queries(random: Random, place: Place) -> None:
    """Ask an open index of each kind: refused, or answered with hits in order."""
    kind, k, query = random.choice(KINDS), random.choice([1, 3, 10, 10**6]), text(random)
    how: dict[str, Any] = {}
    with refusals():
        hits = _answer(random, _open(place.prepared, kind), query, k, how)
        if hits is None:
            return
        scores = [hit.score for hit in hits]
        by_score = how.get("sort", "match") == "match"
        if len(scores) > k or (by_score and scores != sorted(scores, reverse=True)):
            raise Broken(f"{kind}: {query!r} has {len(scores)} hits for k={k}, with scores {scores[:4]}")
        if len({hit.id for hit in hits}) < len(scores):
            raise Broken(f"{kind}: {query!r} has a hit twice")


def _answer(random: Random, photos: Any, query: str, k: int, how: dict[str, Any]) -> Any:
    """Return the hits of a search at random, which is told `how`; None of a listing, which has no scores."""
    from lexlip.retrieval.filters import Filters

    if random.random() < 0.3:
        how["cursor"] = random.choice([text(random), *CURSORS])
    if random.random() < 0.2:
        how["min_score"] = random.choice([0, -1, 1e300, float("nan"), float("inf")])
    if random.random() < 0.3:
        after, before = (random.choice(DATES) for _ in range(2))
        how["filters"] = Filters(after, before, random.choice(["", "..", text(random)]), text(random))
    elif random.random() < 0.4:
        near, within, album = (random.choice([None, *some]) for some in (NEAR, WITHIN, ALBUMS))
        how["filters"] = Filters(near=near, within=within, album=album)
        how["sort"] = random.choice(["match", "date", "place"])
    asked = random.randrange(6)
    if asked == 0:
        return photos.similar(query, k, **how).hits
    if asked == 1:
        red, typed, two = (random.choice([1, 0, -1, 1e308, float("nan"), 1e-300]) for _ in range(3))
        return photos.words({"red": red, query: typed, "two": two}, k, [query], **how).hits
    if asked == 2:
        return _list(random, photos, k, how)
    if random.random() < 0.4:
        field = random.choice(FIELDS)
        value = random.choice([*(NEAR if field == "near" else ()), text(random), "exit", "circles"])
        query = f"{query[:200]} {field}:" + random.choice([value, f'"{value}"'])
    return photos.text(query, k, **how).hits


def _list(random: Random, photos: Any, k: int, how: dict[str, Any]) -> None:
    """List photos by date, all pages, and by month; Broken: that does not add up."""
    filters = how.get("filters")
    page = photos.listed(k, filters, how.get("cursor"), random.choice(["newest", "oldest"]))
    if len(page.photos) > min(k, page.total) or bool(page.total) == bool(page.unmet):
        raise Broken(f"{len(page.photos)} photos of {page.total} on a page of {k}: {page.unmet!r}")
    months = photos.timeline(filters)
    if sum(month.photos for month in months.months) + months.undated != page.total:
        raise Broken(f"{page.total} photos are listed, and by month they are {months}")


@attack("fuzz.options", 200, 4, 120)
def options(random: Random, place: Place) -> None:
    """Give a command options at random: it works, or ends with exit code 2 and a sentence."""
    from lexlip.cli import main

    give_towns(place.prepared)
    commands = list(_commands(main))
    name, command = random.choice([*commands, *[one for one in commands if one[0] == ("pretrain",)] * 9])
    shutil.copytree(place.prepared / "library", "library")
    shutil.copy(place.prepared / "tiny.yaml", ".")
    arguments = _arguments(random, place, command)
    if name == ("pretrain",):
        arguments = ["--dry-run", *(_a_run(random) if random.random() < 0.7 else arguments)]
    what = f"lexlip {shown([*name, *arguments])}"
    if len(name) == 1 and name[0] in RUN:
        check_end(invoke(*name, *arguments), what, *((0, 1, 2) if name[0] == "doctor" else (0, 2)))
        return
    try:
        command.make_context(name[-1], list(arguments))
    except click.ClickException as error:
        if error.exit_code != 2:
            raise Broken(f"{what} ends with exit code {error.exit_code}") from error
    except click.exceptions.Exit:
        pass


def _commands(
    group: click.Group, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)  # which loads it
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*above, name))
        else:
            yield (*above, name), command


def _arguments(random: Random, place: Place, command: click.Command) -> list[str]:
    """Return some options of a command, with likely and unlikely values."""
    given: list[str] = []
    named = [one for one in command.params if isinstance(one, click.Option)]
    for option in random.sample(named, min(len(named), random.choice([0, 1, 1, 2, 3]))):
        given.append(random.choice(option.opts))
        if not option.is_flag:
            given += [_value(random, place, option) for _ in range(option.nargs)]
    if any(isinstance(one, click.Argument) for one in command.params) or random.random() < 0.05:
        given += [_source(random) for _ in range(random.choice([0, 1, 1, 1, 2]))]
    takes_index = any("--index" in option.opts for option in named) and not {"--index", "-h"} & set(given)
    if takes_index and random.random() < 0.8:
        indexes = ["library/.lexlip", "new", str(index_of(place.prepared, "bm25"))]
        given += ["--index", random.choice(indexes)]
    return [value.replace("\0", "") for value in given]


def _a_run(random: Random) -> list[str]:
    """Return a config, and some of its keys with strange values."""
    from lexlip.config import Config

    values = ["0", "1", "-1", "7", "0.5", "null", "x", "[]", "[1]", "{}", "{a: b}", "nan", "true"]
    model = ["model.image.options={depth: 0}", "model.text.options={hidden_size: 7}", "model.image.name=x"]
    keys = random.sample(_keys(Config), random.choice([1, 2]))
    strange = [f"{key}={random.choice(values)}" for key in keys]
    return ["tiny.yaml", *strange, *random.sample(model, random.choice([0, 0, 1]))]


def _value(random: Random, place: Place, option: click.Option) -> str:
    if isinstance(option.type, click.Choice) and random.random() < 0.7:
        return str(random.choice(list(option.type.choices)))
    if option.type.name.startswith(("integer", "float")) and random.random() < 0.9:
        return random.choice(NUMBERS)
    if option.name == "model" and random.random() < 0.8:
        models = [place.model, place.prepared / "dense", "bm25", "mini", "x/y", "library"]
        return str(random.choice(models))
    return _source(random)


def _source(random: Random) -> str:
    return random.choice([*SOURCES, text(random)[:200]])


@attack("fuzz.configs", 1500, 75, 30)
def configs(random: Random, place: Place) -> None:
    """Read a config with hostile values: it is refused, or has the types that it should."""
    import yaml

    from lexlip.config import Config
    from lexlip.config_files import load_config, to_dict

    keys = _keys(Config)
    tree: dict[str, Any] = {}
    for key in random.sample(keys, random.choice([1, 1, 2, 5])):
        section = tree
        *parents, last = key.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = random.choice([*VALUES, text(random).encode("utf-8", "replace").decode()])
    if random.random() < 0.2:
        tree = mutate_tree(random, {**to_dict(Config()), **tree})
    file = place.folder / "config.yaml"
    file.write_bytes(perhaps_mutated(random, yaml.safe_dump(tree).encode(), 0.2))
    value = random.choice(["", "[", "{", "x", "-1", "nan", ".inf", "[1, 2]", text(random)])
    overrides = [f"{random.choice(keys)}={value}"]
    with refusals():
        config = load_config(file, overrides if random.random() < 0.5 else ())
        file.write_text(yaml.safe_dump(to_dict(config), sort_keys=False))
        if load_config(file) != config and ".nan" not in file.read_text():
            raise Broken("a config that was written and read again is another one")


@cache
def _keys(section: type, above: str = "") -> list[str]:
    """Return every key of the config."""
    hints = typing.get_type_hints(section)
    found = []
    for field in dataclasses.fields(section):
        hint = hints[field.name]
        deeper = dataclasses.is_dataclass(hint) and isinstance(hint, type)
        found += _keys(hint, f"{above}{field.name}.") if deeper else [f"{above}{field.name}"]
    return found
