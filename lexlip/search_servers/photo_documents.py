"""A photo as a document on a server: its words, what searches look at, and the facts that hits show.

::

    id, model, scheme   as in every export
    words               weights by the number of the word
    taken, place        of the photo, and
    modified            of one that does not tell when it was taken: the date of its file, by the clock of who
                        indexed it: seconds from the beginning of 1970 on that clock, never put back
    folders             all folders that it lies in, from the uppermost on, and
    said                the words of its captions and keywords, for filters
    given               the same texts, its names and its day, as `lexlip.retrieval.given_words` has them, and
    spelled             the words of these
    facts               what a table of photos holds, which the server only keeps

One more document, with the key ABOUT, says what the index is. And there is one for each photo of each album::

    album, member       the album's name, and the photo's id
    added               when, so that they come in this order
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

import numpy as np

from anserini_bridge import IndexMetadata
from anserini_bridge.given_files import check_form
from anserini_bridge.sparse_rows import Rows
from lexlip.data import Source, Unreadable
from lexlip.data.facts import Facts
from lexlip.data.nearness import is_place
from lexlip.indexing.table_writer import side_names, split_path
from lexlip.other_engines.engine_contract import FIELD, Document, Made
from lexlip.retrieval.filters import words_of
from lexlip.retrieval.given_words import texts_of
from lexlip.retrieval.photo import Photo, file_date
from lexlip.retrieval.text_lines import lines_of
from lexlip.sparse.quantize import TOO_LARGE
from lexlip.words.file_names import date_in
from lexlip.words.plain_text import composed

FORMAT = 2
ABOUT = "lexlip"
MODIFIED = "modified"
"""What an index says of itself, in `extra`, whose documents have this field: those of older ones lack it."""
NEWEST = 4
"""Its value there; in older indexes the field has no dates in names (1), or seconds since 1970 in UTC (2); or
`given` has no days (3)."""
_FINGERPRINT = re.compile("[0-9a-f]{16}")


class TextFacts(TypedDict):
    """What is known of the text in a photo.

    `text` has its lines, see `plain_lines`; None: nobody has looked for any. `text_failed` is the reader that
    failed on it; "": none has.
    """

    text: list[list[Any]] | None
    text_failed: str


NO_TEXT = TextFacts(text=None, text_failed="")


class _StoredFacts(TextFacts):
    root: str | None
    file: str
    member: str
    start: int | None
    size: int | None
    width: int
    height: int
    taken: str | None
    camera: str | None
    captions: list[str]
    embedded: list[str]
    keywords: list[str]
    side: str
    digest: str
    fingerprint: str | None
    state: str
    place: tuple[float, float] | None


class _StoredAbout(TypedDict):
    format: int
    encoder: str
    quantization: dict[str, Any]
    topk: int | None
    vocabulary: str
    vocabulary_size: int
    written: str
    complete: bool
    extra: dict[str, Any]
    unreadable: dict[str, tuple[int, int, str]]


@dataclass(frozen=True)
class About:
    """What an index says about itself.

    Attributes:
        metadata: as that of an index in a folder.
        complete: whether it was written to its end once.
        unreadable: photos that could not be read, by id.
        version: of this document; changes with every run that changed a photo.
    """

    metadata: IndexMetadata
    complete: bool
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)
    version: str = ""

    def stored(self) -> dict[str, Any]:
        """Return it as the server keeps it."""
        about = self.metadata
        return {
            "about": {
                "format": FORMAT,
                "encoder": about.encoder,
                "quantization": about.quantization,
                "topk": about.topk,
                "vocabulary": about.vocabulary,
                "vocabulary_size": about.vocabulary_size,
                "written": about.created,
                "complete": self.complete,
                "extra": about.extra,
                "unreadable": {id: list(known) for id, known in self.unreadable.items()},
            }
        }

    @classmethod
    def of(cls, stored: Any, version: str) -> About:
        """Return what `stored` returned; ValueError, KeyError, TypeError: it is none, or another format."""
        about = stored["about"]
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r:.20}, not {FORMAT}: another version made it")
        check_form(about, _StoredAbout, "about")
        metadata = metadata_of(
            about["encoder"],
            about["quantization"],
            about["topk"],
            (about["vocabulary"], about["vocabulary_size"]),
            about["written"],
            about["extra"],
        )
        unreadable = {id: Unreadable(*known) for id, known in about["unreadable"].items()}
        return cls(metadata, about["complete"], unreadable, version)


def metadata_of(
    encoder: str,
    quantization: dict[str, Any],
    topk: int | None,
    vocabulary: tuple[str, int],
    written: str,
    extra: dict[str, Any],
) -> IndexMetadata:
    """Return what an index on a server says about itself as one in a folder does.

    `vocabulary` is the hash of its words, and their number.
    """
    return IndexMetadata(
        directory="",
        documents=0,
        encoder=encoder,
        created=written,
        extra=extra,
        lucene_version="",
        vocabulary=vocabulary[0],
        vocabulary_size=vocabulary[1],
        quantization=quantization,
        topk=topk,
        normalize=quantization["scheme"] == "unit",
        postings=0,
    )


def key_of(id: str) -> str:
    """Return the key of a photo's document."""
    return Document(id, [], []).key


def documents(
    source: Source,
    rows: Rows,
    photos: Sequence[tuple[int, Facts]],
    made: Made,
    texts: Mapping[str, TextFacts],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys and documents of photos.

    Args:
        source: the photos.
        rows: their whole weights, [n, V].
        photos: their index in the source, and the facts about them.
        made: how they were encoded.
        texts: what is known of the text in photos, by their digests.
    """
    roots = [f"{Path(root).expanduser().absolute()}".rstrip("/") for root in source.roots]
    for row, (number, facts) in enumerate(photos):
        columns, weights = rows.row(row)
        source.check_place(number, facts)
        id = source.items[number].id
        document = Document(id, columns.tolist(), weights.tolist())
        stored = {**_stored_facts(source, number, facts, roots), **texts.get(facts.digest, NO_TEXT)}
        yield document.key, {**document.stored(made), FIELD: document.named, **_searched(id, stored)}


def with_facts(document: dict[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a photo of which some facts are others now."""
    return {**document, **_searched(document["id"], {**document["facts"], **facts})}


def _stored_facts(source: Source, number: int, facts: Facts, roots: Sequence[str]) -> dict[str, Any]:
    prefix, file, member, start = split_path(source, number, [f"{root}/" for root in roots])
    return {
        "root": prefix and prefix[:-1],
        "file": file,
        "member": member,
        "start": start,
        "size": source.place(number).size if facts.size is None else facts.size,
        "width": facts.width,
        "height": facts.height,
        "taken": facts.taken,
        "camera": facts.camera,
        "captions": list(source.items[number].captions),
        "embedded": list(facts.captions),
        "keywords": list(facts.keywords),
        "side": side_names(source, number),
        "digest": facts.digest,
        "fingerprint": None if facts.fingerprint is None else f"{facts.fingerprint:016x}",
        "state": facts.state,
        "place": facts.place and list(facts.place),
    }


def _searched(id: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a photo, with what of them is searched."""
    texts = [*facts["captions"], *facts["embedded"], *facts["keywords"]]
    lines = [line for line, *_ in facts["text"] or ()]
    given = {
        name: [" ".join(words) for words in of_field if words]
        for name, of_field in texts_of(id, texts, lines, facts["taken"] or date_in(id)).items()
    }
    return {
        "taken": facts["taken"],
        "modified": _modified(id, facts) if facts["taken"] is None else None,
        "place": facts["place"] and {"lat": facts["place"][0], "lon": facts["place"][1]},
        "folders": [composed(above) for above in _folders_above(id)],
        "said": list(dict.fromkeys(words_of(" ".join(texts)))),
        "given": given,
        "spelled": list(
            dict.fromkeys(word for texts in given.values() for text in texts for word in text.split())
        ),
        "facts": facts,
    }


def _modified(id: str, facts: dict[str, Any]) -> int | None:
    """Return `lexlip.retrieval.photo.file_date` as the server keeps it."""
    found = file_date(id, facts["start"], facts["state"])
    return int(datetime.fromisoformat(f"{found}Z").timestamp()) if found else None


def _folders_above(id: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(id).parents if str(folder) not in (".", "/")]


def vector(words: Any, width: int) -> dict[int, int]:
    """Return the weights of a document's words by column; ValueError, TypeError: they are none."""
    check_form(words, dict[str, int], FIELD)
    found = {int(number): weight for number, weight in words.items()}
    for column, weight in found.items():
        if not (0 <= column < width and weight < TOO_LARGE):
            raise ValueError(f"a photo has the word {column}, of {width}, with the weight {weight!r:.20}")
    return found


def rows_of(vectors: Sequence[Mapping[int, int]], width: int) -> Rows:
    """Return weights by column as rows [n, width]."""
    ends = np.cumsum([0, *map(len, vectors)], dtype=np.int32)
    columns = np.array([column for one in vectors for column in sorted(one)], np.int32)
    weights = np.array([one[column] for one in vectors for column in sorted(one)], np.int32)
    return Rows(weights, columns, ends, (len(vectors), width))


def text_facts(facts: Mapping[str, Any]) -> TextFacts:
    """Return what facts say of the text in a photo."""
    return TextFacts(text=facts["text"], text_failed=facts["text_failed"])


def facts_of(document: Any) -> tuple[str, dict[str, Any]]:
    """Return the id of a document, and the facts about its photo.

    ValueError, KeyError, TypeError: it has others, or a photo that lies outside of its folder.
    """
    id, facts = document["id"], document["facts"]
    check_form(id, str, "id")
    check_form(facts, _StoredFacts, "facts")
    file, root = PurePosixPath(facts["file"]), facts["root"]
    if ".." in file.parts or (root is not None and file.is_absolute()):
        raise ValueError(f"{id!r:.60} lies outside of its folder")
    if any(isinstance(value, int) and value >= 2**63 for value in facts.values()):
        raise ValueError(f"{id!r:.60} has a number of more than 63 bits")
    if not _FINGERPRINT.fullmatch(facts["fingerprint"] or "0" * 16):
        raise ValueError(f"{id!r:.60} has no fingerprint of 64 bits")
    lines_of(facts["text"] or [])
    if facts["place"] is not None and not is_place(*facts["place"]):
        raise ValueError(f"{id!r:.60} was taken at no place on Earth")
    return id, facts


def photo_of(id: str, facts: Mapping[str, Any], file: str) -> Photo:
    """Return a photo of `facts_of`, given where its file is."""
    names = ("size", "width", "height", "taken", "camera", "digest")
    print = facts["fingerprint"]
    return Photo(
        id=id,
        path=f"{file}/{facts['member']}" if facts["member"] else file,
        file=file,
        offset=facts["start"],
        captions=tuple(dict.fromkeys([*facts["captions"], *facts["embedded"]])),
        keywords=tuple(facts["keywords"]),
        fingerprint=None if print is None else int(print, 16),
        text=lines_of(facts["text"] or []),
        place=facts["place"] and tuple(facts["place"]),
        state=facts["state"],
        **{name: facts[name] for name in names},
    )
