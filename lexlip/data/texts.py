"""Texts of people: how their files are decoded and split into lines, and which file lies beside which."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

from lexlip.words.plain_text import composed, whole

_MARKS = (  # the longer ones first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32-LE"),
    (codecs.BOM_UTF32_BE, "UTF-32-BE"),
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF16_LE, "UTF-16-LE"),
    (codecs.BOM_UTF16_BE, "UTF-16-BE"),
)


def decode_text(data: bytes) -> str:
    """Return the text of a file, which is UTF-8 unless a byte-order mark says otherwise.

    Raises:
        ValueError: it is in another encoding, in words such as "not UTF-8 at byte 3".
    """
    mark, encoding = next((known for known in _MARKS if data.startswith(known[0])), (b"", "UTF-8"))
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"not {encoding} at byte {len(mark) + error.start:,}") from None
    if "\0" in text:  # half of each letter in UTF-16 without its mark
        raise ValueError(f"not {encoding}: it has zero bytes")
    return text


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text, which end at \n, \r\n or \r only, as in a table."""
    return re.split(r"\r\n|\n|\r", text)


def caption_lines(data: bytes) -> tuple[str, ...]:
    """Return the captions in a text file, one per line.

    Raises:
        ValueError: see `decode_text`.
    """
    return clean_captions(lines_of(decode_text(data)))


def clean_captions(captions: object) -> tuple[str, ...]:
    """Return the non-empty strings of a list, with single spaces; half a character becomes "?"."""
    if not isinstance(captions, list):
        return ()
    texts = (whole(caption).replace("\0", " ") for caption in captions if isinstance(caption, str))
    return tuple(filter(None, (" ".join(text.split()) for text in texts)))


class Beside:
    """Files beside photos, such as those with captions, found by the photo's name without its suffix.

    The suffix of such a file may be in any case. A name that is composed otherwise than the photo's
    (Unicode's NFC and NFD) is taken if there is no other.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        exact = {}
        for name in sorted(names):  # of .TXT and .txt the latter counts
            stem, dot, suffix = name.rpartition(".")
            exact[key := f"{stem}{dot}{suffix.lower()}"] = name
            self._names[composed(key)] = name
        self._names.update(exact)

    def find(self, stem: str, suffix: str) -> str | None:
        """Return the file with a suffix, given in lower case, beside the photo whose name begins so."""
        return self._names.get(stem + suffix) or self._names.get(composed(stem) + suffix)
