import base64
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from lexlip.data.files import read_location
from lexlip.errors import DataError
from lexlip.retrieval.answer import Answer, Hit
from lexlip.search.contact_sheet import PhotoWords, write_contact_sheet, write_word_sheet

HOSTILE = "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>&amp;"
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --hide-scrollbars --window-size=800,700
""".split()


def answer(query: str, *paths: Path) -> Answer:
    hits = [
        Hit(rank, path.name, str(path), 1 / rank, {"dog": 0.7 / rank, "snow": 0.3 / rank})
        for rank, path in enumerate(paths, 1)
    ]
    terms = {"dog": 0.8, "snow": 0.4, "<b>": 0.1} if hits else {}
    return Answer(query, terms, hits, {"encode": 1.0, "search": 1.0}, [])


def below(folder: Path) -> Callable[[str], bytes]:
    return lambda id: read_location(str(folder / id))


def photo(path: Path, colour: str, size: tuple[int, int] = (300, 200)) -> Path:
    Image.new("RGB", size, colour).save(path)
    return path


class Page(HTMLParser):
    """The elements of a page; fails where one is not closed, or closed twice."""

    VOID = ("meta", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Two queries, the second without hits; a wide, a hostile, a broken and a missing photo."""
    (tmp_path / "text.jpg").write_text("text")
    hostile = photo(tmp_path / (HOSTILE.replace("/", "∕") + ".png"), "blue", (200, 300))
    first = answer(
        HOSTILE, photo(tmp_path / "red.png", "red"), hostile, tmp_path / "text.jpg", tmp_path / "gone.jpg"
    )
    write_contact_sheet(tmp_path / "sheet.html", [first, answer("nothing like it")], below(tmp_path))
    return tmp_path / "sheet.html"


def test_the_page_is_well_formed_and_needs_no_other_file(sheet: Path) -> None:
    text = sheet.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert [image["src"].split(",")[0] for image in page.all("img")] == ["data:image/jpeg;base64"] * 2
    assert not [a for _, a in page.elements if {"href", "srcset", "onerror", "onload"} & set(a)]
    assert not {name for name, _ in page.elements} & {"link", "script", "iframe", "object", "base"}
    assert not re.search(r"url\(|@import", text)


def test_names_and_queries_are_text(sheet: Path) -> None:
    page = Page(sheet.read_text(encoding="utf-8"))
    assert HOSTILE in page.texts
    assert "<b>" in page.texts
    assert page.all("img")[1]["alt"] == HOSTILE.replace("/", "∕") + ".png"
    assert page.texts.count("cannot be read any more") == 2
    assert "No photo shares a word with the query." in page.texts


def test_words_of_photos(tmp_path: Path) -> None:
    red = photo(tmp_path / "red.png", "red")
    described = [
        PhotoWords("red.png", str(red), {"dog": 0.8, "<b>": 0.4}, ["dog"], ("a dog", HOSTILE)),
        PhotoWords("gone.png", str(tmp_path / "gone.png"), {}, [], ()),
    ]
    write_word_sheet(tmp_path / "sheet.html", described)
    page = Page((tmp_path / "sheet.html").read_text(encoding="utf-8"))
    words = {text: a for (_, a), text in zip(_with_class(page, "word"), ["dog", "<b>"], strict=True)}
    assert [a["class"] for a in words.values()] == ["word held", "word"]
    assert [a["title"] for a in words.values()] == ["0.8000", "0.4000"]
    assert set(page.texts) >= {"dog", "<b>", "a dog", HOSTILE, "gone.png", "cannot be read any more"}
    assert "Underlined: words of the photo's captions." in page.texts
    assert not {name for name, _ in page.elements} & {"script", "b"}


def test_forms_of_a_word_are_one_chip(tmp_path: Path) -> None:
    red = photo(tmp_path / "red.png", "red")
    words = {"sitting": 0.3, "dog": 0.2, "sits": 0.4, "men": 0.1, "man": 0.1}
    write_word_sheet(tmp_path / "sheet.html", [PhotoWords("red.png", str(red), words, ["sits"], ())])
    page = Page((tmp_path / "sheet.html").read_text(encoding="utf-8"))
    assert len(_with_class(page, "forms")) == 4
    assert [float(a["title"]) for _, a in _with_class(page, "word")] == [0.3, 0.4, 0.2, 0.1, 0.1]
    assert [a["class"] for _, a in _with_class(page, "word")] == ["word", "word held", *["word"] * 3]


def _with_class(page: Page, name: str) -> list[tuple[str, dict[str, str | None]]]:
    return [(tag, a) for tag, a in page.elements if name in (a.get("class") or "").split()]


def test_thumbnails_are_small(tmp_path: Path) -> None:
    photo(tmp_path / "large.jpg", "green", (3000, 2000))
    write_contact_sheet(tmp_path / "sheet.html", [answer("q", tmp_path / "large.jpg")], below(tmp_path))
    (image,) = Page((tmp_path / "sheet.html").read_text()).all("img")
    data = base64.b64decode(str(image["src"]).partition(",")[2])
    assert max(Image.open(io.BytesIO(data)).size) <= 480


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"cannot write the contact sheet .*folder: Is a directory"):
        write_contact_sheet(tmp_path / "folder", [], below(tmp_path))
    with pytest.raises(DataError, match=r"cannot write the contact sheet .*sheet\.html: No such file"):
        write_contact_sheet(tmp_path / "none" / "sheet.html", [], below(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.fixture
def chromium(tmp_path: Path) -> Callable[..., str]:
    """Runs a headless Chromium on a page."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM)} is on the PATH")

    def run(page: Path, *flags: str) -> str:
        command = [program, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, page.as_uri()]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_a_browser_runs_no_script_of_a_file_name(sheet: Path, chromium: Callable[..., str]) -> None:
    page = chromium(sheet, "--dump-dom")
    assert "<title>LexLIP contact sheet</title>" in page
    assert "<script" not in page
    assert page.count("<figure>") == 4


@pytest.mark.parametrize(("scheme", "ground"), [("light", (255, 255, 255)), ("dark", (18, 18, 18))])
def test_a_browser_shows_the_photos_in_either_colour_scheme(
    sheet: Path, tmp_path: Path, chromium: Callable[..., str], scheme: str, ground: tuple[int, int, int]
) -> None:
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    chromium(sheet, *dark, f"--screenshot={tmp_path / 'page.png'}")
    with Image.open(tmp_path / "page.png") as picture:
        shown = picture.convert("RGB")
    assert shown.getpixel((1, 1)) == ground
    counts = {colour: count for count, colour in shown.getcolors(maxcolors=1 << 24) or []}
    red = sum(n for (r, g, b), n in counts.items() if r > 240 and g < 15 and b < 15)
    blue = sum(n for (r, g, b), n in counts.items() if b > 240 and r < 15 and g < 15)
    assert red > 10_000  # about 200 x 133 pixels
    assert blue > 10_000
    assert red == pytest.approx(blue, rel=0.1)  # whole, not cropped
