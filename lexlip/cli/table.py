"""lexlip table: one command for each table that `lexlip.bench.tables` defines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexlip.bench.tables import TABLES
from lexlip.bench.tables.table import Table, as_markdown, as_text, check_picture, draw_response
from lexlip.cli import options
from lexlip.cli.evaluate import open_captioned
from lexlip.cli.exit_codes import interruptible
from lexlip.cli.table_options import options_of
from lexlip.errors import ConfigError

if TYPE_CHECKING:
    from lexlip.bench.tables.first_stages import TableSettings
    from lexlip.bench.tables.row import Row
    from lexlip.bench.tables.stages import Plan
    from lexlip.data import Source
    from lexlip.sparse.quantize import Scheme

    RowsAndNotes = tuple[list[Row], list[str]]

SEEDS = "A,B,C are runs of one row, such as of several seeds: their mean ± standard deviation."
ENGINES = "--engine is for the models that it can search; the others keep their default."
HELP = {
    "models": "MODEL is a run's folder (its best checkpoint), a checkpoint, a packaged name, or a CLIP by"
    " folder or hub name. With --source all models are measured on the same photos. Without it the table"
    f" shows the validation results of the runs. {SEEDS} {ENGINES}",
    "ablations": "MODEL is a run's folder (its best checkpoint) or one of its checkpoints. The table says"
    " what the config of each run, and of the runs it started from, switches off or adds. With --source all"
    " models are measured on the same photos. Without it the table shows the validation results of the runs."
    f" {SEEDS} {ENGINES}",
    "systems": "The captions of --queries search its photos together with those of --pool, and photos search"
    " captions; one caption of each photo is BM25's document, and all systems ask with the others. The dense"
    " model is searched with Faiss: by brute force with floats and with int8, through a graph (HNSW), and in"
    " lists of compressed vectors (IVF-PQ). Without --dense, random vectors show the size and speed of CLIP"
    " by brute force. LexLIP and BM25 are searched with Lucene.",
    "stages": "MODEL is a first stage: a run's folder (its best checkpoint), a checkpoint, a packaged name, a"
    " CLIP by folder or hub name, or bm25. Each encodes the same photos once. Words are searched with Lucene,"
    " dense vectors with Faiss.",
    "evaluations": "MODEL is a first stage, as for `lexlip table stages`. Photos and captions are encoded,"
    " indexed and searched both ways, on all threads; a cross-encoder scores all pairs, or reranks.",
}
SEVERAL = {
    "collections": " It is measured on one SOURCE after another, to compare photos like those of its training"
    " with others.",
    "languages": " It is measured with the captions of one language after another; --images names the photos"
    " of tables.",
}
LANGUAGES = ("en", "de", "fr", "cs")
OF_SETTINGS = ("topks", "query_topk", "engine", "quantization", "workers", "device", "progress")
"""Options of tables of stages that are of `TableSettings`; the others are of `Plan`."""
LISTS = (".json", ".jsonl", ".tsv", ".csv", ".txt")  # sources that name photos elsewhere


@click.group()
def table() -> None:
    """Print a table of a paper, for your own models and photos.

    1, 2 and 3 are tables of the LexLIP paper; the others are of the papers about dense dual encoders and
    cross-encoders, except stages, which has all measurements.
    """


def _command(definition: Table) -> click.Command:
    """Return the command that measures and prints a table."""

    def measure_and_print(markdown: bool, as_json: bool, **chosen: Any) -> None:
        options.one_format(markdown, as_json)
        with interruptible("nothing was measured"):
            rows, notes = MEASURE[definition.measure](definition, progress=not as_json, **chosen)
        _print(definition, rows, notes, markdown, as_json)

    function = options.together(*options_of(definition))(measure_and_print)
    text = HELP["ablations" if definition.ablations == "lexlip" else definition.measure]
    if definition.several is not None:
        text += SEVERAL[definition.several]
    return click.command(definition.name, help=f"{definition.title}\n\n{text}")(function)


def _print(definition: Table, rows: list[Row], notes: Sequence[str], markdown: bool, as_json: bool) -> None:
    from lexlip.cli.index import show_skipped

    show_skipped(next((row.skipped for row in rows if row.skipped), []))
    if as_json:
        name = int(definition.name) if definition.name.isdigit() else definition.name
        plain = [definition.to_dict(row) for row in rows]
        quoted = [line.to_dict() for line in definition.quoted]
        click.echo(json.dumps({"table": name, "rows": plain, "notes": notes, "paper": quoted}))
        return
    form = as_markdown if markdown else as_text
    click.echo(form(definition.shown(rows), rows, definition.quoted))
    click.echo("\n" + "\n".join(notes))


def _measure_models(
    definition: Table,
    models: tuple[str, ...],
    source: str | None,
    images: str | None,
    split: str | None,
    **settings: Any,
) -> RowsAndNotes:
    from lexlip.bench.tables.models import measure_models, validated_models

    if source is None:
        if images or split or settings["topks"]:
            raise click.UsageError("--images, --split and --topk need --source")
        return validated_models(definition, models)
    photos = open_captioned(source, images, split)
    return measure_models(definition, models, photos, _name(source, split), _settings((None, 32), **settings))


def _measure_systems(
    definition: Table,
    queries: str,
    images: str | None,
    split: str | None,
    pools: tuple[str, ...],
    model: str,
    dense: str | None,
    **settings: Any,
) -> RowsAndNotes:
    from anserini_bridge import find_jar, find_java

    find_java(), find_jar()  # fail before the work
    photos, others = _open_pool("queries", queries, images, split, pools)

    from lexlip.bench.tables.systems import measure_systems
    from lexlip.machine.device import pick_device
    from lexlip.models.lexlip import LexLIP
    from lexlip.models.load import load_dense

    place = pick_device(settings["device"])
    return measure_systems(
        definition,
        LexLIP.from_pretrained(model).to(place),
        None if dense is None else load_dense(dense, settings["device"]),
        photos,
        others,
        _settings((None, 64, 32, 16, 12, 8), **settings),  # the paper's rows
    )


def _measure_stages(
    definition: Table,
    models: tuple[str, ...],
    images: str | None,
    split: str | None,
    captions: int | None,
    pairs: int | None = None,
    source: str | None = None,
    sources: Sequence[str] = (),
    languages: Sequence[str] = (),
    pools: tuple[str, ...] = (),
    plot: str | None = None,
    **chosen: Any,
) -> RowsAndNotes:
    if definition.several is not None:
        named = _languages(languages) if languages else {name: name for name in sources}
        photos = {name: _open_table(place, images, split) for name, place in named.items()}
        others: list[Source] = []
    else:
        assert source is not None
        queries, others = _open_pool("source", source, images, split, pools)
        photos = {_name(source, split): queries}

    from lexlip.bench.tables import stages
    from lexlip.bench.tables.notes import notes

    plan = _plan(definition, models, captions, **chosen)
    if plot is not None:
        check_picture(plot)
    made = {
        name: stages.make_query_pool(found, others, pairs, captions, definition.queries_only)
        for name, found in photos.items()
    }
    first, *rest = made
    if definition.measure == "evaluations":
        rows = stages.measure_evaluations(plan, made[first].source)
    elif definition.several == "collections":
        rows = stages.measure_collections(plan, made)
    elif definition.several == "languages":
        rows = stages.measure_languages(plan, made)
    else:
        rows = stages.measure_stages(plan, made[first])
    if plot is not None:
        draw_response(rows, plot)
    return rows, notes(plan, made[first], rows, first, {name: made[name] for name in rest})


def _plan(definition: Table, models: tuple[str, ...], captions: int | None, **chosen: Any) -> Plan:
    """Return what is measured, checked as far as possible before the work."""
    from lexlip.bench.tables.stages import Plan
    from lexlip.registry import BM25

    of_settings = {name: chosen.pop(name) for name in OF_SETTINGS}
    plan = Plan(
        table=definition,
        models=_each_once(models),
        settings=_settings((32,), **of_settings),
        **_given(chosen),
    )
    plan.check()
    if BM25 in plan.models and captions == 1:
        raise ConfigError("bm25 needs a second caption of a photo to search with: leave out --captions 1")
    return plan


def _languages(given: Sequence[str]) -> dict[str, str]:
    """Return the sources by language, given LANGUAGE=SOURCE."""
    sources = {}
    for each in given:
        language, equals, place = each.partition("=")
        if language not in LANGUAGES or not equals:
            known = ", ".join(LANGUAGES)
            raise click.UsageError(f"--language {each}: write LANGUAGE=SOURCE, with one of {known}")
        sources[language] = place
    return sources


def _open_table(source: str, images: str | None, split: str | None) -> Source:
    """Open one of several sources; --images and --split are for those that are files of captions."""
    lists = Path(source).suffix.lower() in LISTS
    return open_captioned(source, images if lists else None, split if lists else None)


MEASURE: dict[str, Callable[..., RowsAndNotes]] = {
    "models": _measure_models,
    "systems": _measure_systems,
    "stages": _measure_stages,
    "evaluations": _measure_stages,
}
"""What measures the rows of a table, by `Table.measure`, and says how."""


def _open_pool(
    option: str, source: str, images: str | None, split: str | None, pools: tuple[str, ...]
) -> tuple[Source, list[Source]]:
    """Open the photos that are queries, and the further ones of --pool."""
    from lexlip.data import open_source

    if source in pools:
        raise click.UsageError(f"--pool {source}: the photos of --{option} are in the pool already")
    return open_captioned(source, images, split), [open_source(pool) for pool in pools]


def _settings(rows: Sequence[int | None], quantization: Scheme | None, **settings: Any) -> TableSettings:
    """Return how rows are measured; `rows` are by default the numbers of words that a document keeps."""
    from lexlip.bench.tables.first_stages import TableSettings

    return TableSettings(**{"topks": rows, **_given(settings)}, scheme=quantization)


def _given(chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the values of options; those of options that may be repeated once each, if there are any."""
    once = {name: _each_once(value) if isinstance(value, tuple) else value for name, value in chosen.items()}
    return {name: value for name, value in once.items() if value != []}


def _each_once(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _name(source: str, split: str | None) -> str:
    return f"{source} ({split})" if split else source


for definition in TABLES.values():
    table.add_command(_command(definition))
