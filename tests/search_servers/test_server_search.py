"""An index on a real server answers as the index in a folder of the same photos: `make test-servers`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lexlip.retrieval.albums import Albums
from lexlip.retrieval.filters import Filters
from lexlip.retrieval.photo import Photo
from lexlip.search.photo_map import Box
from lexlip.search.photo_search import PhotoSearch
from lexlip.search_servers import photo_index
from lexlip.search_servers.opensearch_store import REST, features
from lexlip.search_servers.photo_index import PhotoIndex
from lexlip.search_servers.photo_queries import A_PHOTO
from lexlip.search_servers.server_albums import ServerAlbums
from lexlip.search_servers.server_search import ServerSearch
from tests.cli.conftest import ALL, Run, error
from tests.search_servers.real_index import KINDS, index_of_its_own, write_library

pytestmark = pytest.mark.servers

ASKED = [
    (ALL,),
    (ALL, "-k", "60"),
    ("a dog in the snow", "--query-topk", "3"),
    ("dog -snow",),
    ("dogs without snow",),
    ("snow^3 +beach dog",),
    (ALL, "--after", "2017"),
    (ALL, "--before", "2018-06"),
    (ALL, "--after", "2016-02", "--before", "2018-03-09"),
    (ALL, "--after", "1999", "--before", "2000"),
    (ALL, "--folder", "2019 italy"),
    (ALL, "--folder", "old/deep"),
    (ALL, "--folder", "e\u0301te\u0301"),
    (ALL, "--folder", "old/dee"),
    (ALL, "--caption", "Dogs SNOW"),
    (ALL, "--caption", "holiday"),
    (ALL, "--caption", "nothing"),
    (ALL, "--near", "45.5,9.4", "--within", "40km"),
    (ALL, "--near", "45.5,9.4", "--within", "90km", "--sort", "place"),
    (ALL, "--near", "-45,9"),
    (ALL, "--sort", "date"),
    (ALL, "--sort", "date", "--folder", "2020"),
    (ALL, "--group"),
    (ALL, "--min-score", "0.05"),
    (ALL, "--content-only"),
    ("anna",),
    ("anna dog",),
    ("anna dog -snow", "--folder", "2019 italy"),
    ("anna maria",),
    ('"anna maria" dog',),
    ('"maria anna"',),
    ("IMG_0012",),
    ("italy 2019 dog",),
    ("july 2019",),
    ("2 Jul 2021 dog",),
    ("dog -2019",),
    ("snowman 12",),
    ("holidey dog",),
    ("itally",),
    ("zoe",),
    ("name:anna",),
    ("name:anna dog",),
    ("folder:italy -snow",),
    ('caption:"two dogs"',),
    ("caption:snow", "--sort", "date"),
    ("caption:xyzzy",),
    ("near:45.5,9.4 dog",),
    ("two dogs cat^0 -anna -xyzzy",),
    ("dog -anna", "--content-only"),
    ("xyzzy",),
    ("doog snw",),
]


NOTHING = [
    (ALL, "--after", "1999", "--before", "2000"),
    (ALL, "--folder", "old/dee"),
    (ALL, "--caption", "nothing"),
    (ALL, "--near", "-45,9"),
    ('"maria anna"',),
    ("caption:xyzzy",),
    ("xyzzy",),
    ("doog snw",),
]
"""What no photo meets; the answers say why."""


@pytest.fixture(scope="module", params=KINDS)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with index_of_its_own(request.param) as one:
        yield one


@pytest.fixture(scope="module")
def made() -> set[str]:
    return set()


@pytest.fixture
def both(lexlip: Run, address: str, made: set[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The command line with an index .lexlip of a library, which is at `address` too; indexed once."""
    there = tmp_path_factory.getbasetemp() / "server_search"
    if not made:
        write_library(there / "photos")
        lexlip("index", there / "photos", "--index", there / "index")
    if address not in made:
        lexlip("index", there / "photos", "--server", address)
        made.add(address)
    Path(".lexlip").symlink_to(there / "index")
    Path("photos").symlink_to(there / "photos")
    return lexlip


def found(lexlip: Run, *arguments: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(lexlip("search", "--json", *arguments).stdout)
    del answer["ms"]
    answer["cursor"] = answer["cursor"] is not None
    return answer


def check_same(here: Any, there: Any) -> None:
    """The same values; numbers of names are equal but for the rounding of a float."""
    if isinstance(here, float):
        assert there == pytest.approx(here, rel=1e-6)
    elif isinstance(here, dict):
        assert list(here) == list(there)
        for name in here:
            check_same(here[name], there[name])
    elif isinstance(here, list):
        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            check_same(one, other)
    else:
        assert here == there


@pytest.mark.parametrize("arguments", ASKED, ids=" ".join)
def test_it_answers_as_the_index_in_a_folder(both: Run, address: str, arguments: tuple[str, ...]) -> None:
    here = found(both, *arguments)
    assert bool(here["hits"]) == (arguments not in NOTHING)
    check_same(here, found(both, *arguments, "--server", address))


def test_scores_are_equal_to_the_last_bit(both: Run, address: str) -> None:
    """Some weights are above 511, which nine bits do not hold."""
    how = (ALL, "-k", 60, "--content-only")
    here, there = found(both, *how), found(both, *how, "--server", address)
    assert [hit["score"] for hit in here["hits"]] == [hit["score"] for hit in there["hits"]]
    index = PhotoIndex.at(address)
    held = index.get(index.ids(A_PHOTO), ["id", "words"])
    assert any(name.endswith(REST) for one in held for name in features(one["words"]))


def test_a_photo_like_another_and_a_picture(both: Run, address: str) -> None:
    ids = [hit["id"] for hit in found(both, ALL, "-k", 60)["hits"]]
    for id in (ids[0], ids[-1], next(id for id in ids if not id.isascii())):
        for more in ((), ("--folder", "2020"), ("--group",)):
            how = ("--similar", id, *more)
            check_same(found(both, *how), found(both, *how, "--server", address))
    how = ("--image", f"photos/{ids[3]}")
    check_same(found(both, *how), found(both, *how, "--server", address))
    said = error(both("search", "--similar", "none.jpg", "--server", address, code=2))
    assert "holds no photo with the id 'none.jpg'" in said


def test_pages(both: Run, address: str) -> None:
    ids, cursor = [], ()
    for _ in range(4):
        answer = json.loads(both("search", ALL, "-k", 9, *cursor, "--json", "--server", address).stdout)
        ids += [hit["id"] for hit in answer["hits"]]
        cursor = ("--cursor", answer["cursor"])
    assert ids == [hit["id"] for hit in found(both, ALL, "-k", 36)["hits"]]


def test_answers_of_several_requests(both: Run, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More hits, and more photos of a list, than the server gives at once."""
    for arguments in ((ALL, "-k", 60), ("caption:dogs", "-k", 60, "--sort", "date"), ("anna dog -xyzzy",)):
        here = found(both, *arguments)
        assert len(here["hits"]) > 7
        with monkeypatch.context() as patched:
            patched.setattr(photo_index, "PAGE", 7)
            patched.setattr(photo_index, "_FEW", 5)
            check_same(here, found(both, *arguments, "--server", address))


def test_photos_without_a_query(both: Run, address: str) -> None:
    """What a page shows: by date, by month, on a map; what it knows of each."""
    with PhotoSearch(".lexlip") as here, ServerSearch(address, "mini") as there:
        for filters in (None, Filters(folder="2020"), Filters(after="2018", caption="dogs")):
            for how in ({"k": 100}, {"k": 5, "order": "oldest"}):
                lists = (one.listed(filters=filters, **how).to_dict() for one in (here, there))
                check_same(*({**one, "cursor": one["cursor"] is None} for one in lists))
            months = [
                [(month.month, month.photos, month.by_file_time) for month in one.timeline(filters).months]
                for one in (here, there)
            ]
            assert months[0] == months[1] != []
            box = Box(8, 44, 12, 48)
            spots = (one.spots(box, 4, 4, filters) for one in (here, there))
            check_same(*([[*spot[:3], *spot.box] for spot in some] for some in spots))
        for id in ("copy.jpg", "été/anna maria 10.jpg"):
            assert vars_of(here.photo(id)) == vars_of(there.photo(id))
            assert here.photo_words(id) == there.photo_words(id)
        with here.now() as (_, one), there.now() as (_, other):
            assert one.facets() == other.facets()
            assert len(one) == len(other)


def vars_of(photo: Photo) -> dict[str, Any]:
    return {name: getattr(photo, name) for name in Photo.__slots__}


def test_paths_and_copies(both: Run, address: str, tmp_path: Path) -> None:
    here = both("search", ALL, "-k", 3, "-f", "paths").stdout
    assert both("search", ALL, "-k", 3, "-f", "paths", "--server", address).stdout == here
    below = ("--photos", tmp_path / "photos", "--server", address)
    copied = both("search", ALL, "-k", 3, "--copy-to", "out", *below, "--json")
    answer = json.loads(copied.stdout)
    real = (tmp_path / "photos").resolve()
    for hit in answer["hits"]:
        assert hit["path"] == f"{real}/{hit['id']}"
        assert Path(answer["copies"][hit["id"]]).read_bytes() == Path("photos", hit["id"]).read_bytes()
    (tmp_path / "other").mkdir()
    other = ("--photos", "other", "--server", address)
    answer = json.loads(both("search", ALL, "-k", 3, "--copy-to", "out2", *other, "--json").stdout)
    assert answer["copies"] == {}
    assert len(answer["not_copied"]) == 3


def test_a_contact_sheet(both: Run, address: str, tmp_path: Path) -> None:
    both("search", ALL, "--html", "here.html")
    how = ("search", ALL, "--server", address, "--html")
    both(*how, "there.html", "--photos", "photos")
    here, there = (Path(name).read_text() for name in ("here.html", "there.html"))
    assert there == here
    assert here.count("data:image/jpeg") == 10
    (tmp_path / "other").mkdir()
    both(*how, "other.html", "--photos", "other")
    assert Path("other.html").read_text().count("cannot be read any more") == 10
    refused = both(*how, "none.html", code=2).stderr
    assert "--html with --server needs the folder of the photos: give --photos FOLDER" in refused


def test_albums(both: Run, address: str) -> None:
    """As in a folder; and two spellings, which two machines may have made at once, are one album."""
    for where in ((), ("--server", address)):
        said = error(both("search", ALL, "--album", "none", *where, code=2))
        assert said == "there is no album 'none'; there is none yet"
        assert found(both, ALL, "-k", 3, "--add-to", "Été", *where)["added"] == 3
        assert found(both, "anna", "-k", 9, "--add-to", "e\u0301te\u0301", *where)["added"] > 0
        assert found(both, "anna", "-k", 9, "--add-to", "Été", *where)["added"] == 0
        assert "is no name for an album" in error(both("search", ALL, "--album", "a/b", *where, code=2))
    here, there = (albums_of(*where) for where in (("index", ".lexlip"), ("server", address)))
    assert here.names() == there.names() == ["Été"]
    ids = here.ids("été")
    assert there.ids("été") == ids
    for arguments in (
        ("dog",),
        (ALL, "-k", 60),
        (ALL, "--album", "été", "--after", "2017"),
        ("anna", "--sort", "date"),
    ):
        asked = (*arguments, *(() if "--album" in arguments else ("--album", "Été")))
        here_found = found(both, *asked)
        check_same(here_found, found(both, *asked, "--server", address))
        assert {hit["id"] for hit in here_found["hits"]} <= set(ids)
    gone = ids[0]
    for albums in (here, there):
        assert albums.holding(gone) == ["Été"]
        assert albums.change("été", ["other.jpg", "other.jpg", ids[3]], [gone, "never.jpg"]) == 1
        assert albums.ids("Été") == [*ids[1:], "other.jpg"]
        assert albums.holding(gone) == []
    index = PhotoIndex.at(address)
    index.write([("album-other", {"album": "été", "member": "last.jpg", "added": "9"})])
    index.refresh()
    assert len(there.names()) == 1
    assert there.ids("Été") == [*ids[1:], "other.jpg", "last.jpg"]
    assert index.count() == len(found(both, ALL, "-k", 60)["hits"])
    there.change("Été", (), there.ids("Été"))
    index.write([("album-other", None)])
    index.refresh()
    here.change("Été", (), here.ids("Été"))
    assert here.names() == there.names() == []


def albums_of(kind: str, where: str) -> Albums:
    return ServerAlbums(PhotoIndex.at(where)) if kind == "server" else Albums(where)


def test_what_a_server_cannot_do(both: Run, address: str) -> None:
    for option in (
        ("--captions",),
        ("--also", "x"),
    ):
        refused = both("search", ALL, *option, "--server", address, code=2).stderr
        assert f"{option[0]} needs an index on this machine: leave it or --server out" in refused
    refused = both("search", ALL, "--photos", "photos", code=2)
    assert "--photos is for --server: leave it out" in refused.stderr


def test_another_model(both: Run, address: str, other_model: Path) -> None:
    said = error(both("search", ALL, "--server", address, "--model", other_model, code=2))
    assert "was made with " in said
    assert "give the model that made it (--model)" in said
