"""Records the fixtures and what commands answer: run once, at the commit to compare with.

    python -m tests.net.record PYTHON            everything anew
    python -m tests.net.record                   the answers alone, of the fixtures that are there

PYTHON is a Python 3.11 with the bridge: its Lucene 9 writes the indexes, as it is the oldest that is read.
"""

import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.net.commands import (
    COMMANDS,
    EXPECTED,
    FIXTURES,
    OBJECTIVES,
    RESUMED,
    in_this_process,
    metrics,
    run,
    set_up,
    training,
)

ROOT = Path(__file__).parents[2]
OLDER = """
import pickle, shutil, sys
from pathlib import Path
from anserini_bridge import ImpactWriter
from anserini_bridge.bm25 import write_bm25_index

impact, bm25 = pickle.load(open("older.pickle", "rb"))
shutil.rmtree("photos/.impact")
arguments, ids, vectors = impact
with ImpactWriter("photos/.impact", **arguments) as writer:
    writer.add(ids, vectors)
shutil.rmtree("photos/.bm25/data-1/lucene")
write_bm25_index("photos/.bm25/data-1/lucene", *bm25)
"""


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def lexlip(*arguments: str) -> None:
    from click.testing import CliRunner

    from lexlip.cli import main

    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def photos(folder: Path) -> None:
    from lexlip.data import Scenes

    folder.mkdir(parents=True)
    scenes = Scenes(10, seed=3, size=48)
    for number, item in enumerate(scenes.items):
        scenes.image(number).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text("\n".join(item.captions[:3]) + "\n")


def fixtures(work: Path) -> None:
    """Everything in a folder: models, a run, indexes."""
    from lexlip.training.log import Log

    os.chdir(work)
    photos(Path("photos"))
    for name, model in (("lexlip", "mini"), ("dense", "dense"), ("ce", "ce")):
        lexlip(*training(name))
        target = Path("packaged") / model
        shutil.copytree(f"trained/{name}/best", target)
        for rest in ("left_behind.safetensors", "optimizer.safetensors", "trainer.json"):
            (target / rest).unlink()
    step = Log.step

    def interrupted(self: Log, number: int, *arguments: object) -> None:
        step(self, number, *arguments)  # type: ignore[arg-type]
        if number == 9:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "step", interrupted)
        with contextlib.suppress(AssertionError):
            lexlip(*RESUMED)
    with pytest.MonkeyPatch.context() as patch:
        in_this_process(patch, work)
        index = ("index", "photos", "--index")
        lexlip(*index, "photos/.flat", "--model", "dense")
        lexlip(*index, "photos/.hnsw", "--model", "dense", "--ann", "hnsw")
        lexlip(*index, "photos/.impact", "--topk", "8")
        lexlip(*index, "photos/.bm25", "--model", "bm25")


def rewrite(python: str) -> None:
    """Writes the indexes of Lucene's again, with the Lucene of another Python."""
    from anserini_bridge import ImpactSearcher

    with ImpactSearcher("photos/.impact") as searcher:
        of, ids = searcher.metadata, sorted(searcher.ids())
        vectors, words = searcher.vectors(ids), searcher.vocabulary
    arguments = {
        **{"vocabulary": words, "encoder": of.encoder, "quantization": of.quantization},
        **{"topk": of.topk, "normalize": of.normalize, "extra": of.extra},
    }
    texts = [" ".join(Path(f"photos/{Path(id).stem}.txt").read_text().splitlines()) for id in ids]
    Path("older.pickle").write_bytes(pickle.dumps(((arguments, ids, vectors), (ids, texts))))
    subprocess.run([python, "-c", OLDER], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def main() -> None:
    if sys.argv[1:]:
        with tempfile.TemporaryDirectory() as work:
            fixtures(Path(work))
            rewrite(str(Path(ROOT, sys.argv[1])))
            shutil.rmtree(FIXTURES, ignore_errors=True)
            for part in ("photos", "packaged", "run"):
                shutil.copytree(Path(work) / part, FIXTURES / part, symlinks=True)
            os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        work = Path(place)
        set_up(work)
        in_this_process(patch, work)
        for name, arguments in COMMANDS.items():
            print(name, flush=True)
            write(EXPECTED / f"{name}.json", run(arguments))
        for name in OBJECTIVES:
            lexlip(*training(name))
            write(EXPECTED / f"losses-{name}.json", metrics(work / "trained" / name))
        lexlip(*RESUMED, "--resume")
        write(EXPECTED / "losses-resumed.json", metrics(work / "run"))


if __name__ == "__main__":
    main()
