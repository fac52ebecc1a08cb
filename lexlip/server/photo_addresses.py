"""Photos that another server shows: their addresses, made of their ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from lexlip.errors import ConfigError, DataError
from lexlip.retrieval.seal import folders_to_send
from lexlip.words.plain_text import readable

ID = "{id}"
EXAMPLE = "https://photos.example.org/{id}"
_HOST = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]")


class PhotoAddresses:
    """Addresses as a template has them, such as https://photos.example.org/{id}.

    Attributes:
        origin: the scheme, host and port of them all, as a content security policy names it.

    Raises:
        ConfigError: the template is no address, lacks {id}, or holds a password.
    """

    def __init__(self, template: str) -> None:
        try:
            parts = urlsplit(template)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigError(f"--photos is no address ({error}): write it as {EXAMPLE}") from None
        if parts.username is not None or parts.password is not None:  # which is not repeated
            raise ConfigError("--photos holds a name or a password, which all who see the page could read")
        if ID not in parts.path + parts.query:
            raise ConfigError(f"--photos says nowhere where the id of a photo comes: write it as {EXAMPLE}")
        name = f"[{host}]" if ":" in host else host
        rest = template.replace(ID, "")
        if parts.scheme not in ("http", "https") or not _HOST.fullmatch(name) or parts.fragment:
            raise ConfigError(f"--photos is no address of http or https: write it as {EXAMPLE}")
        if re.search(r'[{}\\"<>^`|\s]', rest) or not (rest.isascii() and rest.isprintable()):
            raise ConfigError(f"--photos has {{id}} and else only what an address has: write it as {EXAMPLE}")
        self.origin = f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")
        self._template = self.origin + template[template.index(parts.netloc) + len(parts.netloc) :]

    def of(self, id: str) -> str:
        """Return the address of a photo; DataError: it would lead out of what the template names."""
        if not {".", ".."}.isdisjoint(id.split("/")):
            raise DataError(f"the photo {readable(id)!r:.80} has no address: its id leads to another folder")
        return self._template.replace(ID, quote(id, safe="/"))


def where_photos_are(names: Sequence[str]) -> tuple[tuple[str, ...], PhotoAddresses | None]:
    """Return the real paths of the folders that --photos names, or addresses; ConfigError: neither."""
    if not any("://" in name for name in names):
        return folders_to_send(names), None
    if len(names) > 1:
        raise ConfigError("--photos is an address: give that one alone")
    return (), PhotoAddresses(names[0])
