"""An upgrade that packages another model: what an index of the one before says, and what one command does."""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from anserini_bridge import read_header, read_metadata
from lexlip import PhotoSearch
from lexlip.encoders.text import load_tokenizer
from lexlip.errors import ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.retrieval.seal import sealed_tables
from lexlip.words.vocabulary import Vocabulary
from tests.cli.conftest import ALL, Run, as_json, error
from tests.cli.test_index_update import answers, draw
from tests.conftest import ROOT
from tests.tiny import CAPTIONS, TINY


@pytest.fixture(scope="session")
def newer_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of other words, and of another image encoder."""
    from dataclasses import replace

    import torch

    torch.manual_seed(3)
    captions = [*CAPTIONS, "a horse in a field of yellow flowers"]
    config = replace(
        TINY, image=replace(TINY.image, options={**TINY.image.options, "embed_dim": 32}, size=40)
    )
    tokenizer = load_tokenizer(config.text, captions)
    model = LexLIP(config, tokenizer, Vocabulary.build(config.vocabulary, tokenizer, captions))
    with torch.no_grad():
        for head in (model.image_head, model.text_head):
            head.decoder.normal_(std=0.5)
            head.bias.fill_(-0.5)
    folder = tmp_path_factory.mktemp("models") / "newer"
    model.eval().save(folder)
    return folder


def identity(model: str | Path) -> str:
    return str(json.loads((Path(model) / "config.json").read_text())["identity"])


@pytest.fixture
def upgrade(
    lexlip: Run, photos: Path, model_folder: Path, newer_model: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Indexes the photos, then packages another model instead; the one before is in `old`, and no network."""
    monkeypatch.setattr("socket.socket.connect", pytest.fail)

    def index(*options: object, model: Path = newer_model) -> None:
        lexlip("index", "photos", *options)
        Path("old").symlink_to(model_folder)
        Path("packaged/mini").unlink()
        Path("packaged/mini").symlink_to(model)

    return index


def named_command(says: str) -> list[str]:
    """The arguments of the one command that a sentence names."""
    (command,) = re.findall("`lexlip (.*?)`", says)
    return shlex.split(command)


def hits(lexlip: Run, *options: object) -> list[str]:
    return [hit["id"] for hit in as_json(lexlip, "search", ALL, *options)["hits"]]


@pytest.mark.parametrize(
    "command",
    [
        ("search", "dogs"),
        ("search", "dogs", "--captions"),
        ("search", "dogs", "--model", "mini"),
        ("search", "--similar", "0.jpg"),
        ("search", "--image", "photos/0.jpg"),
        ("explain", "dogs", "--index", ".lexlip"),
        ("explain", "dogs", "--hit", "0.jpg"),
        ("explain", "photos/0.jpg", "--index", ".lexlip"),
        ("serve", "--port", "0"),
    ],
)
def test_a_command_names_the_one_that_makes_the_index_answer(
    lexlip: Run, upgrade: Callable[..., None], command: tuple[str, ...]
) -> None:
    upgrade()
    was, now = identity("old"), identity("packaged/mini")
    assert error(lexlip(*command, code=2)) == (
        f"the index .lexlip was made with {was}, before {now} was packaged: `lexlip index --update --index"
        " .lexlip` encodes its photos anew; until then --model FOLDER answers, with"
        f" {was.replace('@', '-')}.tar.gz of a release unpacked there"
    )


@pytest.mark.parametrize("model", ["newer_model", "other_model"])  # of other words, and of the same
def test_the_old_model_answers_until_the_index_is_made_anew(
    lexlip: Run, upgrade: Callable[..., None], model: str, request: pytest.FixtureRequest
) -> None:
    upgrade("--exclude", "5.*", "--topk", 5, model=request.getfixturevalue(model))
    Path(".lexlip/thumbnails").mkdir()
    Path(".lexlip/thumbnails/one").write_text("kept")
    before = hits(lexlip, "--model", "old")
    with pytest.raises(ModelError, match="encodes its photos anew") as caught:
        PhotoSearch(".lexlip")
    (failed,) = (row for row in as_json(lexlip, "doctor", code=1)["checks"] if not row["ok"])
    assert (failed["name"], failed["text"]) == ("index", str(caught.value))
    assert before == hits(lexlip, "--model", "old")
    draw(Path("photos/new.jpg"), 7)
    draw(Path("photos/1.jpg"), 8)
    Path("photos/2.jpg").unlink()
    Path("photos/3.jpg").rename("photos/moved.jpg")
    done = as_json(lexlip, *named_command(str(caught.value)))
    numbers = {"added": 1, "changed": 1, "deleted": 1, "moved": 1, "unchanged": 0, "encoded_anew": 2}
    assert {name: done[name] for name in numbers} == numbers
    assert set(hits(lexlip)) == {"0.jpg", "1.jpg", "4.jpg", "moved.jpg", "new.jpg"}
    lexlip("index", "photos", "--exclude", "5.*", "--topk", 5, "--index", "anew")
    assert answers(".lexlip") == answers("anew")
    assert hits(lexlip, "--captions") == hits(lexlip, "--captions", "--index", "anew")
    assert read_header(".lexlip").extra["model"] == "mini"
    assert sealed_tables(read_header(".lexlip").extra)
    assert Path(".lexlip/thumbnails/one").read_text() == "kept"
    assert lexlip("index", "--update").stdout.startswith("0 added, 0 changed, 0 deleted, 5 unchanged, ")


def test_the_command_that_made_the_index_makes_it_anew(lexlip: Run, upgrade: Callable[..., None]) -> None:
    upgrade("--topk", 5)
    said = lexlip("index", "photos", "--topk", 5).stdout
    assert said.startswith("0 added, 0 changed, 0 deleted, 0 unchanged, 6 encoded anew by the new model, ")
    assert read_metadata(".lexlip").encoder == identity("packaged/mini")


def test_an_index_is_updated_by_the_old_model_where_that_is_named(
    lexlip: Run, upgrade: Callable[..., None]
) -> None:
    """And still is one of the packaged model, which is made anew on request."""
    upgrade()
    draw(Path("photos/new.jpg"), 7)
    for command in (("index", "--update"), ("index", "photos")):
        assert as_json(lexlip, *command, "--model", "old")["encoded_anew"] == 0
        assert len(hits(lexlip, "--model", "old")) == 7
        assert "encodes its photos anew" in error(lexlip("search", "dogs", code=2))
    assert as_json(lexlip, "index", "--update")["encoded_anew"] == 7


def test_an_open_search_goes_on_with_the_new_model(lexlip: Run, upgrade: Callable[..., None]) -> None:
    """As in a server that runs meanwhile; one with the old model stays with the old index."""
    lexlip("index", "photos", "--index", "first")
    with PhotoSearch("first", keep_states=1) as search:
        page, like = search.text(ALL, 2), search.image("photos/0.jpg").hits
        upgrade("--index", "first")
        with PhotoSearch("first", model="old") as pinned:
            expected = pinned.text(ALL, 6)
            lexlip("index", "--update", "--index", "first")
            with pytest.raises(ModelError, match="give the model that made it"):
                pinned.refresh()
            assert pinned.text(ALL, 6).hits == expected.hits
        assert search.text(ALL, 6).hits == expected.hits
        assert search.image("photos/0.jpg").hits == like
        assert search.refresh()
        assert not search.refresh()
        assert search.text(ALL, 2, cursor=page.cursor).hits == expected.hits[2:4]
        with PhotoSearch("first") as fresh:
            assert search.text(ALL, 6).hits == fresh.text(ALL, 6).hits
            assert search.image("photos/0.jpg").hits == fresh.image("photos/0.jpg").hits


# ---- nothing is lost ----


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.98])
def test_an_interruption_leaves_the_old_index_or_the_new_one(
    lexlip: Run, upgrade: Callable[..., None], share: float
) -> None:
    """At any call of a function that writes; the share is of all these calls."""
    upgrade()
    shutil.copytree(".lexlip", "copy")
    before = hits(lexlip, "--model", "old")
    total = _calls(lambda: lexlip("index", "--update", "--index", "copy"))
    assert total > 200
    _calls(lambda: lexlip("index", "--update", code=130), until=int(share * total))
    made = read_metadata(".lexlip").encoder
    if made == identity("old"):
        assert hits(lexlip, "--model", "old") == before
        assert "encodes its photos anew" in error(lexlip("search", "dogs", code=2))
    else:
        assert made == identity("packaged/mini")
    lexlip("index", "--update")
    assert answers(".lexlip") == answers("copy")
    assert sorted(path.name for path in Path(".lexlip").iterdir())[1:] == ["index.json", "writer.lock"]


def _calls(run: Callable[[], Any], until: int = sys.maxsize) -> int:
    """Return how many functions of what writes were called, of which one was interrupted as by Ctrl-C."""
    writing = tuple(map(str, (ROOT / "lexlip" / "indexing", ROOT / "anserini_bridge")))
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += frame.f_code.co_filename.startswith(writing)
        if calls == until:
            sys.settrace(None)
            raise KeyboardInterrupt

    traced = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(traced)
    return calls


def test_what_was_encoded_is_not_encoded_again(
    lexlip: Run, upgrade: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade()

    def first_two(photos: PhotoVectors) -> Any:
        monkeypatch.setattr(photos, "indices", photos.indices[:2])
        yield from encode(photos)
        raise KeyboardInterrupt

    encode = PhotoVectors.__iter__
    with monkeypatch.context() as patch:
        patch.setattr(PhotoVectors, "__iter__", first_two)
        lexlip("index", "--update", code=130)
    done = as_json(lexlip, "index", "--update")
    assert (done["resumed"], done["encoded_anew"]) == (2, 6)


def test_photos_that_are_out_of_reach_are_not_lost(
    lexlip: Run, upgrade: Callable[..., None], photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade()
    before = Path(".lexlip/index.json").read_bytes()
    (photos / "0.jpg").rename("away.jpg")
    (photos / "0.jpg").symlink_to("0.jpg")
    says = (
        "0.jpg is out of reach, and all photos are to be encoded anew by the model that is packaged now:"
        " nothing was changed; make them accessible, or give --prune to delete those that are not"
    )
    assert error(lexlip("index", "--update", code=2)) == says
    (photos / "0.jpg").unlink()
    Path("away.jpg").rename(photos / "0.jpg")

    encode = PhotoVectors.__iter__

    def vanish(photos: PhotoVectors) -> Any:
        Path("photos/0.jpg").rename("away.jpg")
        yield from encode(photos)

    with monkeypatch.context() as patch:
        patch.setattr(PhotoVectors, "__iter__", vanish)
        assert error(lexlip("index", "--update", code=2)) == says
    for number in range(1, 6):
        (photos / f"{number}.jpg").rename(f"away{number}.jpg")
    Path("away.jpg").rename(photos / "0.jpg")
    assert "5 of the 6 photos of .lexlip are gone" in error(lexlip("index", "photos", code=2))
    assert Path(".lexlip/index.json").read_bytes() == before
    done = as_json(lexlip, "index", "--update", "--prune")
    assert (done["photos"], done["deleted"], done["changed"]) == (1, 5, 1)


def test_who_has_not_made_the_index_does_not_seal_it(
    lexlip: Run, upgrade: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    upgrade()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert "--photos" in lexlip("index", "--update").stderr
    assert sealed_tables(read_header(".lexlip").extra) == {}
    assert lexlip("index", "photos").stderr == ""
    assert sealed_tables(read_header(".lexlip").extra)


def test_a_damaged_index_is_made_anew_on_request(lexlip: Run, upgrade: Callable[..., None]) -> None:
    upgrade()
    (words,) = Path(".lexlip").glob("data-1/lucene/*.doc")
    words.write_bytes(words.read_bytes()[:-20])
    assert "--update --repair" in error(lexlip("index", "--update", code=2))
    done = as_json(lexlip, "index", "--update", "--repair")
    assert (done["encoded_anew"] + done["changed"], done["damaged_files"]) == (6, 1)
    assert len(hits(lexlip)) == 6
