import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from lexlip.data import Given, open_library
from lexlip.indexing.impact import index_photos
from lexlip.models.lexlip import LexLIP
from tests.conftest import write_photos
from tests.search.indexes import Indexed
from tests.server.serving import Serving, serving

TOKEN = "a token that is long; with 'signs' & more"
HOSTILE = {
    "<img src=x onerror=alert(1)>.jpg": "<script>alert(2)</script> two dogs",
    "quotes \"'` & more.jpg": "\" onload=\"alert(3) 'a cat'",
    "two\nlines.jpg": "a boat \\u2028 on the sea",
    "\u202egpj.elif\u202c right to left.jpg": "\u202ea man rides a bike\u202c",
    "100% #1?q=2&k=3;.jpg": "javascript:alert(4)",
    "größe 東京 🐕.jpg": "a dog 🐕",
}


def indexed_now(model: Path, photos: Path, index: Path, include: tuple[str, ...] = ()) -> Path:
    """Index a folder as `lexlip index` does: photos that are there have not changed since."""
    listed = time.time()
    encoder = LexLIP.from_pretrained(model).fold_batch_norms()
    source = open_library(Given((str(photos),), include=include))
    index_photos(encoder, str(model), source, listed, index, workers=0)
    return index


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Indexed:
    """Photos, some with hostile names and captions, and an index of each kind; not to be changed."""
    photos = write_photos(tmp_path_factory.mktemp("served") / "photos")
    write_photos(photos / "2014" / "snow", 6)
    drawn = Image.open(photos / "0.jpg")
    for number, (name, caption) in enumerate(HOSTILE.items()):
        drawn.rotate(7 * number + 3).save(photos / name)
        (photos / name).with_suffix(".txt").write_text(caption + "\n", encoding="utf-8")
    Image.effect_noise((1200, 900), 60).convert("RGB").save(photos / "large.jpg")
    return Indexed.of(photos, model_folder)


@pytest.fixture(scope="session")
def server(library: Indexed) -> Iterator[Serving]:
    """A server of the index of words, for tests that change nothing."""
    with serving(library.words) as running:
        yield running


@pytest.fixture(scope="session")
def dense_server(library: Indexed) -> Iterator[Serving]:
    """One of the index of dense vectors."""
    with serving(library.dense) as running:
        yield running


@pytest.fixture(scope="session")
def bm25_server(library: Indexed) -> Iterator[Serving]:
    """One of the index of captions."""
    with serving(library.bm25) as running:
        yield running


@pytest.fixture(scope="session")
def locked_server(library: Indexed) -> Iterator[Serving]:
    """One that asks for `TOKEN`, with a further name."""
    with serving(library.bm25, token=TOKEN, names=("photos.home",)) as running:
        yield running


@pytest.fixture
def changing(tmp_path: Path, model_folder: Path) -> Iterator[tuple[Path, Serving]]:
    """Six photos that a test may change, and a server of their index."""
    photos = write_photos(tmp_path / "photos")
    with serving(indexed_now(model_folder, photos, tmp_path / "index")) as running:
        yield photos, running
