import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from lexlip.data import UnreadableImage
from lexlip.data.extra_kinds import is_installed
from lexlip.server.photo_files import Thumbnails, file_kind, make_thumbnail, name_of
from tests.data.made_raw import dng, drawing, jpeg


@pytest.mark.parametrize("form", "JPEG PNG GIF BMP TIFF JPEG2000 WEBP AVIF".split())
def test_pictures_are_shown(form: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 20)).save(buffer, form)
    inline = {"Content-Disposition": "inline; filename*=UTF-8''photo.html"}
    assert file_kind("a/b/photo.html", buffer.getvalue()) == (Image.MIME[form], inline)


@pytest.mark.parametrize(
    "data", [b"", b"<svg onload=alert(1)>", b"<html>", b"%PDF-1.7", b"RIFF0000WAVE", b"0000ftypevil"]
)
def test_all_else_is_saved(data: bytes) -> None:
    kind, headers = file_kind("photo.jpg", data)
    assert kind == "application/octet-stream"
    assert headers["Content-Disposition"].startswith("attachment")


@pytest.mark.skipif(not is_installed("rawpy"), reason="rawpy is not installed")
def test_a_raw_photo_is_saved_and_its_preview_shown() -> None:
    data = dng(preview=jpeg(drawing()), orientation=6)
    kind, headers = file_kind("photo.dng", data)
    assert (kind, headers["Content-Disposition"][:10]) == ("application/octet-stream", "attachment")
    assert opened(make_thumbnail(data, 320)).size == (320, 480)


def test_a_name_stays_within_its_header() -> None:
    _, headers = file_kind('evil\r\nSet-Cookie: a=b; "\u202e\udcff.jpg', b"")
    assert headers["Content-Disposition"].isascii()
    assert not set('\r\n"; ') & set(headers["Content-Disposition"].partition("''")[2])


def photo(width: int = 640, height: int = 480, seed: int = 0, form: str = "JPEG", mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    colour = (seed * 37 % 256, seed * 91 % 256, 128)
    picture = Image.blend(
        Image.effect_noise((width, height), 60).convert("RGB"), Image.new("RGB", (width, height), colour), 0.5
    )
    picture.convert(mode).save(buffer, form)
    return buffer.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("size", "width", "expected"),
    [
        ((640, 480), 320, (320, 240)),
        ((4000, 3000), 960, (960, 720)),
        ((200, 100), 320, (200, 100)),
        ((100, 2000), 320, (48, 960)),
        ((3000, 10), 320, (320, 1)),
        ((1, 1), 960, (1, 1)),
    ],
)
def test_a_thumbnail_is_as_wide_as_asked_and_never_enlarged(
    size: tuple[int, int], width: int, expected: tuple[int, int]
) -> None:
    with opened(make_thumbnail(photo(*size), width)) as small:
        assert (small.format, small.size) == ("WEBP", expected)


def test_a_thumbnail_shows_the_photo_upright(tmp_path: Path) -> None:
    picture = Image.new("RGB", (400, 200), "white")
    picture.paste("red", (0, 0, 200, 200))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", exif=exif, quality=95)
    with opened(make_thumbnail(buffer.getvalue(), 320)) as small:
        assert small.size == (200, 400)
        red, green, _ = small.convert("RGB").getpixel((100, 20))  # type: ignore[misc]
        assert red > 200 > green


@pytest.mark.parametrize("data", [b"", b"no photo", photo()[:2000]])
def test_what_is_no_photo_is_said(tmp_path: Path, data: bytes) -> None:
    thumbnails = Thumbnails(tmp_path, 10**9)
    with pytest.raises(UnreadableImage):
        thumbnails.get("digest", 320, lambda: data)
    assert not list(tmp_path.rglob("*.*"))


def test_it_is_made_once(tmp_path: Path) -> None:
    reads = []

    def read() -> bytes:
        reads.append(1)
        return photo()

    thumbnails = Thumbnails(tmp_path, 10**9)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: thumbnails.get("digest", 320, read), range(32)))
    assert len(set(answers)) == len(reads) == 1
    assert Thumbnails(tmp_path, 10**9).get("digest", 320, read) == answers[0]
    thumbnails.get("digest", 960, read)
    thumbnails.get("another", 320, read)
    assert len(reads) == 3
    assert not thumbnails._making


def file_of(folder: Path, number: int) -> Path:
    name = name_of(str(number), 320)
    return folder / name[:2] / f"{name}.webp"


def make(thumbnails: Thumbnails, number: int) -> None:
    thumbnails.get(str(number), 320, lambda: photo(seed=number))


def test_those_that_are_not_asked_for_make_room(tmp_path: Path) -> None:
    size = len(make_thumbnail(photo(), 320))
    thumbnails = Thumbnails(tmp_path, 11 * size)

    def kept() -> list[int]:
        return [number for number in range(30) if file_of(tmp_path, number).exists()]

    for number in range(9):
        make(thumbnails, number)
    assert kept() == list(range(9))
    thumbnails.get("0", 320, pytest.fail)
    for number in range(9, 14):
        make(thumbnails, number)
    assert {0, 13} <= set(kept())
    assert 1 not in kept()
    total = sum(path.stat().st_size for path in tmp_path.rglob("*.webp"))
    assert total <= thumbnails.most


def test_the_order_of_use_outlives_the_server(tmp_path: Path) -> None:
    first = Thumbnails(tmp_path, 10**9)
    for number in range(5):
        make(first, number)
        os.utime(file_of(tmp_path, number), (number, number))
    make(first, 0)  # used again
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.webp"))
    second = Thumbnails(tmp_path, int(size * 1.05))
    make(second, 5)
    left = {number for number in range(6) if second._load(name_of(str(number), 320)) is not None}
    assert 0 in left
    assert 1 not in left


def test_half_written_files_are_removed(tmp_path: Path) -> None:
    half, other = tmp_path / "ab" / f"{'ab' * 20}1x.tmp", tmp_path / "ab" / "other.tmp"
    half.parent.mkdir()
    for file in (half, other):
        file.write_bytes(b"half")
    Thumbnails(tmp_path, 10**9).get("digest", 320, photo)
    assert not half.exists()
    assert other.exists()


def test_a_link_in_the_place_of_one_is_not_followed(tmp_path: Path) -> None:
    thumbnails, secret = Thumbnails(tmp_path / "index", 10**9), tmp_path / "secret"
    secret.write_bytes(b"root:x:0:0")
    data = photo()
    made = thumbnails.get("digest", 320, lambda: data)
    (file,) = tmp_path.glob("index/*/*.webp")
    file.unlink()
    file.symlink_to(secret)
    assert thumbnails.get("digest", 320, lambda: data) == made
    assert secret.read_bytes() == b"root:x:0:0"


def test_without_a_place_to_write_they_are_made_each_time(tmp_path: Path) -> None:
    (tmp_path / "thumbnails").write_text("a file is in the way")
    thumbnails = Thumbnails(tmp_path / "thumbnails", 10**9)
    with opened(thumbnails.get("digest", 320, photo)) as small:
        assert small.size == (320, 240)


def test_an_index_that_is_moved_away_stays_away(tmp_path: Path) -> None:
    thumbnails = Thumbnails(tmp_path / "index" / "thumbnails", 10**9)
    thumbnails.get("digest", 320, photo)
    assert not (tmp_path / "index").exists()  # else the one that is moved here would come into it
    (tmp_path / "index").mkdir()
    thumbnails.get("digest", 320, photo)
    assert (tmp_path / "index" / "thumbnails").is_dir()


def test_one_that_fails_does_not_hold_up_the_next(tmp_path: Path) -> None:
    thumbnails = Thumbnails(tmp_path, 10**9)
    begun = threading.Event()

    def fail() -> bytes:
        begun.set()
        raise UnreadableImage("gone")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(thumbnails.get, "digest", 320, fail)
        begun.wait(10)
        assert thumbnails.get("digest", 320, photo)
        with pytest.raises(UnreadableImage):
            first.result()
