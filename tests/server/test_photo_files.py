import io

import pytest
from PIL import Image

from lexlip.server.photo_files import file_kind


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("JPEG", "image/jpeg"),
        ("PNG", "image/png"),
        ("GIF", "image/gif"),
        ("BMP", "image/bmp"),
        ("TIFF", "image/tiff"),
        ("JPEG2000", "image/jp2"),
        ("WEBP", "image/webp"),
        ("AVIF", "image/avif"),
    ],
)
def test_pictures_are_shown(form: str, kind: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 20)).save(buffer, form)
    assert file_kind("a/b/photo.html", buffer.getvalue()) == (
        kind,
        {"Content-Disposition": "inline; filename*=UTF-8''photo.html"},
    )


@pytest.mark.parametrize(
    "data", [b"", b"<svg onload=alert(1)>", b"<html>", b"%PDF-1.7", b"RIFF0000WAVE", b"0000ftypevil"]
)
def test_all_else_is_saved(data: bytes) -> None:
    kind, headers = file_kind("photo.jpg", data)
    assert kind == "application/octet-stream"
    assert headers["Content-Disposition"].startswith("attachment")


def test_a_name_stays_within_its_header() -> None:
    _, headers = file_kind('evil\r\nSet-Cookie: a=b; "\u202e\udcff.jpg', b"")
    assert headers["Content-Disposition"].isascii()
    assert not set('\r\n"; ') & set(headers["Content-Disposition"].partition("''")[2])
