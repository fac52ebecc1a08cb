"""The command `lexlip search`."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.cli.printed_answer import show, show_paths
from lexlip.queries.query_language import parse_query
from lexlip.words.plain_text import counted, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anserini_bridge.metadata import IndexHeader
    from lexlip.search.answering import How
    from lexlip.search.copies import Copies
    from lexlip.search.photo_search import PhotoSearch

SUGGESTIONS = 8  # words to search on with, in JSON
OF_STAGES = ("model", "query_encoder", "query_topk", "hybrid", "hybrid_weight", "device", "captions")
"""Options that are arguments of `PhotoSearch`."""
OF_PHOTOS = (
    *options.FILTERS,
    *("sort", "group", "rerank", "also", "captions", "content_only", "html", "copy_to", "add_to", "shape"),
)
"""Options that need more of an index than ids and words."""
OF_EXPORTS = ("query", "k", "server", "model", "query_encoder", "query_topk", "as_json")
"""What --server goes with that asks an export."""
NOT_OF_SERVERS = (
    *("index_folder", "captions", "rerank", "rerank_k", "rerank_fusion", "rerank_weight"),
    *("also", "hybrid", "hybrid_weight"),
)
"""What needs an index on this machine."""
OF_FILES = ("copy_to", "html")
"""What reads photos."""
WITHOUT_A_GPU = "is for pictures, --rerank and dense models: this sentence is searched without a GPU"
# Idle threads of numpy's BLAS sleep rather than spin, for 25 ms from their start. Read when it is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
_MINUS = "begin the query with -- and a word to look for: -- photo -dog"


class _Search(click.Command):
    """Says what to do about words that begin with a minus, such as -dog, which click takes for options."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        given = tuple(args)
        try:
            return super().parse_args(context, args)
        except (click.NoSuchOption, click.BadParameter) as error:
            if isinstance(error, click.NoSuchOption):
                named = [error.option_name]
            else:
                named = error.param.opts if error.param is not None else []
            query = next((arg for arg in given if arg[:2] in named and arg[2:3].isalnum()), None)
            if query is None:
                raise
            said = error.format_message().removesuffix(".")
            raise click.UsageError(f"{said}; if '{query}' is of the query, {_MINUS}", context) from error


@contextmanager
def _without_collector() -> Iterator[None]:
    """Let nothing look for garbage, nor when the process ends: there is little, and it takes long."""
    enabled = gc.isenabled()
    gc.disable()
    atexit.register(_keep_garbage)
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.unfreeze()  # all counts as old: else the next new object would have it looked at
            gc.enable()


def _keep_garbage() -> None:
    if "torch" not in sys.modules:  # its extensions would print what is kept as leaks
        gc.freeze()


@click.command(cls=_Search)
@click.argument("query", nargs=-1)
@click.option("--image", metavar="FILE", help="Search with a picture instead of a sentence.")
@click.option(
    "--similar",
    metavar="ID",
    help="Find photos like one of the index, given its file or its path below SOURCE.",
)
@options.count_option("-k", default=10, help="Hits to show.", metavar="K")
@options.filter_options
@click.option("--min-score", type=options.Number(), metavar="SCORE", help="The lowest score of a hit.")
@click.option(
    "--sort",
    type=click.Choice(["match", "date", "place"]),
    default="match",
    help="Best first; or the first hits, newest first, or nearest to --near first.",
)
@click.option("--group", is_flag=True, help="Show near-duplicates as one hit.")
@click.option("--cursor", metavar="CURSOR", help="The next page, by the cursor that --json printed.")
@options.index_option
@click.option(
    "--server",
    metavar="ADDRESS",
    help="Ask an index that `lexlip index --server` has made, or another engine into which `lexlip export`"
    " was loaded: opensearch+https://HOST/INDEX; or elasticsearch, solr, qdrant, milvus, vespa. Secrets:"
    " LEXLIP_SERVER_KEY, or LEXLIP_SERVER_USER and LEXLIP_SERVER_PASSWORD, in the environment.",
)
@click.option(
    "--photos",
    "photo_folders",
    multiple=True,
    metavar="FOLDER",
    help="With --server: the folder in which the photos are on this machine; may be repeated.",
)
@options.model_option(None, "Model that encodes the query.  [default: the one that made the index]")
@options.query_encoder_option
@options.query_topk_option()
@click.option(
    "--language",
    metavar="CODE",
    callback=options.language_code,
    help="Language of the sentence: en, de, fr, ja. Others than English need lexlip[languages].  [default:"
    " found out]",
)
@options.second_stage_options("DIR", "A second index of the same photos")
@click.option(
    "--captions",
    is_flag=True,
    help="Also search the captions and keywords that the index has; the hits of both are fused.",
)
@click.option(
    "--content-only",
    is_flag=True,
    help="Look at what photos show alone, not at the names, folders, captions and keywords that people gave"
    " them.",
)
@click.option("--html", metavar="FILE", help="Also write a contact sheet: one page with thumbnails.")
@click.option(
    "--copy-to",
    metavar="DIR",
    help="Also copy the hits into a folder, which is made if it is not there; nothing in it is replaced.",
)
@click.option("--add-to", metavar="ALBUM", help="Also add the hits to an album of the index; made if new.")
@click.option(
    "-f",
    "--format",
    "shape",
    type=click.Choice(["text", "paths"]),
    default="text",
    help="Lines for people, or only the photos' paths, a line each, for other commands.",
)
@click.option("-0", "--null", is_flag=True, help="With -f paths: end each with a zero byte, for xargs -0.")
@options.device_option
@options.json_option
@click.pass_context
@_without_collector()
def search(
    context: click.Context,
    query: tuple[str, ...],
    image: str | None,
    similar: str | None,
    k: int,
    index_folder: str,
    server: str | None,
    photo_folders: tuple[str, ...],
    language: str,
    rerank: str | None,
    also: str | None,
    html: str | None,
    copy_to: str | None,
    add_to: str | None,
    shape: str,
    null: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Find photos by a sentence, a picture, or a photo of the index.

    Each hit is shown with its score and, in an index of words, the words that matched, heaviest first. With
    --rerank a cross-encoder orders the first hits by the probability that the sentence describes the photo.

    QUERY is a sentence, with or without quotes around it. In an index of words it may hold +word, which adds
    a word, -word, which leaves out photos that hold it or were given it, and word^2, which multiplies its
    weight: "two dogs -person snow^2". Without quotes around it, write options first, then -- and the words:
    -- two dogs -person snow^2. It needs a word to look for.

    A plain negation leaves words out, too: "dog without snow" means "dog -snow". In quotes of its own it is
    text: 'dog "without snow"'.

    Words that people gave photos count too: in names of files and folders, captions and keywords. name:anna,
    folder:"2019 italy" and caption:cake show only the photos that have them there; near:48.1,11.6 those that
    were taken near that place.
    """
    sentence = " ".join(query) if query else None
    _check_query(context, sentence)
    if sentence is not None and _is_picture(sentence):
        click.echo(f"note: to search with the picture {readable(sentence)}, give it to --image", err=True)
    if server is None and photo_folders:
        raise click.UsageError("--photos is for --server: leave it out")
    if server is not None and not _has_photos(context, server):
        _ask_export(context, server)
        return

    from lexlip.retrieval.filters import Filters

    if html:
        from lexlip.machine.output_files import check_output

        check_output(html, "the contact sheet ")
    if copy_to is not None:
        from lexlip.search.copies import check_folder

        check_folder(copy_to)
    if add_to is not None:
        from lexlip.retrieval.albums import check_name

        check_name(add_to)
    how: How = {
        "filters": Filters(  # refuses dates that do not exist
            **{name: given[name] for name in (*options.FILTERS, "file_dates")}
        ),
        "min_score": given["min_score"],
        "cursor": given["cursor"],
        "sort": given["sort"],
        "group": given["group"],
        "content_only": given["content_only"],
        "suggest": SUGGESTIONS if as_json else 0,
    }
    done: dict[str, Any] = {}
    with _open_index(context) if server is None else _open_server(context) as photos:
        kind = photos.stage.metadata.kind
        if image is not None:
            answer = photos.image(image, k, **how)
        elif similar is not None:
            answer = photos.similar(similar, k, **how)
        else:
            answer = photos.text(parse_query(str(sentence), language=language), k, **how)
        if copy_to is not None:
            from lexlip.search.copies import copy_hits

            with interruptible("the copies that were made stay, and the same command makes the others"):
                copies = copy_hits(answer.hits, photos.read, copy_to, progress=not as_json)
            done = {"copies": copies.made, "not_copied": [one._asdict() for one in copies.skipped]}
        if add_to is not None:
            from lexlip.retrieval.albums import without_broken

            ids, broken = without_broken(hit.id for hit in answer.hits)
            done["added"] = photos.albums.change(add_to, ids)
            done |= {"not_added": broken} if broken else {}
        if html:
            from lexlip.search.contact_sheet import write_contact_sheet

            write_contact_sheet(html, [answer], photos.read)
    if as_json:
        click.echo(json.dumps(answer.to_dict() | done))
        return
    if given["file_dates"] and (files := answer.by_file_time):
        click.echo(f"note: {counted(files, 'hit')} dated by the file alone", err=True)
    if copy_to is not None:
        _show_copies(copies, copy_to)
    if add_to is not None:
        click.echo(f"{counted(done['added'], 'photo')} added to the album {readable(add_to)}", err=True)
        for id in done.get("not_added", ()):
            click.echo(
                f"not added: {readable(id)} has an end of line in its name: no album can hold it", err=True
            )
    if shape == "paths":
        show_paths(answer, null)
        return
    reranked = answer.hits[: given["rerank_k"] if rerank is not None else 0]
    if unread := sum(hit.probability is None for hit in reranked):
        moved = "they stand last of those reranked; if they have moved, index them again"
        click.echo(f"note: {unread} photo{'s' * (unread > 1)} could not be read: {moved}", err=True)
    filtered = any(given[name] is not None for name in (*options.FILTERS, "min_score"))
    show(answer, kind, filtered)
    if html:
        click.echo(f"\ncontact sheet: {html}")


def _check_query(context: click.Context, sentence: str | None) -> None:
    """Refuse what contradicts itself, whatever is searched."""
    asked = context.params
    options.check_second_stage(context)
    if sum(one is not None for one in (sentence, asked["image"], asked["similar"])) != 1:
        raise click.UsageError('give a sentence ("two dogs in snow"), --image FILE or --similar ID: only one')
    if asked["image"] is not None:
        options.refuse(
            context, ["rerank", "also", "captions", "language"], "is for sentences, not for --image"
        )
    if asked["similar"] is not None:
        unused = ["rerank", "query_topk", "query_encoder", "language"]
        options.refuse(context, unused, "is for sentences, not for --similar")
    if asked["null"] and asked["shape"] != "paths":
        raise click.UsageError("-0 is for paths: give -f paths too")
    if asked["shape"] == "paths" and asked["as_json"]:
        raise click.UsageError("give -f paths or --json, not both")
    if sentence is not None and not sentence.strip():
        raise click.UsageError("the query is empty: give a sentence")


def _is_picture(sentence: str) -> bool:
    """Return whether a query is the path of a picture: many type one instead of a sentence."""
    if "." not in sentence[-6:]:
        return False
    from lexlip.data.images import SUFFIXES

    return sentence.lower().endswith(SUFFIXES) and os.path.isfile(sentence)  # noqa: PTH113 (it may be long)


def _check_index(context: click.Context, header: IndexHeader) -> None:
    """Refuse options that this kind of index has not, and to start without what it needs."""
    made = f"and {context.params['index_folder']} was made with {header.encoder}"
    if header.kind == "dense":
        options.refuse(context, ["query_topk", "language"], f"is for an index of words, {made}")
    if header.kind == "anserini":
        why = f"needs what `lexlip index` keeps of photos, and {context.params['index_folder']} is Anserini's"
        options.refuse(context, OF_PHOTOS, why)
    if header.kind == "bm25":
        unused = ["query_topk", "query_encoder", "language"]
        options.refuse(context, unused, f"is for queries that a model encodes, {made}")


def _show_copies(copies: Copies, folder: str) -> None:
    from lexlip.cli.index import show_skipped

    show_skipped(copies.skipped)
    before = f" ({copies.before} of them before)" if copies.before else ""
    click.echo(f"{counted(len(copies.made), 'photo')} in {readable(folder)}{before}", err=True)


def _open_index(context: click.Context) -> PhotoSearch:
    """Open the index of --index; refuse options that it has not."""
    from anserini_bridge import needs_java, read_header
    from anserini_bridge.metadata import read_searched_header

    given = context.params
    index_folder, also, rerank = given["index_folder"], given["also"], given["rerank"]
    header = read_searched_header(index_folder)
    _check_index(context, header)
    if needs_java(index_folder, header) or given["captions"]:
        from anserini_bridge import find_jar, find_java

        find_java(), find_jar()  # fail before the seconds that loading torch takes

    from lexlip.models.model_folder import model_folder
    from lexlip.search.photo_search import PhotoSearch

    kinds = {header.kind} if also is None else {header.kind, read_header(also).kind}
    if given["image"] is None and rerank is None and "dense" not in kinds:
        options.refuse(context, ["device"], WITHOUT_A_GPU)
    second = None
    if rerank is not None:
        model_folder(rerank)
        from lexlip.search.rerank import Reranker

        settings = given["rerank_k"], given["rerank_fusion"], given["rerank_weight"]
        second = Reranker(rerank, *settings, given["device"])
    stages = {name: given[name] for name in OF_STAGES}
    return PhotoSearch(index_folder, rerank=second, also=also, **stages)


def _has_photos(context: click.Context, address: str) -> bool:
    """Return whether --server names an index of photos, not an export; refuse what neither has."""
    options.refuse_with_server(context, NOT_OF_SERVERS, "an index on this machine")
    for typed in options.given_of(context, OF_FILES):
        if not context.params["photo_folders"]:
            raise click.UsageError(
                f"{typed} with --server needs the folder of the photos: give --photos FOLDER"
            )
    from lexlip.machine.progress import tell
    from lexlip.search_servers.server_search import has_photos

    return has_photos(address, tell)


def _open_server(context: click.Context) -> PhotoSearch:
    """Open the index of --server, which is one of photos."""
    from lexlip.machine.progress import tell
    from lexlip.retrieval.seal import folders_to_send
    from lexlip.search_servers.server_search import ServerSearch

    given = context.params
    if given["image"] is None:
        options.refuse(context, ["device"], WITHOUT_A_GPU)
    how = [given[name] for name in ("query_encoder", "query_topk", "device")]
    model, folders = given["model"] or options.DEFAULT_MODEL, folders_to_send(given["photo_folders"])
    return ServerSearch(given["server"], model, *how, folders=folders, tell=tell)


def _ask_export(context: click.Context, address: str) -> None:
    """Search with --server in an export, which knows nothing but words; refuse what needs more."""
    given = context.params
    wanted = [name for name in given if name not in OF_EXPORTS]
    options.refuse_with_server(
        context, wanted, "an index on this machine, or one that `lexlip index --server` has made"
    )
    from lexlip.machine.progress import tell
    from lexlip.other_engines.ask import search_server
    from lexlip.queries.text_queries import TextQueries

    queries = TextQueries(given["model"] or options.DEFAULT_MODEL, given["query_encoder"])
    sentence, k, topk = " ".join(given["query"]), given["k"], given["query_topk"]
    answer = search_server(address, sentence, k, queries, topk, tell)
    if given["as_json"]:
        click.echo(json.dumps(answer.to_dict()))
    else:
        show(answer)
