import numpy as np
import pytest
from scipy.sparse import csr_matrix

from lexlip.errors import ModelError
from lexlip.search.engines.lucene import LuceneEngine
from lexlip.search.open_engine import engine_for, engines_of
from tests.search.engines.vectors import IDS, unit
from tests.tiny import tiny_dense, tiny_model


def test_engines_by_model() -> None:
    assert engines_of(tiny_model()) == ("lucene", "exact")
    assert engines_of(tiny_dense()) == ("flat", "hnsw", "exact")
    assert engine_for(tiny_model())[0] == "lucene"
    assert engine_for(tiny_dense())[0] == "flat"
    assert engine_for(tiny_dense(), "hnsw")[0] == "hnsw"


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_engines_of_a_dense_model_compare_by_its_metric(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_dense()
    monkeypatch.setattr(type(model), "metric", metric)
    rng = np.random.default_rng(0)
    documents, queries = (csr_matrix(rng.normal(size=(rows, 16)).astype(np.float32)) for rows in (200, 9))
    kept = documents.toarray() if metric == "dot" else unit(documents)
    best = np.argsort(-(queries.toarray() @ kept.T), axis=1)[:, :10]
    for name in engines_of(model):
        _, engine_of = engine_for(model, name)
        with engine_of(IDS[:200], documents) as engine:
            ids, _ = engine.search(queries, 10)
        shared = [len({IDS[i] for i in row} & set(found)) / 10 for row, found in zip(best, ids, strict=True)]
        assert shared == [1] * 9 if name != "hnsw" else np.mean(shared) > 0.9


def test_engines_that_do_not_fit() -> None:
    for name in ("flat", "hnsw"):
        with pytest.raises(ModelError) as caught:
            engine_for(tiny_model(), name)  # type: ignore[arg-type]
        assert str(caught.value) == (
            f"the lexlip model 'untrained' has words, so the {name} engine cannot search its vectors;"
            " use one of lucene, exact"
        )
    with pytest.raises(ModelError) as caught:
        engine_for(tiny_dense(), "lucene")
    assert str(caught.value) == (
        "the dense model 'cls' has no words, so the lucene engine cannot search its vectors;"
        " use one of flat, hnsw, exact"
    )


def test_options_reach_the_engine_of_words() -> None:
    model = tiny_model()
    vectors = model.encode_text(["two dogs play in the snow", "a man rides a bike"])
    _, engine_of = engine_for(model, scheme="paper")
    with engine_of(["a", "b"], vectors) as engine:
        assert isinstance(engine, LuceneEngine)
        assert engine.scheme == "paper"
        ids, _ = engine.search(vectors[:1], 2)
    assert ids[0][0] == "a"
