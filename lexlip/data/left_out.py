"""What is left out unless it is asked for: hidden files, and thumbnails and deleted files of systems."""

from __future__ import annotations

import re
from collections.abc import Callable

Matches = Callable[[str], bool]
"""Whether patterns match a path below a source; the path of a folder ends with a slash."""

_NAMES = (
    *("@eaDir", "#recycle", "#snapshot", "@tmp", "@sharebin"),  # Synology
    *("@Recycle", "@Recently-Snapshot", "@__thumb", "@Transcode", ".@__thumb"),  # QNAP
    *("$RECYCLE.BIN", "RECYCLER", "RECYCLED", "System Volume Information", "FOUND.000"),  # Windows
    *("__MACOSX", "Network Trash Folder", "Temporary Items"),  # macOS
    *("lost+found", "trashbox", "files_trashbin", "files_versions"),  # Linux, Buffalo, Nextcloud
)
_PATTERNS = (
    *map(re.escape, _NAMES),
    r"[^/]+\.lrdata",  # previews of Lightroom
    r"[^/]+\.photoslibrary/resources",  # and of Apple's Photos
    r"[^/]+\.photolibrary/(?:Previews|Thumbnails)",
)
_SYSTEMS = re.compile(rf"(?:^|/)(?:{'|'.join(_PATTERNS)})/", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:^|/)\.")


def why_left_out(path: str, included: Matches | None = None) -> str:
    """Return "hidden" or "system" for a path that is left out, or below a folder that is; "" if it is taken.

    Args:
        path: below the source; that of a folder ends with a slash.
        included: what is taken all the same.
    """
    why = "hidden" if _HIDDEN.search(path) else "system" if _SYSTEMS.search(path) else ""
    return "" if why and included is not None and included(path) else why
