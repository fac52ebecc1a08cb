"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import click
from click.core import ParameterSource

from lexlip.errors import ConfigError
from lexlip.sparse.query_topk import SENTENCE_TOPK

DEFAULT_MODEL = "mini"
FIRST_STAGES = (
    "A model's packaged name, folder, training run or name on the model hub, also of a CLIP; or bm25 for the"
    " words of captions."
)
DEFAULT_INDEX = ".lexlip"
FUSIONS = ("none", "add", "norm_add")  # see `lexlip.search.fusion.Fusion`


class Integer(click.IntRange):
    """A whole number; click itself would say 'integer range' to those who give something else."""

    name = "integer"


class Number(click.FloatRange):
    """A number; see `Integer`."""

    name = "number"


def count_option(*names: str, default: Any = None, least: int = 1, **more: Any) -> Callable[..., Any]:
    """Return an option for a whole number; `more` is what click takes."""
    number = Integer(min=least)
    return click.option(*names, type=number, default=default, show_default=default is not None, **more)


markdown_option = click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
index_option = click.option(
    "--index",
    "index_folder",
    default=DEFAULT_INDEX,
    show_default=True,
    metavar="DIR",
    help="The index's folder.",
)
photos_option = click.option(
    "--photos",
    "photo_folders",
    multiple=True,
    metavar="FOLDER",
    help="Also send photos of the index from this folder, though another user or an older version made the"
    " index; may be repeated.",
)
quantization_option = click.option(
    "--quantization",
    type=click.Choice(["balanced", "unit", "paper"]),
    help="Which words a photo keeps, and their weights. balanced: the words that likely sentences ask"
    " for, weighted so that no photo fits every sentence; unit: the heaviest, of unit vectors times 1000;"
    " paper: the heaviest, floor(100 p).  [default: balanced if the model can, else unit]",
)
query_encoder_option = click.option(
    "--query-encoder",
    type=click.Choice(["network", "words"]),
    default="network",
    show_default=True,
    help="How text becomes words: with the text encoder, or with one learned weight per word.",
)
workers_option = click.option(
    "--workers",
    type=Integer(min=0),
    default=2,
    show_default=True,
    help="Threads that decode photos.",
)
device_option = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Where models compute: cpu, cuda, cuda:1; auto is a GPU if there is one.",
)
language_option = click.option(
    "--language",
    type=click.Choice(["en", "de", "fr", "cs"]),
    default="en",
    show_default=True,
    help="Language of the captions, with --model bm25: decides stop words and stems.",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["lucene", "flat", "hnsw", "exact"]),
    help="The engines of `lexlip search`: Lucene with integer weights for words, Faiss for dense vectors,"
    " flat or HNSW. Or exact, brute force over float vectors.  [default: lucene for words, flat for dense"
    " vectors]",
)
images_option = click.option(
    "--images", metavar="DIR", help="Folder or tars with the photos of a table or a Karpathy JSON."
)
exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out files and folders, by a pattern as in a .gitignore, such as 'screenshots/' or '*.gif';"
    " may be repeated.",
)
include_option = click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Take what is left out because it is hidden, or because systems keep thumbnails and deleted files"
    " there, such as '.private/' or '@eaDir/'; may be repeated.",
)
split_option = click.option("--split", metavar="NAME", help="Split of a Karpathy JSON or a table.")


def model_option(default: str | None, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--model with a default of its own."""
    return click.option(
        "--model", default=default, show_default=default is not None, metavar="NAME", help=help
    )


class TopK(click.ParamType):
    """A number of words; None for "all"."""

    name = "number of words"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> int | None:
        if value == "all":
            return None
        try:
            number: int = Integer(min=1).convert(value, param, context)
        except click.BadParameter:
            self.fail(f"'{value}' is neither a number of at least 1 nor all", param, context)
        return number


def topk_option(all_words: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--topk; `all_words` says whether it may be "all"."""
    return click.option(
        "--topk",
        type=TopK() if all_words else Integer(min=1),
        default=32,
        show_default=True,
        metavar="K",
        help=f"Number of words that a photo keeps{'; or all' * all_words}.",
    )


def given(context: click.Context, option: str) -> Any:
    """Return what the user gave for an option; None if it has its default."""
    return context.params[option] if _is_given(context, option) else None


def _is_given(context: click.Context, option: str) -> bool:
    return context.get_parameter_source(option) is not ParameterSource.DEFAULT


def refuse(context: click.Context, options: Iterable[str], why: str) -> None:
    """Raise ConfigError if the user gave one of these options, which have no effect here."""
    for option in options:
        if _is_given(context, option):
            raise ConfigError(f"--{option.replace('_', '-')} {why}: leave it out")


def one_format(markdown: bool, as_json: bool) -> None:
    """Refuse --markdown with --json."""
    if markdown and as_json:
        raise click.UsageError("give --markdown or --json, not both")


def second_stage_options(metavar: str, also: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--rerank, --also and what belongs to them; `also` is the help of --also, less its end."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        weight = Number(0, 1)
        for option in (
            click.option(
                "--hybrid-weight",
                type=weight,
                default=0.5,
                show_default=True,
                help="With --hybrid weighted: weight of the first of the two, from 0 to 1.",
            ),
            click.option(
                "--hybrid",
                type=click.Choice(["rrf", "weighted"]),
                default="rrf",
                show_default=True,
                help="How --also is fused: by ranks (RRF), or by a weighted sum of scores.",
            ),
            click.option("--also", metavar=metavar, help=f"{also}; the hits of both are fused."),
            click.option(
                "--rerank-weight",
                type=weight,
                default=0.5,
                show_default=True,
                help="With --rerank-fusion add or norm_add: weight of the first stage's score, from 0 to 1.",
            ),
            click.option(
                "--rerank-fusion",
                type=click.Choice(FUSIONS),
                default="none",
                show_default=True,
                help="Order by the reranker alone, by the sum with the first stage's score, or by that sum"
                " after both were scaled to 0 … 1.",
            ),
            click.option(
                "--rerank-k",
                type=Integer(min=1),
                default=20,
                show_default=True,
                metavar="K",
                help="Hits that are reranked.",
            ),
            click.option(
                "--rerank",
                metavar="MODEL",
                help="Folder of a cross-encoder (kind ce or joint), which reranks the first hits.",
            ),
        ):
            command = option(command)
        return command

    return add


FILTERS = ("after", "before", "folder", "caption")


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the conditions that photos must meet; see `lexlip.retrieval.filters`."""
    for name, metavar, help in reversed(
        (
            ("after", "DATE", "Photos taken then or later: 2014, 2014-05 or 2014-05-03."),
            ("before", "DATE", "Photos taken then or earlier; 2014 includes all of that year."),
            ("folder", "DIR", "Photos below this folder, as ids begin."),
            ("caption", "WORDS", "Photos whose captions and keywords hold all these words."),
        )
    ):
        command = click.option(f"--{name}", metavar=metavar, help=help)(command)
    return command


def check_second_stage(context: click.Context) -> None:
    """Refuse the options of --rerank or --also (or --captions) without these."""
    for main, prefix in (("rerank", "rerank_"), ("also", "hybrid")):
        if context.params[main] is None and not (main == "also" and context.params.get("captions")):
            names = [name for name in context.params if name.startswith(prefix)]
            refuse(context, names, f"is for --{main}")


def query_topk_option(
    default: int | Literal["all"] = SENTENCE_TOPK,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--query-topk, by default as `lexlip search` has it."""
    return click.option(
        "--query-topk",
        type=TopK(),
        default=default,
        show_default=True,
        metavar="K",
        help="Number of words, the heaviest, that a query keeps; or all.",
    )
