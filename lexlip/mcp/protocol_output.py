"""Keeps standard output for the protocol: what Java and libraries print goes to standard error."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO


def take_stdout() -> BinaryIO:
    """Return the real standard output; from now on file descriptor 1 is standard error.

    This is never undone, so that what is still in a buffer when the process ends goes there too. Child
    processes inherit standard error, and not what is returned. Java must start later.
    """
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output
