"""What an attack is: a function that does harm once, and raises `Broken` if a promise was not kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

T = TypeVar("T")


class Broken(Exception):
    """A promise was not kept; the message says which."""


class NotRun(Exception):
    """An attack cannot run here; the message says why."""


@dataclass(frozen=True)
class Place:
    """Where a try works.

    Attributes:
        prepared: what `tools.campaign.prepare` made, not to be changed.
        folder: the current folder, which is this try's own, and empty.
        number: of the try, its seed.
    """

    prepared: Path
    folder: Path
    number: int = 0

    @property
    def model(self) -> Path:
        """The prepared model of words."""
        return self.prepared / "words" / "best"

    def in_turn(self, choices: Sequence[T]) -> T:
        """Return the choice of this try, so that as many tries as there are choices take each."""
        return choices[self.number % len(choices)]


Run = Callable[[Random, Place], None]


@dataclass(frozen=True)
class Attack:
    """An attack and how often it is tried.

    Attributes:
        name: FAMILY.NAME.
        run: one try.
        tries: of a campaign with --count 1.
        short: of a campaign with --short; 0 leaves it out there.
        seconds: that a try may take before it counts as hanging.
        missing: says why the attack cannot run here, if it cannot.
        prefix: what the process that attacks is started with.
    """

    name: str
    run: Run
    tries: int
    short: int
    seconds: float = 60
    missing: Callable[[], str | None] = lambda: None
    prefix: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]


MODULES = "kills disk_errors disks_gone damage fuzz_pictures fuzz_sources fuzz_json fuzz_vectors".split()
MODULES += "fuzz_commands fuzz_requests connections races strangers_files strangers".split()
ATTACKS: dict[str, Attack] = {}
"""By name; each of the MODULES adds its own when it is imported, which `choose` does."""


def choose(names: Sequence[str]) -> list[Attack]:
    """Return the attacks with these names, or of these families; all, if there are no names.

    Raises:
        ValueError: nothing has the name.
    """
    for module in MODULES:
        import_module(f"{__package__}.{module}")
    attacks = sorted(ATTACKS.values(), key=_module)  # some may have been imported before
    for name in names:
        if not any(name in (attack.name, attack.family) for attack in attacks):
            raise ValueError(f"there is no attack {name!r}: give one of {', '.join(a.name for a in attacks)}")
    return [attack for attack in attacks if not names or {attack.name, attack.family} & set(names)]


def _module(attack: Attack) -> int:
    """Return the place among MODULES of an attack's function, which may be a partial one."""
    function = getattr(attack.run, "func", attack.run)
    return MODULES.index(function.__module__.rpartition(".")[2])


def attack(name: str, tries: int, short: int, seconds: float = 60, **more: object) -> Callable[[Run], Run]:
    """Make a function an attack; the arguments are those of `Attack`."""

    def add(run: Run) -> Run:
        ATTACKS[name] = Attack(name, run, tries, short, seconds, **more)  # type: ignore[arg-type]
        return run

    return add


@dataclass(frozen=True)
class Try:
    """How one try ended, and why if it did not hold."""

    attack: str
    seed: int
    outcome: Literal["held", "failed", "not run"]
    why: str = ""

    @property
    def again(self) -> str:
        """The command that repeats it alone."""
        return f"python -m tools.campaign --seed {self.seed} --one {self.attack}"


def random_of(attack: Attack, seed: int) -> Random:
    """Return what decides about everything in a try."""
    return Random(f"{attack.name} {seed}")
