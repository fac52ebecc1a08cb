import json
import subprocess
import sys

from tests.conftest import ROOT
from tools.campaign.attacks import ATTACKS, choose


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.campaign", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def test_attacks_have_names_of_their_own() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert choose(["kills", "races.forks"])[-1].name == "races.forks"


def test_an_attack_that_does_not_exist_is_named() -> None:
    done = campaign("kill")
    assert done.returncode == 2
    assert "there is no attack 'kill': give one of kills.writer-at-a-moment, " in done.stderr


def test_the_short_campaign() -> None:
    """A promise that is broken is named, with the command that repeats the attack."""
    done = campaign("--short", "--json")
    found = json.loads(done.stdout)
    assert [f"{one['why']}: {one['again']}" for one in found["failures"]] == []
    assert done.returncode == 0
    assert set(found["attacks"]) == {attack.name for attack in ATTACKS if attack.short}
