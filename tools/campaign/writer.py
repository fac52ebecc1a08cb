"""Does one operation on an index, in a process of its own: `writer INDEX OPERATION SEED`."""

from __future__ import annotations

import sys
from pathlib import Path

from anserini_bridge import BridgeError

from .documents import change

if __name__ == "__main__":
    try:
        change(sys.argv[2], int(sys.argv[3])).apply(Path(sys.argv[1]))
    except BridgeError as error:
        sys.exit(f"{type(error).__name__}: {error}")
