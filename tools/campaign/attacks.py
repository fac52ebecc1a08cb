"""All attacks, by family."""

from __future__ import annotations

from collections.abc import Sequence

from . import (
    connections,
    damage,
    disk_errors,
    disks_gone,
    flips,
    fuzz_commands,
    fuzz_json,
    fuzz_pictures,
    fuzz_requests,
    fuzz_sources,
    fuzz_vectors,
    kills,
    kills_of_commands,
    races,
    races_of_commands,
    strangers,
    strangers_files,
)
from .contract import Attack

FAMILIES = (
    kills,
    kills_of_commands,
    disk_errors,
    disks_gone,
    flips,
    damage,
    fuzz_pictures,
    fuzz_sources,
    fuzz_json,
    fuzz_vectors,
    fuzz_commands,
    fuzz_requests,
    connections,
    races,
    strangers_files,
    strangers,
    races_of_commands,
)
ATTACKS: tuple[Attack, ...] = tuple(attack for module in FAMILIES for attack in module.ATTACKS)


def choose(names: Sequence[str]) -> list[Attack]:
    """Return the attacks with these names, or of these families; all, if there are no names.

    Raises:
        ValueError: nothing has the name.
    """
    for name in names:
        if not any(name in (attack.name, attack.family) for attack in ATTACKS):
            raise ValueError(f"there is no attack {name!r}: give one of {', '.join(a.name for a in ATTACKS)}")
    return [attack for attack in ATTACKS if not names or {attack.name, attack.family} & set(names)]
