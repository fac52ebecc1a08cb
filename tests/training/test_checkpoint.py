import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anserini_bridge.storage import fields_checksum
from lexlip.config import ObjectiveConfig, OptimConfig
from lexlip.errors import ModelError
from lexlip.indexing.api import index, update
from lexlip.models.lexlip import LexLIP
from lexlip.models.model_folder import write_checksums
from lexlip.search.photo_search import PhotoSearch
from lexlip.training.checkpoint import State, load_checkpoint, save_checkpoint
from lexlip.training.method import Method
from lexlip.training.step import make_optimizer, train_step
from tests.conftest import write_photos
from tests.tiny import CAPTIONS, tiny_batch, tiny_method, tiny_model
from tests.training.small_run import ALONE, OFF, step_of

OBJECTIVE = ObjectiveConfig(mlm=1.0, image_to_text=1.0, text_to_text=1.0, queue=9, anchor_words=1.0)


def trained(
    steps: int = 2, seed: int = 0, objective: ObjectiveConfig = OBJECTIVE
) -> tuple[Method, torch.optim.Optimizer]:
    method = tiny_method(objective, tiny_model(seed=seed), seed).train()
    optimizer = make_optimizer(method, OptimConfig(lr=1e-2))
    for number in range(steps):
        step(method, optimizer, number)
    return method, optimizer


def step(method: Method, optimizer: torch.optim.Optimizer, number: int) -> None:
    batch = tiny_batch(method, epoch=number, first_photo=10 * number)
    assert isinstance(train_step(step_of(method, batch), optimizer), dict)


def save(run: Path, number: int, best: bool = False, state: State | None = None) -> Path:
    save_checkpoint(run, number, *trained(steps=1), OFF, state or State(), ALONE, ("best",) if best else ())
    return run / "checkpoints" / f"step-{number:08d}"


def load(run: Path, steps: int = 0, **changes: Any) -> tuple[int, State, bool]:
    return load_checkpoint(run, *trained(steps, **changes), OFF, ALONE)


@pytest.mark.parametrize("share_decoder", [False, True])
def test_weights_queues_and_optimizer_go_on_as_they_were(tmp_path: Path, share_decoder: bool) -> None:
    objective = replace(OBJECTIVE, share_decoder=share_decoder)
    method, optimizer = trained(objective=objective)
    save_checkpoint(tmp_path, 7, method, optimizer, OFF, State(0.5, 3), ALONE)
    for number in (2, 3):
        step(method, optimizer, number)
    other, its_optimizer = trained(steps=0, seed=1, objective=objective)
    assert load_checkpoint(tmp_path, other, its_optimizer, OFF, ALONE) == (7, State(0.5, 3), True)
    assert int(other.image_queue.count) == 2 * 5
    for number in (2, 3):  # with the dropout that the first had
        step(other, its_optimizer, number)
    assert other.state_dict().keys() == method.state_dict().keys()
    for name, value in method.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    assert (other.image_decoder is other.text_decoder) == share_decoder


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OBJECTIVE, replace(OBJECTIVE, queue=0)),
        (OBJECTIVE, replace(OBJECTIVE, image_to_text=0.0, text_to_text=0.0)),
        (OBJECTIVE, replace(OBJECTIVE, queue=11)),
        (ObjectiveConfig(), OBJECTIVE),
    ],
)
def test_a_checkpoint_of_other_objectives(
    tmp_path: Path, before: ObjectiveConfig, after: ObjectiveConfig
) -> None:
    save_checkpoint(tmp_path, 1, *trained(1, objective=before), OFF, State(), ALONE)
    with pytest.raises(ModelError, match=r"cannot resume|was trained with other objectives") as caught:
        load(tmp_path, objective=after)
    assert "\n" not in str(caught.value)


def test_generators_of_another_number_of_processes_are_left_alone(tmp_path: Path) -> None:
    file = save(tmp_path, 1) / "trainer.json"
    trainer = json.loads(file.read_text())
    trainer["random"] *= 2
    file.write_text(json.dumps({**trainer, "checksum": fields_checksum(trainer)}))
    method, optimizer = trained(steps=0)
    before = torch.get_rng_state()
    assert load_checkpoint(tmp_path, method, optimizer, OFF, ALONE) == (1, State(), False)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_checkpoint_is_a_model_with_a_readable_state(tmp_path: Path) -> None:
    folder = save(tmp_path, 12, best=True, state=State(31.5, 12))
    assert folder.name == "step-00000012"
    vectors = LexLIP.from_pretrained(tmp_path / "best").encode_text(CAPTIONS)
    assert vectors.nnz > 0
    assert (vectors != trained(steps=1)[0].model.encode_text(CAPTIONS)).nnz == 0
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".md", ".txt", ".safetensors"}  # no pickle
    trainer = json.loads((folder / "trainer.json").read_text())
    assert [trainer[key] for key in ("step", "best", "best_step")] == [12, 31.5, 12]


def test_only_the_newest_and_the_best_stay(tmp_path: Path) -> None:
    save(tmp_path, 1, best=True)
    save(tmp_path, 2)
    save(tmp_path, 3)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-00000001", "step-00000003"}
    assert (tmp_path / "best").resolve().name == "step-00000001"
    assert (tmp_path / "last").resolve().name == "step-00000003"
    assert not (tmp_path / "last").readlink().is_absolute()  # the run can be moved
    save(tmp_path, 4, best=True)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000004"]


def test_a_checkpoint_that_an_index_was_made_with_stays(tmp_path: Path) -> None:
    """Training goes on, and the index is still searched and updated with the model that made it."""
    photos = write_photos(tmp_path / "photos", 3)
    save(tmp_path, 1, best=True)
    index(photos, tmp_path / "index", tmp_path / "best", workers=0)
    save(tmp_path, 2, best=True)
    save(tmp_path, 3, best=True)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-00000001", "step-00000003"}
    with PhotoSearch(tmp_path / "index") as search:
        assert search.text(CAPTIONS[0]).terms
    write_photos(photos, 5)
    assert update(tmp_path / "index").added == 2


@pytest.mark.parametrize("at", ["Method.left_behind", "save_file", "json.dumps"])
def test_a_half_written_checkpoint_is_never_picked_up(tmp_path: Path, monkeypatch, at: str) -> None:
    save(tmp_path, 1, best=True)

    def die(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"lexlip.training.checkpoint.{at}", die)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2, best=True)
    assert (tmp_path / "last").resolve().name == (tmp_path / "best").resolve().name == "step-00000001"
    assert load(tmp_path)[0] == 1
    save(tmp_path, 2)
    save(tmp_path, 3)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-00000001", "step-00000003"}  # what was left half-written is gone


def test_a_checkpoint_that_was_written_but_not_linked_is_written_again(tmp_path: Path, monkeypatch) -> None:
    save(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2)
    assert load(tmp_path)[0] == 1
    save(tmp_path, 2)
    assert load(tmp_path)[0] == 2


def flipped(content: bytes) -> bytes:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


@pytest.mark.parametrize("file", ["trainer", "optimizer", "left_behind", "model", "vocabulary"])
def test_damaged_checkpoints(tmp_path: Path, file: str) -> None:
    (damaged,) = save(tmp_path, 1).glob(f"{file}.*")
    content = damaged.read_bytes()
    for changed in (b"\xff", flipped(content)):
        damaged.write_bytes(changed)
        with pytest.raises(ModelError, match="cannot resume from") as caught:
            load(tmp_path)
        assert "\n" not in str(caught.value)
    damaged.unlink()
    with pytest.raises(ModelError, match=f"cannot resume from .*{damaged.name}"):
        load(tmp_path)


def test_a_checkpoint_of_an_older_version(tmp_path: Path) -> None:
    """It has no checksums of what is beside the model."""
    file = save(tmp_path, 1) / "trainer.json"
    trainer = json.loads(file.read_text())
    del trainer["checksum"], trainer["files"]
    file.write_text(json.dumps(trainer))
    assert load(tmp_path)[0] == 1


def test_a_checkpoint_of_another_vocabulary(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    (folder / "vocabulary.txt").write_text("dog\n")
    write_checksums(folder, ["vocabulary.txt"])
    with pytest.raises(ModelError, match="another vocabulary than this config and its photos give"):
        load(tmp_path)
