"""What the commands of the tables of stages take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from lexlip.cli import options

FUSIONS = ("none", "add", "norm_add")


@dataclass(frozen=True)
class Command:
    """What the command of a table takes, and what is measured for it.

    Attributes:
        title: what it shows.
        recall, response: what is measured.
        pairs: the cross-encoder alone has a row.
        reranks: "may", "must" (or there is nothing to show), or "never".
        ks, fusions: a row each, by default.
        pool: "may" take further photos to search among, "must", or "never".
        sizes: photos in the index while response is measured, by default; none: those at hand.
        plot: whether response can be drawn.
        alone: the photos that ask are the pool, so that all pairs can be scored.
    """

    title: str
    recall: bool = True
    response: bool = False
    pairs: bool = False
    reranks: str = "may"
    ks: tuple[int, ...] = (20,)
    fusions: tuple[str, ...] = ("none",)
    pool: str = "never"
    sizes: tuple[int, ...] = ()
    plot: bool = False
    alone: bool = False


def options_of(command: Command) -> list[Callable[..., Any]]:
    """Those that all tables take, and those of the kind."""
    chosen = [
        click.argument("models", nargs=-1, required=True, metavar="MODEL..."),
        click.option(
            "--source",
            required=True,
            metavar="SOURCE",
            help="Photos with captions to measure on, as for evaluate.",
        ),
        options.images_option,
        options.split_option,
        click.option(
            "--pairs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Photos that ask, and whose captions do, evenly spread over SOURCE: pairs take long."
            "  [default: all]",
        ),
        click.option(
            "--captions",
            type=click.IntRange(min=1),
            metavar="N",
            help="Captions of a photo that count, the first.  [default: all]",
        ),
    ]
    if command.pool != "never":
        chosen.append(
            click.option(
                "--pool",
                "pools",
                multiple=True,
                required=command.pool == "must",
                metavar="SOURCE",
                help="Photos that enlarge the pool; may be repeated.",
            )
        )
    if command.reranks != "never":
        chosen += _rerank_options(command)
    if command.response:
        chosen += _response_options(command)
    return [
        *chosen,
        click.option(
            "--topk",
            "topks",
            type=options.TopK(),
            multiple=True,
            metavar="K",
            help="Words that a document keeps, or all; once for each row of a model.  [default: 32]",
        ),
        options.query_topk_option("all"),
        click.option(
            "--ann",
            type=click.Choice(["flat", "hnsw"]),
            default="flat",
            show_default=True,
            help="How dense vectors are searched: all of them, or through a graph.",
        ),
        options.quantization_option,
        options.workers_option,
        options.markdown_option,
        options.json_option,
    ]


def _rerank_options(command: Command) -> list[Callable[..., Any]]:
    return [
        click.option(
            "--rerank", metavar="MODEL", help="A ce, or a joint model; a joint MODEL reranks itself."
        ),
        click.option(
            "--rerank-k",
            "ks",
            type=click.IntRange(min=1),
            multiple=True,
            metavar="K",
            default=command.ks,
            show_default=True,
            help="Candidates that are reranked; once for each row.",
        ),
        click.option(
            "--rerank-fusion",
            "fusions",
            type=click.Choice(FUSIONS),
            multiple=True,
            default=command.fusions,
            show_default=True,
            help="What becomes of the first stage's score beside the reranker's; once for each row.",
        ),
        click.option(
            "--rerank-weight",
            "weight",
            type=click.FloatRange(0, 1),
            default=0.5,
            show_default=True,
            help="Of the first stage in a sum.",
        ),
    ]


def _response_options(command: Command) -> list[Callable[..., Any]]:
    chosen = [
        click.option(
            "--queries",
            type=click.IntRange(min=1),
            default=200,
            show_default=True,
            metavar="N",
            help="Captions that response is measured with.",
        )
    ]
    if command.sizes:
        chosen.append(
            click.option(
                "--photos",
                "sizes",
                type=click.IntRange(min=1),
                multiple=True,
                default=command.sizes,
                show_default=True,
                metavar="N",
                help="Photos in the pool, with synthetic ones; may be repeated.",
            )
        )
    if command.plot:
        chosen.append(click.option("--plot", metavar="FILE", help="Draw it too: FILE.svg or FILE.png."))
    return chosen
