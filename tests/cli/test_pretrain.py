import json
from pathlib import Path

import pytest

from lexlip.config import Config
from lexlip.training import loop
from tests.cli.conftest import Run, error
from tests.docs.test_commands import arguments, parse


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, bool]]:
    """The last phases of the runs that were started, none of which trains."""
    runs: list[tuple[Config, bool]] = []

    def pretrain(phases: list[Config], resume: bool) -> Path:
        runs.append((phases[-1], resume))
        return phases[-1].folder

    monkeypatch.setattr(loop, "pretrain", pretrain)
    return runs


def test_a_config_with_changes(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    Path("mine.yaml").write_text("name: mine\noptim: {steps: 7}\n")
    result = lexlip("pretrain", "mine.yaml", "optim.lr=1e-5", "seed=3", "--resume")
    [(settings, resume)] = started
    assert (settings.name, settings.optim.steps, settings.optim.lr, settings.seed) == ("mine", 7, 1e-5, 3)
    assert resume
    assert result.stdout.splitlines() == [
        "best model: runs/mine/best; measure it with:",
        "lexlip evaluate scenes:400:1000000 --model runs/mine/best",
    ]


def test_what_measures_the_best_model(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    """Lines that the command line understands, with all that the config says of the validation photos."""
    table = "{path: my photos/all.csv, images: 'a{0,1}.tar', split: val}"
    no_words = [f"objective.{name}=0" for name in ("flops_image", "flops_text")]
    printed = {
        ("name=own", f"data.val=[{table}, b.tar]"): [
            "lexlip evaluate 'my photos/all.csv' --model runs/own/best --images 'a{0,1}.tar' --split val",
            "lexlip evaluate b.tar --model runs/own/best",
        ],
        ("model.kind=dense", *no_words): [
            "lexlip evaluate scenes:400:1000000 --model runs/scenes/best --engine exact",
        ],
        ("model.kind=ce", "objective.contrastive=0", "objective.matching=1", *no_words): [
            "lexlip evaluate scenes:400:1000000 --model runs/scenes/best",
        ],
    }
    Path("one.yaml").write_text("name: scenes")
    for overrides, lines in printed.items():
        assert lexlip("pretrain", "one.yaml", *overrides).stdout.splitlines()[1:] == lines
        for line in lines:
            parse(arguments(line) or [])


def test_a_config_that_comes_along(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    assert not Path("configs").exists()
    lexlip("pretrain", "configs/own.yaml", "data.train=[a.tar]", "data.val=[b.tar]")
    [(settings, _)] = started
    assert (settings.name, settings.init, settings.new_words) == ("own", "mini", 3)
    assert "; these come along, as configs/" in error(lexlip("pretrain", "configs/x.yaml", code=2))


def test_changes_alone_are_of_the_default_config(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    lexlip("pretrain", "optim.steps=5", "seed=3")
    lexlip("pretrain")
    (changed, resume), (usual, _) = started
    assert (changed.optim.steps, changed.seed, resume) == (5, 3, False)
    assert changed.data == usual.data
    assert usual.optim.steps != 5


def test_of_several_processes_one_says_where_the_model_is(
    lexlip: Run, started: list[tuple[Config, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert lexlip("pretrain").stdout == ""
    assert len(started) == 1


def test_what_cannot_be_read(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    assert "nowhere.yaml" in error(lexlip("pretrain", "nowhere.yaml", code=2))
    assert error(lexlip("pretrain", "no.such=1", code=2)).startswith("unknown config key no; ")
    assert started == []


def test_ctrl_c_says_how_to_go_on(lexlip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "pretrain", interrupt)
    to_start = "there is no checkpoint yet: start again with the same command"
    to_go_on = "go on from the last checkpoint with the same command and --resume"
    for place, checkpoint, way_on in (
        ("none", None, to_start),
        ("phases", "phase-1/last", to_go_on),
        ("later", "fine-tuning/last", to_go_on),
    ):
        run = tmp_path / place
        run.mkdir()
        if checkpoint is not None:
            (run / checkpoint).mkdir(parents=True)
        result = lexlip("pretrain", f"out={run}", code=130)
        assert result.stderr == f"Error: interrupted: {way_on}\n"


def test_dry_run(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    few = ("data.train=[scenes:100:0]", "data.val=[scenes:20:1000000]")
    lines = lexlip("pretrain", "--dry-run", "--processes", 2, *few).stdout.splitlines()
    assert any(line.startswith("steps ") for line in lines)
    assert not any(line.startswith("missing") for line in lines)
    found = lexlip("pretrain", "--dry-run", *few, "data.val=[nowhere.tar]", "--json", code=2)
    assert found.stderr == "Error: the run cannot start: one thing is missing, see above\n"
    report = json.loads(found.stdout)
    assert report["missing"] == ["data.val: nowhere.tar does not exist"]
    assert list(report["phases"]) == ["phase-1", "phase-2", "fine-tuning"]
    for phase in (report, *report["phases"].values()):
        assert phase["steps"] > 0
        assert phase["parameters"]["all"] > 0
    assert started == []
    assert not Path("runs").exists()


def test_options_of_the_dry_run_alone(lexlip: Run, started: list[tuple[Config, bool]]) -> None:
    for option in (["--json"], ["--processes", 2]):
        assert "go with --dry-run" in lexlip("pretrain", *option, code=2).stderr
    assert started == []
