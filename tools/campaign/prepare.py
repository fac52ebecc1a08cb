"""Makes what attacks need: photos, tiny models, indexes of each kind.

PREPARED/library/         photos with captions, and library/.lexlip, an index of words in several segments
PREPARED/added/           photos that updates add
PREPARED/words, dense     runs of tiny models, with the losses of each step
PREPARED/indexes/KIND     flat, hnsw, bm25; and other/KIND of other photos, words included
PREPARED/tiny.yaml        the config of the runs
PREPARED/sharded/         when asked for: tars, and sharded/.lexlip, their index in shards of several segments
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from .contract import Broken, NotRun
from .processes import environment, invoke

KINDS = ("impact", "flat", "hnsw", "bm25")
CONFIG = """\
name: tiny
data: {train: [scenes:24:0], val: [scenes:8:9], captions_per_image: 2, workers: 0}
model:
  image:
    name: vit_tiny_patch16_224
    options: {patch_size: 8, embed_dim: 24, depth: 1, num_heads: 2}
    size: 32
  text:
    tokenizer: captions
    options: {hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32}
    max_tokens: 24
  vocabulary: {kind: words}
optim: {epochs: 4, batch: 8, lr: 1e-3, precision: fp32}
validate_every: 6
checkpoint_every: 2
log_every: 1
"""


def prepare(folder: Path) -> Path:
    """Return the folder, with everything in it; what is there already stays.

    Raises:
        RuntimeError: something could not be made.
    """
    folder = folder.absolute()
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "tools.campaign.prepare", str(folder)],
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"the campaign cannot be prepared: {done.stderr[-2000:]}")
    return folder


def index_of(prepared: Path, kind: str) -> Path:
    """Return the prepared index of a kind."""
    return prepared / "library" / ".lexlip" if kind == "impact" else prepared / "indexes" / kind


def sharded(prepared: Path) -> Path:
    """Return the folder of an index in shards, which is made when it is first asked for.

    Raises:
        NotRun: Ray is not installed.
        Broken: the index cannot be made.
    """
    folder = prepared / "sharded"
    if not folder.exists():
        if find_spec("ray") is None:
            raise NotRun("ray is missing: install it with `pip install 'lexlip[ray]'`")
        making = prepared / f"making-sharded-{os.getpid()}"
        _make_shards(making, prepared / "words" / "best")
        try:
            making.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(making)
    return folder


def _make_shards(folder: Path, model: Path) -> None:
    """Index one tar on Ray, and add two with so little memory that each photo is a segment."""
    from lexlip.indexing.impact import impact_writer

    index = folder / ".lexlip"
    arguments: list[list[object]] = [
        ["index", folder, "--ray", "local", "--index", index, "--model", model],
        ["index", "--update", "--index", index],
        ["index", "--update", "--index", index],
    ]
    folder.mkdir()
    for number, command in enumerate(arguments):
        _pack(folder / f"{number}.tar", range(7 * number, 7 * number + 7))
        with patch("lexlip.indexing.impact.impact_writer", partial(impact_writer, memory_mb=1e-6)):
            done = invoke(*command)
        if done.code:
            raise Broken(f"an index in shards cannot be made: {done.stderr[-400:]}")


def _pack(tar: Path, numbers: range) -> None:
    from lexlip.data import Scenes

    scenes = Scenes(numbers.stop, seed=3)
    with tarfile.open(tar, "w") as packed:
        for number in numbers:
            picture = io.BytesIO()
            scenes.image(number).save(picture, "JPEG")
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = picture.tell()
            picture.seek(0)
            packed.addfile(member, picture)


def _make(folder: Path) -> None:
    from lexlip.cli import main

    def lexlip(*arguments: object) -> None:
        main(list(map(str, arguments)), standalone_mode=False)

    os.chdir(folder)
    Path("tiny.yaml").write_text(CONFIG)
    lexlip("pretrain", "tiny.yaml", "out=words")
    dense = ["model.kind=dense", "objective.flops_image=0", "objective.flops_text=0", "optim.steps=2"]
    lexlip("pretrain", "tiny.yaml", "out=dense", *dense)
    _draw(Path("added"), range(100, 104))
    _draw(Path("others"), range(200, 210))
    model, indexes = "words/best", Path("indexes")
    for numbers in (range(8), range(8, 11), range(11, 14)):
        _draw(Path("library"), numbers)
        update = ["--update"] if numbers.start else ["--model", model]
        lexlip("index", "library", "--index", "library/.lexlip", *update)
    for source, place in (("library", indexes), ("others", indexes / "other")):
        lexlip("index", source, "--index", place / "flat", "--model", "dense/best")
        lexlip("index", source, "--index", place / "hnsw", "--model", "dense/best", "--ann", "hnsw")
        lexlip("index", source, "--index", place / "bm25", "--model", "bm25")
    lexlip("index", "others", "--index", indexes / "other" / "impact", "--model", model)


def _draw(folder: Path, numbers: range) -> None:
    """Draw photos, by the number of a scene, and write their captions beside them."""
    from lexlip.data import Scenes

    folder.mkdir(exist_ok=True)
    scenes = Scenes(numbers.stop, seed=3)
    for number in numbers:
        scenes.image(number).save(folder / f"{number}.jpg")
        (folder / f"{number}.txt").write_text("\n".join(scenes.items[number].captions) + "\n")


if __name__ == "__main__":
    _make(Path(sys.argv[1]))
    Path(sys.argv[1], "complete").touch()
