"""Photos that a cluster encodes for an index on a server."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anserini_bridge.sparse_rows import Rows
from lexlip.cluster import photo_encoding
from lexlip.cluster.photo_encoding import PartEncoder, encode_on
from lexlip.data import Given, Source, open_library
from lexlip.errors import DataError
from lexlip.models.contract import EncodingSettings
from lexlip.models.model_folder import read_description
from lexlip.search_servers.server_indexing import Encode, Outcome, encode_here
from tests.cli.conftest import Run, as_json
from tests.cluster.conftest import write_tars
from tests.conftest import write_photos
from tests.search_servers.real_index import KINDS, index_of_its_own


@pytest.fixture
def library(tmp_path: Path) -> Source:
    """Photos, a tar of some, and files that are none."""
    folder = write_photos(tmp_path / "photos", 9)
    write_tars(tmp_path / "tars", 1)
    (folder / "broken.jpg").write_text("no photo")
    return open_library(Given((str(folder), str(tmp_path / "tars"))))


def encoded(
    encode: Encode, source: Source, numbers: list[int], model: Path, identity: str = ""
) -> tuple[dict[int, Any], Outcome]:
    """What is given of each photo, and what became of the others."""
    taken: dict[int, Any] = {}

    def take(rows: Rows, photos: list[tuple[int, Any]]) -> None:
        for row, (number, facts) in enumerate(photos):
            assert number not in taken
            taken[number] = [one.tolist() for one in rows.row(row)], facts

    identity = identity or read_description(model)["identity"]
    settings = EncodingSettings(str(model), identity, "cpu", 32, "unit", 1)
    return taken, encode(source, numbers, take, settings, False)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_cluster_encodes_as_this_machine_does(
    library: Source, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photo_encoding, "AT_ONCE", 4)
    numbers = [number for number in range(len(library)) if number != 3]
    here, left = encoded(encode_here, library, numbers, model_folder)
    there, also_left = encoded(encode_on("local"), library, numbers, model_folder)
    assert there == here
    assert len(here) == len(numbers) - 1
    assert also_left == left
    assert list(left.unreadable) == ["photos/broken.jpg"]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_what_a_machine_does_not_see_is_said_and_the_others_are_given(
    library: Source, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photo_encoding, "AT_ONCE", 4)
    taken: dict[int, Any] = {}
    missing = next(number for number, item in enumerate(library.items) if item.id == "photos/5.jpg")
    Path(library.file(missing)).unlink()

    def take(rows: Rows, photos: list[tuple[int, Any]]) -> None:
        taken.update(photos)

    identity = read_description(model_folder)["identity"]
    settings = EncodingSettings(str(model_folder), identity, "cpu", 32, "unit", 1)
    why = r"^4 photos could not be encoded on the cluster \(\S+ does not see .*/5\.jpg: put it where all"
    with pytest.raises(DataError, match=why):
        encode_on("local")(library, list(range(len(library))), take, settings, False)
    assert len(taken) >= len(library) - 5


def test_a_part_counts_as_it_goes(library: Source, model_folder: Path) -> None:
    """In this process, without a cluster."""
    settings = EncodingSettings(
        str(model_folder), read_description(model_folder)["identity"], "cpu", 32, "unit", 1
    )
    actor = PartEncoder(settings, None, library)
    actor.open()
    for numbers in ([0, 1], [2, 3, 4]):
        part = actor.index(numbers)
        assert [number for _, photos in part.taken for number, _ in photos] == numbers
    assert actor.done() == 5
    assert np.sum([rows.shape[0] for rows, _ in part.taken]) == 3


@pytest.mark.servers
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_on_a_server_is_the_same(lexlip: Run, tmp_path: Path, model_folder: Path, kind: str) -> None:
    photos = write_photos(tmp_path / "photos", 9)
    write_tars(tmp_path / "tars", 1)
    with index_of_its_own(kind) as one, index_of_its_own(kind) as other:
        index, model = ("index", "photos", "tars", "--model", model_folder), ("--model", model_folder)
        by_ray = ("--server", other, "--ray", "local")
        here, there = (as_json(lexlip, *index, *where) for where in (("--server", one), by_ray))
        for name in ("index", "megabytes", "seconds"):
            del here[name], there[name]
        assert there == here
        again = as_json(lexlip, *index, *by_ray)
        assert (again["unchanged"], again["added"]) == (there["photos"], 0)
        (photos / "0.jpg").unlink()
        assert as_json(lexlip, *index, *by_ray)["deleted"] == 1
        lexlip(*index, "--server", one)
        search = ("search", "dogs in snow", "-k", 50, *model, "--server")
        found = [as_json(lexlip, *search, where)["hits"] for where in (one, other)]
    assert len(found[0]) > 9
    assert found[0] == found[1]
