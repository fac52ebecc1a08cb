from pathlib import Path

import numpy as np
import pytest

from lexlip.data import Given, Source, open_library
from lexlip.errors import ConfigError, DataError, UnreadableImage
from lexlip.explain.keywords import SideFiles, sure_words
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.sparse.word_chances import LikelyWords
from tests.conftest import write_photos
from tests.tiny import tiny_model


def library(folder: Path) -> Source:
    return open_library(Given((str(folder),)))


def number_of(source: Source, id: str) -> int:
    return [item.id for item in source.items].index(id)


def test_a_photo_s_file_is_the_one_that_is_there(photos: Path) -> None:
    (photos / "1.xmp").touch()
    (photos / "2.jpg.XMP").touch()
    (photos / "2.xmp").touch()
    (photos / "3.xmp").touch()
    (photos / "3.png").write_bytes((photos / "3.jpg").read_bytes())
    source = library(photos)
    found = {item.id: Path(SideFiles(source).of(number)).name for number, item in enumerate(source.items)}
    assert found == {
        "0.jpg": "0.jpg.xmp",
        "1.jpg": "1.xmp",
        "2.jpg": "2.jpg.XMP",
        "3.jpg": "3.jpg.xmp",  # 3.xmp is of both
        "3.png": "3.png.xmp",
        "4.jpg": "4.jpg.xmp",
        "5.jpg": "5.jpg.xmp",
    }


def test_the_file_of_a_raw_photo(photos: Path) -> None:
    for name in ("1.cr2", "1.cr2.xmp", "2.CR2", "2.xmp", "8.cr2", "9.NEF", "9.xmp"):
        (photos / name).touch()
    source = library(photos)
    found = {item.id: Path(SideFiles(source).of(number)).name for number, item in enumerate(source.items)}
    assert (found["1.jpg"], found["2.jpg"]) == ("1.jpg.xmp", "2.xmp")  # that of the JPEG, or of both
    assert (found["8.cr2"], found["9.NEF"]) == ("8.cr2.xmp", "9.xmp")


def test_json_of_google_takeout_is_never_written_to(photos: Path) -> None:
    (photos / "0.jpg.json").write_text('{"title": "0.jpg", "photoTakenTime": {}}')
    files = SideFiles(library(photos))
    assert files.change(0, ["dog"])
    assert files.of(0) == str(photos / "0.jpg.xmp")


def test_files_are_made_changed_and_deleted(photos: Path) -> None:
    before = sorted(photos.iterdir())
    assert SideFiles(library(photos)).change(0, ["dog"])
    side = photos / "0.jpg.xmp"
    side.chmod(0o640)
    files = SideFiles(library(photos))
    assert not files.change(0, ["dog"])
    assert files.change(0, ["dog", "cat"])
    assert side.stat().st_mode & 0o777 == 0o640
    assert b"<rdf:li>cat</rdf:li>" in side.read_bytes()
    assert files.change(0, [])
    assert not files.change(1, [])
    assert sorted(photos.iterdir()) == before


def test_what_is_not_ours_stays(photos: Path, tmp_path: Path) -> None:
    (photos / "0.xmp").write_text("no XMP at all")
    (tmp_path / "elsewhere.xmp").touch()
    (photos / "1.xmp").symlink_to(tmp_path / "elsewhere.xmp")
    (photos / "sub").mkdir()
    write_photos(photos / "sub", 1)
    (photos / "2.jpg.xmp").symlink_to("sub/2.xmp")  # leads nowhere
    source = library(photos)
    files = SideFiles(source)
    with pytest.raises(UnreadableImage, match="no XMP"):
        files.change(0, ["dog"])
    with pytest.raises(UnreadableImage):
        files.change(2, ["dog"])
    assert files.change(1, ["dog"])
    assert (photos / "1.jpg.xmp").exists()  # as what leads out counts as not there
    assert (photos / "0.xmp").read_text() == "no XMP at all"
    assert (tmp_path / "elsewhere.xmp").read_bytes() == b""
    assert files.change(number_of(source, "sub/0.jpg"), ["dog"])
    (photos / "3.xmp").symlink_to("sub/0.jpg.xmp")  # inside of the folder: the file itself is changed
    assert SideFiles(library(photos)).change(3, ["cat"])
    assert (photos / "3.xmp").is_symlink()
    assert b"cat" in (photos / "sub/0.jpg.xmp").read_bytes()


def test_photos_that_are_no_files_of_a_folder() -> None:
    with pytest.raises(DataError, match="is no folder of them"):
        SideFiles(library(Path("scenes:4:0")))


def test_sure_words_are_the_likeliest_without_forms_of_one(photos: Path) -> None:
    model = tiny_model()
    model.eval()
    words = model.vocabulary.words
    width = len(words)
    nothing = np.zeros((width, 1), np.float32)
    chances = np.linspace(0.05, 0.95, width)
    bias = np.log(chances / (1 - chances)).astype(np.float32)
    model.likely = LikelyWords(np.zeros(width, np.float32), bias, nothing, nothing.T)
    vectors = model.encode_image([library(photos).image(0)])
    (first, *_) = sure_words(model, PhotoVectors(model, library(photos), workers=0), 0.5)
    expected = {words[column]: chances[column] for column in sorted(vectors.indices, reverse=True)}
    assert first[0] == "0.jpg"
    assert first[1] == pytest.approx({word: chance for word, chance in expected.items() if chance >= 0.5})
    model.likely = None
    with pytest.raises(ConfigError, match="--model mini"):
        next(sure_words(model, PhotoVectors(model, library(photos), workers=0), 0.5))


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("dog dogs black", "dog black"),
        ("jumping jumps jumped", "jumping"),
        ("ride riding rides rider", "ride rider"),
        ("running run runs", "running"),
        ("glasses glass grass", "glasses grass"),
        ("red bed bus buses", "red bed bus"),
        ("car carpet cars", "car carpet"),
    ],
)
def test_forms(words: str, kept: str) -> None:
    from lexlip.explain.keywords import _without_forms

    assert list(_without_forms(dict.fromkeys(words.split(), 1.0))) == kept.split()
