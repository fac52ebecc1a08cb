"""Makes what attacks need: photos, tiny models, indexes of each kind.

PREPARED/library/         photos with captions, half of them with a place, and library/.lexlip, an index of
                          words in several segments, with texts that nobody has read, and an album
PREPARED/added/           photos that updates add
PREPARED/words, dense     runs of tiny models, with the losses of each step
PREPARED/indexes/KIND     flat, hnsw, bm25; and other/KIND of other photos, words included
PREPARED/tiny.yaml        the config of the runs
and, when first asked for:
PREPARED/sharded/         tars, and sharded/.lexlip, their index in shards of several segments
PREPARED/interrupted/run  a training that was interrupted
PREPARED/towns, served    the table of towns; a copy of the library that is served, and its albums changed
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from lexlip.retrieval.text_lines import TextLine

from .contract import NotRun, Place
from .processes import invoke, must, run

KINDS = ("impact", "flat", "hnsw", "bm25")
KEPT = 8  # steps of training after which it is interrupted
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
        _make_apart("all", folder)
        (folder / "complete").touch()
    return folder


def _make_apart(what: str, folder: Path) -> None:
    """Make something in a process of its own: training depends on what a process has done before."""
    ended = run([sys.executable, "-m", "tools.campaign.prepare", what, folder], folder, seconds=1800)
    if ended.code:
        raise RuntimeError(f"the campaign cannot be prepared: {ended.stderr[-2000:]}")


def made_once(target: Path, make: Callable[[Path], object]) -> Path:
    """Return a file or folder that is made when it is first asked for, perhaps by two processes at once."""
    if not target.exists():
        making = target.with_name(f"making-{target.name}-{os.getpid()}")
        make(making)
        try:
            making.rename(target)
        except OSError:  # another process was quicker
            shutil.rmtree(making)
    return target


def index_of(prepared: Path, kind: str) -> Path:
    """Return the prepared index of a kind, or the one in "shards"."""
    if kind == "shards":
        return sharded(prepared) / ".lexlip"
    return prepared / "library" / ".lexlip" if kind == "impact" else prepared / "indexes" / kind


def copy_index(place: Place, kind: str) -> Path:
    """Return a copy of the prepared index of a kind, the try's own."""
    return Path(shutil.copytree(index_of(place.prepared, kind), place.folder / "index"))


def give_towns(prepared: Path) -> None:
    """Let this process have the table of towns, which takes long to make; without its package, nothing."""
    from lexlip.errors import FixableError
    from lexlip.retrieval.gazetteer import find_place

    def make(folder: Path) -> None:
        folder.mkdir()
        with patch.dict(os.environ, XDG_CACHE_HOME=str(folder)), suppress(FixableError):
            find_place("lyon")

    for table in made_once(prepared / "towns", make).rglob("*.sqlite"):
        place = Path(os.environ["XDG_CACHE_HOME"]) / "lexlip" / table.name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.symlink_to(table)


def sharded(prepared: Path) -> Path:
    """Return the folder of an index in shards.

    Raises:
        NotRun: Ray is not installed.
        Broken: the index cannot be made.
    """
    return made_once(prepared / "sharded", partial(_make_shards, prepared / "words" / "best"))


def _make_shards(model: Path, folder: Path) -> None:
    """Index one tar on Ray, and add two with so little memory that each photo is a segment."""
    from lexlip.indexing.impact import impact_writer

    if find_spec("ray") is None:
        raise NotRun("ray is missing: install it with `pip install 'lexlip[ray]'`")
    index = folder / ".lexlip"
    made = ["index", folder, "--ray", "local", "--index", index, "--model", model]
    update = ["index", "--update", "--index", index]
    for number, command in enumerate((made, update, update)):
        draw(folder, range(7 * number, 7 * number + 7))
        photos = sorted(folder.glob("*.jpg"))
        pack(folder / f"{number}.tar", ((photo.name, photo.read_bytes()) for photo in photos))
        for photo in photos:
            photo.unlink()
            photo.with_suffix(".txt").unlink()
        with patch("lexlip.indexing.impact.impact_writer", partial(impact_writer, memory_mb=1e-6)):
            must(*command)


def interrupted(prepared: Path) -> Path:
    """Return a run that was interrupted."""

    def make(folder: Path) -> None:
        folder.mkdir()
        shutil.copy(prepared / "tiny.yaml", folder)
        _make_apart("interrupted", folder)

    return made_once(prepared / "interrupted", make) / "run"


def _interrupt() -> None:
    from lexlip.training import loop

    save = loop.save_checkpoint

    def stop(run: Path, step: int, *rest: object) -> None:
        save(run, step, *rest)  # type: ignore[arg-type]
        if step >= KEPT:
            raise KeyboardInterrupt

    with patch.object(loop, "save_checkpoint", stop):
        invoke("pretrain", "tiny.yaml", "out=run")


def draw(folder: Path, numbers: range) -> None:
    """Draw photos, by the number of a scene, and write their captions beside them; even ones have a place."""
    from PIL import Image

    from lexlip.data import Scenes

    folder.mkdir(exist_ok=True)
    scenes = Scenes(numbers.stop, seed=3)
    for number in numbers:
        exif = Image.Exif()
        if number % 2 == 0:
            exif[0x8825] = {1: "N", 2: (45.0, float(number % 60), 0.0), 3: "E", 4: (4.0, 50.0, 0.0)}
        scenes.image(number).save(folder / f"{number}.jpg", exif=exif)
        (folder / f"{number}.txt").write_text("\n".join(scenes.items[number].captions) + "\n")


def pack(tar: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write a tar of files, given as names with what they hold."""
    with tarfile.open(tar, "w") as packed:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))


class _Signs:
    """Stands for the reader of text in photos, which would find none in what is drawn here."""

    def __init__(self) -> None:
        self._number = 0

    def read(self, photo: object) -> tuple[TextLine, ...]:
        self._number += 1
        return (TextLine(f"EXIT {self._number} lyon", (0, 0, 500, 0, 500, 90, 0, 90)),)


def _make() -> None:
    from lexlip.cli import main
    from lexlip.indexing import reading
    from lexlip.retrieval.albums import Albums

    def lexlip(*arguments: object) -> None:
        main(list(map(str, arguments)), standalone_mode=False)

    Path("tiny.yaml").write_text(CONFIG)
    lexlip("pretrain", "tiny.yaml", "out=words")
    dense = ["model.kind=dense", "objective.flops_image=0", "objective.flops_text=0", "optim.steps=2"]
    lexlip("pretrain", "tiny.yaml", "out=dense", *dense)
    draw(Path("added"), range(100, 104))
    draw(Path("others"), range(200, 210))
    model, indexes = "words/best", Path("indexes")
    for numbers in (range(8), range(8, 11), range(11, 14)):
        draw(Path("library"), numbers)
        update = ["--update"] if numbers.start else ["--model", model]
        lexlip("index", "library", "--index", "library/.lexlip", *update)
    with patch.object(reading, "TextReader", _Signs), patch.object(reading, "find_spec", bool):
        lexlip("index", "library", "--index", "library/.lexlip", "--update", "--text")
    Albums("library/.lexlip").change("circles", ["0.jpg", "3.jpg"])
    for source, place in (("library", indexes), ("others", indexes / "other")):
        lexlip("index", source, "--index", place / "flat", "--model", "dense/best")
        lexlip("index", source, "--index", place / "hnsw", "--model", "dense/best", "--ann", "hnsw")
        lexlip("index", source, "--index", place / "bm25", "--model", "bm25")
    lexlip("index", "others", "--index", indexes / "other" / "impact", "--model", model)


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    {"all": _make, "interrupted": _interrupt}[sys.argv[1]]()
