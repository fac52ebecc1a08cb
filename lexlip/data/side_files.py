"""Keywords in XMP files beside photos, as digiKam, darktable and immich read them.

A program's words stand among a person's keywords (dc:subject, digiKam's TagsList, Lightroom's hierarchical
subjects), and once more in a list of its own, which says whose they are: only those in it are ever changed or
taken away, and they do not count as what a person wrote. All else in the file stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError

LONGEST_XMP = 1 << 20  # bytes that are parsed
OWN = "urn:lexlip:keywords#"  # the namespace of the program's own list
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


class _List(NamedTuple):
    """A property that is a list of texts: its namespace, name and kind."""

    namespace: str
    prefix: str
    name: str
    kind: str


_OWN = _List(OWN, "lexlip", "words", "Bag")
_KEYWORDS = (
    _List("http://purl.org/dc/elements/1.1/", "dc", "subject", "Bag"),
    _List("http://www.digikam.org/ns/1.0/", "digiKam", "TagsList", "Seq"),
    _List("http://ns.adobe.com/lightroom/1.0/", "lr", "hierarchicalSubject", "Bag"),
)
_EMPTY = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="{_RDF}">
  <rdf:Description rdf:about=""/>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>"""


def with_words(data: bytes, words: Sequence[str]) -> bytes | None:
    """Return an XMP file in which these are the program's words, instead of those that were.

    A word that a person has as a keyword, in whatever case, stays the person's. b"": nothing is left in the
    file. None: nothing changes.

    Args:
        data: the file; b"" if there is none.

    Raises:
        ValueError: it is no XMP, or would become too large to be read; the text says why.
    """
    try:
        written = _with_words(data, words)
    except RecursionError:
        raise ValueError("no XMP: it is nested too deep") from None
    if written is not None and len(written) > LONGEST_XMP:
        raise ValueError(f"with these words it would have more than {LONGEST_XMP} bytes")
    return written


def _with_words(data: bytes, words: Sequence[str]) -> bytes | None:
    document = _parse(data or _EMPTY.encode())
    descriptions = document.getElementsByTagNameNS(_RDF, "Description")
    if not descriptions:
        raise ValueError("no XMP: it has no rdf:Description")
    before = set(_texts(document, _OWN))
    for description in descriptions:
        for each in _KEYWORDS:
            _make_list(document, description, each)
    held = {text for each in _KEYWORDS for text in _texts(document, each)}
    persons = {text.casefold() for text in held.difference(before)}
    after = [word for word in dict.fromkeys(words) if word.casefold() not in persons]
    if set(after) == before:
        return None
    for each in (*_KEYWORDS, _OWN):
        _take_away(document, each, before)
    for each in (*_KEYWORDS, _OWN):
        _add(document, descriptions[0], each, after)
    if not after and all(_is_empty(description) for description in descriptions):
        return b""
    written: bytes = document.toxml(encoding="UTF-8")
    return written + b"\n"


def without_padding(data: bytes) -> bytes:
    """Return an XMP file without zeros and blanks around it; in UTF-16, zeros are halves of letters."""
    return data if data.startswith((b"\xff\xfe", b"\xfe\xff")) else data.strip(b"\0 \r\n\t")


def read_xmp(data: bytes) -> Any:
    """Return the root element of XMP to read; ValueError: it is none, and the text says why."""
    from defusedxml import ElementTree

    return _parsed(data, ElementTree.fromstring)


def _parse(data: bytes) -> Any:
    """Return the document of XMP to change."""
    from defusedxml import minidom

    return _parsed(data, minidom.parseString)


def _parsed(data: bytes, parse: Callable[..., Any]) -> Any:
    """Return what a parser makes of XMP; entities, with which XML grows without bound, are refused."""
    from defusedxml import DefusedXmlException

    if len(data) > LONGEST_XMP:
        raise ValueError(f"no XMP: more than {LONGEST_XMP:,} bytes")
    try:
        return parse(without_padding(data), forbid_dtd=True)
    except DefusedXmlException:
        raise ValueError("no XMP: it has a DOCTYPE or entities") from None
    except (SyntaxError, ExpatError, ValueError, LookupError) as error:  # ElementTree's is a SyntaxError
        raise ValueError(f"no XMP: {error}") from error


def _is_empty(description: Any) -> bool:
    return not description.getElementsByTagName("*") and all(
        name == "rdf:about" or name.startswith("xmlns") for name, _ in description.attributes.items()
    )


def _items(document: Any, of: _List) -> Iterator[Any]:
    for listed in document.getElementsByTagNameNS(of.namespace, of.name):
        yield from listed.getElementsByTagNameNS(_RDF, "li")


def _texts(document: Any, of: _List) -> list[str]:
    return [_text(item) for item in _items(document, of)]


def _text(element: Any) -> str:
    return "".join(node.data for node in element.childNodes if node.nodeType == node.TEXT_NODE).strip()


def _take_away(document: Any, of: _List, words: Collection[str]) -> None:
    """Take words out of a list, and with its last one the list."""
    lists: dict[Any, None] = {}
    for item in [item for item in _items(document, of) if _text(item) in words]:
        lists[item.parentNode] = None
        _cut(item)
    for items in lists:
        if not items.getElementsByTagNameNS(_RDF, "li"):
            _cut(items.parentNode)


def _cut(element: Any) -> None:
    """Take an element away, with the blanks before it."""
    blank = element.previousSibling
    if blank is not None and blank.nodeType == blank.TEXT_NODE and not blank.data.strip():
        element.parentNode.removeChild(blank)
    element.parentNode.removeChild(element)


def _add(document: Any, description: Any, of: _List, words: Sequence[str]) -> None:
    """Add words, which no list has, to a list, which is made if there is none."""
    if not words:
        return
    items = next((item.parentNode for item in _items(document, of)), None)
    if items is None:
        listed = document.createElementNS(of.namespace, f"{of.prefix}:{of.name}")
        listed.setAttribute(f"xmlns:{of.prefix}", of.namespace)
        items = document.createElementNS(_RDF, f"rdf:{of.kind}")
        items.setAttribute("xmlns:rdf", _RDF)
        listed.appendChild(items)
        description.appendChild(listed)
    for word in words:
        item = document.createElementNS(_RDF, f"{_prefix(items)}li")
        item.appendChild(document.createTextNode(word))
        items.appendChild(item)


def _make_list(document: Any, description: Any, of: _List) -> None:
    """Make a list of a property that is an attribute, with which some programs write a single text."""
    if description.hasAttributeNS(of.namespace, of.name):
        text = description.getAttributeNS(of.namespace, of.name)
        description.removeAttributeNS(of.namespace, of.name)
        _add(document, description, of, [text])


def _prefix(element: Any) -> str:
    """Return how a name in the namespace of RDF begins beside an element: "rdf:" in most files."""
    return f"{element.prefix}:" if element.prefix else ""
