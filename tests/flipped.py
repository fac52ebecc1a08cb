"""Files with a wrong bit, as a failing disk leaves them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCKS = ("writer.lock", "write.lock")  # which are empty


def files_of(folder: Path) -> list[Path]:
    """All files below a folder that hold anything."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in LOCKS)


def flip(file: Path, share: float = 0.5) -> None:
    """Flip a bit of the byte that lies at a share of the file."""
    content = bytearray(file.read_bytes())
    content[min(int(share * len(content)), len(content) - 1)] ^= 1
    file.write_bytes(content)


@contextmanager
def flipped(file: Path, share: float = 0.5) -> Iterator[None]:
    """Flip a bit for the `with` block."""
    before = file.read_bytes()
    flip(file, share)
    try:
        yield
    finally:
        file.write_bytes(before)
