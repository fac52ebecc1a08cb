from pathlib import Path
from random import Random

from tools.campaign.contract import Attack, Broken, NotRun, Place, random_of
from tools.campaign.worker import one_try


def outcome(tmp_path: Path, error: Exception | None) -> tuple[str, str]:
    def attack(random: Random, place: Place) -> None:
        if error is not None:
            raise error

    ended = one_try(Attack("some.attack", attack, 1, 1), 0, Place(tmp_path, tmp_path))
    return ended.outcome, ended.why


def test_how_a_try_ends(tmp_path: Path) -> None:
    assert outcome(tmp_path, None) == ("held", "")
    assert outcome(tmp_path, Broken("the index is gone")) == ("failed", "the index is gone")
    assert outcome(tmp_path, NotRun("no disk")) == ("not run", "no disk")
    kind, why = outcome(tmp_path, KeyError("x"))
    assert kind == "failed"
    assert why.startswith("KeyError at test_worker.py:")


def test_a_seed_decides_about_everything(tmp_path: Path) -> None:
    attack = Attack("some.attack", lambda random, place: None, 1, 1)
    assert random_of(attack, 3).random() == random_of(attack, 3).random() != random_of(attack, 4).random()
