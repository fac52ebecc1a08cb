"""What the commands of `lexlip table` take, by how a table is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lexlip.bench.tables.table import Table
from lexlip.cli import options

Option = Callable[..., Any]

MODELS = click.argument("models", nargs=-1, required=True, metavar="MODEL...")


def options_of(table: Table) -> list[Option]:
    """Return the options of a table's command, in the order of its help."""
    own = OPTIONS[table.measure](table)
    return [
        *own,
        options.quantization_option,
        options.workers_option,
        options.device_option,
        options.markdown_option,
        options.json_option,
    ]


def _models(table: Table) -> list[Option]:
    return [
        MODELS,
        _source_option(required=False),
        options.images_option,
        options.split_option,
        _topk_option(
            "Number of words that a document keeps, or all; give it once for each row of a model.",
            "all and 32",
        ),
        options.engine_option,
    ]


def _systems(table: Table) -> list[Option]:
    return [
        click.option(
            "--queries",
            required=True,
            metavar="SOURCE",
            help="Photos with captions, which search for each other.",
        ),
        options.images_option,
        options.split_option,
        _pool_option(required=False),
        click.option(
            "--synthetic-distractors",
            "synthetic",
            type=options.Integer(min=0),
            default=0,
            metavar="N",
            help="Number of synthetic vectors, derived from the real ones, to search among.",
        ),
        options.model_option(options.DEFAULT_MODEL, "Packaged name or folder of LexLIP's model."),
        click.option("--clip", metavar="NAME", help="A CLIP model of transformers, by folder or hub name."),
        _topk_option(
            "Number of words that a LexLIP document keeps, or all; give it once for each row.",
            "all 64 32 16 12 8",
        ),
        click.option(
            "--threads",
            type=options.Integer(min=1),
            default=1,
            show_default=True,
            help="Threads that search.",
        ),
        click.option(
            "--rounds",
            type=options.Integer(min=1),
            default=5,
            show_default=True,
            help="Rounds in which each system is timed for about a second.",
        ),
        click.option(
            "--seed",
            type=options.Integer(min=0),
            default=0,
            show_default=True,
            help="Seed of everything that is drawn at random.",
        ),
    ]


def _stages(table: Table) -> list[Option]:
    return [
        MODELS,
        _sources(table),
        options.images_option,
        options.split_option,
        click.option(
            "--pairs",
            type=options.Integer(min=1),
            metavar="N",
            help="Number of photos that are queries, with their captions, evenly spread over SOURCE; scoring"
            " pairs takes long.  [default: all]",
        ),
        _captions_option(),
        *(_folds_options(table) if table.folds else []),
        *([] if table.pool == "never" else [_pool_option(required=table.pool == "must")]),
        *([] if table.reranks == "never" else _rerank_options(table)),
        *(_response_options(table) if table.response else []),
        *_vectors_options(),
    ]


def _evaluations(table: Table) -> list[Option]:
    return [
        MODELS,
        _source_option(required=True),
        options.images_option,
        options.split_option,
        _captions_option(),
        *_rerank_options(table)[:2],  # how scores are combined takes no time
        _photos_option(table, "Number of photos; may be repeated. More than SOURCE has are extrapolated."),
        *_vectors_options(),
    ]


OPTIONS: dict[str, Callable[[Table], list[Option]]] = {
    "models": _models,
    "systems": _systems,
    "stages": _stages,
    "evaluations": _evaluations,
}
"""The options of a table of its own, by `Table.measure`."""


def _sources(table: Table) -> Option:
    if table.several == "languages":
        return click.option(
            "--language",
            "languages",
            multiple=True,
            required=True,
            metavar="LANGUAGE=SOURCE",
            help="Photos with captions in a language (en, de, fr or cs), as in de=captions.de.tsv; give it"
            " once for each column.",
        )
    if table.several == "collections":
        return click.option(
            "--source",
            "sources",
            multiple=True,
            required=True,
            metavar="SOURCE",
            help="Photos with captions to measure on, as for evaluate; give it once for each collection.",
        )
    return _source_option(required=True)


def _captions_option() -> Option:
    return click.option(
        "--captions",
        type=options.Integer(min=1),
        metavar="N",
        help="Use only the first N captions of each photo.  [default: all]",
    )


def _folds_options(table: Table) -> list[Option]:
    return [
        click.option(
            "--folds",
            type=options.Integer(min=1),
            multiple=True,
            default=table.folds,
            show_default=True,
            metavar="N",
            help="Number of parts into which the photos are divided; each is a pool of its own, and recalls"
            " are means over them. Give it once for each row.",
        )
    ]


def _photos_option(table: Table, help: str) -> Option:
    return click.option(
        "--photos",
        "sizes",
        type=options.Integer(min=1),
        multiple=True,
        default=table.sizes,
        show_default=True,
        metavar="N",
        help=help,
    )


def _vectors_options() -> list[Option]:
    return [
        _topk_option(
            "Number of words that a document keeps, or all; give it once for each row of a model.", "32"
        ),
        options.query_topk_option("all"),
        click.option(
            "--ann",
            "engine",
            type=click.Choice(["flat", "hnsw"]),
            default="flat",
            show_default=True,
            help="How dense vectors are searched: exactly, or through a graph.",
        ),
    ]


def _source_option(required: bool) -> Option:
    return click.option(
        "--source",
        required=required,
        metavar="SOURCE",
        help="Photos with captions to measure on, as for evaluate.",
    )


def _pool_option(required: bool) -> Option:
    return click.option(
        "--pool",
        "pools",
        multiple=True,
        required=required,
        metavar="SOURCE",
        help="Further photos to search among; may be repeated.",
    )


def _topk_option(help: str, default: str) -> Option:
    return click.option(
        "--topk",
        "topks",
        type=options.TopK(),
        multiple=True,
        metavar="K",
        help=f"{help}  [default: {default}]",
    )


def _rerank_options(table: Table) -> list[Option]:
    return [
        click.option(
            "--rerank",
            metavar="MODEL",
            help="A ce or a joint model that reranks; a joint first stage reranks itself.",
        ),
        click.option(
            "--rerank-k",
            "ks",
            type=options.Integer(min=1),
            multiple=True,
            metavar="K",
            default=table.ks,
            show_default=True,
            help="Number of hits that are reranked; give it once for each row.",
        ),
        click.option(
            "--rerank-fusion",
            "fusions",
            type=click.Choice(options.FUSIONS),
            multiple=True,
            default=table.fusions,
            show_default=True,
            help="How the scores of first stage and reranker are combined; give it once for each row.",
        ),
        click.option(
            "--rerank-weight",
            "weight",
            type=options.Number(0, 1),
            default=0.5,
            show_default=True,
            help="Weight of the first stage in a sum.",
        ),
    ]


def _response_options(table: Table) -> list[Option]:
    chosen = [
        click.option(
            "--queries",
            type=options.Integer(min=1),
            default=200,
            show_default=True,
            metavar="N",
            help="Number of captions with which the response time is measured.",
        )
    ]
    if table.sizes:
        chosen.append(
            _photos_option(table, "Number of photos in the pool, including synthetic ones; may be repeated.")
        )
    if table.plot:
        chosen.append(click.option("--plot", metavar="FILE", help="Draw it too: FILE.svg or FILE.png."))
    return chosen
