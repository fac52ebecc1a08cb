"""An updated index in shards answers as a new one of the same tars does, and encodes only what is new."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from PIL import Image

from anserini_bridge import BridgeError, read_header
from lexlip import LexLIPError, update
from lexlip.cluster.shard_indexer import ShardIndexer
from lexlip.errors import DataError
from lexlip.indexing.api import index
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.search.engines.shard import read_sharded
from lexlip.search.photo_search import PhotoSearch
from tests.cluster.conftest import members, replace_tar, sharded_index, write_tars
from tests.cluster.test_shard_indexing import answers, answers_of
from tests.data.pictures import encode
from tests.search.indexes import change_header

Run = Callable[..., Result]


def change(tars: Path) -> dict[str, int]:
    """Change the first tar and add a third; return what an update should say of it."""
    files = members(tars / "00.tar")
    files = {"00new.jpg": members(tars / "01.tar")["2.jpg"] + b"\0", **files}  # before the others
    files["0.txt"] = b"a dog in another caption\n"
    files["5.jpg"] = files["4.jpg"] + b"\0"
    del files["6.jpg"], files["6.txt"]
    replace_tar(tars / "00.tar", files)
    write_tars(tars, 1, first=2)
    return {"added": 8, "changed": 1, "deleted": 1, "unchanged": 12, "moved": 0, "kept": 0}


def updated(lexlip: Run, *options: object) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(
        lexlip("index", "--update", "--index", "many", "--json", *options).stdout
    )
    return done


def counts(done: dict[str, Any]) -> dict[str, int]:
    return {name: done[name] for name in ("added", "changed", "deleted", "unchanged", "moved", "kept")}


@pytest.fixture
def many(tmp_path: Path, model_folder: Path) -> Path:
    return sharded_index(tmp_path, model_folder, tars=2)


def test_an_update_is_as_a_new_index_and_encodes_only_what_is_new(
    lexlip: Run, tmp_path: Path, many: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    start = PhotoVectors.__init__

    def counting(self: PhotoVectors, *arguments: Any, **how: Any) -> None:
        start(self, *arguments, **how)
        encoded.append(len(self.indices))

    monkeypatch.setattr(PhotoVectors, "__init__", counting)
    with PhotoSearch(many, keep_states=1) as search:
        page = search.text("a dog", 4)
        before, second = answers_of(search), search.text("a dog", 4, cursor=page.cursor)
        right = change(tmp_path / "tars")
        assert counts(updated(lexlip)) == right
        assert sorted(encoded) == [2, 7]
        found = answers_of(search)  # as long as nobody asks for the new state
        assert found[:12] + found[13:] == before[:12] + before[13:]  # less bytes of the tar
        assert search.refresh()
        assert not search.refresh()
        after = answers_of(search)
        assert after != before
        again = search.text("a dog", 4, cursor=page.cursor)  # of the old state
        assert [hit.id for hit in again.hits] == [hit.id for hit in second.hits]
    index("tars/*.tar", "one", model_folder)
    assert after == answers(many) == answers(tmp_path / "one")
    nothing = dict.fromkeys(right, 0) | {"unchanged": 21}
    written = (many / "index.json").read_bytes()
    assert counts(updated(lexlip, "tars/*.tar")) == nothing
    assert (many / "index.json").read_bytes() == written
    assert not (many / "unfinished").exists()


@pytest.mark.usefixtures("cluster")
@pytest.mark.slow
def test_a_cluster_updates_as_one_process_does(
    lexlip: Run, tmp_path: Path, many: Path, model_folder: Path
) -> None:
    right = change(tmp_path / "tars")
    assert counts(updated(lexlip, "--ray", "local")) == right
    index("tars/*.tar", "one", model_folder)
    assert answers(many) == answers(tmp_path / "one")


def test_python_updates_shards_as_the_command_line_does(
    tmp_path: Path, many: Path, model_folder: Path
) -> None:
    right, seen = change(tmp_path / "tars"), list[tuple[int, int]]()
    done = update(many, f"{tmp_path}/tars/*.tar", progress=lambda *counts: seen.append(counts))
    assert counts(done.to_dict()) == right
    assert seen
    index(f"{tmp_path}/tars/*.tar", tmp_path / "one", model_folder)
    assert answers(many) == answers(tmp_path / "one")
    nothing = dict.fromkeys(right, 0) | {"unchanged": 21}
    assert counts(update(many).to_dict()) == nothing
    with pytest.raises(LexLIPError, match="--split is not for an index in shards"):
        update(many, split="val")
    with pytest.raises(LexLIPError, match="--ray updates shards, and "):
        update(tmp_path / "one", address="local")


def test_a_tar_that_cannot_be_read_keeps_its_photos(lexlip: Run, tmp_path: Path, many: Path) -> None:
    whole = (tmp_path / "tars" / "00.tar").read_bytes()
    was = answers(many)
    (tmp_path / "tars" / "00.tar").write_bytes(whole[: len(whole) // 2])  # as while it is copied
    write_tars(tmp_path / "tars", 1, first=2)
    done = updated(lexlip)
    assert (done["kept"], done["added"], done["deleted"]) == (7, 7, 0)
    assert [place["id"] for place in done["unlisted"]] == ["00.tar"]
    (tmp_path / "tars" / "00.tar").write_bytes(whole)
    assert counts(updated(lexlip)) == dict.fromkeys(counts(done), 0) | {"unchanged": 21}
    (tmp_path / "tars" / "02.tar").unlink()
    refused = lexlip("index", "--update", "--index", "many", code=2).output
    assert "7 of the 21 photos of" in refused
    assert "give --prune to delete them" in refused
    assert len(read_sharded(many).shards) == 3
    assert updated(lexlip, "--prune")["deleted"] == 7
    found = answers(many)
    assert found == was
    tables = {path.name for path in many.iterdir()} - {read_sharded(many).directory}
    assert tables == {"index.json", "writer.lock", *former(many)}


def test_a_tar_without_photos_is_counted_once(lexlip: Run, tmp_path: Path, many: Path) -> None:
    replace_tar(tmp_path / "tars" / "01.tar", {})
    assert "7 of the 14 photos of" in lexlip("index", "--update", "--index", "many", code=2).output
    assert updated(lexlip, "--prune")["deleted"] == 7
    again = updated(lexlip)
    assert (again["deleted"], again["unchanged"]) == (0, 7)


def test_a_photo_whose_place_cannot_be_is_named_once(lexlip: Run, tmp_path: Path, many: Path) -> None:
    exif = Image.Exif()
    exif[0x8825] = {1: "N", 2: (95.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)}
    tar = tmp_path / "tars" / "01.tar"
    replace_tar(tar, {**members(tar), "new.jpg": encode(Image.new("RGB", (40, 30)), exif=exif)})
    for named in (["01.tar/new.jpg"], []):
        done = updated(lexlip)
        assert (done["misplaced"], done["skipped"], done["photos"]) == (named, [], 15)


def test_no_folder_can_have_a_name_so_long() -> None:
    with pytest.raises(BridgeError, match="is too long for a name: give a shorter one"):
        update("x" * 300)


def former(many: Path) -> list[str]:
    """The data folder before, which stays for those who still search it."""
    named = read_sharded(many).directory
    found = [path.name for path in many.glob("data-*") if path.name != named]
    assert len(found) == 1
    return found


def test_a_damaged_shard_is_made_anew(lexlip: Run, tmp_path: Path, many: Path) -> None:
    was = answers(many)
    shard = read_sharded(many).shards[0]
    table = next((many / read_sharded(many).directory / shard["folder"]).glob("data-*/photos-1.sqlite"))
    data = table.read_bytes()
    table.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    done = updated(lexlip, "--repair")
    assert (done["repaired"], done["damaged_files"], done["unchanged"]) == (7, 1, 7)
    assert answers(many) == was
    former(many)  # has the damaged one still
    captions = next(many.glob(f"{read_sharded(many).directory}/captions-1/*.fdt"))
    captions.write_bytes(captions.read_bytes()[:-1])
    done = updated(lexlip, "--repair")
    assert (done["repaired"], done["damaged_files"], done["unchanged"]) == (0, 1, 14)
    write_tars(tmp_path / "tars", 1, first=2)
    assert updated(lexlip)["added"] == 7
    assert updated(lexlip, "--repair")["damaged_files"] == 0


def test_what_an_update_refuses_is_one_sentence(
    lexlip: Run, tmp_path: Path, many: Path, other_model: Path
) -> None:
    def refused(*options: object) -> str:
        return lexlip("index", "--update", "--index", "many", *options, code=2).output

    written = (many / "index.json").read_bytes()
    write_tars(tmp_path / "others")
    assert "was made from" in refused("others/*.tar")
    assert "one SOURCE" in refused("tars/00.tar", "tars/01.tar")
    assert "--exclude is not for" in refused("--exclude", "x")
    assert "with --topk 32, not 8" in refused("--topk", 8)
    assert "give the model that made it" in refused("--model", other_model)
    write_tars(tmp_path / "tars", 1, first=2)
    assert "no Ray cluster at 'localhost:1'" in refused("--ray", "localhost:1")
    assert (many / "index.json").read_bytes() == written
    lexlip("index", "tars", "--index", "one", "--model", other_model)
    assert "--ray updates shards, and one has none" in lexlip(
        "index", "--update", "--index", "one", "--ray", "local", code=2
    ).output  # fmt: skip


def interrupted_after_one(made: list[str]) -> Callable[[ShardIndexer, Any], Any]:
    """What indexes one tar, which joins those that are made, and is interrupted at the next."""
    make = ShardIndexer.index

    def once(self: ShardIndexer, work: Any) -> Any:
        if made:
            raise KeyboardInterrupt
        made.append(work.tar)
        return make(self, work)

    return once


def test_an_interrupted_update_changes_nothing_and_goes_on(
    lexlip: Run, tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = change(tmp_path / "tars")
    written, was = (many / "index.json").read_bytes(), answers(many)[:5]
    make, made = ShardIndexer.index, list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(ShardIndexer, "index", interrupted_after_one(made))
        said = lexlip("index", "--update", "--index", "many", code=130).output
    assert "nothing was changed" in said
    assert (many / "index.json").read_bytes() == written
    assert answers(many)[:5] == was
    monkeypatch.setattr(ShardIndexer, "index", lambda self, work: made.append(work.tar) or make(self, work))
    assert counts(updated(lexlip)) == right
    assert [Path(tar).name for tar in made] == ["00.tar", "02.tar"]


@pytest.fixture
def upgraded(
    lexlip: Run, tmp_path: Path, many: Path, model_folder: Path, other_model: Path
) -> dict[str, Path]:
    """Another packaged model has come in the place of the index's: where both are."""
    header = read_header(many)
    change_header(many, extra={**header.extra, "model": "mini"})
    (tmp_path / "packaged" / "mini").unlink()
    (tmp_path / "packaged" / "mini").symlink_to(other_model)
    return {"old": model_folder, "new": other_model}


def test_an_upgrade_encodes_all_shards_anew_or_none(
    lexlip: Run, tmp_path: Path, many: Path, upgraded: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with PhotoSearch(many, str(upgraded["old"])) as search:
        before = answers_of(search)
    with pytest.raises(LexLIPError, match="encodes its photos anew"):
        PhotoSearch(many)
    right = change(tmp_path / "tars") | {"unchanged": 0}
    make, made = ShardIndexer.index, list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(ShardIndexer, "index", interrupted_after_one(made))
        lexlip("index", "--update", "--index", "many", code=130)

    def fail(self: ShardIndexer, work: Any) -> Any:
        raise DataError(f"{work.tar} cannot be read: cut short")

    with monkeypatch.context() as patch:
        patch.setattr(ShardIndexer, "index", fail)
        said = lexlip("index", "--update", "--index", "many", code=2).output
    assert "01.tar cannot be read: cut short, and all photos are to be encoded anew" in said
    with PhotoSearch(many, str(upgraded["old"])) as search:
        assert answers_of(search)[:5] == before[:5]
    monkeypatch.setattr(ShardIndexer, "index", lambda self, work: made.append(work.tar) or make(self, work))
    done = updated(lexlip)
    assert counts(done) == right
    assert done["encoded_anew"] == 12
    assert [Path(tar).name for tar in made] == ["00.tar", "01.tar", "02.tar"]
    index("tars/*.tar", "one", upgraded["new"])
    assert answers(many) == answers(tmp_path / "one")


def test_an_open_search_in_shards_goes_on_with_the_new_model(
    lexlip: Run, many: Path, model_folder: Path, upgraded: dict[str, Path], tmp_path: Path
) -> None:
    mini = tmp_path / "packaged" / "mini"
    mini.unlink()
    mini.symlink_to(upgraded["old"])
    with PhotoSearch(many) as search:
        mini.unlink()
        mini.symlink_to(upgraded["new"])
        updated(lexlip)
        assert search.refresh()
        assert answers_of(search) == answers(many)
