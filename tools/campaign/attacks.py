"""All attacks, by family."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from .contract import ATTACKS, Attack

MODULES = "kills disk_errors disks_gone damage fuzz_pictures fuzz_sources fuzz_json fuzz_vectors"
MODULES += " fuzz_commands fuzz_requests connections races strangers_files strangers"
for _module in MODULES.split():
    import_module(f"{__package__}.{_module}")


def choose(names: Sequence[str]) -> list[Attack]:
    """Return the attacks with these names, or of these families; all, if there are no names.

    Raises:
        ValueError: nothing has the name.
    """
    attacks = ATTACKS.values()
    for name in names:
        if not any(name in (attack.name, attack.family) for attack in attacks):
            raise ValueError(f"there is no attack {name!r}: give one of {', '.join(ATTACKS)}")
    return [attack for attack in attacks if not names or {attack.name, attack.family} & set(names)]
