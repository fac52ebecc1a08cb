"""How this process takes memory from the system."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's malloc.h
_NEVER, _AT_A_TIME = 2**31 - 1, 2**28  # bytes


def keep_freed_memory() -> None:
    """Keep the memory of a freed tensor for the next one, as long as the process lives.

    glibc gives blocks of over 32 MB back to the system at once and takes them anew for the next batch, whose
    pages the system then has to clear: with the feature maps of photos that is up to half of the time. Other
    C libraries are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _AT_A_TIME)):
            libc.mallopt(option, value)
