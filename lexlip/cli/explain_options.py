"""The options of `lexlip explain`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from lexlip.cli import options

if TYPE_CHECKING:
    from lexlip.models.contract import QueryEncoder


class Model(NamedTuple):
    """Which model explains; without an index the one named, or else the default."""

    name: str | None
    index_folder: str | None
    device: str
    query_encoder: QueryEncoder


class Wanted(NamedTuple):
    """What is shown and written."""

    topk: int
    words: Sequence[str]
    cloud: str | None
    heat: str | None
    as_json: bool


def explain_options(command: Callable[..., None]) -> Callable[..., None]:
    """All of them."""
    for option in (
        options.json_option,
        options.device_option,
        options.query_topk_option(),
        options.query_encoder_option,
        click.option(
            "--heat",
            metavar="FOLDER|FILE",
            help="Write where in the picture each word is: pictures into a folder, or one .png of all.",
        ),
        click.option("--cloud", metavar="FILE", help="Write a cloud of the words: .png or .svg."),
        click.option("--word", multiple=True, metavar="WORD", help="Look for this word instead."),
        click.option(
            "--topk",
            type=options.Integer(min=1),
            default=10,
            show_default=True,
            metavar="K",
            help="Number of words that are shown and looked for in the picture.",
        ),
        click.option(
            "--caption", multiple=True, metavar="TEXT", help="A caption of the picture; may be repeated."
        ),
        click.option("--hit", metavar="ID", help="Explain the score of this photo, by id or path."),
        click.option(
            "--index",
            "index_folder",
            metavar="DIR",
            help="An index of words, whose model explains, and which holds the photo of --hit."
            f"  [default with --hit: {options.DEFAULT_INDEX}]",
        ),
        options.model_option(None, "Packaged name or folder of the model.  [default: the index's, or mini]"),
    ):
        command = option(command)
    return command


def check_explain(context: click.Context, what: str, picture: bool) -> None:
    """Refuse options that have no effect."""
    if not what.strip():
        raise click.UsageError("the sentence is empty")
    given = context.params
    if given["hit"] is None:
        options.refuse(context, ["query_topk"], "is for --hit")
    if picture:
        options.refuse(context, ["query_encoder"], "is for sentences")
    if not picture and given["hit"] is None:
        options.refuse(context, ["heat", "word", "device"], "is for a picture or --hit")
    if given["caption"] and (not picture or given["hit"] is not None):
        options.refuse(context, ["caption"], "is for a picture without --hit")
    if given["hit"] is not None and not given["heat"]:
        options.refuse(context, ["word"], "is for --heat")
