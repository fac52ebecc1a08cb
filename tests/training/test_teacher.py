from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.config import ObjectiveConfig
from lexlip.data import Scenes, Source, open_source
from lexlip.errors import ConfigError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.training.distributed import Processes
from lexlip.training.loop import pretrain
from lexlip.training.teacher import FILE, Teacher, find_teacher
from tests.tiny import tiny_balanced, tiny_dense, tiny_model
from tests.training.augmented import AUGMENTED, batches_of
from tests.training.run_folders import metrics
from tests.training.small_run import SMALL, with_data

ALONE = Processes("cpu")


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-12))


def test_scores_are_those_of_whole_vectors_balanced_as_documents() -> None:
    model, source = tiny_balanced(), Scenes(12, seed=4)
    teacher = Teacher.encoding(model, source)
    batch = batches_of(source, replace(AUGMENTED, data=replace(AUGMENTED.data, flip=False)))[0]
    scores = teacher.scores(batch, ALONE)
    photos = [source.image(row) for row in batch.photos.indices.tolist()]
    images = model.encode_image(photos)
    owners = batch.owners.tolist()
    captions = [
        source.items[int(batch.photos.indices[owner])].captions[number]
        for owner, number in zip(owners, batch.numbers.tolist(), strict=True)
    ]
    texts = model.encode_text(captions)
    documents = (
        model.balance.photos.documents(images).toarray(),
        model.balance.captions.documents(texts).toarray(),
    )
    plain_images, plain_texts = images.toarray(), texts.toarray()
    for t, owner in enumerate(owners):
        query = plain_texts[t] / max(np.linalg.norm(plain_texts[t]), 1e-12)
        np.testing.assert_allclose(scores.to_images[t], documents[0] @ query, rtol=1e-4, atol=1e-6)
        query = plain_images[owner] / max(np.linalg.norm(plain_images[owner]), 1e-12)
        np.testing.assert_allclose(scores.to_texts[t], documents[1] @ query, rtol=1e-4, atol=1e-6)


def test_a_dense_model_teaches_by_its_cosines() -> None:
    model, source = tiny_dense(), Scenes(8, seed=4)
    teacher = Teacher.encoding(model, source)
    batch = batches_of(source, AUGMENTED)[0]
    scores = teacher.scores(batch, ALONE)
    image = model.encode_image(source.image(int(batch.photos.indices[0]))).toarray()[0]
    text = model.encode_text(source.items[int(batch.photos.indices[0])].captions[int(batch.numbers[0])])
    assert float(scores.to_images[0, 0]) == pytest.approx(cosine(image, text.toarray()[0]), rel=1e-4)


def test_what_is_kept_is_read_again_and_made_anew_for_other_photos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, folder = tiny_balanced(), tmp_path / "teacher"
    model.save(folder)
    first = find_teacher(str(folder), Scenes(9, seed=1), tmp_path, ALONE)
    made = Teacher.encoding
    monkeypatch.setattr(Teacher, "encoding", lambda *_: pytest.fail("encoded again"))
    again = find_teacher(str(folder), Scenes(9, seed=1), tmp_path, ALONE)
    assert (again.images != first.images).nnz == (again.texts != first.texts).nnz == 0
    np.testing.assert_array_equal(again.text_factors, first.text_factors)
    monkeypatch.setattr(Teacher, "encoding", made)
    assert find_teacher(str(folder), Scenes(11, seed=1), tmp_path, ALONE).images.shape[0] == 11
    whole = (tmp_path / FILE).read_bytes()
    for damaged in (b"damaged", b"", whole[: len(whole) // 2]):
        (tmp_path / FILE).write_bytes(damaged)
        assert find_teacher(str(folder), Scenes(9, seed=1), tmp_path, ALONE).images.shape[0] == 9


def test_photos_of_a_topic_are_near_each_other() -> None:
    rng = np.random.default_rng(0)
    middles = rng.random((4, 30)) ** 4
    rows = np.concatenate([middle + 0.02 * rng.random((16, 30)) for middle in middles]).astype(np.float32)
    order = rng.permutation(64)
    teacher = Teacher("t@1", *_as_images(rows[order]))
    topics = teacher.topics(
        np.arange(64), alike=2, seed=0, processes=ALONE
    )  # 64 photos, 8 groups of 2 to a topic
    assert len(set(topics.tolist())) == 4
    for topic in set(topics.tolist()):
        assert len(set((order[topics == topic] // 16).tolist())) == 1
    assert (teacher.topics(np.arange(64), 2, 0, ALONE) == topics).all()
    assert set(teacher.topics(np.arange(5), 64, 0, ALONE).tolist()) == {0}


def _as_images(rows: np.ndarray) -> tuple:
    from scipy.sparse import csr_matrix

    number = len(rows)
    unit = csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    ones = np.ones(number, dtype=np.float32)
    return unit, unit, np.arange(number + 1), ones, ones


def test_a_run_with_a_teacher_learns_to_agree_and_resumes(tmp_path: Path) -> None:
    tiny_model(seed=3).save(tmp_path / "teacher")
    config = replace(
        SMALL,
        data=replace(SMALL.data, alike=2),
        teacher=str(tmp_path / "teacher"),
        objective=ObjectiveConfig(contrastive=0.0, distillation=1.0, topk=(4,)),
        out=str(tmp_path / "run"),
    )
    pretrain(config)
    losses = [row["distillation"] for row in metrics(tmp_path / "run") if "distillation" in row]
    assert len(losses) == 12
    assert sum(losses[-3:]) < sum(losses[:3])
    assert (tmp_path / "run" / FILE).is_file()


def test_a_run_stays_near_the_vectors_of_its_start(tmp_path: Path) -> None:
    tiny_model(SMALL.model, seed=3).save(tmp_path / "start")
    source, far = open_source(SMALL.data.train[0].path), {}
    photos = [source.image(row) for row in range(8)]
    for weight in (0.0, 200.0):
        config = replace(
            SMALL,
            init=str(tmp_path / "start"),
            teacher=str(tmp_path / "start") if weight else None,
            objective=ObjectiveConfig(vector_distillation=weight),
            optim=replace(SMALL.optim, lr=3e-3),
            out=str(tmp_path / f"run-{weight:g}"),
        )
        pretrain(config)
        before, after = (
            LexLIP.from_pretrained(each).encode_image(photos).toarray()
            for each in (tmp_path / "start", Path(str(config.out)) / "last")
        )
        unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (before, after)]
        far[weight] = 1 - (unit[0] * unit[1]).sum(axis=1).mean()
    assert far[200.0] < far[0.0] / 2
    assert pretrain(config, resume=True) == Path(str(config.out))
    with pytest.raises(ConfigError, match="give teacher=init"):
        replace(config, teacher="mini")


def test_an_unknown_teacher_or_one_without_a_task(tmp_path: Path) -> None:
    config = replace(
        SMALL, teacher="nobody", objective=ObjectiveConfig(distillation=1.0), out=str(tmp_path / "run")
    )
    with pytest.raises(ModelError, match="nobody"):
        pretrain(config)
    for wrong in ({"teacher": "mini"}, {"data": replace(SMALL.data, alike=2)}):
        with pytest.raises(ConfigError, match="teacher is the model for"):
            replace(SMALL, **wrong)
    with pytest.raises(ConfigError, match="alike is for epochs of photos"):
        with_data(SMALL, alike=2, epoch="pairs", captions_per_image=1)


def test_unreadable_photos_score_nothing(tmp_path: Path) -> None:
    source = _with_a_broken_photo(tmp_path)
    teacher = Teacher.encoding(tiny_model(), source)
    empty = [row for row in range(len(source)) if teacher.images[row].nnz == 0]
    assert [source.items[row].id for row in empty] == ["broken.jpg"]
    assert teacher.texts.shape[0] == sum(len(item.captions) for item in source.items)


def _with_a_broken_photo(folder: Path) -> Source:
    lines = []
    for row, item in enumerate((scenes := Scenes(3, seed=2)).items):
        scenes.image(row).save(folder / f"{row}.png")
        lines.append(f"{row}.png\t{item.captions[0]}")
    (folder / "broken.jpg").write_bytes(b"no photo")
    lines.append("broken.jpg\ta cat")
    (folder / "captions.tsv").write_text("\n".join(lines) + "\n")
    return open_source(str(folder / "captions.tsv"))
