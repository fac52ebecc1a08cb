"""What one caller may ask for, and all of them at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass

SUGGESTED = 8  # words of an answer
STATES = 3  # of the index before the newest, whose cursors still work


@dataclass(frozen=True)
class Limits:
    """Each is an option of `lexlip serve`, and shows in `/api/status`.

    Attributes:
        k: hits of one answer.
        query: characters of a query, with what adjusts it and its filters.
        upload_bytes: of a picture that searches; other bodies may have a hundredth of it.
        upload_pixels: of such a picture.
        seconds: for a body to arrive, and for a picture to be decoded and encoded.
        requests: searches at once, running and waiting; pictures are limited apart.
        rate: requests in a second by one client, on average; 0 is unlimited.
        thumbnail_bytes: of all thumbnails on disk.
        idle: seconds after which the process with the image model ends.
    """

    k: int = 1000
    query: int = 1000
    upload_bytes: int = 30_000_000
    upload_pixels: int = 100_000_000
    seconds: float = 30.0
    requests: int = 64
    rate: float = 0.0
    thumbnail_bytes: int = 1_000_000_000
    idle: float = 300.0

    def to_dict(self) -> dict[str, float]:
        """Return the limits by name."""
        return asdict(self)
