"""Models that mteb measures, with its own tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexlip.errors import ConfigError, DataError
from lexlip.measure.evaluate import evaluate
from lexlip.measure.recalls import Report
from lexlip.models.dual_encoder import DualEncoder
from lexlip.models.load import load_model
from lexlip.search.engines.exact import engine_for
from lexlip.sparse.balance import usual_scheme
from tests.tiny import tiny_balanced, tiny_dense, tiny_model

mteb = pytest.importorskip("mteb", reason="mteb is not installed: pip install mteb")
datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install mteb")

from lexlip.measure.mteb_model import MtebModel  # noqa: E402
from tests.measure.mteb_tasks import CAPTIONS, IMAGE_TO_TEXT, PHOTOS, SCENES, TEXT_TO_IMAGE, task  # noqa: E402


def scores(model: MtebModel, name: str) -> dict[str, float]:
    result = mteb.evaluate(model, task(name), cache=None, show_progress_bar=False)
    found: dict[str, float] = result.task_results[0].scores["test"][0]
    return found


def saved(model: DualEncoder, folder: Path) -> str:
    model.save(folder)
    return str(folder)


def measured(name: str, topk: int | None) -> Report:
    """What `lexlip evaluate` gives."""
    model = load_model(name)
    scheme = usual_scheme(model.balance)
    _, engine_of = engine_for(model, scheme=scheme)
    return evaluate(model, SCENES, engine_of, topk, workers=0, scheme=scheme)


@pytest.mark.parametrize("make", [tiny_model, tiny_balanced, tiny_dense])
def test_tasks_of_photos_and_captions(make: Any, tmp_path: Path) -> None:
    name = saved(make(), tmp_path / "model")
    model = MtebModel(name, topk=6, device="cpu")
    report = measured(name, model.topk)
    for tasks, recalls in ((TEXT_TO_IMAGE, report.t2i), (IMAGE_TO_TEXT, report.i2t)):
        for one in tasks:
            found = scores(model, one)
            for k in (1, 5, 10):  # any right document among the first k
                assert 100 * found[f"hit_rate_at_{k}"] == pytest.approx(recalls[f"R@{k}"], abs=1e-2)
    model.close()


def test_words_need_no_network(tmp_path: Path) -> None:
    name = saved(tiny_model(), tmp_path / "model")
    network, words = (
        MtebModel(name, query_encoder=encoder, device="cpu") for encoder in ("network", "words")
    )
    assert scores(network, "Flickr30kT2IRetrieval") != scores(words, "Flickr30kT2IRetrieval")


def test_vectors_of_small_tasks(tmp_path: Path) -> None:
    model = MtebModel(saved(tiny_model(), tmp_path / "model"), device="cpu")
    metadata = mteb.get_task("Flickr30kT2IRetrieval").metadata
    texts = [caption for _, caption in CAPTIONS.values()]
    batches = [{"text": texts[:7]}, {"text": texts[7:]}]
    vectors = model.encode(batches, task_metadata=metadata)
    plain = load_model(tmp_path / "model").encode_text(texts).toarray()
    assert np.allclose(vectors, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)
    cosines = model.similarity(vectors, vectors[:3]).numpy()
    assert cosines.shape == (len(texts), 3)
    assert np.allclose(np.diag(cosines), 1, atol=1e-5)
    assert np.allclose(model.similarity_pairwise(vectors[:3], vectors[:3]).numpy(), 1, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_a_zero_shot_task(tmp_path: Path) -> None:
    """Classification of photos by mteb itself, through `encode`."""
    model = MtebModel(saved(tiny_model(), tmp_path / "model"), device="cpu")
    found = mteb.get_task("CIFAR10ZeroShot")
    names = ["ball", "cube", "tree"]
    labels = [row % len(names) for row in range(len(PHOTOS))]
    columns = {
        found.input_column_name: datasets.Image(),
        found.label_column_name: datasets.ClassLabel(names=names),
    }
    rows = dict(zip(columns, (PHOTOS, labels), strict=True))
    found.dataset = {"test": datasets.Dataset.from_dict(rows, datasets.Features(columns))}
    found.data_loaded = True
    words = found.get_candidate_labels()
    result = mteb.evaluate(model, found, cache=None, show_progress_bar=False).task_results[0]
    plain = load_model(tmp_path / "model")
    cosines = unit(plain.encode_image(PHOTOS).toarray()) @ unit(plain.encode_text(words).toarray()).T
    right = float(np.mean(cosines.argmax(axis=1) == labels))
    assert result.scores["test"][0]["accuracy"] == pytest.approx(right)


def unit(rows: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


def test_what_an_index_cannot_do(tmp_path: Path) -> None:
    model = MtebModel(saved(tiny_model(), tmp_path / "model"), device="cpu")
    metadata = mteb.get_task("Flickr30kT2IRetrieval").metadata
    texts = datasets.Dataset.from_dict({"id": ["a"], "text": ["a red ball"]})
    how: dict[str, Any] = {"task_metadata": metadata, "top_k": 3, "encode_kwargs": {}}
    with pytest.raises(ConfigError, match="call index first"):
        model.search(texts, **how)
    with pytest.raises(ConfigError, match="searches all documents"):
        model.search(texts, top_ranked={"a": ["b"]}, **how)
    both = mteb.get_task("FORBI2IRetrieval").metadata.model_copy(
        update={"category": "it2i", "modalities": ["image", "text"]}
    )
    with pytest.raises(DataError, match="image and text in one place"):
        model.search(texts, **{**how, "task_metadata": both})
