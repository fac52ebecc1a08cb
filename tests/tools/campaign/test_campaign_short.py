import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.forks import run_forked
from tools.campaign import prepare, worker
from tools.campaign.contract import Try, choose
from tools.campaign.processes import environment

SHARE = {
    "kills.writer-at-a-moment": 1,
    "damage.bm25": 1,
    "damage.impact": 2,
    "fuzz.pictures": 60,
    "fuzz.picture-bombs": 3,
    "fuzz.tars": 8,
    "fuzz.tables": 15,
    "fuzz.split-files": 8,
    "fuzz.folders": 8,
    "fuzz.side-files": 8,
    "fuzz.options": 3,
    "files.albums": 1,
    "fuzz.writers": 3,
    "fuzz.searchers": 40,
    "fuzz.quantize": 20,
    "fuzz.json": 1,
    "fuzz.queries": 30,
    "fuzz.configs": 20,
    "files.tables": 1,
    "strangers.indexes": 1,
    "races.open-and-close": 1,
    "disks.clocks": 1,
    "connections.endless-bodies": 1,
}
"""Tries of the quicker attacks of each family, from the first seed on."""
SLOW = {"disk-errors"}  # each of their tries starts commands by strace


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.campaign", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)


def test_attacks_of_a_family_or_by_name() -> None:
    every = [attack.name for attack in choose([])]
    chosen = [attack.name for attack in choose(["kills", "races.commands"])]
    assert chosen == [name for name in every if name.startswith("kills.")] + ["races.commands"]
    with pytest.raises(ValueError, match=r"^there is no attack 'kill': give one of kills\.writer-at-a-mom"):
        choose(["kill"])


def test_an_attack_that_does_not_exist_is_named() -> None:
    done = campaign("kill")
    assert done.returncode == 2
    assert "there is no attack 'kill'" in done.stderr


def make_forked(what: str, folder: Path) -> None:
    """Make what attacks need in a process of its own, which has torch loaded."""
    assert what == "all"
    assert run_forked(prepare._make, folder=folder, environment=environment(folder)) == 0


def test_a_share_of_each_family(tmp_path: Path, towns_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tries share one process; a promise that is broken is named, with the command that repeats it."""
    assert {name.partition(".")[0] for name in SHARE} >= {attack.family for attack in choose([])} - SLOW
    monkeypatch.setattr(prepare, "_make_apart", make_forked)
    folder, prepared = tmp_path / "share", prepare.prepare(tmp_path / "prepared")
    shutil.copytree(towns_home, prepared / "towns")
    folder.mkdir()
    tries = [part for name, number in SHARE.items() for part in (name, "0", str(number))]
    given = worker.main, str(prepared), str(folder), *tries
    run_forked(*given, folder=ROOT, environment=environment(folder), output=tmp_path)
    ended = [Try(**json.loads(line)) for line in (tmp_path / "stdout").read_text().splitlines()]
    assert [f"{one.why}: {one.again}" for one in ended if one.outcome == "failed"] == []
    assert len(ended) == sum(SHARE.values()), (tmp_path / "stderr").read_text()[-2000:]


@pytest.mark.slow
def test_the_short_campaign() -> None:
    """A promise that is broken is named, with the command that repeats the attack."""
    done = campaign("--short", "--json")
    found = json.loads(done.stdout)
    assert [f"{one['why']}: {one['again']}" for one in found["failures"]] == []
    assert done.returncode == 0
    assert set(found["attacks"]) == {attack.name for attack in choose([]) if attack.short}
