"""One query finds photos by what they show and by what people called them."""

import math
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anserini_bridge import CorruptIndex
from lexlip.data import Scenes, open_source
from lexlip.indexing.update import update_photos
from lexlip.queries.query_language import QueryError
from lexlip.retrieval.answer import Answer
from lexlip.retrieval.filters import Filters
from lexlip.search.answering import NoSuchPhoto
from lexlip.search.named_photos import LEAST_NAMED, NAMED_POWER
from lexlip.search.photo_search import PhotoSearch
from lexlip.search.stages.impact import ImpactStage
from tests.data.pictures import jpeg, write
from tests.search.indexes import LISTED, Indexed, change_header, index_bm25, index_dense, index_words

FILES = {
    "2019 Qatar/IMG_0001.jpg": "",
    "2019 Qatar/IMG_0002.jpg": "",
    "2020 Qatar/IMG_0003.jpg": "",
    "Zoë/party2019.jpg": "",
    "plain/cc_00111.jpg": "a zebra on a lawn",
    "plain/cc_00112.jpg": "Zoë and a zebra",
    "plain/cc_00113.jpg": "",
    "plain/東京タワー.jpg": "",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    scenes = Scenes(len(FILES), seed=5)
    for number, (id, caption) in enumerate(FILES.items()):
        file = folder / id
        file.parent.mkdir(exist_ok=True)
        scenes.image(number).save(file)
        if caption:
            file.with_suffix(".txt").write_text(caption, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def index(library: Path, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index_words(model_folder, library, tmp_path_factory.mktemp("index") / "index")


@pytest.fixture(scope="module")
def photos(index: Path) -> Iterator[PhotoSearch]:
    with PhotoSearch(index) as search:
        yield search


def ids(answer: Answer) -> list[str]:
    return [hit.id for hit in answer.hits]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("qatar", {"2019 Qatar/IMG_0001.jpg", "2019 Qatar/IMG_0002.jpg", "2020 Qatar/IMG_0003.jpg"}),
        ("2019/qatar", {"2019 Qatar/IMG_0001.jpg", "2019 Qatar/IMG_0002.jpg"}),
        ("cc_00113.jpg", {"plain/cc_00113.jpg"}),
        ("CC_00113", {"plain/cc_00113.jpg"}),
        ("IMG_0002", {"2019 Qatar/IMG_0002.jpg"}),
        ("Zoë", {"Zoë/party2019.jpg", "plain/cc_00112.jpg"}),
        ("zoe\u0308", {"Zoë/party2019.jpg", "plain/cc_00112.jpg"}),
        ("zoe", {"Zoë/party2019.jpg", "plain/cc_00112.jpg"}),
        ("party", {"Zoë/party2019.jpg"}),
        ("京タ", {"plain/東京タワー.jpg"}),
        ("the zebras", {"plain/cc_00111.jpg", "plain/cc_00112.jpg"}),
        ('"zebra on a lawn"', {"plain/cc_00111.jpg"}),
    ],
)
def test_what_people_called_a_photo_comes_first(photos: PhotoSearch, query: str, first: set[str]) -> None:
    answer = photos.text(query, len(FILES))
    assert set(ids(answer)[: len(first)]) == first
    for hit in answer.hits:
        assert hit.id not in first or any(":" in word for word in hit.words)
        assert sum(hit.words.values()) == pytest.approx(hit.score)
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    alone = photos.text(query, len(FILES), content_only=True)
    assert not any(":" in word for hit in alone.hits for word in hit.words)


def test_a_whole_match_adds_the_best_score_and_a_part_of_names_its_share(photos: PhotoSearch) -> None:
    """By the definition: shares of log(1 + N / n); few words count if they are names that the model lacks."""
    answer, alone = photos.text("qatar dog", 8), photos.text("qatar dog", 8, content_only=True)
    content = {hit.id: hit.score for hit in alone.hits}
    rare = math.log(1 + 8 / 3), math.log(1 + 8 / 0.5)
    share = rare[0] / sum(rare)
    assert share < LEAST_NAMED
    best = max([alone.hits[0].score, *(end for end in (alone.cut, alone.well) if end is not None)])
    for hit in answer.hits:
        added = best * share**NAMED_POWER if "Qatar" in hit.id else 0
        assert hit.score == pytest.approx(content.get(hit.id, 0) + added)


def test_pages_have_each_photo_once(photos: PhotoSearch) -> None:
    whole = ids(photos.text("qatar dog", 8))
    answer, found = photos.text("qatar dog", 2), []
    while True:
        found += ids(answer)
        if answer.cursor is None:
            break
        answer = photos.text("qatar dog", 2, cursor=answer.cursor)
    assert found == whole
    assert len(set(found)) == len(found)
    assert ids(photos.texts(["qatar dog", "party"], 3)[0]) == whole[:3]


def test_filters_and_words_left_out_hold_for_names_too(photos: PhotoSearch) -> None:
    assert set(ids(photos.text("qatar", 8, filters=Filters(folder="2020 Qatar")))) <= {
        "2020 Qatar/IMG_0003.jpg"
    }
    held = set(ids(photos.words({"dog": 1}, 8)))
    assert not held & set(ids(photos.text("qatar -dog", 8)))
    assert "2019 Qatar/IMG_0001.jpg" not in ids(photos.similar("2019 Qatar/IMG_0001.jpg", 8))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("name:cc_00113", ["plain/cc_00113.jpg"]),
        ("NAME:IMG", ["2019 Qatar/IMG_0001.jpg", "2019 Qatar/IMG_0002.jpg", "2020 Qatar/IMG_0003.jpg"]),
        ('folder:"2019 qatar"', ["2019 Qatar/IMG_0001.jpg", "2019 Qatar/IMG_0002.jpg"]),
        ("folder:2019/qatar", ["2019 Qatar/IMG_0001.jpg", "2019 Qatar/IMG_0002.jpg"]),
        ("caption:zebra", ["plain/cc_00111.jpg", "plain/cc_00112.jpg"]),
        ("caption:zebra caption:Zoë", ["plain/cc_00112.jpg"]),
        ('caption:"a zebra on"', ["plain/cc_00111.jpg"]),
        ("name:qatar", []),
    ],
)
def test_a_field_narrows(photos: PhotoSearch, query: str, wanted: list[str]) -> None:
    alone = photos.text(query, 8)
    assert ids(alone) == wanted
    together = ids(photos.text(f"two dogs {query}", 8))
    assert set(together) <= set(wanted)
    assert together == [id for id in ids(photos.text("two dogs", 8, content_only=True)) if id in wanted]
    if not wanted:
        assert alone.unmet == "no photo has 'qatar' in its name"


def test_a_path_on_the_disk_is_that_of_a_folder_of_the_index(photos: PhotoSearch, library: Path) -> None:
    wanted = ["2019 Qatar/IMG_0001.jpg", "2019 Qatar/IMG_0002.jpg"]
    assert ids(photos.text(f'folder:"{library}/2019 Qatar"', 8)) == wanted
    assert ids(photos.text('dogs folder:"/mnt/other disk/2019 Qatar/"', 8)) == wanted
    assert len(ids(photos.text(f"folder:{library}/plain", 8))) == 4
    assert ids(photos.text(f"folder:{library}/none", 8)) == []
    for within in ("2019 Qatar", "2019 Qatar/", "plain"):
        found = ids(photos.text(f'folder:"{library}/2019 Qatar"', 8, filters=Filters(folder=within)))
        assert found == (wanted if within != "plain" else [])
    for root in (f"{library}", f"{library}/", f"{library}/plain/.."):
        assert ids(photos.text(f"folder:{root}", 9)) == sorted(FILES)
        assert ids(photos.text(f"dogs folder:{root}", 3)) == ids(photos.text("dogs", 3))
    assert ids(photos.text(f"folder:{library} name:zebra", 9)) == []


def test_a_path_on_the_disk_is_of_no_other_folder_with_its_names(tmp_path: Path, model_folder: Path) -> None:
    folder, index = tmp_path / "photos", tmp_path / "index"
    for name in (
        "2019/a.jpg",
        "2019/b/c.jpg",
        "2019 Qatar/a.jpg",
        "b/2019/a.jpg",
        "photos/a.jpg",
        "!!/a.jpg",
        "a.jpg",
    ):
        write(folder / name, jpeg())
    with PhotoSearch(index_words(model_folder, folder, index)) as photos:
        assert ids(photos.text(f"folder:{folder}/2019", 8)) == ["2019/a.jpg", "2019/b/c.jpg"]
        assert ids(photos.text(f"folder:{folder}/2019 dogs", 8)) == ["2019/a.jpg", "2019/b/c.jpg"]
        assert len(ids(photos.text("folder:2019", 8))) == 4
        assert ids(photos.text(f"folder:{folder}/!!", 8)) == ["!!/a.jpg"]
        how = Filters(folder="2019")
        assert ids(photos.text(f"folder:{folder}/2019/b", 8, filters=how)) == ["2019/b/c.jpg"]
        assert len(ids(photos.text(f"folder:{folder}", 8))) == 7  # and not photos/photos
        for one, other in (("2019", "2019/b"), ("2019/b", "2019")):
            both = f"folder:{folder}/{one} folder:{folder}/{other}"
            assert ids(photos.text(both, 8)) == ["2019/b/c.jpg"]
        both = photos.text(f"folder:{folder}/2019 folder:{folder}/b", 8)
        assert both.hits == []  # and not 2019/b
        assert both.unmet == "no photo meets all the filters at once: leave one out"
        found = photos.similar(f"{folder}/a.jpg", 8)  # and not photos/a.jpg
        assert found.query == "a.jpg"


def test_what_is_similar_to_a_photo_by_the_path_of_its_file(
    photos: PhotoSearch, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library / "plain")
    (library.parent / "link").symlink_to(library)
    right = photos.similar("plain/cc_00111.jpg", 8)
    for path in (
        library / "plain/cc_00111.jpg",
        library.parent / "link/plain/cc_00111.jpg",
        "../2019 Qatar/../plain/cc_00111.jpg",
        "cc_00111.jpg",
    ):
        found = photos.similar(str(path), 8)
        assert ids(photos.similar(path, 8)) == ids(found)
        assert (found.query, found.hits) == (right.query, right.hits)
    for path in (
        "/elsewhere/plain/cc_00111.jpg",
        f"{library}/plain/none.jpg",
        "none.jpg",
        f"{library}/plain/\0/cc_00111.jpg",
    ):
        with pytest.raises(NoSuchPhoto, match="give the id of a hit"):
            photos.similar(path)


@pytest.mark.parametrize("query", ["name:", "dog folder:", 'caption:""', "name:... dog"])
def test_a_field_without_a_word_is_named(photos: PhotoSearch, query: str) -> None:
    with pytest.raises(QueryError, match=r"at character \d+ of the query needs a word after it"):
        photos.text(query)


def test_a_colon_that_is_no_field_is_text(photos: PhotoSearch) -> None:
    assert photos.text("note: two dogs, nickname:rex http://a.b/c").query.startswith("note:")


def test_slips_and_forms_of_words_that_the_model_knows_are_no_names(
    library: Path, model_folder: Path, tmp_path: Path
) -> None:
    for name in ("children.jpg", "shirt.jpg", "anna.jpg"):
        shutil.copy(library / "plain/cc_00113.jpg", tmp_path / name)
    with PhotoSearch(index_words(model_folder, tmp_path, tmp_path / "index")) as search:
        assert search.stage.unknown("children childrem shirt shirts anna") == ["childrem", "shirts", "anna"]

        def named(query: str) -> set[str]:
            hits = search.text(query, 3).hits
            return {hit.id for hit in hits if any(":" in word for word in hit.words)}

        assert (named("childrem"), named("shirts")) == ({"children.jpg"}, {"shirt.jpg"})
        assert named("childrem on a road") == named("shirts on a road") == set()
        assert named("anna on a road") == {"anna.jpg"}


def test_unknown_words_that_are_names_are_understood(photos: PhotoSearch) -> None:
    assert photos.text("qatar").not_understood == []
    assert photos.text("qatar xyzzy").not_understood == ["xyzzy"]
    assert photos.text("qatar", content_only=True).not_understood == ["qatar"]


def test_a_word_that_people_gave_leaves_photos_out(photos: PhotoSearch) -> None:
    every = set(ids(photos.text("two dogs", 8)))
    answer = photos.text("two dogs -qatar", 8)
    assert set(ids(answer)) == {id for id in every if "Qatar" not in id}
    assert answer.unknown == []
    assert set(ids(photos.text("two dogs -Zoe -IMG", 8))) == every & {
        "plain/cc_00111.jpg", "plain/cc_00113.jpg", "plain/東京タワー.jpg"
    }  # fmt: skip
    assert ids(photos.text("name:cc -zebra", 8)) == ["plain/cc_00113.jpg"]
    negated = photos.text("a zebra without lawn", 8)  # whose caption may say so, too
    assert negated.without == ["lawn", "lawns"][: len(negated.without)] != []
    assert "plain/cc_00111.jpg" in ids(negated)
    alone = photos.text("two dogs -qatar", 8, content_only=True)
    assert (set(ids(alone)), alone.unknown) == (every, ["qatar"])
    assert photos.text("two dogs -xyzzy", 8).unknown == ["xyzzy"]


def test_a_word_of_another_language_leaves_out_what_was_given_as_it_is_typed(
    photos: PhotoSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = set(ids(photos.words({"dog": 1}, 8)))
    monkeypatch.setattr(ImpactStage, "read", lambda self, query: replace(query, without=("dog",)))
    answer = photos.text("two dogs -qatar", 8)
    assert (answer.without, answer.unknown) == (["dog"], [])
    assert set(ids(answer)).isdisjoint({*held, *(id for id in FILES if "Qatar" in id)})


def test_a_word_that_is_dropped_is_not_looked_for_in_names(photos: PhotoSearch) -> None:
    assert not any(hit.words.keys() & {"folder:qatar"} for hit in photos.text("two dogs qatar^0", 8).hits)
    assert any(hit.words.keys() & {"folder:qatar"} for hit in photos.text("two dogs qatar^2", 8).hits)
    name = {"name:東京タワー"}
    assert any(hit.words.keys() & name for hit in photos.text("東京タワー", 8).hits)
    assert not any(hit.words.keys() & name for hit in photos.text("two dogs 東京タワー^0", 8).hits)
    assert not any(hit.words.keys() & {"folder:qatar"} for hit in photos.text("two dogs QATAR^0", 8).hits)


@pytest.mark.parametrize("kind", ["dense", "bm25"])
def test_indexes_of_other_kinds_are_only_narrowed(
    indexed: Indexed, library: Path, tmp_path: Path, kind: str
) -> None:
    made = tmp_path / kind
    if kind == "dense":
        index_dense(indexed.dense_model, library, made)
    else:
        index_bm25(library, made)
    with PhotoSearch(made) as search:
        assert not any(":" in word for hit in search.text("qatar zebra").hits for word in hit.words)
        assert ids(search.text("zebra name:00112")) == ["plain/cc_00112.jpg"]
        assert ids(search.text("caption:zebra")) == ["plain/cc_00111.jpg", "plain/cc_00112.jpg"]


def test_an_update_knows_new_names_and_forgets_old_ones(
    library: Path, index: Path, model_folder: Path, tmp_path: Path
) -> None:
    folder, made = tmp_path / "photos", tmp_path / "index"
    shutil.copytree(library, folder)
    index_words(model_folder, folder, made)
    (folder / "2020 Qatar/IMG_0003.jpg").rename(folder / "plain/oman.jpg")
    shutil.copy(folder / "plain/cc_00113.jpg", folder / "plain/yemen.jpg")
    with PhotoSearch(made) as search:
        assert "plain/oman.jpg" not in ids(search.text("oman"))
        update_photos(open_source(folder), LISTED, made, workers=0)
        search.refresh()
        assert ids(search.text("name:oman")) == ["plain/oman.jpg"]
        assert ids(search.text("name:yemen")) == ["plain/yemen.jpg"]
        assert len(ids(search.text("folder:qatar"))) == 2


def test_an_older_index_answers_by_content_and_learns_names_by_an_update(
    library: Path, index: Path, tmp_path: Path
) -> None:
    old = shutil.copytree(index, tmp_path / "index")
    (file,) = old.glob("data-*/photos-*.sqlite")
    with sqlite3.connect(file) as table:
        table.execute("DROP TABLE given")
        table.execute("DROP TABLE numbers")
    table.close()
    forget_checksum(old, file)
    with PhotoSearch(old) as search:
        assert search.text("qatar").hits == search.text("qatar", content_only=True).hits
        with pytest.raises(Exception, match=r"too old for name: run `lexlip index` again"):
            search.text("name:qatar")
    update_photos(open_source(library), LISTED, old, workers=0)
    with PhotoSearch(old) as search:
        assert len(ids(search.text("folder:qatar"))) == 3


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE given SET photos = x'00'",
        "UPDATE given SET photos = 'text'",
        "UPDATE numbers SET number = number << 40",
        "UPDATE numbers SET id = x'00'",
    ],
)
def test_damaged_names_are_named(index: Path, tmp_path: Path, damage: str) -> None:
    broken = shutil.copytree(index, tmp_path / "index")
    (file,) = broken.glob("data-*/photos-*.sqlite")
    with sqlite3.connect(file) as table:
        table.execute(damage)
    table.close()
    forget_checksum(broken, file)
    with PhotoSearch(broken) as search, pytest.raises(CorruptIndex, match="build the index again"):
        search.text("qatar")


def forget_checksum(index: Path, file: Path) -> None:
    """Have the index's own checksum of a file say what the file is now."""
    from anserini_bridge import read_header
    from anserini_bridge.storage import checksum

    change_header(index, files={**read_header(index).files, file.name: checksum(file)})
