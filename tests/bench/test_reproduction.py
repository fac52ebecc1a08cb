from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lexlip.bench.reproduction import DeclaredRun, MeasuredRow, Row, Run, declared, rows_of, runs_of, to_train
from lexlip.bench.tables.of_lexlip import ABLATIONS, MODELS
from lexlip.config_files import to_dict
from lexlip.errors import ConfigError, DataError
from tests.training.run_folders import write_run

TABLES = declared().tables
ALL = pytest.mark.parametrize("name", TABLES)


def runs(name: str, preset: str | None = "paper", seeds: int = 1) -> list[Run]:
    return runs_of(rows_of(TABLES[name], preset, seeds, Path("out")))


@ALL
@pytest.mark.parametrize("preset", ["fixed", "faithful", "paper", None])
def test_every_run_has_a_config_that_can_be_read(name: str, preset: str | None) -> None:
    """Each starts from the best checkpoint of the one before it, which comes first."""
    before: list[Path] = []
    for run in runs(name, preset):
        config = run.phases[-1]
        assert (config.seed, config.name) == (0, run.name)
        assert preset is None or config.preset == preset
        assert run.folder == Path(f"out/{preset or 'own'}/{run.name}-0")
        if run.after is not None:
            assert run.after.folder in before
            assert config.init == str(run.after.folder / "best")
        before.append(run.folder)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "scenes"])
def test_a_run_is_validated_once_an_epoch_or_more_often(name: str) -> None:
    for run in runs(name):
        [config] = run.phases
        assert config.data.expected is not None
        assert config.validate_every <= config.data.expected // config.optim.batch, run.name


def test_every_declared_run_is_of_a_table() -> None:
    assert {run.name for name in TABLES for run in runs(name)} == set(declared().runs)


def test_the_rows_of_table_3_leave_out_one_part_each() -> None:
    """In three phases, but for that without the second."""
    chains = {row.name: runs_of([row]) for row in rows_of(TABLES["table-3"], "paper", 1, Path("out"))}
    assert {name: len(chain) for name, chain in chains.items()} == {
        **dict.fromkeys(("LexLIP", *(f"without L_{part}" for part in ("self", "i2t", "t2t", "baco"))), 3),
        "without phase 2": 2,
    }
    full = [run.phases[0] for run in chains["LexLIP"]]
    assert [config.data.sample for config in full] == [1_400_000, 1_400_000, None]
    assert [config.objective.queue for config in full] == [0, 11520, 0]  # the paper fine-tunes without
    left_out = {
        "without L_self": {"mlm": 0},
        "without L_i2t": {"image_to_text": 0},
        "without L_t2t": {"text_to_text": 0},
        "without L_baco": {"contrastive": 0, "flops_image": 0, "flops_text": 0},
    }
    for name, keys in left_out.items():
        ours = [run.phases[0] for run in chains[name]]
        assert ours[0].objective == replace(full[0].objective, **keys)
        for one, other in zip(ours, full, strict=True):
            assert (one.data, one.model, one.optim) == (other.data, other.model, other.optim)
        assert [one.objective for one in ours[1:]] == [other.objective for other in full[1:]]


def test_the_rows_on_real_photos_leave_out_one_part_each() -> None:
    """In three phases of the same photos and steps, but for those without one."""
    chains = {row.name: runs_of([row]) for row in rows_of(TABLES["photos"], None, 1, Path("out"))}
    full = [run.phases[0] for run in chains.pop("all parts")]
    anchors = dict.fromkeys(("anchor_contrastive", "anchor_align", "anchor_words"), 0)
    assert all(getattr(full[0].objective, key) for key in anchors)
    left_out = {
        "without L_self": [{"mlm": 0}],
        "without L_i2t": [{"image_to_text": 0}],
        "without L_t2t": [{"text_to_text": 0}],
        "without L_baco": [{"contrastive": 0, "flops_image": 0, "flops_text": 0}],
        "without anchors": [anchors] * 3,
        "without top-K": [{"topk": ()}] * 3,
        "without a teacher": [{}, {}, {"distillation": 0}],
    }
    for name, keys in left_out.items():
        ours = [run.phases[0] for run in chains.pop(name)]
        keys = [*keys, *[{}] * (3 - len(keys))]
        for one, other, changed in zip(ours, full, keys, strict=True):
            assert one.objective == replace(other.objective, **changed)
            assert (one.data, one.model, one.optim) == (other.data, other.model, other.optim)
    assert {name: [run.phases[0].objective for run in chain] for name, chain in chains.items()} == {
        "without phase 1": [config.objective for config in full[1:]],
        "without phase 2": [full[0].objective, full[2].objective],
    }


def test_the_zero_shot_model_has_not_seen_flickr30k() -> None:
    for run in runs("zero-shot"):
        data = run.phases[0].data
        assert [source.path for source in data.train] == ["data/cc3m", "data/sbu", "data/coco/train-*.tar"]
        assert [source.path for source in data.val] == ["data/coco/val-*.tar"]  # its best checkpoint neither


def test_the_papers_figures_are_those_of_lexlip_table() -> None:
    of_table_1 = {line.name: line.figures for line in MODELS}
    assert of_table_1
    quoted = {tuple(line.figures.values()) for line in (*MODELS, *ABLATIONS)}
    for name in ("table-1", "table-3"):
        for row in TABLES[name].rows:
            assert not row.paper or tuple(row.paper) in quoted


def test_gpu_hours_are_those_that_the_configs_reckon() -> None:
    """13 EFLOP are about 4 hours on 8 A100, says cc4.3m-phase1.yaml; 43 about 12."""
    hours = {run.name: run.gpu_hours for run in runs("table-1")}
    assert hours["cc4.3m-phase1"] == pytest.approx(8 * 4, rel=0.15)
    assert hours["cc14.3m-phase1"] == pytest.approx(8 * 12, rel=0.05)
    assert hours["dense-phase1"] is None


def test_seeds_have_runs_of_their_own() -> None:
    one, three = runs("table-3"), runs("table-3", seeds=3)
    assert len(three) == 3 * len(one) == len({run.folder for run in three})
    assert {run.phases[0].seed for run in three} == {0, 1, 2}
    for run in three:
        assert run.after is None or run.after.seed == run.seed


def test_how_far_a_run_is(tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = rows_of(TABLES["table-3"], "paper", 1, Path("out"), ["optim.lr=0.1"])[-1]
    first, last = runs_of([row])
    assert first.state == last.state == "to train"
    write_run(first.folder, to_dict(first.phases[0]), [10], model_folder)
    (first.folder / "last").mkdir()
    (first.folder / "last" / "trainer.json").write_text('{"ended": false}')
    assert first.state == "begun"
    assert to_train([row]) == [first, last]
    (first.folder / "last" / "trainer.json").write_text('{"ended": true}')
    assert (first.state, last.state) == ("finished", "to train")
    assert to_train([row]) == [last]
    with pytest.raises(ConfigError, match="differs from this config"):
        _ = runs_of(rows_of(TABLES["table-3"], "paper", 1, Path("out")))[0].state
    (first.folder / "last" / "trainer.json").write_text("{")
    with pytest.raises(DataError, match=r"trainer\.json is damaged"):
        _ = first.state


def test_what_a_finished_run_started_from_is_not_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when it was deleted to save disk."""
    rows = rows_of(TABLES["table-3"], "paper", 1, Path("out"))
    finished = ["full", "no-l-self-phase2"]
    monkeypatch.setattr(
        Run, "state", property(lambda run: "finished" if run.name in finished else "to train")
    )
    names = [run.name for run in to_train(rows[:2])]
    assert names == ["no-l-self"]
    assert [run.name for run in to_train(rows[-1:])] == ["full-phase1", "no-phase-2"]


def test_the_mean_and_the_deviation_over_seeds() -> None:
    recalls = np.random.default_rng(0).random((3, 6)) * 100
    row = MeasuredRow(Row("LexLIP", "photos", (), ()), recalls.tolist())
    np.testing.assert_allclose(row.means, recalls.mean(axis=0))
    assert row.deviations is not None
    np.testing.assert_allclose(row.deviations, recalls.std(axis=0, ddof=1))
    assert MeasuredRow(Row("LexLIP", "photos", (), ()), recalls[:1].tolist()).deviations is None


def test_a_run_that_fails_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    broken = Run("broken", 0, None, ("name=broken", "data.train=[nowhere.tar]"), None)
    with pytest.raises(DataError, match="the run runs/broken ended with exit code 2; mend what it says"):
        broken.train(resume=False, processes=1)
    assert DeclaredRun("scenes").eflop is None
