"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import click
from click.core import ParameterSource

from lexlip.errors import ConfigError
from lexlip.registry import LANGUAGE
from lexlip.sparse import SENTENCE_TOPK
from lexlip.words.language_codes import language_of

DEFAULT_MODEL = "mini"
FIRST_STAGES = (
    "A model's packaged name, folder, training run or name on the model hub, also of a CLIP, a SigLIP or a"
    " model of open_clip; or bm25 for the words of captions."
)
DEFAULT_INDEX = ".lexlip"
FUSIONS = ("none", "add", "norm_add")  # see `lexlip.search.hybrid.Fusion`
FILTERS = ("after", "before", "folder", "caption", "near", "within", "album")
"""See `lexlip.retrieval.filters.Filters`."""

Command = Callable[..., Any]
Option = Callable[[Command], Command]


class Integer(click.IntRange):
    """A whole number; click itself would say 'integer range' to those who give something else."""

    name = "integer"


class Number(click.FloatRange):
    """A number; see `Integer`."""

    name = "number"


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


def together(*options: Option) -> Option:
    """Return several options as one decorator; the help shows them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def count_option(*names: str, default: Any = None, least: int = 1, **more: Any) -> Option:
    """Return an option for a whole number; `more` is what click takes."""
    return click.option(*names, type=Integer(min=least), default=default, **more)


markdown_option = click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
index_option = click.option(
    "--index", "index_folder", default=DEFAULT_INDEX, metavar="DIR", help="The index's folder."
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
    type=click.Choice(["balanced", "unit", "paper", "dot"]),
    help="Which words a photo keeps, and their weights. balanced: the words that likely sentences ask"
    " for, weighted so that no photo fits every sentence; unit: the heaviest, of unit vectors times 1000;"
    " paper: the heaviest, floor(100 p); dot: the heaviest, 1000 p.  [default: dot if the model compares by"
    " dot product, balanced if it can, else unit]",
)
query_encoder_option = click.option(
    "--query-encoder",
    type=click.Choice(["network", "words"]),
    default="network",
    help="How text becomes words: with the text encoder, or with one learned weight per word.",
)
workers_option = count_option("--workers", default=2, help="Threads that decode photos.", least=0)
device_option = click.option(
    "--device",
    default="auto",
    metavar="NAME",
    help="Where models compute: cpu, cuda, cuda:1; auto is a GPU if there is one.",
)
language_option = click.option(
    "--language",
    type=click.Choice(["en", "de", "fr", "cs"]),
    default="en",
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
    "--images", metavar="DIR", help="Folder or tars with the photos of a table or JSON of captions."
)
split_option = click.option("--split", metavar="NAME", help="Split of a table or JSON of captions.")
regions_option = click.option(
    "--regions",
    metavar="DIR|FILE",
    help="What a detector found in the photos, for models that take that: a folder of .npz, or bottom-up"
    " attention's .tsv.",
)
reading_options = together(images_option, split_option, workers_option, device_option, json_option)
patterns_options = together(
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Leave out files and folders, by a pattern as in a .gitignore, such as 'screenshots/' or"
        " '*.gif'; may be repeated.",
    ),
    click.option(
        "--include",
        multiple=True,
        metavar="PATTERN",
        help="Take what is left out because it is hidden, or because systems keep thumbnails and deleted"
        " files there, such as '.private/' or '@eaDir/'; may be repeated.",
    ),
)
filter_options = together(
    click.option(
        "--after",
        metavar="DATE",
        help="Photos taken then or later: 2014, 2014-05 or 2014-05-03.",
    ),
    click.option(
        "--before", metavar="DATE", help="Photos taken then or earlier; 2014 includes all of that year."
    ),
    click.option(
        "--file-dates",
        is_flag=True,
        help="If a photo does not tell when it was taken, its file's name or time counts.",
    ),
    click.option("--folder", metavar="DIR", help="Photos below this folder, as ids begin."),
    click.option(
        "--caption", metavar="WORDS", help="Photos whose captions and keywords hold all these words."
    ),
    click.option(
        "--near",
        metavar="PLACE",
        help="Photos taken near a place: degrees north and east, such as 48.1,11.6, or its name.",
    ),
    click.option(
        "--within", metavar="DISTANCE", help="How far from it: 20km, 500m or 12mi.  [default: 25km]"
    ),
    click.option("--album", metavar="NAME", help="Photos of this album, see --add-to and `lexlip serve`."),
)


def language_code(context: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return the code of a language, in small letters; "" if none was given."""
    found = language_of(value) if value is not None and re.fullmatch(LANGUAGE, value) else ""
    if value is not None and not found:
        raise click.BadParameter(f"'{value}' is not the code of a language, such as de or zh-Hant")
    return found.lower()


def model_option(default: str | None, help: str) -> Option:
    """--model with a default of its own."""
    return click.option("--model", default=default, metavar="NAME", help=help)


def topk_option(all_words: bool, default: int | Literal["all"] = 32) -> Option:
    """--topk; `all_words` says whether it may be "all"."""
    return click.option(
        "--topk",
        type=TopK() if all_words else Integer(min=1),
        default=default,
        metavar="K",
        help=f"Number of words that a photo keeps{'; or all' * all_words}.",
    )


def query_topk_option(default: int | Literal["all"] = SENTENCE_TOPK) -> Option:
    """--query-topk, by default as `lexlip search` has it."""
    return click.option(
        "--query-topk",
        type=TopK(),
        default=default,
        metavar="K",
        help="Number of words, the heaviest, that a query keeps; or all.",
    )


def second_stage_options(metavar: str, also: str) -> Option:
    """--rerank, --also and what belongs to them; `also` is the help of --also, less its end."""
    return together(
        click.option(
            "--rerank",
            metavar="MODEL",
            help="Folder of a cross-encoder (kind ce or joint), which reranks the first hits.",
        ),
        count_option("--rerank-k", default=20, metavar="K", help="Hits that are reranked."),
        click.option(
            "--rerank-fusion",
            type=click.Choice(FUSIONS),
            default="none",
            help="Order by the reranker alone, by the sum with the first stage's score, or by that sum"
            " after both were scaled to 0 … 1.",
        ),
        click.option(
            "--rerank-weight",
            type=Number(0, 1),
            default=0.5,
            help="With --rerank-fusion add or norm_add: weight of the first stage's score, from 0 to 1.",
        ),
        click.option("--also", metavar=metavar, help=f"{also}; the hits of both are fused."),
        click.option(
            "--hybrid",
            type=click.Choice(["rrf", "weighted"]),
            default="rrf",
            help="How --also is fused: by ranks (RRF), or by a weighted sum of scores.",
        ),
        click.option(
            "--hybrid-weight",
            type=Number(0, 1),
            default=0.5,
            help="With --hybrid weighted: weight of the first of the two, from 0 to 1.",
        ),
    )


def check_second_stage(context: click.Context) -> None:
    """Refuse the options of --rerank or --also (or --captions) without these."""
    given = context.params
    for prefix, main, named in (
        ("rerank_", "rerank", given["rerank"]),
        ("hybrid", "also", given["also"] or given.get("captions")),
    ):
        if not named:
            refuse(context, [name for name in given if name.startswith(prefix)], f"is for --{main}")


def given(context: click.Context, option: str) -> Any:
    """Return what the user gave for an option; None if it has its default."""
    asked = context.get_parameter_source(option) is not ParameterSource.DEFAULT
    return context.params[option] if asked else None


def refuse(context: click.Context, options: Iterable[str], why: str) -> None:
    """Raise ConfigError if the user gave one of these options, which have no effect here."""
    for typed in given_of(context, options):
        raise ConfigError(f"{typed} {why}: leave it out")


def refuse_with_server(context: click.Context, options: Iterable[str], needed: str) -> None:
    """Raise UsageError if the user gave one of these options, which need another index than --server's."""
    for typed in given_of(context, options):
        raise click.UsageError(f"{typed} needs {needed}: leave it or --server out")


def given_of(context: click.Context, options: Iterable[str]) -> Iterator[str]:
    """Yield those of some options that the user gave, as they are typed."""
    names = {param.name: max(param.opts, key=len) for param in context.command.params}
    for option in options:
        if context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            yield names[option]


def one_format(markdown: bool, as_json: bool) -> None:
    """Refuse --markdown with --json."""
    if markdown and as_json:
        raise click.UsageError("give --markdown or --json, not both")
