"""The command line of the campaign."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
from tqdm import tqdm

from . import campaign
from .contract import ATTACKS, Try, choose
from .prepare import prepare

OUTCOMES = ("held", "failed", "not run")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[ATTACK]...")
@click.option("--count", type=click.FloatRange(0, min_open=True), default=1.0, help="Times the usual tries.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the first try of each attack.")
@click.option("--one", is_flag=True, help="One try of each attack: repeats the one with this --seed.")
@click.option("--short", is_flag=True, help="A few tries of most attacks: some three minutes on two cores.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count(), help="Attacks at the same time.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder to keep what is prepared in.")
@click.option("--list", "as_list", is_flag=True, help="Name the attacks and what is missing for them here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    names: tuple[str, ...],
    count: float,
    seed: int,
    one: bool,
    short: bool,
    jobs: int,
    keep: Path | None,
    as_list: bool,
    as_json: bool,
) -> None:
    """Attack the project, and exit with 1 if it breaks a promise.

    ATTACK is a family, such as kills, or one of its attacks (--list); without one all are tried.
    """
    try:
        attacks = choose(names)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_list:
        for attack in attacks:
            click.echo(f"{attack.name:32s} {attack.tries:6d} tries  {attack.missing() or ''}".rstrip())
        return
    numbers = [1 if one else attack.short if short else round(count * attack.tries) for attack in attacks]
    tries = [(attack, number) for attack, number in zip(attacks, numbers, strict=True) if number]
    started = time.monotonic()
    done: list[Try] = []
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        prepared = prepare(keep or Path(folder) / "prepared")
        with tqdm(total=sum(number for _, number in tries), unit="try", disable=as_json) as bar:

            def tell(one: Try) -> None:
                done.append(one)
                bar.update()
                if one.outcome == "failed":
                    bar.write(f"failed  {one.attack} {one.seed}: {one.why}", file=sys.stderr)

            campaign.run(tries, seed, prepared, Path(folder), jobs, tell)
    seconds = time.monotonic() - started
    click.echo(_json(done, seconds) if as_json else _table(done, seconds))
    if any(one.outcome == "failed" for one in done):
        raise click.exceptions.Exit(1)


def tally(done: list[Try]) -> dict[str, dict[str, int]]:
    """Return by attack how many tries there were, and how they ended."""
    counts = {name: Counter[str](one.outcome for one in done if one.attack == name) for name in ATTACKS}
    return {
        name: {"tried": ended["held"] + ended["failed"], **{key: ended[key] for key in OUTCOMES}}
        for name, ended in counts.items()
        if ended
    }


def _table(done: list[Try], seconds: float) -> str:
    lines = [f"{'attack':32s} {'tried':>6s} {'held':>6s} {'failed':>6s} {'not run':>7s}"]
    for name, counts in tally(done).items():
        *first, last = counts.values()
        lines.append(f"{name:32s} {' '.join(f'{number:6d}' for number in first)} {last:7d}")
    reasons = dict.fromkeys((one.attack, one.why) for one in done if one.outcome == "not run")
    lines += [f"not run {name}: {why}" for name, why in reasons]
    failed = [one for one in done if one.outcome == "failed"]
    for one in failed:
        lines += [f"failed  {one.attack}: {one.why}", f"        {one.again}"]
    return "\n".join([*lines, f"{len(done)} tries, {len(failed)} failed, {seconds:.0f} s"])


def _json(done: list[Try], seconds: float) -> str:
    bad = [{**vars(one), "again": one.again} for one in done if one.outcome == "failed"]
    left = [{"attack": one.attack, "why": one.why} for one in done if one.outcome == "not run"]
    found = {"attacks": tally(done), "failures": bad, "not_run": left, "seconds": seconds}
    return json.dumps(found, indent=2)


if __name__ == "__main__":
    main(prog_name="python -m tools.campaign")
