import subprocess
from pathlib import Path

import numpy as np
import pytest

from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.sparse.word_chances import LikelyWords
from tests.cli.conftest import Run, as_json, error, search
from tests.disks import mount, unmount
from tests.tiny import tiny_model


@pytest.fixture
def knowing(tmp_path: Path) -> Path:
    """A model that takes later words of its vocabulary for likelier."""
    model = tiny_model()
    width = len(model.vocabulary)
    nothing = np.zeros((width, 1), np.float32)
    odds = np.linspace(-3, 3, width, dtype=np.float32)
    model.likely = LikelyWords(np.zeros(width, np.float32), odds, nothing, nothing.T)
    model.save(tmp_path / "knowing")
    return tmp_path / "knowing"


def test_words_are_shown_written_and_taken_out(lexlip: Run, photos: Path, knowing: Path) -> None:
    how = ["keywords", "photos", "--model", knowing]
    shown = as_json(lexlip, *how)
    assert [photo["id"] for photo in shown["photos"]] == [f"{number}.jpg" for number in range(6)]
    assert all(chance >= 0.55 for photo in shown["photos"] for chance in photo["words"].values())
    assert shown["written"] == shown["skipped"] == list(photos.glob("*.xmp")) == []
    number = sum(len(photo["words"]) for photo in shown["photos"])
    assert number
    lines = lexlip(*how).stdout.splitlines()
    assert len(lines) == 13
    assert lines[-1].startswith(f"{number} words for ")
    assert lines[-1].endswith(" of 6 photos; --write puts them into XMP files beside the photos")

    written = as_json(lexlip, *how, "--write")
    assert written["photos"] == shown["photos"]
    assert written["written"] == [f"{photo['path']}.xmp" for photo in shown["photos"] if photo["words"]]
    assert lexlip(*how, "--write").stdout.endswith("; 0 XMP files changed\n")
    removed = as_json(lexlip, "keywords", "photos", "--remove")
    assert removed == {"photos": [], "written": written["written"], "skipped": []}
    assert not list(photos.glob("*.xmp"))


def test_an_index_takes_them_for_no_one_s_words_and_encodes_nothing_again(
    lexlip: Run, photos: Path, knowing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in photos.glob("*.txt"):
        text.unlink()
    (photos / "0.xmp").write_text(
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description>'
        '<dc:subject xmlns:dc="http://purl.org/dc/elements/1.1/"><rdf:Bag><rdf:li>holiday</rdf:li></rdf:Bag>'
        "</dc:subject></rdf:Description></rdf:RDF>"
    )
    lexlip("index", "photos", "--model", knowing)
    written = as_json(lexlip, "keywords", "photos", "--model", knowing, "--write", "--sure", "0.1")
    assert f"{photos}/0.xmp" in written["written"]

    def encode(self: PhotoVectors) -> None:
        raise AssertionError("a photo is encoded")

    monkeypatch.setattr(PhotoVectors, "__iter__", encode)
    assert as_json(lexlip, "index", "photos", "--model", knowing)["changed"] == len(written["written"])
    word = next(iter(written["photos"][0]["words"]))
    assert search(lexlip, "dog", "--caption", word)["hits"] == []
    assert [hit["id"] for hit in search(lexlip, "dog", "--caption", "holiday")["hits"]] == ["0.jpg"]


def test_what_cannot_be_written_is_named(lexlip: Run, photos: Path, knowing: Path) -> None:
    (photos / "2.xmp").write_text("<a>")
    (photos / "4.jpg").write_text("no photo")
    answer = as_json(lexlip, "keywords", "photos", "--model", knowing, "--write", "--sure", "0.1")
    assert {one["id"] for one in answer["skipped"]} == {"4.jpg", f"{photos}/2.xmp"}
    assert (photos / "2.xmp").read_text() == "<a>"
    assert len(answer["written"]) == 4


def test_it_is_seen_before_the_work_that_nothing_can_be_written(
    lexlip: Run, photos: Path, knowing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(self: PhotoVectors) -> None:
        raise AssertionError("a photo is encoded")

    mount(photos, "--bind", str(photos))
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(photos)], check=True)
        monkeypatch.setattr(PhotoVectors, "__iter__", encode)
        why = f"no keywords can be written beside the photos of photos: cannot write {photos}/0.jpg.xmp: "
        says = error(lexlip("keywords", "photos", "--model", knowing, "--write", code=2))
        assert says == f"{why}Read-only file system"
    finally:
        unmount(photos)


def test_photos_beside_which_nothing_can_be_written_are_named(
    lexlip: Run, photos: Path, knowing: Path
) -> None:
    (photos / "0.jpg.xmp").mkdir()
    answer = as_json(lexlip, "keywords", "photos", "--model", knowing, "--write", "--sure", "0.1")
    assert answer["skipped"] == [
        {"id": "0.jpg", "reason": f"cannot write {photos}/0.jpg.xmp: Is a directory"}
    ]
    assert [photo["id"] for photo in answer["photos"]] == [f"{number}.jpg" for number in range(1, 6)]
    assert len(answer["written"]) == 5


def test_a_file_that_is_read_only_stays_as_it_is(lexlip: Run, photos: Path, knowing: Path) -> None:
    how = ["--model", knowing, "--sure", "0.1"]
    as_json(lexlip, "keywords", "photos", "--write", *how)
    side = photos / "0.jpg.xmp"
    side.chmod(0o444)
    before = side.read_bytes()
    named = [{"id": "0.jpg", "reason": f"cannot write {side}: it is read-only"}]
    assert as_json(lexlip, "keywords", "photos", "--write", *how[:-1], "0.5")["skipped"] == named
    removed = as_json(lexlip, "keywords", "photos", "--remove")
    assert (removed["skipped"], len(removed["written"])) == (named, 5)
    assert side.read_bytes() == before
    says = error(lexlip("keywords", "photos", "--remove", code=2))
    assert says.endswith(f"no words were taken out beside the photos of photos: {named[0]['reason']}")
    side.chmod(0o644)
    assert as_json(lexlip, "keywords", "photos", "--remove")["written"] == [str(side)]
    assert lexlip("keywords", "photos", "--remove").stdout == "taken out of 0 XMP files\n"


def test_words_that_cannot_be_taken_out(lexlip: Run, photos: Path, knowing: Path) -> None:
    as_json(lexlip, "keywords", "photos", "--write", "--model", knowing, "--sure", "0.1")
    mount(photos, "--bind", str(photos))
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(photos)], check=True)
        says = error(lexlip("keywords", "photos", "--remove", code=2))
        assert says.startswith("no words were taken out beside the photos of photos: cannot write ")
        assert says.endswith(f"{photos}/0.jpg.xmp: it is read-only")
    finally:
        unmount(photos)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["scenes:4:0"], "is no folder of them: give a folder"),
        (["nothing"], "nothing does not exist"),
        (["photos"], "this model does not know how likely people are to say a word: give --model mini"),
        (["photos", "--write", "--remove"], "--write and --remove exclude each other"),
        (["photos", "--sure", "2"], "2.0 is not in the range 0<=x<=1"),
    ],
)
def test_bad_input_is_one_sentence(lexlip: Run, photos: Path, arguments: list[str], why: str) -> None:
    result = lexlip("keywords", *arguments, code=2)
    assert why in (result.stderr if "Usage" in result.stderr else error(result))
    assert not list(photos.glob("*.xmp"))
