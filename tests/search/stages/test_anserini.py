"""An index that Anserini made of exported photos, searched as the index that they were exported from."""

from pathlib import Path

import pytest

from lexlip.errors import DataError, ModelError
from lexlip.other_engines.export import export
from lexlip.retrieval.filters import Filters
from lexlip.search.photo_search import PhotoSearch
from tests.reference.anserini import index_with_anserini, stock_search
from tests.search.indexes import Indexed
from tests.tiny import CAPTIONS


@pytest.fixture(scope="module")
def made(indexed: Indexed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Anserini makes of the export of an index."""
    folder = tmp_path_factory.mktemp("anserini")
    export(indexed.words, "anserini", folder / "export")
    return index_with_anserini(folder / "export" / "documents", folder / "index")


def test_hits_are_those_of_the_exported_index_and_of_pyserini(
    indexed: Indexed, made: Path, model_folder: Path
) -> None:
    with PhotoSearch(indexed.words) as photos, PhotoSearch(made, str(model_folder)) as search:
        for caption in CAPTIONS:
            expected, answer = photos.text(caption, content_only=True), search.text(caption)
            assert answer.terms == expected.terms
            assert {hit.id: (hit.score, hit.words) for hit in answer.hits} == {
                hit.id: (hit.score, hit.words) for hit in expected.hits
            }
            whole = {word: round(1000 * weight) for word, weight in answer.terms.items()}
            stock = stock_search(made, whole, k=10)
            assert [round(1e6 * hit.score) for hit in answer.hits] == [score for _, score in stock]
            assert {hit.id for hit in answer.hits} == {id for id, _ in stock}
            assert [hit.path for hit in answer.hits] == [hit.id for hit in answer.hits]
            assert answer.cut is None


def test_pictures_and_photos_of_the_index_search_too(
    indexed: Indexed, made: Path, model_folder: Path
) -> None:
    with PhotoSearch(indexed.words) as photos, PhotoSearch(made, str(model_folder)) as search:
        picture = indexed.photos / "0.jpg"
        for one, other in (
            (photos.image(picture), search.image(picture)),
            (photos.similar("0.jpg"), search.similar("0.jpg")),
        ):
            assert [(hit.id, hit.score) for hit in one.hits] == [(hit.id, hit.score) for hit in other.hits]


def test_what_only_an_index_of_photos_knows_is_refused(made: Path, model_folder: Path) -> None:
    with PhotoSearch(made, str(model_folder)) as search:
        for ask in (
            lambda: search.text("a", filters=Filters(folder="x")),
            lambda: search.text("name:anna"),
            lambda: search.listed(),
        ):
            with pytest.raises(DataError, match="is Anserini's, and knows nothing of its photos"):
                ask()


def test_the_model_must_be_named(indexed: Indexed, made: Path) -> None:
    with pytest.raises(ModelError, match="does not say what model its words are of: name it with --model"):
        PhotoSearch(made)
    with pytest.raises(ModelError, match="dense"):
        PhotoSearch(made, str(indexed.dense_model))
