"""Text in photos, from `lexlip index --text` to a search."""

from pathlib import Path

import pytest

import lexlip
from anserini_bridge import read_header
from lexlip.errors import ConfigError, MissingPackage
from lexlip.indexing import reading
from lexlip.search.photo_search import PhotoSearch
from tests.indexing.test_text_reader import sign

pytest.importorskip("rapidocr")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, text in enumerate(("EXIT 12", "Menu\nWatermelon", "12 EXIT")):
        sign(text).save(folder / f"{number}.png")
    return folder


def found(index: Path, query: str) -> list[str]:
    with PhotoSearch(index) as search:
        return [hit.id for hit in search.text(query).hits]


def test_text_is_found_and_read_once(tmp_path: Path, photos: Path, model_folder: Path) -> None:
    index, how = tmp_path / "index", {"model": model_folder}
    done = lexlip.index(photos, index, text=True, **how)
    assert (done.text_read, done.with_text, done.text_unread) == (3, 3, 0)
    assert found(index, 'text:"exit 12"') == ["0.png"]
    assert found(index, "text:watermellon") == ["1.png"]  # one letter more
    with PhotoSearch(index) as search:
        photo = search.photo("1.png")
        assert [line.text for line in photo.text] == photo.to_dict()["text"] == ["Menu", "Watermelon"]
        assert "text:watermelon" in search.text("watermelon").hits[0].words
    sign("Cinema").save(photos / "3.png")
    (photos / "0.png").rename(photos / "moved.png")
    done = lexlip.index(photos, index, **how)  # goes on reading, and knows the photo that moved
    assert (done.text_read, done.with_text) == (1, 4)
    assert found(index, "text:cinema") == ["3.png"]
    assert found(index, 'text:"exit 12"') == ["moved.png"]
    done = lexlip.index(photos, index, anew=True, **how)
    assert (done.text_read, done.with_text) == (0, 4)
    (photos / "3.png").unlink()
    assert lexlip.update(index, prune=True).with_text == 3
    lexlip.index(photos, index, text=False, **how)
    with PhotoSearch(index) as search:
        assert "--text" in search.text("text:exit").unmet
    assert lexlip.index(photos, index, **how).text_read == 0


def test_all_pages_of_a_tiff_are_read(tmp_path: Path, model_folder: Path) -> None:
    pages = [sign(text) for text in ("EXIT 12", "Cinema", "Watermelon")]
    (tmp_path / "photos").mkdir()
    pages[0].save(tmp_path / "photos" / "scan.tif", save_all=True, append_images=pages[1:])
    done = lexlip.index(tmp_path / "photos", tmp_path / "index", text=True, model=model_folder)
    assert (done.photos, done.text_read, done.with_text) == (1, 1, 1)
    assert found(tmp_path / "index", "text:watermelon") == ["scan.tif"]
    with PhotoSearch(tmp_path / "index") as search:
        lines = search.photo("scan.tif").text
    assert [line.text for line in lines] == ["EXIT 12", "Cinema", "Watermelon"]
    assert [any(line.corners) for line in lines] == [True, False, False]


def test_an_interrupted_run_keeps_what_was_read(
    tmp_path: Path, photos: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(reading.TextReader):
        read_before = 0

        def read(self, photo):  # type: ignore[no-untyped-def]
            if self.read_before == 2:
                raise KeyboardInterrupt
            self.read_before += 1
            return super().read(photo)

    index = tmp_path / "index"
    with monkeypatch.context() as patched:
        patched.setattr(reading, "TextReader", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            lexlip.index(photos, index, model=model_folder, text=True)
    assert found(index, 'text:"exit 12"') == ["0.png"]
    done = lexlip.index(photos, index, model=model_folder)
    assert (done.text_read, done.with_text) == (1, 3)


def test_a_photo_that_is_gone_is_read_later(
    tmp_path: Path, photos: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, gone = tmp_path / "index", (photos / "1.png").read_bytes()
    lexlip.index(photos, index, model=model_folder)
    (photos / "1.png").unlink()
    done = reading.with_text(lexlip.update(index, repair=False, prune=False), None)
    assert done.text_unread == 0  # nobody has asked for text yet
    (photos / "1.png").write_bytes(gone)
    lexlip.index(photos, index, model=model_folder)
    real = reading.decode

    def out_of_reach(data: bytes, size: int):  # type: ignore[no-untyped-def]
        if data == gone:
            raise reading.UnreadableImage("out of reach")
        return real(data, size)

    with monkeypatch.context() as patched:
        patched.setattr(reading, "decode", out_of_reach)
        done = lexlip.index(photos, index, model=model_folder, text=True)
        assert (done.text_read, done.text_unread) == (2, 1)
    assert lexlip.index(photos, index, model=model_folder).text_read == 1


def test_a_photo_on_which_the_reader_fails_stops_no_other(
    tmp_path: Path, photos: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fails(reading.TextReader):
        def read(self, photo):  # type: ignore[no-untyped-def]
            lines = super().read(photo)
            if lines[0].text == "Menu":
                raise RuntimeError("a shape that the network does not take")
            return lines

    index, how = tmp_path / "index", {"model": model_folder}
    monkeypatch.setattr(reading, "TextReader", Fails)
    monkeypatch.setattr(reading, "EVERY", 0)  # each is stored before the next is read
    done = lexlip.index(photos, index, text=True, **how)
    assert (done.text_read, done.text_failed, done.text_unread, done.with_text) == (2, 1, 0, 2)
    monkeypatch.undo()
    (photos / "1.png").rename(photos / "moved.png")  # it is known by its content
    for more in ({}, {"anew": True}):
        done = lexlip.index(photos, index, **how, **more)
        assert (done.text_read, done.text_failed, done.text_unread) == (0, 0, 0)
    monkeypatch.setattr(reading, "reader_name", lambda: "rapidocr 99.0")
    assert lexlip.index(photos, index, **how).text_read == 1  # another version is asked again


def test_without_the_package(
    tmp_path: Path, photos: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    lexlip.index(photos, index, model=model_folder, text=True)
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"lexlip\[ocr\]"):
        lexlip.index(photos, tmp_path / "other", model=model_folder, text=True)
    sign("Cinema").save(photos / "3.png")
    done = lexlip.index(photos, index, model=model_folder)
    assert (done.added, done.text_read, done.text_unread, done.with_text) == (1, 0, 1, 3)


def test_text_is_for_models_of_words(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(ConfigError, match="models of words"):
        lexlip.index(photos, tmp_path / "index", "bm25", text=True)


def test_the_seal_stays(tmp_path: Path, photos: Path, model_folder: Path) -> None:
    from lexlip.retrieval.seal import sealed_tables

    index = tmp_path / "index"
    done = lexlip.index(photos, index, model=model_folder, text=True)
    assert done.unsealed == ""
    extra = read_header(index).extra
    assert list(sealed_tables(extra)) == [extra["photos"]]
