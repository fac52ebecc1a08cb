"""Time what a user starts, each in a process of its own, in turns with other versions of LexLIP.

    python tools/studies/in_turns.py PHOTOS [TREE …] [--rounds 5] [--query TEXT]

PHOTOS is a folder or a tar file; each TREE is a checkout of LexLIP (`git worktree add TREE COMMIT`), this one
if none is given. In each round each of them runs

    import   numpy, ONNX Runtime and tokenizers, and nothing of LexLIP
    index    `lexlip index PHOTOS`, into a new index
    update   the same again: nothing has changed
    search   `lexlip search TEXT`
    serve    `lexlip serve`, up to its first answer

Prints a table: seconds (median, least to most), as a share of the last tree's, seconds of processor time, MB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lexlip.bench.response import COLD

HERE = Path(__file__).resolve().parents[2]
LEXLIP = [sys.executable, "-m", "lexlip"]
# ends with the server, which a signal ends after its first answer
SERVE = """
import re, subprocess, sys, urllib.parse, urllib.request
server = subprocess.Popen([sys.executable, "-m", "lexlip", "serve", "--port", "0", "--index", sys.argv[1]],
                          stdout=subprocess.PIPE, text=True)
address = re.search(r"http://\\S+", server.stdout.readline())[0]
urllib.request.urlopen(address + "api/search?" + urllib.parse.urlencode({"q": sys.argv[2]})).read()
server.kill()
server.wait()
"""


class Cost(NamedTuple):
    """What a process took, with those that it started."""

    seconds: float
    processor: float  # seconds
    megabytes: float  # of the largest of them, at the most


def run(command: Sequence[str], tree: Path) -> Cost:
    """Return what a command takes with a tree's LexLIP.

    Raises:
        SystemExit: the command fails.
    """
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=tree, stdout=said, stderr=said, env={**os.environ, "PYTHONPATH": str(tree)}
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(command)} in {tree}: {said.read().decode()}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3)


def programs(photos: str, index: Path, query: str) -> dict[str, list[str]]:
    """Return what is timed, by name, in order."""
    make = [*LEXLIP, "index", photos, "--index", str(index)]
    return {
        "import": [sys.executable, "-c", COLD],
        "index": make,
        "update": make,
        "search": [*LEXLIP, "search", "--index", str(index), "--", query],
        "serve": [sys.executable, "-c", SERVE, str(index), query],
    }


def measure(
    photos: str, trees: Sequence[Path], rounds: int, query: str
) -> dict[tuple[str, Path], list[Cost]]:
    """Return what each program took with each tree, round by round."""
    costs: dict[tuple[str, Path], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        indexes = {tree: Path(folder) / f"{number}" for number, tree in enumerate(trees)}
        run([sys.executable, "-c", COLD], trees[0])  # so that files are in the system's memory
        for _ in range(rounds):
            for name in programs("", Path(), ""):
                for tree, index in indexes.items():
                    if name == "index":
                        shutil.rmtree(index, ignore_errors=True)
                    costs.setdefault((name, tree), []).append(run(programs(photos, index, query)[name], tree))
    return costs


def table(costs: dict[tuple[str, Path], list[Cost]]) -> str:
    """Return the costs as a Markdown table, with the ratio to the last tree's."""
    trees = list(dict.fromkeys(tree for _, tree in costs))
    lines = ["| | | seconds | of the last | processor | MB |", "|---|---|---|---|---|---|"]
    for (name, tree), all_rounds in costs.items():
        seconds, processor, megabytes = np.array(all_rounds).T
        last = np.median([cost.seconds for cost in costs[name, trees[-1]]])
        spread = f"{np.median(seconds):.2f} ({seconds.min():.2f}-{seconds.max():.2f})"
        rest = f"{np.median(seconds) / last:.2f} | {np.median(processor):.2f} | {megabytes.max():.0f}"
        lines.append(f"| {name} | {tree.name} | {spread} | {rest} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Time what a user starts, in turns with other versions.")
    parser.add_argument("photos")
    parser.add_argument("trees", nargs="*", type=Path, default=[HERE])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--query", default="a dog on a couch")
    given = parser.parse_args(arguments)
    trees = [tree.resolve() for tree in given.trees]
    for tree in trees:
        if not (tree / "lexlip").is_dir():
            sys.exit(f"{tree} is no checkout of LexLIP")
    photos = str(Path(given.photos).resolve())
    print(table(measure(photos, trees, given.rounds, given.query)))


if __name__ == "__main__":
    main(sys.argv[1:])
