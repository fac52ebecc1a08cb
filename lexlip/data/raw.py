"""RAW files of cameras: known by their content, and read by LibRaw in a process of its own.

A RAW file is seen as its largest embedded JPEG; `lexlip.data.isolated_process` says what becomes of one that
has none.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from lexlip.data import isolated
from lexlip.data.extra_kinds import RAW
from lexlip.data.files import OutOfReach
from lexlip.errors import UnreadableImage

_TIFF = (b"II*\0", b"MM\0*")
_MARKS = (b"FUJIFILMCCD-RAW", b"IIRO", b"IIRS", b"MMOR", b"IIU\0")  # of Fujifilm, Olympus, Panasonic
_PHOTOMETRY, _FURTHER, _DNG_VERSION = 262, 330, 50706  # tags of TIFF
_OF_SENSORS = (32803, 34892)  # photometry: a colour filter array, and what was made linear of it
_MOST_FURTHER = 16  # pictures of one file that are looked at


class RawPreview(JpegImageFile):
    """What is seen of a RAW file: a JPEG, whose bytes are `jpeg`."""

    jpeg: bytes


def is_raw(file: BinaryIO) -> bool:
    """Return whether an unread file is a RAW file; a plain TIFF or JPEG is none, whatever its name.

    It is read from its beginning, and left there.
    """
    start = file.read(16)
    file.seek(0)
    if start.startswith(_MARKS) or start[4:12] == b"ftypcrx ":
        return True
    if not start.startswith(_TIFF):
        return False
    if start[8:10] == b"CR":  # Canon's
        return True
    try:
        return _of_a_sensor(file, start[:8])
    except Exception:  # Pillow raises nearly anything for a damaged TIFF, and will say so
        return False
    finally:
        file.seek(0)


def _of_a_sensor(file: BinaryIO, header: bytes) -> bool:
    """Return whether a TIFF holds what a sensor saw; many hold a small picture before that."""
    first = ImageFileDirectory_v2(header)
    places, tags = [first.next], first
    while places:
        file.seek(places.pop())
        tags.load(file)
        if _DNG_VERSION in tags or tags.get(_PHOTOMETRY) in _OF_SENSORS:
            return True
        if tags is first:
            places += tags.get(_FURTHER, ())[:_MOST_FURTHER]
        tags = ImageFileDirectory_v2(header)
    return False


def open_raw(file: BinaryIO, bounded: Any) -> RawPreview:
    """Open what is seen of a RAW file, with the EXIF and XMP of that; `bounded` wraps the file of the JPEG.

    OutOfReach: rawpy is not installed. UnreadableImage: LibRaw cannot read the file.
    """
    if why := RAW.lacks_package():
        raise OutOfReach(why)
    try:
        reply = isolated.ask(file.read(), isolated.AS_JPEG)
    except OSError as error:
        raise UnreadableImage(f"a RAW file that cannot be read ({error})") from error
    preview = RawPreview(bounded(io.BytesIO(reply.pixels)))
    preview.jpeg = reply.pixels
    preview.info.update(reply.info)
    return preview
