"""Six commands that work on one index at the same time."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from random import Random

from .contract import Attack, Broken, Workplace
from .disk_errors import copy, expected, same, state_of
from .processes import LEXLIP, SECONDS, Ended, check_end, environment, invoke

INDEX = ("--index", "library/.lexlip")
COMMANDS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", *INDEX, "--port", "0"),
    "index": ("index", "library", "--anew", *INDEX),
    "update": ("index", "library", "--update", *INDEX),
    "optimize": ("optimize", *INDEX),
    "search": ("search", "two red circles", "-k", "30", *INDEX, "--json"),
    "doctor": ("doctor", "--verify", *INDEX),
}
WRITERS = ("index", "update", "optimize")  # of which others may keep one out


def commands(random: Random, place: Workplace) -> None:
    """Start all of them: each ends rightly, or with a sentence; the index is in the old state or the new."""
    old, new = state_of(place.prepared / "library"), expected("update", place.prepared)
    library = copy(place, "update")
    model = ("--model", str(place.prepared / "words" / "best"))
    right = [_hits(invoke(*COMMANDS["search"][:4], *folder, "--json").stdout) for folder in _states(place)]
    running = {}
    for name in random.sample(list(COMMANDS), len(COMMANDS)):
        running[name] = _start(name, model if name == "index" else (), place.folder)
        time.sleep(random.choice([0, 0, 0.5, 2]))
    ended = {"serve": _ask(running.pop("serve"), place.folder, right)}
    for name, process in running.items():
        ended[name] = _end(name, process, place.folder)
        check_end(ended[name], f"lexlip {name} beside five others", *((0, 2) if name in WRITERS else (0,)))
    if _hits(ended["search"].stdout) not in right:
        raise Broken(f"a search has the hits of no state: {_hits(ended['search'].stdout)[:200]}")
    found = state_of(library)
    changed = any(ended[name].code == 0 for name in ("index", "update"))
    if not any(same(found, one) for one in ([new] if changed else [old, new])):
        raise Broken("at the end the index is in neither state")
    for name in ("update", "doctor"):
        check_end(invoke(*COMMANDS[name]), f"afterwards lexlip {name}", 0)
    if not same(state_of(library), new):
        raise Broken("an update at the end does not lead to the new state")


def _states(place: Workplace) -> list[tuple[str, str]]:
    folders = (place.prepared / "library", place.prepared / "after-update")
    return [("--index", str(folder / ".lexlip")) for folder in folders]


def _start(name: str, more: tuple[str, ...], folder: Path) -> subprocess.Popen[bytes]:
    output = [(folder / f"{name}.{stream}").open("wb") for stream in ("out", "err")]
    process = subprocess.Popen(
        [*LEXLIP, *COMMANDS[name], *more],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=output[0],
        stderr=output[1],
    )
    for file in output:
        file.close()
    return process


def _end(name: str, process: subprocess.Popen[bytes], folder: Path) -> Ended:
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Broken(f"lexlip {name} has not ended after {SECONDS} s beside five others") from None
    texts = [(folder / f"{name}.{stream}").read_text(errors="replace") for stream in ("out", "err")]
    return Ended(code, *texts)


def _ask(process: subprocess.Popen[bytes], folder: Path, right: list[str]) -> Ended:
    """Search on the server, and end it."""
    until = time.monotonic() + SECONDS
    try:
        while not (found := re.search(rb"(http://\S+)/ \(Ctrl-C ends", _said(folder))):
            if process.poll() is not None or time.monotonic() > until:
                raise Broken(f"lexlip serve does not start beside five others: {_said(folder)[-300:]!r}")
            time.sleep(0.05)
        address = f"{found[1].decode()}/api/search?q=two+red+circles&k=30"
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            hits = _hits(answer.read().decode())
        if hits not in right:
            raise Broken(f"the server has the hits of no state: {hits[:200]}")
    finally:
        process.send_signal(signal.SIGTERM)
        ended = _end("serve", process, folder)
    check_end(ended, "lexlip serve beside five others", 0, -signal.SIGTERM, 128 + signal.SIGTERM)
    return ended


def _said(folder: Path) -> bytes:
    return (folder / "serve.out").read_bytes() + (folder / "serve.err").read_bytes()


def _hits(answer: str) -> str:
    return json.dumps([(hit["id"], round(hit["score"], 3)) for hit in json.loads(answer)["hits"]])


ATTACKS = (Attack("races.commands", commands, tries=4, short=0, seconds=300),)
