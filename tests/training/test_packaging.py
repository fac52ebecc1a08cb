import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from lexlip.data import Scenes, Source
from lexlip.errors import DataError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import GRAPH, HONEST_END, check_model
from lexlip.queries.photo_encoder import PhotoEncoder
from lexlip.queries.photo_vectors import PhotoVectors
from lexlip.queries.text_queries import TextQueries
from lexlip.sparse import SENTENCE_TOPK
from lexlip.sparse.balance import NEAREST, scheme_of
from lexlip.sparse.quantize import quantize
from lexlip.sparse.rows import unit_length
from lexlip.sparse.top_words import topk
from lexlip.training import packaging
from lexlip.training.packaging import (
    DOUBT,
    KEPT,
    QUERY_TOPK,
    RIDGE,
    _model_before,
    balance_of,
    draw_balance,
    encode_captioned,
    fit_keywords,
    fit_likely,
    package,
)
from lexlip.words.vocabulary import Vocabulary
from tests.models.test_image_graph import CONVOLUTIONAL
from tests.tiny import CAPTIONS, tiny_balanced, tiny_dense, tiny_model, tiny_photos
from tests.training.run_folders import write_run

SCENES = {"data": {"train": ["scenes:60:1", "scenes:60:7"]}}


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "STEPS", 20)


@pytest.fixture
def run(tmp_path: Path, model_folder: Path, few_steps: None) -> Path:
    """A finished run whose photos are drawn."""
    run = write_run(tmp_path / "runs" / "mine", SCENES, [10], model_folder)
    (run / "best" / "optimizer.safetensors").write_bytes(b"")
    (run / "best" / "trainer.json").write_text("{}")
    return run


def test_a_package_is_a_small_model_with_the_name_of_its_folder(run: Path, tmp_path: Path) -> None:
    """Its bank is of the photos of the run, as many of each source, with the weights of int8."""
    made = package(run, tmp_path / "tiny")
    packaged, model = LexLIP.from_pretrained(tmp_path / "tiny"), LexLIP.from_pretrained(run)
    assert (packaged.name, packaged.identity) == ("tiny", made.identity)
    ours, theirs = (each.encode_text(CAPTIONS).toarray() for each in (packaged, model))
    assert abs(ours - theirs).max() < 0.2
    assert {path.suffix for path in (tmp_path / "tiny").iterdir()} <= {".json", ".md", ".txt", ".safetensors"}
    assert not (tmp_path / "tiny" / "optimizer.safetensors").exists()
    assert check_model(tmp_path / "tiny") == []
    size = sum(path.stat().st_size for path in (tmp_path / "tiny").iterdir())
    assert made.megabytes == size / 1e6
    assert made.words == len(model.vocabulary)
    assert made.needs_torch
    assert not (tmp_path / "tiny" / GRAPH).exists()

    assert packaged.balance is not None
    assert packaged.likely is not None
    typed = TextQueries(tmp_path / "tiny").keywords
    assert typed is not None
    np.testing.assert_array_equal(typed.csr().toarray(), packaged.keywords.toarray())
    photos, captions = packaged.balance
    assert made.captions == photos.queries.shape[0] == 60  # a caption of the half that is no photo
    assert made.photos == captions.queries.shape[0] == 60
    again = draw_balance(packaged, [Scenes(60, seed=1), Scenes(60, seed=7)])
    assert abs(again.photos.queries.astype(int) - photos.queries.astype(int)).max() <= 1
    assert again.photos.typical == pytest.approx(photos.typical, rel=1e-4)


def test_a_model_that_compares_by_dot_product_keeps_its_ranking(tmp_path: Path, few_steps: None) -> None:
    """It has queries and an order of words, but no bank, which would give photos other lengths."""
    tiny_model(metric="dot").save(tmp_path / "saved")
    made = package(tmp_path / "saved", tmp_path / "tiny", ["scenes:40:3"])
    assert (made.metric, made.captions, made.photos) == ("dot", 0, 0)
    packaged = LexLIP.from_pretrained(tmp_path / "tiny")
    assert (packaged.metric, packaged.balance) == ("dot", None)
    assert packaged.keywords is not None
    assert packaged.likely is not None
    assert scheme_of(tmp_path / "tiny") == "dot"
    again = package(tmp_path / "tiny", tmp_path / "again")
    assert LexLIP.from_pretrained(tmp_path / "again").likely is not None
    assert again.metric == "dot"


@pytest.mark.parametrize("place", ["best", "checkpoints/step-00000010"])
def test_a_checkpoint_is_packaged_with_the_photos_of_its_run(run: Path, tmp_path: Path, place: str) -> None:
    made = package(run / place, tmp_path / "tiny")
    assert (made.captions, made.photos) == (60, 60)


def test_photos_may_be_named(run: Path, model_folder: Path, tmp_path: Path) -> None:
    made = package(run, tmp_path / "tiny", ["scenes:40:3"])
    assert (made.captions, made.photos) == (20, 20)
    check_queries(tmp_path / "tiny", Scenes(40, seed=3))
    bare = package(model_folder, tmp_path / "bare")
    assert (bare.captions, bare.photos) == (0, 0)
    assert LexLIP.from_pretrained(tmp_path / "bare").balance is None
    assert package(model_folder, tmp_path / "bare", ["scenes:40:3"]).captions == 20  # replaces the one before


@pytest.mark.slow
def test_photos_are_encoded_without_torch(tmp_path: Path) -> None:
    tiny_model(CONVOLUTIONAL).save(tmp_path / "saved", graph=False)
    assert not package(tmp_path / "saved", tmp_path / "tiny").needs_torch
    photos = tiny_photos(2, 64)
    np.testing.assert_allclose(
        PhotoEncoder(tmp_path / "tiny").encode_image(photos.numpy()).toarray(),
        LexLIP.from_pretrained(tmp_path / "tiny").encode_image(photos).toarray(),
        atol=1e-4,
    )


def test_a_bank_that_is_there_stays_with_its_honest_end(tmp_path: Path, few_steps: None) -> None:
    model = tiny_balanced()
    model.honest_end = {"format": 1}
    model.save(tmp_path / "saved")
    made = package(tmp_path / "saved", tmp_path / "tiny")
    assert (made.captions, made.photos) == (30, 30)
    assert json.loads((tmp_path / "tiny" / HONEST_END).read_text()) == {"format": 1, "model": made.identity}
    package(tmp_path / "saved", tmp_path / "tiny", ["scenes:40:3"])
    assert not (tmp_path / "tiny" / HONEST_END).exists()


def test_the_bank_of_the_start_joins_that_of_the_run(run: Path, tmp_path: Path) -> None:
    """Its 30 captions and 30 photos; not if photos are named, nor if it has other words, or is gone."""
    start = tiny_balanced()
    start.keywords = csr_matrix(np.roll(np.eye(len(start.vocabulary), dtype=np.float32), 1, axis=1))
    start.save(tmp_path / "start")
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("init: null", f"init: {tmp_path / 'start'}"))
    made = package(run, tmp_path / "tiny")
    assert (made.captions, made.photos) == (90, 90)
    assert package(run, tmp_path / "named", ["scenes:60:1"]).captions == 30
    made_of_run, named = (LexLIP.from_pretrained(tmp_path / name) for name in ("tiny", "named"))
    assert made_of_run.keywords is not None
    assert abs(made_of_run.keywords - start.keywords).max() < 1e-2
    assert named.keywords is not None
    assert abs(named.keywords - start.keywords).max() > 0.5
    joined = made_of_run.balance
    for bank, before in zip(joined, start.balance, strict=True):
        difference = bank.queries[:30].astype(int) - before.queries.astype(int)
        assert abs(difference).max() <= 1
    first, second, *others = start.vocabulary.words
    changed = Vocabulary.from_words((second, first, *others), start.tokenizer)
    assert _model_before(run, start.vocabulary) is not None
    assert _model_before(run, changed) is None
    shutil.rmtree(tmp_path / "start")
    assert package(run, tmp_path / "tiny").captions == 60


def test_a_joined_bank_against_plain_products() -> None:
    """The mean of the NEAREST best cosines with all queries, of the typical document; a word has joined."""
    rng = np.random.default_rng(0)
    before = tiny_balanced().balance
    width = before.photos.queries.shape[1] + 1
    texts, images = (csr_matrix(rng.random((20, width)) * (rng.random((20, width)) < 0.3)) for _ in range(2))
    joined = balance_of(texts, images, before)
    queries = [*np.pad(before.photos.units.toarray(), ((0, 0), (0, 1))), *texts.toarray()]
    unit = [query / np.linalg.norm(query) for query in queries]
    cosines = np.array(unit) @ (images.toarray() / np.linalg.norm(images.toarray(), axis=1, keepdims=True)).T
    nearest = np.sort(cosines, axis=0)[-NEAREST:].mean(axis=0)
    assert joined.photos.typical == pytest.approx(np.median(nearest), rel=1e-2)
    np.testing.assert_allclose(joined.photos.units.toarray(), unit, atol=1e-3)


def check_queries(folder: Path, source: Scenes) -> None:
    """The queries of words are fitted to photos as an index has them."""
    packaged = LexLIP.from_pretrained(folder)
    photos, words = encode_captioned(packaged, [source], workers=0), packaged.vocabulary.words
    documents = packaged.balance.photos.documents(photos.vectors, KEPT)
    fitted = fit_keywords(documents, photos.said, packaged.encode_text(words, "words"), words)
    np.testing.assert_allclose(packaged.keywords.toarray(), fitted.toarray(), atol=5e-3)


def test_what_cannot_be_packaged(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    with pytest.raises(
        DataError, match=r"^a bank needs 16 photos and as many .*: name more photos with captions"
    ):
        package(run, folder, ["scenes:9:1"])
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        package(run, folder, ["nowhere"])
    with pytest.raises(ModelError, match=r"^no model "):
        package(tmp_path / "nothing", folder)
    tiny_dense().save(tmp_path / "dense")
    with pytest.raises(ModelError, match=r"holds a dense model, not a lexlip one"):
        package(tmp_path / "dense", folder)
    with pytest.raises(DataError, match=r"holds more than a model, such as best: give another folder"):
        package(run, run)
    shutil.rmtree(run)
    gone = write_run(run, {"data": {"train": ["gone.tar"]}}, [10], tmp_path / "dense")
    shutil.rmtree(gone / "checkpoints" / "step-00000010")
    tiny_model().save(gone / "checkpoints" / "step-00000010")
    with pytest.raises(
        DataError, match=r"mine was trained on: gone\.tar does not exist; name some as SOURCE$"
    ):
        package(gone, folder)
    assert not folder.exists()


def test_a_bank_is_of_captions_and_of_other_photos() -> None:
    model, source = tiny_model(), Scenes(40, seed=3)
    balance = draw_balance(model, [source], seed=1, workers=0)
    [(_, images)] = PhotoVectors(model, source, batch=40, workers=0)
    photos = {row.tobytes() for row in quantize(topk(images, QUERY_TOPK)).toarray().astype(np.int64)}
    drawn = balance.captions.queries.toarray().astype(np.int64)
    assert len(drawn) == balance.photos.queries.shape[0] == 20  # half of the photos, a caption of each other
    assert sum(row.tobytes() in photos for row in drawn) == 20
    again = draw_balance(model, [source], seed=1, workers=0)
    assert (again.photos.queries != balance.photos.queries).nnz == 0
    assert again.photos.typical == balance.photos.typical


def test_too_few_photos() -> None:
    with pytest.raises(ValueError, match=f"a bank needs {NEAREST} photos"):
        draw_balance(tiny_model(), [Scenes(9, seed=3)], workers=0)


WORDS = ["dog", "dogs", "cat", "boat", *(f"word{number}" for number in range(26))]
V, N = len(WORDS), 400


@pytest.fixture(scope="module")
def documents() -> csr_matrix:
    rng = np.random.default_rng(0)
    return unit_length(csr_matrix(rng.random((N, V)) * (rng.random((N, V)) < 0.3)))


def said_of(rows_of: dict[str, list[int]]) -> csr_matrix:
    said = np.zeros((N, V))
    for word, rows in rows_of.items():
        said[rows, WORDS.index(word)] = 1
    return csr_matrix(said)


def plain_query(documents: np.ndarray, rows: list[int], own: np.ndarray) -> np.ndarray:
    """The constrained least squares by a general minimiser, mixed with the word's own weights."""
    more = documents[rows].mean(axis=0) - documents.mean(axis=0)
    within = np.cov(documents, rowvar=False, bias=True) + RIDGE * np.eye(V)
    least = minimize(
        lambda q: (q @ within @ q / 2 - q @ more, within @ q - more),
        np.zeros(V),
        jac=True,
        bounds=[(0, None)] * V,
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    share = len(rows) / (len(rows) + DOUBT)
    mixed = share * least.x / np.linalg.norm(least.x) + (1 - share) * own
    mixed[np.argsort(-mixed, kind="stable")[SENTENCE_TOPK:]] = 0
    return mixed / np.linalg.norm(mixed)


def test_queries_are_constrained_least_squares(documents: csr_matrix) -> None:
    rng = np.random.default_rng(1)
    rows = {"dog": list(range(40)), "dogs": list(range(30, 70)), "cat": [3, 70, 71], "boat": list(range(200))}
    own = unit_length(csr_matrix(np.eye(V) + 0.3 * rng.random((V, V)) * (rng.random((V, V)) < 0.2)))
    found = fit_keywords(documents, said_of(rows), own * 7.0, WORDS).toarray()
    both = list(range(70))  # in the singular or the plural
    for word, right in {"dog": both, "dogs": both, "cat": rows["cat"], "boat": rows["boat"]}.items():
        column = WORDS.index(word)
        expected = plain_query(documents.toarray().astype(float), right, own[column].toarray()[0])
        np.testing.assert_allclose(found[column], expected, atol=2e-3)
    nobody = WORDS.index("word7")  # its own weights alone
    np.testing.assert_allclose(found[nobody], own[nobody].toarray()[0], atol=1e-6)


def test_a_word_finds_the_photos_of_which_it_is_said() -> None:
    """Photos of one kind share three words, none of which is the word itself."""
    rng = np.random.default_rng(2)
    rows = rng.random((N, V)) * (rng.random((N, V)) < 0.2)
    kind = np.arange(N) % 4 == 0
    rows[np.ix_(kind, [10, 11, 12])] += 1
    rows[:, 0] = 0
    documents = unit_length(csr_matrix(rows))
    said = said_of({"dog": np.flatnonzero(kind)[::3].tolist()})
    query = fit_keywords(documents, said, csr_matrix(np.eye(V)), WORDS)[0]
    found = np.argsort(-(documents @ query.T).toarray()[:, 0])[: kind.sum()]
    assert kind[found].mean() > 0.9
    assert query[0, 0] > 0  # the word's own weight, of those photos that have it


def test_queries_are_unit_vectors_of_few_words(documents: csr_matrix) -> None:
    found = fit_keywords(documents, said_of({"cat": [1, 2, 3]}), csr_matrix(np.eye(V)), WORDS)
    assert found.dtype == np.float32
    assert np.diff(found.indptr).max() <= SENTENCE_TOPK
    assert (found.data > 0).all()
    np.testing.assert_allclose(np.linalg.norm(found.toarray(), axis=1), 1, rtol=1e-6)


def test_a_word_without_weight_and_photos_has_no_query(documents: csr_matrix) -> None:
    found = fit_keywords(documents, csr_matrix((N, V)), csr_matrix((V, V)), WORDS)
    assert found.nnz == 0


WIDTH, NUMBER = 6, 2000


def test_a_word_is_as_likely_as_it_is_said() -> None:
    """Words are said with chances that depend on the photo's other words; the fit finds them."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, NUMBER)  # two kinds of photos, each with words of its own, 4 and 5 on all
    vectors = np.zeros((NUMBER, WIDTH), dtype=np.float32)
    vectors[np.arange(NUMBER), kind] = 1
    vectors[np.arange(NUMBER), 2 + kind] = 1
    vectors[:, 4:] = 1
    chance = np.where(kind == 0, 0.9, 0.2)
    said = np.zeros((NUMBER, WIDTH), dtype=np.float32)
    said[:, 4] = rng.random(NUMBER) < chance
    said[:, 5] = rng.random(NUMBER) < 1 - chance
    likely = fit_likely(csr_matrix(vectors), csr_matrix(said), np.ones(NUMBER))
    found = likely.chances(csr_matrix(vectors[[np.argmax(kind == 0), np.argmax(kind == 1)]])).toarray()
    np.testing.assert_allclose(found[:, 4], [0.9, 0.2], atol=0.06)
    np.testing.assert_allclose(found[:, 5], [0.1, 0.8], atol=0.06)


def test_photos_count_by_their_weights() -> None:
    vectors = csr_matrix(np.ones((2, 3), dtype=np.float32))
    said = csr_matrix(np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32))
    likely = fit_likely(vectors, said, np.array([3.0, 1.0]))
    np.testing.assert_allclose(likely.chances(vectors).toarray()[0, :2], [0.75, 0.25], atol=0.06)


def test_the_photos_of_sources_are_encoded_and_their_captions_read() -> None:
    model = tiny_model()
    sources: list[Source] = [Scenes(5, seed=1), Scenes(4, seed=2)]
    vectors, said, weights = encode_captioned(model, sources, workers=0)
    items = [item for source in sources for item in source.items]
    assert weights.tolist() == [len(item.captions) for item in items]
    photos = [source.image(row) for source in sources for row in range(len(source))]
    np.testing.assert_allclose(vectors.toarray(), model.encode_image(photos).toarray(), atol=0.05)
    for row, item in zip(said.toarray(), items, strict=True):
        words = {word for caption in item.captions for word in caption.lower().replace(",", " ").split()}
        held = {word for word, present in zip(model.vocabulary.words, row, strict=True) if present}
        assert held == words & set(model.vocabulary.words)


def test_no_photo_can_be_read() -> None:
    with pytest.raises(ValueError, match="no photo with captions"):
        encode_captioned(tiny_model(), [])
