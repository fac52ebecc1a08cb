"""Keys: ids of photos that are safe in a URL."""

from __future__ import annotations

import base64
import binascii

from lexlip.errors import DataError


def key_of(id: str) -> str:
    """Return the key of a photo: its id in URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(id.encode()).rstrip(b"=").decode()


def id_of(key: str) -> str:
    """Return the id that a key names.

    Raises:
        DataError: it is not a key.
    """
    try:
        id = base64.b64decode(key + "=" * (-len(key) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise DataError(f"'{key[:40]}' is not a photo's key: take one from an answer") from None
    return id
