"""lexlip index --update"""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anserini_bridge import ImpactSearcher, read_header, read_metadata
from anserini_bridge.storage import checksum
from lexlip.data import Scenes
from lexlip.data.files import Place, read_place
from lexlip.retrieval.seal import sealed_tables
from tests.cli.conftest import Run, as_json, error, printed_without
from tests.conftest import write_photos
from tests.data.pictures import write_tar
from tests.search.indexes import change_header
from tests.tiny import CAPTIONS


def draw(path: Path, seed: int) -> None:
    """A photo that is not among those of write_photos."""
    Scenes(1, seed=seed).image(0).save(path)


def state(index: str = ".lexlip") -> dict[Path, tuple[int, bytes]]:
    files = [path for path in Path(index).rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def counts(lexlip: Run, *arguments: object) -> tuple[int, int, int, int]:
    done = as_json(lexlip, "index", "--update", *arguments)
    return done["added"], done["changed"], done["deleted"], done["unchanged"]


def answers(index: str) -> list[dict[str, tuple[str, float, dict[str, float]]]]:
    """What an index answers to several queries, by id."""
    from lexlip import PhotoSearch

    with PhotoSearch(index) as photos:
        found = [photos.text(caption, k=100).hits for caption in CAPTIONS]
    return [{hit.id: (hit.path, hit.score, hit.words) for hit in hits} for hits in found]


@pytest.fixture
def indexed(lexlip: Run, photos: Path) -> Run:
    lexlip("index", "photos")
    return lexlip


def test_it_answers_as_an_index_made_anew(indexed: Run, photos: Path) -> None:
    (photos / "deep").mkdir()
    draw(photos / "deep" / "new.jpg", 7)
    draw(photos / "another.png", 8)
    draw(photos / "1.jpg", 9)
    shutil.copy(photos / "3.jpg", photos / "4.jpg")
    for name in ("2.jpg", "2.txt"):
        (photos / name).unlink()
    result = indexed("index", "photos", "--update")
    assert result.stdout.startswith("2 added, 2 changed, 1 deleted, 3 unchanged, ")
    assert " kB in .lexlip, " in result.stdout
    assert result.stdout.endswith("photos/s)\n")
    assert result.stderr == ""
    indexed("index", "photos", "--index", "anew")
    assert answers(".lexlip") == answers("anew")
    assert read_metadata(".lexlip").documents == read_metadata("anew").documents == 7
    assert counts(indexed, "photos") == (0, 0, 0, 7)


def test_only_photos_that_changed_are_opened(
    indexed: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def read(place: Place) -> bytes:
        opened.append(Path(place.file).name)
        return read_place(place)

    monkeypatch.setattr("lexlip.data.source.read_place", read)
    draw(photos / "new.jpg", 7)
    (photos / "3.jpg").touch()
    indexed("index", "photos", "--update")
    assert [name for name in opened if not name.endswith(".txt")] == ["3.jpg", "new.jpg"]


def test_an_open_search_sees_one_new_state(indexed: Run, photos: Path) -> None:
    (commit,) = Path(".lexlip").glob("data-1/lucene/segments_*")
    with ImpactSearcher(".lexlip") as searcher:
        draw(photos / "new.jpg", 7)
        (photos / "0.jpg").touch()
        (photos / "1.jpg").unlink()
        indexed("index", "photos", "--update")
        assert sorted(searcher.ids()) == [f"{number}.jpg" for number in range(6)]
        assert searcher.refresh()
        assert sorted(searcher.ids()) == ["0.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "new.jpg"]
        assert not searcher.refresh()
    (after,) = Path(".lexlip").glob("data-1/lucene/segments_*")
    assert int(after.name[9:], 36) == int(commit.name[9:], 36) + 1


def test_json(indexed: Run, photos: Path) -> None:
    (photos / "1.jpg").unlink()
    done = as_json(indexed, "index", "photos", "--update")
    names = ["index", "photos", "postings", "megabytes", "seconds", "skipped", "resumed", "unlisted"]
    numbers = ["added", "changed", "deleted", "unchanged"]
    more = ["moved", "described", "repaired", "encoded_anew", "damaged_files", "kept"]
    more += ["text_read", "with_text", "text_unread", "text_failed"]
    others = ["captions_left_out", "files", "listed_ahead", "misplaced", "missed", "unsealed"]
    assert sorted(done) == sorted([*names, *others, *numbers, *more])
    assert [done[name] for name in ["index", "photos", *numbers]] == [".lexlip", 5, 0, 0, 1, 5]
    assert done["postings"] == read_metadata(".lexlip").postings


def test_an_index_of_another_user_is_sealed_if_its_source_is_named(indexed: Run, photos: Path) -> None:
    header = read_metadata(".lexlip")

    def unsealed() -> bool:
        return not sealed_tables(read_metadata(".lexlip").extra)

    for command in (["index", "--update"], ["index", "photos"], ["index", "photos", "--update"]):
        extra = {name: value for name, value in read_metadata(".lexlip").extra.items() if name != "seal"}
        change_header(Path(".lexlip"), extra=extra)
        assert unsealed()
        (photos / "5.txt").write_text(f"a dog {command}\n")
        result = indexed(*command)
        assert unsealed() == ("--photos" in result.stderr) == ("photos" not in command)
    (photos / "5.txt").write_text("a cat\n")
    assert indexed("index", "--update").stderr == ""
    assert not unsealed()
    table = Path(".lexlip", header.directory, read_metadata(".lexlip").extra["photos"])
    rows = sqlite3.connect(table)
    rows.execute("UPDATE photos SET camera = 'another'")
    rows.commit()
    rows.close()
    files = {**read_metadata(".lexlip").files, table.name: checksum(table)}
    change_header(Path(".lexlip"), files=files)
    (photos / "5.txt").write_text("a boat\n")
    assert "has not made the index" in indexed("index", "--update").stderr
    assert unsealed()


def test_without_a_place_for_the_key_photos_are_indexed(
    indexed: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (photos / "5.txt").write_text("a cat\n")
    said = indexed("index", "photos").stderr
    assert f"this user's key cannot be kept ({tmp_path / 'state'}" in said
    assert said.count("\n") == 1


def test_with_nothing_to_do_no_model_is_loaded_and_the_index_stays(
    indexed: Run, photos: Path, run_python: Callable[..., Any]
) -> None:
    before = state()
    (said,) = printed_without(run_python, "torch", "index", "photos", "--update")
    assert said.startswith("0 added, 0 changed, 0 deleted, 6 unchanged, ")
    assert said.endswith(" s")
    assert state() == before


def test_an_older_photo_in_place_of_another_has_changed(indexed: Run, photos: Path) -> None:
    draw(photos / "new.jpg", 7)
    os.utime(photos / "new.jpg", (0, 0))
    (photos / "new.jpg").rename(photos / "2.jpg")
    assert counts(indexed, "photos") == (0, 1, 0, 5)


def test_a_link_to_another_photo_has_changed(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "elsewhere", 2)
    (photos / "link.jpg").symlink_to("../elsewhere/0.jpg")
    lexlip("index", "photos")
    (photos / "link.jpg").unlink()
    (photos / "link.jpg").symlink_to("../elsewhere/1.jpg")
    assert counts(lexlip, "photos") == (0, 1, 0, 6)


def test_what_changes_while_an_update_runs_is_taken_next_time(
    indexed: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lexlip.models.lexlip import LexLIP

    encode = LexLIP.encode_image

    def change_and_encode(self: LexLIP, pixels: Any) -> Any:
        draw(photos / "0.jpg", 8)
        return encode(self, pixels)

    draw(photos / "0.jpg", 9)
    with monkeypatch.context() as patch:
        patch.setattr(LexLIP, "encode_image", change_and_encode)
        assert counts(indexed, "photos") == (0, 1, 0, 5)
    assert counts(indexed, "photos") == (0, 1, 0, 5)
    assert counts(indexed, "photos") == (0, 0, 0, 6)


def test_photos_that_cannot_be_read(indexed: Run, photos: Path) -> None:
    (photos / "1.jpg").write_text("no photo")
    (photos / "bad.jpg").touch()
    (photos / "2.jpg").unlink()
    (photos / "2.jpg").symlink_to("nothing")
    result = indexed("index", "photos", "--update")
    assert result.stdout.startswith("0 added, 0 changed, 2 deleted, 4 unchanged, ")
    assert result.stderr.splitlines() == [
        "3 skipped:",
        "  2.jpg: a link to nothing",
        "  1.jpg: not an image",
        "  bad.jpg: empty file",
    ]
    before = state()
    assert counts(indexed, "photos") == (0, 0, 0, 4)  # tried again, in vain
    assert state() == before
    shutil.copy(photos / "0.jpg", photos / "1.jpg")
    assert counts(indexed, "photos") == (1, 0, 0, 4)


def test_photos_in_tars_change_with_their_tar(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    def pack(name: str, *numbers: int) -> None:
        write_tar(tmp_path / name, {f"{n}.jpg": (photos / f"{n}.jpg").read_bytes() for n in numbers})

    (tmp_path / "tars").mkdir()
    pack("tars/a.tar", 0, 1, 2)
    pack("tars/b.tar", 3, 4)
    lexlip("index", "tars")
    assert counts(lexlip, "tars") == (0, 0, 0, 5)
    pack("tars/b.tar", 4, 5)
    pack("tars/c.tar", 0)
    assert counts(lexlip, "tars") == (2, 1, 1, 3)
    lexlip("index", "tars", "--index", "anew")
    assert answers(".lexlip") == answers("anew")
    says = error(lexlip("index", "--update", "tars/c.tar", code=2))
    assert says.startswith(
        f"the index .lexlip was made from {tmp_path}/tars, not from {tmp_path}/tars/c.tar: "
    )


def test_photos_of_a_table_that_lie_in_several_folders(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    """Their paths are not the ids: a photo elsewhere is another one, however old it is."""
    (tmp_path / "images" / "x").mkdir(parents=True)
    for number in (0, 1):
        shutil.copy(photos / f"{number}.jpg", tmp_path / "images" / f"{number}.jpg")
    shutil.copy(photos / "2.jpg", tmp_path / "images" / "x" / "0.jpg")
    Path("table.tsv").write_text("image\tcaption\ny/0.jpg\ta dog\nz/1.jpg\ta cat\n")
    lexlip("index", "table.tsv", "--images", "images")
    assert counts(lexlip, "table.tsv", "--images", "images") == (0, 0, 0, 2)
    (tmp_path / "images" / "x").rename(tmp_path / "images" / "y")
    assert counts(lexlip, "table.tsv", "--images", "images") == (0, 1, 0, 1)


def refused(lexlip: Run, *arguments: object) -> str:
    """The sentence with which an update is refused, which changes nothing."""
    before = state()
    says = error(lexlip("index", "--update", *arguments, code=2))
    assert state() == before
    return says


def test_another_source(indexed: Run, photos: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "others", 2)
    draw(photos / "new.jpg", 7)
    for source in ("others", "photos/new.jpg"):
        assert refused(indexed, source) == (
            f"the index .lexlip was made from {photos}, not from {tmp_path / source}:"
            " update it from there, or index without --update"
        )
    (tmp_path / "link").symlink_to("photos")
    assert counts(indexed, "link") == (1, 0, 0, 6)


def test_a_table_with_photos_from_elsewhere(lexlip: Run, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "others")
    Path("table.tsv").write_text("image\tcaption\n0.jpg\ta dog\n1.jpg\ta cat\n")
    lexlip("index", "table.tsv", "--images", "photos")
    says = refused(lexlip, "table.tsv", "--images", "others")
    assert says.startswith(f"the index .lexlip was made from {photos}, not from {tmp_path / 'others'}: ")


def test_photos_and_index_can_be_moved_together(
    lexlip: Run, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    lexlip("index")
    photos.rename(photos.with_name("moved"))
    monkeypatch.chdir(photos.with_name("moved"))
    assert counts(lexlip) == (0, 0, 0, 6)


def test_all_photos_gone_is_no_update(indexed: Run, photos: Path) -> None:
    for photo in photos.glob("*.jpg"):
        photo.unlink()
    assert refused(indexed, "photos").startswith("no photos below photos: ")


def test_settings_are_those_of_the_index(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos", "--topk", 3, "--quantization", "paper")
    draw(photos / "new.jpg", 7)
    assert counts(lexlip, "photos") == (1, 0, 0, 6)
    lexlip("index", "photos", "--topk", 3, "--quantization", "paper", "--index", "anew")
    assert answers(".lexlip") == answers("anew")


def test_a_model_that_was_trained_on(
    lexlip: Run, photos: Path, model_folder: Path, other_model: Path
) -> None:
    shutil.copytree(model_folder, "mine")
    lexlip("index", "photos", "--model", "mine")
    shutil.copytree(other_model, "mine", dirs_exist_ok=True)
    draw(photos / "new.jpg", 7)
    assert "give the model that made it" in refused(lexlip, "photos")
    words = (model_folder / "vocabulary.txt").read_text().splitlines()
    shutil.copytree(model_folder, "mine", dirs_exist_ok=True)
    Path("mine/vocabulary.txt").write_text("\n".join(reversed(words)) + "\n")
    assert "mine is damaged: vocabulary.txt is not as it was" in refused(lexlip, "photos")
    Path("mine/checksums.txt").unlink()  # as an older model
    assert f"was made with a vocabulary of {len(words)} words" in refused(lexlip, "photos")


def test_an_index_that_does_not_know_when_it_was_made(indexed: Run) -> None:
    extra = read_header(".lexlip").extra
    del extra["listed"], extra["source"]
    change_header(Path(".lexlip"), extra=extra)
    assert refused(indexed, "photos") == (
        "the index .lexlip is too old to say when its photos were listed: index once without --update"
    )
    indexed("index", "photos")
    assert counts(indexed, "photos") == (0, 0, 0, 6)


def test_pseudo_documents_are_refused(indexed: Run) -> None:
    result = indexed("index", "photos", "--update", "--pseudo-documents", "file.jsonl", code=2)
    assert "--pseudo-documents writes all documents: leave it out with --update" in result.stderr
    assert not Path("file.jsonl").exists()


def test_another_writer_is_one_sentence(indexed: Run, photos: Path) -> None:
    from anserini_bridge import update_index

    (photos / "0.jpg").unlink()
    with update_index(".lexlip"):
        says = error(indexed("index", "photos", "--update", code=2))
    assert "another process is writing to the index" in says


def test_the_time_is_that_before_the_listing(lexlip: Run, photos: Path) -> None:
    before = time.time()
    lexlip("index", "photos")
    after = read_metadata(".lexlip").extra["listed"]
    assert before <= after <= time.time()
