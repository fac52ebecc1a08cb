"""The command `lexlip index`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.errors import EXTRAS, FixableError
from lexlip.words.plain_text import counted, readable

if TYPE_CHECKING:
    from lexlip.data import Skipped
    from lexlip.indexing.report import Indexed, Updated

SHOWN = 10  # skipped files named on the screen
OF_WORDS = ("topk", "quantization", "pseudo_documents", "text")  # options for models of words
OF_NEW_INDEXES = ("ann", "language", "pseudo_documents", "regions")
NOT_OF_TARS = (
    *("ann", "exclude", "include", "pseudo_documents", "language", "images", "split", "text", "regions"),
)
NOT_OF_SERVERS = ("index_folder", "ann", "anew", "repair", "pseudo_documents", "language", "regions")


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@options.topk_option(all_words=True)
@options.index_option
@options.model_option(options.DEFAULT_MODEL, options.FIRST_STAGES)
@options.quantization_option
@click.option(
    "--ann",
    type=click.Choice(["flat", "hnsw"]),
    default="flat",
    help="How the vectors of a dense model are searched: exactly, or through a graph (HNSW: M 32,"
    " efConstruction 80, efSearch 128), which takes long to build.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Only update an index of words, with the SOURCE and the settings that it was made with: encode new"
    " and changed photos, and delete those that are gone.",
)
@click.option("--anew", is_flag=True, help="Build a new index also where the old one could be updated.")
@click.option(
    "--prune",
    is_flag=True,
    help="When an index is updated: delete photos that are gone though they are more than a fifth of the"
    " index, and those whose folder or tar cannot be listed.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="With --update: encode again only the photos that are damaged (see `lexlip doctor --verify`).",
)
@click.option(
    "--text/--no-text",
    default=None,
    help="Also read the text in photos, such as signs and screenshots, so that it is found: up to a second a"
    " photo. Later updates do so too, until --no-text forgets it.",
)
@options.patterns_options
@click.option(
    "--pseudo-documents",
    metavar="FILE",
    help="Also write the documents for Anserini, as a JsonVectorCollection.",
)
@click.option(
    "--ray",
    "address",
    metavar="ADDRESS",
    help="Index the tars of one SOURCE on a Ray cluster, a shard a tar; or with --server, encode any SOURCE"
    " on it. local is this machine, auto the cluster that it belongs to, HOST:PORT another one's head.",
)
@click.option(
    "--server",
    metavar="ADDRESS",
    help="Index into an OpenSearch index or a Solr collection, which `lexlip search --server` asks:"
    " opensearch+https://HOST/INDEX, solr+https://HOST/solr/COLLECTION. It is made if there is none, and"
    " brought up to date else. Secrets: LEXLIP_SERVER_KEY, or LEXLIP_SERVER_USER and"
    " LEXLIP_SERVER_PASSWORD, in the environment.",
)
@options.language_option
@options.regions_option
@options.reading_options
@click.pass_context
def index(
    context: click.Context,
    sources: tuple[str, ...],
    index_folder: str,
    update: bool,
    anew: bool,
    repair: bool,
    address: str | None,
    server: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Make photos searchable.

    SOURCE is a folder (with all its sub-folders), a tar or a pattern of tars in img2dataset's layout, or a
    file with captions of photos (a TSV or CSV table, Karpathy's or COCO's JSON, JSON lines); without one, the
    folder that you are in. Several of them make one index. Hidden files and folders are left out, and the
    folders in which systems keep thumbnails and deleted files; links to folders are followed.

    An index of words that was made of the same SOURCE, with the same model and options, is brought up to
    date: only new and changed photos are encoded. Any other index, or one that is damaged, is replaced by a
    new one, as --anew does in any case; it keeps answering until the new one is complete.

    A model of words makes a Lucene index, a dense model one of vectors in Faiss. With --model bm25 photos are
    found by the words of their captions, in one --language; photos without captions are left out.

    With --update an existing index is updated with the SOURCE, the model and the settings that it was made
    with; these need not be given, and others are refused. A photo has changed if the size, mtime or ctime of
    its file, or of the tar that contains it, is another one than when it was indexed. Photos with another
    name or place but the same content are not encoded again.

    With --server the index is on a server, and nothing of it on this machine: give the same SOURCE each time.
    """
    from lexlip.indexing import api
    from lexlip.models.model_folder import kind_of

    if repair and not update:
        raise click.UsageError("--repair is for --update: leave it out")
    if anew and (update or how["prune"]):
        raise click.UsageError(f"give --anew or {'--update' if update else '--prune'}, not both")
    if update and how["pseudo_documents"] is not None:
        raise click.UsageError("--pseudo-documents writes all documents: leave it out with --update")
    how["progress"] = not as_json
    if server is not None:
        way_on = "what was encoded is on the server; run the same command again to go on"
        with interruptible(way_on):
            _show(_index_on_server(context, sources, server, update, address, **how), as_json)
        return
    kept = "what was read is kept" if how["text"] else "nothing was changed"
    with interruptible(f"{kept}; run the same command again to go on"):
        before = _sources_of(index_folder)
        if address is not None and not update:
            done = _index_on_cluster(context, sources, index_folder, address, anew=anew, **how)
        else:
            kind = "lexlip" if update else kind_of(how["model"])  # only an index of words can be updated
            _check_options(context, kind)
            if update:
                done = _update(context, sources, index_folder, address=address, repair=repair, **how)
            else:
                done = api.index(sources or ".", index_folder, anew=anew, **how)
        now = _sources_of(index_folder)
    _show(done, as_json, repair)
    if now and not as_json and _are_lost(before, now):
        was, becomes = (readable(", ".join(map(str, places))) for places in (before, now))
        both = "for both, give both, or another --index"
        click.echo(f"note: the index of {was} was replaced by this one of {becomes}: {both}", err=True)


def _sources_of(index: str) -> list[Path]:
    """Return where the photos of an index are; [] if there is none, or it cannot tell."""
    from anserini_bridge import read_header
    from lexlip.data.files import path_of
    from lexlip.retrieval.collection import given_again

    try:
        sources = given_again(read_header(index).extra, Path(index)).sources
        drawn = "scenes:"  # stored as they are; all else is stored as an absolute path
        return [Path(name) if name.startswith(drawn) else path_of(name).resolve() for name in sources]
    except (FixableError, OSError, RuntimeError):  # the last for links in a circle, before Python 3.13
        return []


def _are_lost(before: Sequence[Path], now: Sequence[Path]) -> bool:
    """Return whether one of some places is neither among others nor below one of them."""
    return not all(any(place.is_relative_to(other) for other in now) for place in before)


def _update(context: click.Context, sources: tuple[str, ...], index: str, **how: Any) -> Updated:
    """Update an index; what the user did not say stays as it was made."""
    from lexlip.cluster.shard_updating import update

    how["topk"] = "all" if how["topk"] is None else options.given(context, "topk")
    how |= {name: options.given(context, name) for name in ("model", "quantization")}
    return update(index, sources, **{name: how[name] for name in how if name not in OF_NEW_INDEXES})


def _index_on_cluster(
    context: click.Context, sources: tuple[str, ...], index: str, address: str, **how: Any
) -> Indexed:
    """Index tars on a Ray cluster, or update their index."""
    from lexlip.cluster.shard_updating import index_or_update

    options.refuse(context, NOT_OF_TARS, "is not for --ray, which makes shards of words from tars")
    if len(sources) != 1:
        raise click.UsageError(
            "--ray takes one SOURCE: a folder of tars, or a pattern of them in quotes, such as 'shards/*.tar'"
        )
    how = {name: how[name] for name in how if name not in NOT_OF_TARS}
    return index_or_update(sources[0], index, address=address, **how)


def _index_on_server(
    context: click.Context, sources: tuple[str, ...], server: str, update: bool, ray: str | None, **how: Any
) -> Indexed:
    """Index photos into an index on a server, or update it; with an address of Ray, encode them there."""
    from lexlip.data import Given
    from lexlip.machine.progress import tell
    from lexlip.search_servers.server_indexing import index_on_server

    for typed in options.given_of(context, NOT_OF_SERVERS):
        raise click.UsageError(f"{typed} is for an index on this machine: leave it or --server out")
    topk = options.given(context, "topk")
    if topk is None and how["topk"] is None:
        topk = "all"
    given = Given(sources or (".",), how["images"], how["split"], how["exclude"], how["include"])
    names = ("model", "quantization", "prune", "text", "workers", "device", "progress")
    of_run = {name: how[name] for name in names}
    if ray is not None:
        from lexlip.cluster.photo_encoding import encode_on

        of_run["encode"] = encode_on(ray)
    return index_on_server(given, server, topk=topk, update=update, tell=tell, **of_run)


def _check_options(context: click.Context, kind: str) -> None:
    """Refuse options that are for another kind of model."""
    from lexlip.registry import BM25, MODELS

    model = context.params["model"]
    if kind != BM25:
        options.refuse(context, ["language"], "is for bm25")
    if context.params["update"]:
        options.refuse(context, ["ann", "regions"], "is for a new index, not for --update")
    elif kind == BM25:
        unused = [*OF_WORDS, "ann", "device"]
        options.refuse(context, unused, "is for models, and bm25 takes captions as they are")
    elif kind in MODELS and MODELS[kind].words:
        options.refuse(context, ["ann"], f"is for dense models, and '{model}' is one of words")
    else:
        options.refuse(context, OF_WORDS, f"is for models of words, and '{model}' is a dense one")


def _show(done: Indexed | Updated, as_json: bool, repair: bool = False) -> None:
    """Print what was done."""
    from lexlip.indexing.report import Updated

    if as_json:
        click.echo(json.dumps(done.to_dict()))
        return
    unlisted = {place.id for place in done.unlisted}
    show_skipped([skip for skip in done.skipped if skip.id not in unlisted], " (--json lists all)")
    for line in filter(None, _notes(done)):
        click.echo(line, err=True)
    if repair and isinstance(done, Updated):
        damaged, encoded = counted(done.damaged_files, "damaged file"), counted(done.repaired, "photo")
        repaired = f"{damaged} replaced, {encoded} encoded again"
        click.echo(repaired if done.damaged_files else f"nothing in {done.index} is damaged")
    click.echo(_summary(done))


def _notes(done: Indexed | Updated) -> Iterator[str]:
    """Yield what the user should know besides the photos that were skipped."""
    from lexlip.indexing.report import Updated

    if done.unlisted:
        yield _unlisted(done)
    yield _files(done.files)
    yield _misplaced(done.misplaced)
    if done.captions_left_out:
        photos = counted(done.captions_left_out, "photo")
        yield (
            f"note: the captions and keywords of {photos} cannot be searched:"
            " pip install 'lexlip[anserini]', and index again"
        )
    if done.text_unread:
        photos = counted(done.text_unread, "photo")
        why = "they cannot be opened or read now" if find_spec("rapidocr") else EXTRAS["rapidocr"]
        yield f"note: the text in {photos} was not read: {why}; then index again"
    if done.text_failed:
        photos = counted(done.text_failed, "photo")
        yield f"note: RapidOCR failed on {photos}, which are found by what they show alone"
    if done.unsealed:
        yield (
            "note: lexlip serve and lexlip mcp will send these photos only if --photos names their folder,"
            f" as {done.unsealed}"
        )
    if isinstance(done, Updated) and done.listed_ahead:
        yield (
            f"note: a clock was or is wrong: {done.index} says that it was made {done.listed_ahead:.0f} s"
            " from now; nothing is lost, as photos are compared by their own times"
        )


def _summary(done: Indexed | Updated) -> str:
    from lexlip.indexing.report import Updated

    if isinstance(done, Updated):
        encoded = done.added + done.changed + done.encoded_anew - done.resumed
        numbers = {"added": done.added, "changed": done.changed, "deleted": done.deleted}
        numbers["unchanged"] = done.unchanged
        rare = {"moved": done.moved, "with other captions": done.described, "kept out of reach": done.kept}
        rare["encoded anew by the new model"] = done.encoded_anew
        numbers |= {name: number for name, number in rare.items() if number}
        what = ", ".join(f"{number} {name}" for name, number in numbers.items())
    else:
        encoded = done.photos - done.resumed
        postings = "" if done.postings is None else f", {done.postings} postings"
        what = counted(done.photos, "photo") + postings
    what += f", {done.resumed} encoded before" if done.resumed else ""
    if done.text_read or done.with_text:
        read = f"{done.text_read} read, " if done.text_read else ""
        what += f", text: {read}{counted(done.with_text, 'photo')} with some"
    size = f"{done.megabytes:.1f} MB" if done.megabytes >= 1 else f"{1000 * done.megabytes:.0f} kB"
    rate = ""
    if encoded and done.seconds and not done.text_read:
        speed = encoded / done.seconds
        rate = f" ({speed:{'.0f' if speed > 9 else '.1g'}} photos/s)"
    return f"{what}, {size} in {done.index}, {done.seconds:.1f} s{rate}"


def _files(files: Mapping[str, int]) -> str:
    """Return in one line what became of a folder's files; "" if other lines have named all."""
    from lexlip.data.source import LEFT

    if not any(number for fate, number in files.items() if fate not in ("photos", "beside", "named")):
        return ""
    fates = ", ".join(f"{files[fate]} {said}" for fate, said in LEFT.items() if files[fate])
    return f"{counted(sum(files.values()), 'file')}: {counted(files['photos'], 'photo')}, {fates}"


def _misplaced(ids: Sequence[str]) -> str:
    """Return in one line which photos have GPS that cannot be; "" if there are none."""
    if not ids:
        return ""
    more = f" and {len(ids) - SHOWN} more (--json lists all)" if len(ids) > SHOWN else ""
    tell = "photo tells" if len(ids) == 1 else "photos tell"
    named = ", ".join(ids[:SHOWN])
    return readable(f"note: {len(ids)} {tell} a place that cannot be, which is left out: {named}{more}")


def _unlisted(done: Indexed | Updated) -> str:
    """Return in one line what could not be listed, and what that means for the index."""
    from lexlip.indexing.report import Updated

    named = ", ".join(f"{place.id or 'the folder'} ({place.reason})" for place in done.unlisted[:SHOWN])
    more = f" and {len(done.unlisted) - SHOWN} more (--json lists all)" if len(done.unlisted) > SHOWN else ""
    if isinstance(done, Updated):
        stay = "1 photo of the index stays as it was; --prune deletes it"
        if done.kept > 1:
            stay = f"{done.kept} photos of the index stay as they were; --prune deletes them"
        what = f": {stay}" if done.kept else ""
    else:
        missed = "photos" if done.missed is None else counted(done.missed, "photo")
        what = f": the index may lack {missed} of it"
    return readable(f"could not be listed: {named}{more}{what}")


def show_skipped(skipped: Sequence[Skipped], hint: str = "") -> None:
    """Say on stderr which files were left out, and why."""
    if not skipped:
        return
    from lexlip.data.extra_kinds import KINDS

    lacking = {kind.advice: kind.name for kind in KINDS}
    numbers = Counter(reason for _, reason in skipped if reason in lacking)
    lines = [f"{counted(numbers[advice], lacking[advice])}: {advice}" for advice in numbers]
    lines += [f"{id}: {reason}" for id, reason in skipped if reason not in lacking]
    click.echo(f"{len(skipped)} skipped:", err=True)
    for line in lines[:SHOWN]:
        click.echo(f"  {readable(line)}", err=True)
    if len(lines) > SHOWN:
        click.echo(f"  … and {len(lines) - SHOWN} more{hint}", err=True)
