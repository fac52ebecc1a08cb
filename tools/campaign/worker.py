"""Tries one attack with several seeds, in a process of its own that an attack may kill.

python -m tools.campaign.worker ATTACK FIRST_SEED TRIES PREPARED FOLDER

Prints a line of JSON a try: {"seed", "outcome", "why"}.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from pathlib import Path

from .contract import Attack, Broken, NotRun, Outcome, Workplace, random_of
from .processes import place_of

MOST_MEMORY = 1.7e9  # bytes that a try may add to the largest that the process was: a photo may take 1 GiB


def main(name: str, first: str, tries: str, prepared: str, folder: str) -> None:
    from .attacks import choose

    (attack,) = choose([name])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to stderr
    for seed in range(int(first), int(first) + int(tries)):
        place = Workplace(Path(prepared), Path(folder) / "try", seed)
        place.folder.mkdir(parents=True)
        os.chdir(place.folder)
        outcome, why = one_try(attack, seed, place)
        print(json.dumps({"seed": seed, "outcome": outcome, "why": why}), file=answers, flush=True)
        os.chdir(folder)
        shutil.rmtree(place.folder, ignore_errors=True)
    answers.flush()
    os._exit(0)  # Java and threads that an attack has left do not hold it up


def one_try(attack: Attack, seed: int, place: Workplace) -> tuple[Outcome, str]:
    """Return how a try ended."""
    before = _memory()
    try:
        attack.run(random_of(attack, seed), place)
        if (grown := _memory() - before) > MOST_MEMORY:
            raise Broken(f"it took {grown / 1e9:.1f} GB of memory")
    except NotRun as error:
        return "not run", str(error)
    except Broken as error:
        return "failed", str(error)
    except Exception as error:  # a fault of the product, or of the campaign: both are to be mended
        return "failed", f"{type(error).__name__} at {place_of(error)}: {str(error)[:600]}"
    return "held", ""


def _memory() -> float:
    """Return the largest that this process has been, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


if __name__ == "__main__":
    main(*sys.argv[1:])
