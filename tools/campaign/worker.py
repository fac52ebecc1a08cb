"""Tries attacks with several seeds, in a process of its own that an attack may kill.

python -m tools.campaign.worker PREPARED FOLDER ATTACK FIRST_SEED TRIES [ATTACK FIRST_SEED TRIES]...

Prints a line of JSON a try: {"attack", "seed", "outcome", "why"}.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from pathlib import Path

from .contract import Attack, Broken, NotRun, Place, Try, choose, random_of
from .processes import place_of

MOST_MEMORY = 1.7e9  # bytes that a try may add to the largest that the process was: a photo may take 1 GiB


def main(prepared: str, folder: str, *tries: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to stderr
    for name, first, number in zip(tries[::3], map(int, tries[1::3]), map(int, tries[2::3]), strict=True):
        (attack,) = choose([name])
        for seed in range(first, first + number):
            place = Place(Path(prepared), Path(folder) / "try", seed)
            place.folder.mkdir(parents=True)
            os.chdir(place.folder)
            print(json.dumps(vars(one_try(attack, seed, place))), file=answers, flush=True)
            os.chdir(folder)
            shutil.rmtree(place.folder, ignore_errors=True)
    os._exit(0)  # Java and threads that an attack has left do not hold it up


def one_try(attack: Attack, seed: int, place: Place) -> Try:
    """Return how a try ended."""
    before = _memory()
    try:
        attack.run(random_of(attack, seed), place)
        if (grown := _memory() - before) > MOST_MEMORY:
            raise Broken(f"it took {grown / 1e9:.1f} GB of memory")
    except NotRun as error:
        return Try(attack.name, seed, "not run", str(error))
    except Broken as error:
        return Try(attack.name, seed, "failed", str(error))
    except Exception as error:  # a fault of the product, or of the campaign: both are to be mended
        why = f"{type(error).__name__} at {place_of(error)}: {str(error)[:600]}"
        return Try(attack.name, seed, "failed", why)
    return Try(attack.name, seed, "held")


def _memory() -> float:
    """Return the largest that this process has been, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


if __name__ == "__main__":
    main(*sys.argv[1:])
