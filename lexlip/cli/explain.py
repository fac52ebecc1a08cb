"""The command `lexlip explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lexlip.cli import options
from lexlip.cli.exit_codes import interruptible
from lexlip.errors import DataError
from lexlip.words.plain_text import readable

if TYPE_CHECKING:
    from PIL import Image
    from scipy.sparse import csr_matrix

    from lexlip.explain.drawing import Drawing
    from lexlip.explain.score_table import ScoreTable
    from lexlip.explain.weighted_words import WeightedWords
    from lexlip.explain.word_places import WordPlaces
    from lexlip.models.contract import QueryEncoder
    from lexlip.models.lexlip import LexLIP
    from lexlip.queries.photo_encoder import PhotoEncoder
    from lexlip.search.photo_search import PhotoSearch

Row = tuple[str, ...]


class Given(NamedTuple):
    """The options."""

    model: str | None
    index_folder: str | None
    hit: str | None
    caption: Sequence[str]
    topk: int
    word: Sequence[str]
    cloud: str | None
    heat: str | None
    query_encoder: QueryEncoder
    query_topk: int | None
    language: str
    device: str
    as_json: bool


@click.command()
@click.argument("what", metavar="PICTURE|SENTENCE")
@options.model_option(None, "Packaged name or folder of the model.  [default: the index's, or mini]")
@click.option(
    "--index",
    "index_folder",
    metavar="DIR",
    help="An index of words, whose model explains, and which holds the photo of --hit."
    f"  [default with --hit: {options.DEFAULT_INDEX}]",
)
@click.option("--hit", metavar="ID", help="Explain the score of this photo, by id or path.")
@click.option("--caption", multiple=True, metavar="TEXT", help="A caption of the picture; may be repeated.")
@options.count_option(
    "--topk",
    default=10,
    metavar="K",
    help="Number of words that are shown and looked for in the picture.",
)
@click.option("--word", multiple=True, metavar="WORD", help="Look for this word instead.")
@click.option("--cloud", metavar="FILE", help="Write a cloud of the words: .png or .svg.")
@click.option(
    "--heat",
    metavar="FOLDER|FILE",
    help="Write where in the picture each word is: pictures into a folder, or one .png of all.",
)
@options.query_encoder_option
@options.query_topk_option()
@click.option(
    "--language",
    metavar="CODE",
    callback=options.language_code,
    help="Language of the sentence, see lexlip search; and in which words are shown: en, de, fr, es."
    "  [default: the sentence's; or en]",
)
@options.device_option
@options.json_option
@click.pass_context
def explain(context: click.Context, what: str, **given: Any) -> None:
    """Show why: the words of a picture or a sentence, where they are seen, and the arithmetic of a score.

    Words that the captions, or the sentence itself, contain are marked with a *.

    \b
        lexlip explain photo.jpg --cloud words.svg --heat heat
        lexlip explain photo.jpg --caption "two dogs in snow" --cloud figure.png
        lexlip explain "two dogs in snow" --hit photo.jpg --index .lexlip
    """  # noqa: D301 (click's mark for lines that are not wrapped)
    from lexlip.data.images import SUFFIXES

    picture = Path(what).suffix.lower() in SUFFIXES
    with suppress(OSError):  # a sentence may be longer than any name
        picture = picture or Path(what).is_file()
    asked = Given(**given)
    _check(context, what, picture, asked)
    if asked.hit is not None and asked.index_folder is None:
        asked = asked._replace(index_folder=options.DEFAULT_INDEX)
    _check_places(asked)
    with interruptible("what is written is whole"):
        if asked.hit is not None:
            _explain_hit(what, picture, asked)
        elif picture:
            _explain_picture(what, asked)
        else:
            _explain_sentence(what, asked)


def _check(context: click.Context, what: str, picture: bool, asked: Given) -> None:
    """Refuse options that have no effect."""
    if not what.strip():
        raise click.UsageError("the sentence is empty")
    if asked.hit is None:
        options.refuse(context, ["query_topk"], "is for --hit")
    if picture:
        options.refuse(context, ["query_encoder"], "is for sentences")
    elif asked.hit is None:
        options.refuse(context, ["heat", "word", "device"], "is for a picture or --hit")
    if not picture or asked.hit is not None:
        options.refuse(context, ["caption"], "is for a picture without --hit")
    if asked.hit is not None and not asked.heat:
        options.refuse(context, ["word"], "is for --heat")


def _check_places(asked: Given) -> None:
    """Check that the index is one of words, and that files can be written."""
    if asked.index_folder is not None:
        from lexlip.explain.score_table import check_words

        check_words(asked.index_folder)
    if asked.cloud is not None:
        from lexlip.explain.drawing import check_suffix
        from lexlip.machine.output_files import check_output

        check_suffix(asked.cloud, (".png", ".svg"))
        check_output(asked.cloud)
    if asked.heat is not None:
        from lexlip.explain.heat_map import check_heat

        check_heat(asked.heat)


def _explain_sentence(text: str, asked: Given) -> None:
    from lexlip.explain.weighted_words import words_of_query
    from lexlip.explain.word_cloud import figure_of_text
    from lexlip.models.word_table import translated
    from lexlip.queries.query_language import parse_query
    from lexlip.queries.text_queries import TextQueries

    query = parse_query(text, language=asked.language)
    if asked.index_folder is not None:
        from lexlip.search.engines.shard import read_index_of_words
        from lexlip.search.stages.index_model import load_queries

        folder = Path(asked.index_folder)
        queries = load_queries(folder, read_index_of_words(folder), asked.model, asked.query_encoder)
    else:
        queries = TextQueries(asked.model or options.DEFAULT_MODEL, asked.query_encoder)
    query = queries.read(query)
    found, unknown = words_of_query(queries, query), queries.unknown(query)
    translations = translated(found.weights, queries.shown_in(query))
    files = _cloud(asked, lambda: figure_of_text(text, found.shown(translations)))
    shown = found.first(asked.topk)
    if unknown:
        click.echo(f"note: not in the vocabulary: {readable(', '.join(unknown))}", err=True)
    plain = {
        "text": text,
        "model": queries.identity,
        "words": shown.weights,
        "held": shown.held,
        "unknown": unknown,
        "language": query.language,
        "translations": {word: own for word, own in translations.items() if word in shown.weights},
    }
    own = found.shown(translations).first(asked.topk)
    rows = [(_marked(word, own), f"{weight:6.3f}") for word, weight in own.weights.items()]
    _show(asked, plain, ("word", "weight"), rows, files)


def _explain_picture(location: str, asked: Given) -> None:
    from lexlip.explain.heat_map import SHOWN
    from lexlip.explain.weighted_words import columns_of, words_of_captions, words_of_picture
    from lexlip.explain.word_cloud import figure_of_picture
    from lexlip.explain.word_places import places
    from lexlip.models.word_table import table_to_show, translated

    language = table_to_show(asked.language)
    data, captions = _read(location), asked.caption
    shown = _decoded(data, location, SHOWN)
    model = _load(asked)
    columns_of(model.vocabulary, asked.word)
    picture = _decoded(data, location, model.config.image.size)  # as it is indexed
    seen = words_of_picture(model, picture, captions)
    said = words_of_captions(model, captions) if captions else None
    first = seen.first(asked.topk)
    words = asked.word or list(first.weights)
    where = None
    if asked.heat is not None or not model.config.joint:
        where = places(model, picture, words)
    own = translated([*seen.weights, *(said.weights if said else ()), *words], language)
    cloud = seen.shown(own), captions, said and said.shown(own)
    files = _cloud(asked, lambda: figure_of_picture(shown, Path(location).name, *cloud))
    if where is not None:
        files += _heat(asked, shown, where, location)
    plain = {
        "picture": location,
        "model": model.identity,
        "words": first.weights,
        "held": first.held,
        "captions": list(captions),
        "caption_words": {} if said is None else said.first(asked.topk).weights,
        "places": None if where is None else where.to_dict(),
        "translations": translated(words, language),
    }
    if where is None:
        pairs = [(_marked(word, seen, own), f"{seen.weights.get(word, 0.0):6.3f}") for word in words]
        _show(asked, plain, ("word", "weight"), pairs, files)
        return
    head = "word", "weight", f"where, of {where.rows} x {where.columns} places"
    rows = [
        (_marked(word, seen, own), f"{where.weight(word):6.3f}", _place(where, word)) for word in where.words
    ]
    _show(asked, plain, head, rows, files)


def _marked(word: str, words: WeightedWords, translations: Mapping[str, str] | None = None) -> str:
    return (translations or {}).get(word, word) + "*" * (word in words.held)


def _place(where: WordPlaces, word: str) -> str:
    """Return in words where a word is."""
    winner = where.winner(word)
    if winner is not None:
        return f"row {winner[0] + 1}, column {winner[1] + 1}"
    return "no place in it" if where.weight(word) else "not here"


def _explain_hit(query: str, picture: bool, asked: Given) -> None:
    from lexlip.explain.score_table import score_table
    from lexlip.models.word_table import table_to_show, translated
    from lexlip.queries.query_language import parse_query
    from lexlip.search.photo_search import PhotoSearch

    index, how = str(asked.index_folder), (asked.model, asked.query_encoder, asked.query_topk)
    language = table_to_show(asked.language) if picture else ""
    with PhotoSearch(index, *how, device=asked.device) as search:
        sought = _encoded(search, query) if picture else parse_query(query, language=asked.language)
        table = score_table(search, sought, str(asked.hit))
        if picture:
            table = replace(table, translations=translated(table.words, language))
        files, where = _draw_hit(search, table, query, asked)
    plain = {"query": query, **table.to_dict(), **({} if where is None else {"places": where.to_dict()})}
    if not asked.as_json:
        click.echo(f"{readable(table.path)}\n")
    digits = table.digits
    rows = [
        (
            table.translations.get(row.word, row.word),
            f"{row.query:5.{digits}f}",
            f"{row.photo:5.{digits}f}",
            f"{row.product:.{2 * digits}f}",
        )
        for row in table.rows
    ]
    rows.append(("score", "", "", f"{table.score:.{2 * digits}f}"))
    _show(asked, plain, ("word", "query", "photo", "product"), rows, files)


def _encoded(search: PhotoSearch, location: str) -> csr_matrix:
    """Return a picture as a search encodes it."""
    encoder = search.stage.encoder
    picture = _decoded(_read(location), location, encoder.config.image.size)
    vector: csr_matrix = encoder.encode_image([picture])
    return vector


def _draw_hit(
    search: PhotoSearch, table: ScoreTable, query: str, asked: Given
) -> tuple[list[str], WordPlaces | None]:
    """Write the cloud and the heat maps of a hit; return the files, and where the words are."""
    from lexlip.data.files import reading
    from lexlip.explain.heat_map import SHOWN
    from lexlip.explain.weighted_words import WeightedWords
    from lexlip.explain.word_cloud import figure_of_hit
    from lexlip.explain.word_places import places

    if asked.cloud is None and asked.heat is None:
        return [], None
    try:
        with search.now() as (_, photos), reading(table.path):
            data = photos.read(table.id)
        photo = _decoded(data, table.path, SHOWN)
    except DataError:
        if asked.heat is not None:
            raise
        photo = None
    shared = [row.word for row in table.rows]
    title = f"{table.id}  {table.score:.3f}"
    words = WeightedWords(table.words, shared).shown(table.translations)
    files = _cloud(asked, lambda: figure_of_hit(photo, title, words.weights, query, words.held))
    if asked.heat is None or photo is None:
        return files, None
    encoder: Any = search.stage.encoder
    picture = _decoded(data, table.path, encoder.config.image.size)
    where = places(encoder, picture, asked.word or shared[: asked.topk])
    return files + _heat(asked, photo, where, title), where


def _load(asked: Given) -> LexLIP | PhotoEncoder:
    """Load the model that sees pictures."""
    if asked.index_folder is not None:
        from lexlip.search.engines.shard import read_index_of_words
        from lexlip.search.stages.index_model import load_encoder

        folder = Path(asked.index_folder)
        return load_encoder(folder, read_index_of_words(folder), asked.model, asked.device)
    from lexlip.queries.photo_encoder import open_encoder

    return open_encoder(asked.model or options.DEFAULT_MODEL, asked.device)


def _read(location: str) -> bytes:
    """Return the bytes of a file, or of a tar's member as a search prints it."""
    from lexlip.data.files import read_location, reading

    with reading(location):
        return read_location(location)


def _decoded(data: bytes, location: str, size: int) -> Image.Image:
    """Return a picture of at least `size` pixels on its shorter side, unless it has fewer."""
    from lexlip.data import decode
    from lexlip.data.files import reading

    with reading(location):
        return decode(data, size)


def _cloud(asked: Given, draw: Callable[[], Drawing]) -> list[str]:
    """Write the cloud if it is wanted; return the files."""
    if asked.cloud is None:
        return []
    draw().save(asked.cloud)
    return [asked.cloud]


def _heat(asked: Given, picture: Image.Image, places: WordPlaces, title: str) -> list[str]:
    """Write the heat maps if they are wanted; return the files."""
    from lexlip.explain.heat_map import write_heat

    if asked.heat is None:
        return []
    return [str(file) for file in write_heat(asked.heat, picture, places, title)]


def _show(asked: Given, plain: dict[str, Any], head: Row, rows: Sequence[Row], files: Sequence[str]) -> None:
    """Print everything as JSON, or a table and the names of the files that were written."""
    if asked.as_json:
        click.echo(json.dumps({**plain, "files": files}))
        return
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())
    if files:
        click.echo()
    for file in files:
        click.echo(file)
