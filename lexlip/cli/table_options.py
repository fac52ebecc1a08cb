"""What the commands of `lexlip table` take, by how a table is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lexlip.bench.tables.table import Table
from lexlip.cli import options
from lexlip.cli.options import Option


def options_of(table: Table) -> list[Option]:
    """Return the options of a table's command, in the order of its help."""
    return [
        *OPTIONS[table.measure](table),
        options.quantization_option,
        options.workers_option,
        options.device_option,
        options.markdown_option,
        options.json_option,
    ]


def _models(table: Table) -> list[Option]:
    return [
        MODELS,
        *_source(required=False),
        _topk(f"{TOPK} of a model.", "all and 32"),
        options.engine_option,
    ]


def _systems(table: Table) -> list[Option]:
    return [
        *_source("Photos with captions, which search for each other.", "--queries"),
        _pool(required=False),
        options.count_option(
            "--synthetic-distractors",
            "synthetic",
            default=0,
            metavar="N",
            help="Number of synthetic vectors, derived from the real ones, to search among.",
            least=0,
        ),
        options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of LexLIP's model."),
        click.option(
            "--dense",
            "--clip",
            "dense",
            metavar="MODEL",
            help="A dense model: a run's folder, a checkpoint, a packaged name, or a CLIP, SigLIP"
            " or model of open_clip by folder or hub name.",
        ),
        _topk(f"{TOPK}.".replace("document", "LexLIP document"), "all 64 32 16 12 8"),
        options.count_option("--threads", default=1, help="Threads that search."),
        options.count_option(
            "--rounds", default=5, help="Rounds in which each system is timed for about a second."
        ),
        options.count_option(
            "--seed", default=0, least=0, help="Seed of everything that is drawn at random."
        ),
    ]


def _stages(table: Table) -> list[Option]:
    return [
        MODELS,
        *_sources(table),
        options.count_option(
            "--pairs",
            metavar="N",
            help="Number of photos that are queries, with their captions, evenly spread over SOURCE; scoring"
            " pairs takes long.  [default: all]",
        ),
        CAPTIONS,
        *(_folds(table) if table.folds else []),
        *([] if table.pool == "never" else [_pool(required=table.pool == "must")]),
        *([] if table.reranks == "never" else _rerank(table)),
        *(_response(table) if table.response else []),
        *VECTORS,
    ]


def _evaluations(table: Table) -> list[Option]:
    return [
        MODELS,
        *_source(),
        CAPTIONS,
        *_rerank(table)[:2],  # how scores are combined takes no time
        _photos(table, "Number of photos; may be repeated. More than SOURCE has are extrapolated."),
        *VECTORS,
    ]


OPTIONS: dict[str, Callable[[Table], list[Option]]] = {
    "models": _models,
    "systems": _systems,
    "stages": _stages,
    "evaluations": _evaluations,
}
"""The options of a table of its own, by `Table.measure`."""

MEASURED_ON = "Photos with captions to measure on, as for evaluate"


def _source(
    help: str = f"{MEASURED_ON}.", *names: str, required: bool = True, metavar: str = "SOURCE", **more: Any
) -> list[Option]:
    option = click.option(*(names or ["--source"]), required=required, metavar=metavar, help=help, **more)
    return [option, options.images_option, options.split_option]


def _sources(table: Table) -> list[Option]:
    if table.several == "languages":
        languages = (
            "Photos with captions in a language (en, de, fr or cs), as in de=captions.de.tsv; give it once"
            " for each column."
        )
        return _source(languages, "--language", "languages", metavar="LANGUAGE=SOURCE", multiple=True)
    if table.several == "collections":
        each = f"{MEASURED_ON}; give it once for each collection."
        return _source(each, "--source", "sources", multiple=True)
    return _source()


def _pool(required: bool) -> Option:
    help = "Further photos to search among; may be repeated."
    return click.option("--pool", "pools", multiple=True, required=required, metavar="SOURCE", help=help)


def _folds(table: Table) -> list[Option]:
    help = (
        "Number of parts into which the photos are divided; each is a pool of its own, and recalls are means"
        " over them. Give it once for each row."
    )
    return [options.count_option("--folds", multiple=True, default=table.folds, metavar="N", help=help)]


def _photos(table: Table, help: str) -> Option:
    return options.count_option(
        "--photos", "sizes", multiple=True, default=table.sizes, metavar="N", help=help
    )


def _topk(help: str, default: str) -> Option:
    help = f"{help}  [default: {default}]"
    return click.option("--topk", "topks", type=options.TopK(), multiple=True, metavar="K", help=help)


def _rerank(table: Table) -> list[Option]:
    return [
        click.option(
            "--rerank",
            "reranker",
            metavar="MODEL",
            help="A ce or a joint model that reranks; a joint first stage reranks itself.",
        ),
        options.count_option(
            "--rerank-k",
            "ks",
            multiple=True,
            metavar="K",
            default=table.ks,
            help="Number of hits that are reranked; give it once for each row.",
        ),
        click.option(
            "--rerank-fusion",
            "fusions",
            type=click.Choice(options.FUSIONS),
            multiple=True,
            default=table.fusions,
            help="How the scores of first stage and reranker are combined; give it once for each row.",
        ),
        click.option(
            "--rerank-weight",
            "weight",
            type=options.Number(0, 1),
            default=0.5,
            help="Weight of the first stage in a sum.",
        ),
    ]


def _response(table: Table) -> list[Option]:
    timed = "Number of captions with which the response time is measured."
    chosen = [options.count_option("--queries", "timed", default=200, metavar="N", help=timed)]
    if table.sizes:
        photos = "Number of photos in the pool, including synthetic ones; may be repeated."
        chosen.append(_photos(table, photos))
    if table.plot:
        chosen.append(click.option("--plot", metavar="FILE", help="Draw it too: FILE.svg or FILE.png."))
    return chosen


MODELS = click.argument("models", nargs=-1, required=True, metavar="MODEL...")
CAPTIONS = options.count_option(
    "--captions", metavar="N", help="Use only the first N captions of each photo.  [default: all]"
)
TOPK = "Number of words that a document keeps, or all; give it once for each row"
VECTORS = (
    _topk(f"{TOPK} of a model.", "32"),
    options.query_topk_option("all"),
    click.option(
        "--ann",
        "engine",
        type=click.Choice(["flat", "hnsw"]),
        default="flat",
        help="How dense vectors are searched: exactly, or through a graph.",
    ),
)
