import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lexlip.config import OptimConfig
from lexlip.errors import ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.training.checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from lexlip.training.step import make_optimizer
from tests.tiny import CAPTIONS, tiny_model, tiny_photos

CPU = torch.device("cpu")


def trained(steps: int = 2, seed: int = 0) -> tuple[LexLIP, torch.optim.Optimizer]:
    model = tiny_model(seed=seed)
    optimizer = make_optimizer(model, OptimConfig(lr=1e-2))
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model: LexLIP, optimizer: torch.optim.Optimizer) -> None:
    ids, mask = model.text_encoder.tokenize(CAPTIONS)
    outputs = model(tiny_photos(2), ids, mask, model.words_present(CAPTIONS))
    torch.stack([output.square().mean() for output in outputs.values()]).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def save(run: Path, number: int, best: bool = False, **state: Any) -> Path:
    model, optimizer = trained()
    return save_checkpoint(run, number, model, optimizer, state, best)


def test_weights_and_optimizer_go_on_as_they_were(tmp_path: Path) -> None:
    model, optimizer = trained()
    save_checkpoint(tmp_path, 7, model, optimizer, {"best": 0.5, **random_state(CPU)}, best=False)
    other, its_optimizer = trained(steps=0, seed=1)
    state = load_checkpoint(tmp_path, other, its_optimizer)
    assert (state["step"], state["best"]) == (7, 0.5)
    for m, o in ((model, optimizer), (other, its_optimizer)):
        set_random_state(state, CPU)
        step(m.train(), o)
    for name, weight in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight), name


def test_a_checkpoint_is_a_model(tmp_path: Path) -> None:
    folder = save(tmp_path, 3, best=True)
    vectors = LexLIP.from_pretrained(tmp_path / "best").encode_text(CAPTIONS)
    assert (vectors != trained()[0].encode_text(CAPTIONS)).nnz == 0
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".txt", ".safetensors"}  # no pickle


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


@pytest.mark.parametrize("at", ["LexLIP.save", "save_file", "json.dumps"])
def test_a_half_written_checkpoint_is_never_picked_up(tmp_path: Path, monkeypatch, at: str) -> None:
    save(tmp_path, 1, best=True)

    def die(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"lexlip.training.checkpoint.{at}", die)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2, best=True)
    assert (tmp_path / "last").resolve().name == (tmp_path / "best").resolve().name == "step-00000001"
    assert load_checkpoint(tmp_path, *trained(steps=0))["step"] == 1
    save(tmp_path, 2)
    save(tmp_path, 3)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-00000001", "step-00000003"}  # what was left half-written is gone


def test_a_checkpoint_that_was_written_but_not_linked_is_written_again(tmp_path: Path, monkeypatch) -> None:
    save(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2)
    assert load_checkpoint(tmp_path, *trained(steps=0))["step"] == 1
    save(tmp_path, 2)
    assert load_checkpoint(tmp_path, *trained(steps=0))["step"] == 2


@pytest.mark.parametrize(
    "file", ["trainer.json", "optimizer.safetensors", "model.safetensors", "vocabulary.txt"]
)
def test_damaged_checkpoints(tmp_path: Path, file: str) -> None:
    folder = save(tmp_path, 1)
    (folder / file).write_bytes(b"\xff")
    with pytest.raises(ModelError, match="cannot resume from") as caught:
        load_checkpoint(tmp_path, *trained(steps=0))
    assert "\n" not in str(caught.value)
    (folder / file).unlink()
    with pytest.raises(ModelError, match=f"cannot resume from .*{file}"):
        load_checkpoint(tmp_path, *trained(steps=0))


def test_a_checkpoint_of_another_vocabulary(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    (folder / "vocabulary.txt").write_text("dog\n")
    with pytest.raises(ModelError, match="another vocabulary than this config and data make"):
        load_checkpoint(tmp_path, *trained(steps=0))


def test_the_state_is_readable(tmp_path: Path) -> None:
    folder = save(tmp_path, 12, best=True, best_step=12)
    assert json.loads((folder / "trainer.json").read_text()) == {"step": 12, "best_step": 12}
    assert folder.name == "step-00000012"
