"""What the commands of `lexlip table` take, which follows from the tables' definitions."""

from typing import Any

import click
import pytest

from lexlip.bench.tables import TABLES
from lexlip.cli.table import table as group
from lexlip.cli.table_options import options_of
from tests.cli.conftest import Run

SCENES = ["--source", "scenes:12:0", "--workers", 0]


def parameters(name: str) -> dict[str, click.Parameter]:
    """The arguments and options of a table's command by their names in Python."""
    return {parameter.name: parameter for parameter in group.commands[name].params if parameter.name}


def test_there_is_a_command_for_each_table() -> None:
    assert list(group.commands) == list(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_the_options_are_those_of_the_definition(name: str) -> None:
    table, found = TABLES[name], parameters(name)
    assert len(found) == len(options_of(table))
    assert {"topks", "quantization", "workers", "markdown", "as_json", "images", "split"} <= found.keys()
    assert ("models" in found) == (table.measure != "systems")
    assert ("threads" in found) == (table.measure == "systems")
    assert ("pairs" in found) == (table.measure == "stages")
    if table.measure not in ("stages", "evaluations"):
        return
    source = {"languages": "languages", "collections": "sources", None: "source"}[table.several]
    assert found[source].required
    assert {"source", "sources", "languages"} & found.keys() == {source}
    assert ("folds" in found) == bool(table.folds)
    assert ("pools" in found) == (table.pool != "never")
    assert ("reranker" in found) == (table.reranks != "never")
    assert ("timed" in found) == table.response
    assert ("sizes" in found) == bool(table.sizes)
    assert ("plot" in found) == table.plot
    if "pools" in found:
        assert found["pools"].required == (table.pool == "must")
    if "reranker" in found:
        assert found["ks"].default == table.ks
    if "reranker" in found and table.measure == "stages":
        assert found["fusions"].default == table.fusions
    if "folds" in found:
        assert found["folds"].default == table.folds
    if "sizes" in found:
        assert found["sizes"].default == table.sizes


@pytest.mark.parametrize("name", TABLES)
def test_help_begins_with_the_title(lexlip: Run, name: str) -> None:
    lines = "".join(lexlip("table", name, "--help").stdout.split())
    assert "".join(TABLES[name].title.split()) in lines
    assert "--markdown" in lines


def test_a_paper_s_choices_are_the_defaults() -> None:
    assert parameters("retrieve-8")["ks"].default == (10, 20, 50)
    assert parameters("retrieve-9")["fusions"].default == ("none", "add", "norm_add")
    assert parameters("retrieve-3")["sizes"].default == (50_000, 1_000_000)
    assert parameters("retrieve-4")["sizes"].default == (1_000, 5_000, 100_000)
    assert parameters("vldeformer-figure-5")["sizes"].default == (1_000, 5_000, 10_000)
    assert parameters("vldeformer-2")["folds"].default == (5, 1)


NO_TOPK = "is neither a number of at least 1 nor all"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        # of models
        (["4", "mini"], "No such command '4'"),
        (["1"], "Missing argument 'MODEL...'"),
        (["1", "mini", "--topk", "0", "--source", "x"], f"'--topk': '0' {NO_TOPK}"),
        (["1", "mini", "--topk", "few", "--source", "x"], f"'--topk': 'few' {NO_TOPK}"),
        (["1", "mini", "--topk", "8"], "--images, --split and --topk need --source"),
        (["1", "mini", "--split", "test"], "--images, --split and --topk need --source"),
        (["1", "mini", "--json", "--markdown"], "give --markdown or --json, not both"),
        # of systems
        (["2"], "Missing option '--queries'"),
        (["2", "--queries", "a", *"--pool b --pool a".split()], "a: the photos of --queries are in the pool"),
        (["2", "--queries", "a", "--topk", "0"], f"'--topk': '0' {NO_TOPK}"),
        (["2", "--queries", "a", "--synthetic-distractors", "-1"], "-1 is not in the range x>=0"),
        (["2", "--queries", "a", "--markdown", "--json"], "give --markdown or --json, not both"),
        (["2", "--queries", "a", "mini"], "Got unexpected extra argument (mini)"),
        # of stages
        (["stages", "be"], "Missing option '--source'"),
        (["stages", *SCENES], "Missing argument 'MODEL...'"),
        (["lightningdot-2", "be", *SCENES], "Missing option '--pool'"),
        (["retrieve-5", "be", *SCENES, "--pool", "scenes:12:0"], "are in the pool already"),
        (["retrieve-9", "be", *SCENES, "--rerank-fusion", "max"], "'max' is not one of"),
        (["stages", "be", *SCENES, "--markdown", "--json"], "give --markdown or --json, not both"),
        (["stages", "be", *SCENES, "--rerank-k", 0], "0 is not in the range x>=1."),
        (["vldeformer-5", "be", *SCENES, "--rerank", "ce"], "No such option '--rerank'"),
        (["vldeformer-2", "be", *SCENES, "--folds", 0], "0 is not in the range x>=1."),
        (["retrieve-6", "be"], "Missing option '--source'"),
        (["retrieve-2", "be"], "Missing option '--language'"),
        (["retrieve-2", "be", "--language", "xx=a"], "write LANGUAGE=SOURCE, with one of en, de, fr, cs"),
        (["retrieve-7", "be", "--language", "photos"], "--language photos: write LANGUAGE=SOURCE"),
        (["retrieve-4", "be"], "Missing option '--source'"),
    ],
)
def test_misuse(lexlip: Run, arguments: list[Any], says: str) -> None:
    result = lexlip("table", *arguments, code=2)
    assert says in result.stderr.splitlines()[-1]
    assert result.stdout == ""
