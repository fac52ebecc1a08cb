import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file

from lexlip.config import (
    Config,
    DataConfig,
    ObjectiveConfig,
    OptimConfig,
    SourceConfig,
    VocabularyConfig,
)
from lexlip.config_files import DEFAULT_CONFIG, from_dict, load_config, to_dict
from lexlip.data import Scenes
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.models.lexlip import LexLIP
from lexlip.training.loop import Log, _captions, make_model, pretrain
from lexlip.training.distributed import Processes
from lexlip.training.trainee import Trainee
from tests.tiny import TINY, WITHOUT_DROPOUT, tiny_photos, tiny_stage

PHASE_1 = {"mlm": 0.5, "image_to_text": 0.5, "text_to_text": 0.5}

SMALL = Config(
    name="small",
    seed=5,
    validate_every=5,
    checkpoint_every=4,
    log_every=1,
    data=DataConfig(
        train=(SourceConfig("scenes:24:0"),),
        val=(SourceConfig("scenes:8:9"),),
        captions_per_image=2,
        crop=0.6,
        workers=0,
    ),
    model=replace(TINY, image=replace(TINY.image, layers=1)),
    objective=ObjectiveConfig(anchor_contrastive=0.5, anchor_words=0.3),
    optim=OptimConfig(epochs=4, batch=8, lr=1e-3, micro_batch=5),
)
WITH_DECODERS = replace(SMALL, objective=replace(SMALL.objective, **PHASE_1))
WITH_QUEUES = replace(SMALL, objective=replace(SMALL.objective, queue=21, momentum=0.7, topk=(4,)))
DENSE = replace(
    SMALL,
    model=replace(TINY, kind="dense"),
    objective=ObjectiveConfig(flops_image=0, flops_text=0, **PHASE_1, queue=21),
)
STEPS = 12

KILLED = """
import json, os, signal, sys
from lexlip.config import Config
from lexlip.config_files import from_dict
from lexlip.training import loop

step = loop.Log.step
for config, last in json.loads(sys.argv[1]):
    def step_and_die(self, number, *arguments):
        step(self, number, *arguments)
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)
    loop.Log.step = step_and_die
    child = os.fork()
    if not child:
        loop.pretrain(from_dict(Config, config))
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""


def with_data(config: Config, **changes: Any) -> Config:
    return replace(config, data=replace(config.data, **changes))


def metrics(run: Path) -> list[dict[str, Any]]:
    """What a run has measured, without what depends on the machine."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("samples_per_s", "memory_mb")} for row in rows]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    return pretrain(replace(SMALL, out=str(tmp_path_factory.mktemp("runs") / "finished")))


def check_same(run: Path, finished: Path) -> None:
    """Both runs logged the same numbers and ended with the same weights, keys and queues, bit for bit."""
    assert metrics(run) == metrics(finished)
    for link in ("last", "best"):
        assert (run / link).resolve().name == (finished / link).resolve().name
        for file in ("model", "left_behind", "optimizer"):
            ours, theirs = (load_file(r / link / f"{file}.safetensors") for r in (run, finished))
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("stopped_at", [4, 6])
def test_a_stopped_run_goes_on_bit_for_bit(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_at: int
) -> None:
    def stop(self: Log, number: int, *arguments: Any) -> None:
        log_step(self, number, *arguments)
        if number > stopped_at:
            raise KeyboardInterrupt

    log_step, config = Log.step, replace(SMALL, out=str(tmp_path / "run"))
    with monkeypatch.context() as patch:
        patch.setattr(Log, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(config)
    check_same(pretrain(config, resume=True), finished)


KILLED_RUNS = {  # and the step after which each is killed; the newest checkpoint is an earlier one
    "another process reads": (with_data(SMALL, workers=1), 11),
    "phase 1": (WITH_DECODERS, 6),
    "phase 2": (WITH_QUEUES, 7),
    "dense": (DENSE, 6),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that were killed."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        (to_dict(replace(config, out=str(folder / name))), last)
        for name, (config, last) in KILLED_RUNS.items()
    ]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(runs)],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_killed_run_goes_on_bit_for_bit_with_another_process_that_reads(
    finished: Path, killed: Path
) -> None:
    name = "another process reads"
    config = replace(KILLED_RUNS[name][0], out=str(killed / name))
    check_same(pretrain(config, resume=True), finished)


@pytest.mark.parametrize("name", ["phase 1", "phase 2", "dense"])
def test_decoders_keys_and_queues_survive_a_kill(name: str, killed: Path, tmp_path: Path) -> None:
    config, last = KILLED_RUNS[name]
    assert len([row for row in metrics(killed / name) if "val" not in row]) == last
    finished = pretrain(replace(config, out=str(tmp_path / "finished")))
    check_same(pretrain(replace(config, out=str(killed / name)), resume=True), finished)
    left_behind = load_file(finished / "last" / "left_behind.safetensors")
    if config.objective.queue:
        assert int(left_behind["image_queue.count"]) == 8 * STEPS  # one enqueue a step, none in validation
        assert int(left_behind["text_queue.count"]) == 2 * 8 * STEPS
    if config.objective.decodes:
        assert any(name.startswith("text_decoder.") for name in left_behind)


@pytest.mark.parametrize("changes", [PHASE_1, {"queue": 21}, {"contrastive": 0.5}])
def test_resuming_with_other_objectives(finished: Path, changes: dict[str, float]) -> None:
    config = replace(SMALL, out=str(finished), objective=replace(SMALL.objective, **changes))
    with pytest.raises(ConfigError, match=r"config\.yaml differs from this config"):
        pretrain(config, resume=True)


LEARNING = Config(
    name="learning",
    validate_every=1000,
    checkpoint_every=1000,
    log_every=4,
    data=DataConfig((SourceConfig("scenes:640:0"),), (SourceConfig("scenes:100:9"),), 2, workers=0),
    model=replace(
        TINY,
        image=replace(
            TINY.image, options={"patch_size": 8, "embed_dim": 64, "depth": 2, "num_heads": 2}, size=48
        ),
        text=replace(TINY.text, options={**TINY.text.options, "hidden_size": 64, "intermediate_size": 128}),
    ),
    objective=ObjectiveConfig(anchor_contrastive=0.5, anchor_words=0.5),
    optim=OptimConfig(epochs=3, batch=32, lr=2e-3, precision="fp32"),
)


def test_a_run_learns_to_describe_scenes_it_has_never_seen(tmp_path: Path) -> None:
    run = pretrain(replace(LEARNING, out=str(tmp_path / "run")))
    *steps, last = metrics(run)
    first, final = (sum(row["loss"] for row in rows) / len(rows) for rows in (steps[:5], steps[-5:]))
    assert final < 0.8 * first
    chance = (1 + 5 + 10) / 3  # mean of R@1, R@5 and R@10 among 100 photos
    recalls = [*last["val"]["t2i"].values(), *last["val"]["i2t"].values()]
    assert sum(recalls) / 6 > 4 * chance
    assert last["val"]["words@10"] > 0.2


@pytest.mark.slow
def test_the_experiment_that_runs_without_a_config(tmp_path: Path) -> None:
    """A few minutes; scenes.yaml says what it reaches."""
    run = pretrain(load_config(DEFAULT_CONFIG, [f"out={tmp_path / 'run'}"]))
    reached = metrics(run)[-1]["val"]
    assert reached["t2i"]["R@1"] > 30  # chance is 0.25
    assert reached["i2t"]["R@1"] > 30
    assert reached["words@10"] > 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning", "ignore::FutureWarning")
def test_compiled_encoders_learn_the_same(tmp_path: Path) -> None:
    """Some minutes, most of them compiling."""
    config = replace(SMALL, model=WITHOUT_DROPOUT, optim=replace(SMALL.optim, epochs=1, precision="fp32"))
    plain, compiled = (
        pretrain(replace(config, out=str(tmp_path / str(on)), optim=replace(config.optim, compile=on)))
        for on in (False, True)
    )
    ours, theirs = ([row["loss"] for row in metrics(run) if "val" not in row] for run in (compiled, plain))
    assert len(ours) == 3
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert LexLIP.from_pretrained(compiled / "best").encode_text(["a red circle"]).nnz > 0


def test_what_a_run_leaves(finished: Path) -> None:
    assert from_dict(Config, yaml.safe_load((finished / "config.yaml").read_text())) == replace(
        SMALL, out=str(finished)
    )
    rows = metrics(finished)
    steps = [row["step"] for row in rows if "val" not in row]
    assert steps == list(range(1, STEPS + 1))
    assert [row["step"] for row in rows if "val" in row] == [5, 10, 12]
    logged = {
        "contrastive",
        "flops_image",
        "flops_text",
        "anchor",
        "words",
        "loss",
        "terms_image",
        "terms_text",
    }
    assert all(set(row) == {"step", "lr", "grad", *logged} for row in rows if "val" not in row)
    assert all(math.isfinite(value) for row in rows if "val" not in row for value in row.values())
    assert set(rows[-1]["val"]) == {
        "images",
        "captions",
        "t2i",
        "i2t",
        "terms_image",
        "terms_text",
        "terms_kept",
        "words@10",
        "mean_recall",
    }
    best = max(
        (row for row in rows if "val" in row),
        key=lambda row: sum([*row["val"]["t2i"].values(), *row["val"]["i2t"].values()]),
    )
    assert (finished / "best").resolve().name == f"step-{best['step']:08d}"
    assert (finished / "last").resolve().name == f"step-{STEPS:08d}"
    assert LexLIP.from_pretrained(finished / "best").name == "small"


def test_a_finished_run_is_left_as_it_is(finished: Path) -> None:
    before = metrics(finished)
    assert pretrain(replace(SMALL, out=str(finished)), resume=True) == finished
    assert metrics(finished) == before
    with pytest.raises(ConfigError, match="holds a run already; go on with --resume"):
        pretrain(replace(SMALL, out=str(finished)))


def test_resuming_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is nothing to resume in"):
        pretrain(replace(SMALL, out=str(tmp_path / "run")), resume=True)
    assert not (tmp_path / "run").exists()


def test_resuming_with_another_config(finished: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml differs from this config"):
        pretrain(replace(SMALL, out=str(finished), seed=6), resume=True)


def test_an_unreadable_photo_is_reported_and_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(8):
        Image.new("RGB", (40, 30), (30 * number, 0, 0)).save(tmp_path / f"{number}.jpg")
        (tmp_path / f"{number}.txt").write_text(f"photo of a red {'dog' if number % 2 else 'cat'}\n")
    (tmp_path / "3.jpg").write_bytes(b"no photo")
    config = replace(
        SMALL, out=str(tmp_path / "run"), optim=replace(SMALL.optim, epochs=1, batch=4, micro_batch=None)
    )
    photos = (SourceConfig(str(tmp_path)),)
    pretrain(with_data(config, train=photos, val=photos))
    assert f"skipped {tmp_path}/3.jpg: not an image" in capsys.readouterr().err


def test_photos_without_captions_cannot_be_trained_on(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "a.jpg")
    config = with_data(
        replace(SMALL, out=str(tmp_path / "run")), train=(SourceConfig(str(tmp_path / "photos")),)
    )
    with pytest.raises(DataError, match="photos has no captions to train on"):
        pretrain(config)


def test_photos_without_captions_cannot_be_validated_with(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "a.jpg")
    config = with_data(
        replace(SMALL, out=str(tmp_path / "run")), val=(SourceConfig(str(tmp_path / "photos")),)
    )
    with pytest.raises(DataError, match=r"photos has no captions to validate with; name other .* data\.val"):
        pretrain(config)


def test_a_gpu_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(*arguments: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 9 GiB.")

    monkeypatch.setattr("lexlip.training.loop.train_step", step)
    with pytest.raises(ConfigError, match=r"^the GPU's memory is too small for a step; lower optim\.micro_b"):
        pretrain(replace(SMALL, out=str(tmp_path / "run")))


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lexlip.training.loss.align", lambda texts, _: texts.sum() * math.nan)
    with pytest.raises(ModelError, match=r"the gradient is not finite at step 0; lower optim\.lr"):
        pretrain(replace(SMALL, out=str(tmp_path / "run"), objective=ObjectiveConfig(anchor_align=1.0)))


def test_starting_from_a_checkpoint(finished: Path) -> None:
    config = replace(SMALL, name="second", init=str(finished / "best"))
    model, vocabulary = make_model(config, Scenes(4, seed=0))
    first = LexLIP.from_pretrained(finished / "best")
    assert all(torch.equal(weight, first.state_dict()[name]) for name, weight in model.state_dict().items())
    assert model.name == "second"
    assert vocabulary == model.vocabulary
    keys = Trainee(model, vocabulary, WITH_QUEUES.objective).keys  # not of random weights
    assert all(torch.equal(weight, first.state_dict()[name]) for name, weight in keys.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"image": replace(SMALL.model.image, resize="squash")},
            r"model\.image\.resize is squash, but init=.*",
        ),
        ({"text": replace(TINY.text, max_tokens=7)}, r"model\.text\.max_tokens is 7, but init=.* with 40"),
        ({"vocabulary": VocabularyConfig("all")}, r"model\.vocabulary\.kind is all, but init=.* with words"),
        ({"special_positions": True}, r"special_positions is True, but init=.* with False"),
        ({"pooling": "mean"}, r"pooling is mean, but init=.* with None"),
    ],
)
def test_starting_from_a_checkpoint_of_another_model(
    finished: Path, changes: dict[str, Any], message: str
) -> None:
    objective = replace(SMALL.objective, flops_image=0, flops_text=0, anchor_contrastive=0, anchor_words=0)
    config = replace(
        SMALL, init=str(finished / "best"), model=replace(SMALL.model, **changes), objective=objective
    )
    with pytest.raises((ConfigError, ModelError), match=message) as caught:
        make_model(config, Scenes(4, seed=0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["dense", "ce", "lightningdot"])
def test_starting_from_the_encoders_of_another_kind(finished: Path, tmp_path: Path, kind: str) -> None:
    losses = {"flops_image": 0.0, "flops_text": 0.0, "anchor_contrastive": 0.0, "anchor_words": 0.0}
    if kind == "ce":
        losses |= {"contrastive": 0.0, "matching": 1.0}
    objective, model = replace(SMALL.objective, **losses), replace(SMALL.model, kind=kind)
    config = replace(SMALL, init=str(finished / "best"), model=model, objective=objective)
    started, _ = make_model(config, Scenes(4, seed=0))
    first = LexLIP.from_pretrained(finished / "best")
    assert (started.kind, started.config) == (kind, model)
    for part in ("image_encoder", "text_encoder"):
        weights = getattr(started, part).state_dict()
        torch.testing.assert_close(weights, getattr(first, part).state_dict(), rtol=0, atol=0)
    started.save(tmp_path)
    with pytest.raises(ModelError, match=f"holds a {kind} model, not a lexlip one"):
        make_model(replace(SMALL, init=str(tmp_path)), Scenes(4, seed=0))


@pytest.mark.parametrize(("before", "after"), [(None, "cls"), ("cls", None)])
def test_one_transformer_may_start_with_another_pooling(tmp_path: Path, before: Any, after: Any) -> None:
    """As where VLDeformer leaves out its mean pooling: a cross-encoder's says nothing of it."""
    model = replace(SMALL.model, pooling=before)
    tiny_stage("ce", model).save(tmp_path)
    objective = replace(SMALL.objective, flops_image=0, flops_text=0, anchor_contrastive=0, anchor_words=0)
    model = replace(model, kind="vldeformer", pooling=after)
    config = replace(SMALL, init=str(tmp_path), model=model, objective=objective)
    assert make_model(config, Scenes(4, seed=0))[0].config.pooling == after


@pytest.mark.parametrize("size", [16, 64])
def test_starting_from_a_checkpoint_of_another_size(finished: Path, size: int) -> None:
    """As from 224 to 384 pixels: positions are interpolated, nothing else changes."""
    image = replace(SMALL.model.image, size=size)
    config = replace(SMALL, init=str(finished / "best"), model=replace(SMALL.model, image=image))
    model, _ = make_model(config, Scenes(4, seed=0))
    first = LexLIP.from_pretrained(finished / "best")
    assert model.config == config.model
    others = {n for n, w in model.state_dict().items() if not torch.equal(w, resized_to(w, first, n))}
    assert others == {"image_encoder.body.pos_embed", "image_encoder.position"}
    tokens = (size // 8) ** 2 + 1
    assert model.image_encoder.positions == tokens
    photos = tiny_photos(2, size)
    with torch.no_grad():
        torch.testing.assert_close(model.raw_image(photos), first.raw_image(photos), rtol=1e-3, atol=1e-4)


def resized_to(weight: torch.Tensor, model: LexLIP, name: str) -> torch.Tensor:
    """The model's own weight of that name, or where it has another shape nothing like it."""
    own = model.state_dict()[name]
    return own if own.shape == weight.shape else torch.full_like(weight, math.nan)


def test_training_goes_on_at_another_size(finished: Path, tmp_path: Path) -> None:
    image = replace(SMALL.model.image, size=48)
    config = replace(
        SMALL,
        out=str(tmp_path / "run"),
        init=str(finished / "best"),
        model=replace(SMALL.model, image=image),
        data=replace(SMALL.data, sizes=(48, 32)),
        optim=replace(SMALL.optim, epochs=2),
    )
    run = pretrain(config)
    assert len([row for row in metrics(run) if "val" not in row]) == 6
    saved = LexLIP.from_pretrained(run / "last")
    assert saved.config.image.size == 48
    assert saved.encode_image(tiny_photos(2, 48)).shape[0] == 2


def test_a_line_that_a_killed_run_left_unfinished_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 4}\n{"step": 9}\n{"ste')
    Log(tmp_path, 4, 10, Processes("cpu")).close()
    assert path.read_text() == '{"step": 1}\n{"step": 4}\n'


def test_words_are_counted_in_a_sample_of_a_large_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scenes(40, seed=0)
    monkeypatch.setattr("lexlip.training.loop.COUNTED_PHOTOS", 12)
    counted = _captions(SMALL, source)
    of_photo = {caption: index for index, item in enumerate(source.items) for caption in item.captions}
    photos = [of_photo[captions[0]] for captions in counted]
    assert counted == [source.items[photo].captions for photo in photos]
    assert len(set(photos)) == 12
    assert photos == sorted(photos)
    assert counted == _captions(SMALL, source)
    assert counted != _captions(replace(SMALL, seed=SMALL.seed + 1), source)
