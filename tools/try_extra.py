"""Do what an installation with one extra alone is for, on data that comes along or is drawn.

    python tools/try_extra.py EXTRA

`make extras` runs this in a fresh environment, outside the clone, by the environment's own Python; `lean` is
the installation without any extra.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
TRAIN, VAL = "scenes:64:0", "scenes:16:1"
QUERY = "a red circle above a blue star"
BRIEFLY = f"data.train=[{TRAIN}] data.val=[{VAL}] data.workers=0 optim.batch=16 optim.steps=2"
NO_WORDS = " ".join(
    f"objective.{loss}=0"
    for loss in ("flops_image", "flops_text", "anchor_contrastive", "anchor_align", "anchor_words")
)


def run(line: str, code: int = 0) -> list[str]:
    """Run a line that begins with lexlip, and return the lines that it printed."""
    print(f"$ {line}", flush=True)
    program = Path(sys.executable).with_name("lexlip")
    done = subprocess.run([program, *shlex.split(line)[1:]], stdout=subprocess.PIPE, text=True)
    assert done.returncode == code, f"exit code {done.returncode}, not {code}"
    print(done.stdout, end="", flush=True)
    return done.stdout.splitlines()


def find(query: str, options: str = "") -> None:
    """Search the index .lexlip, which must have an answer."""
    assert run(f"lexlip search {shlex.quote(query)} -f paths {options}"), "nothing was found"


def lean() -> None:
    """Index and search photos; the configs come along."""
    from lexlip.config_files import load_config

    run("lexlip demo --index index")
    load_config("configs/own.yaml", ["data.train=photos.tar", "data.val=photos.tar"])


def train() -> None:
    """Train, validate, measure by the line that the run ends with, package, and make a table."""
    *_, line = run(f"lexlip pretrain {BRIEFLY}")
    run(line)
    run(f"lexlip package runs/scenes own {TRAIN}")
    run(f"lexlip index {VAL} --model own")
    find(QUERY)
    run(f"lexlip table 1 runs/scenes --source {VAL}")


def dense() -> None:
    """Index and search with a dense model, exactly and through a graph."""
    *_, line = run(f"lexlip pretrain model.kind=dense {NO_WORDS} {BRIEFLY}")
    run(line)
    for ann in ("flat", "hnsw"):
        run(f"lexlip index {VAL} --model runs/scenes/best --ann {ann}")
        find(QUERY)
        run(f"lexlip evaluate {VAL} --model runs/scenes/best --engine {ann}")


def openclip() -> None:
    """Index and search with a model in open_clip's format, of random weights."""
    import open_clip
    from safetensors.torch import save_model

    photos = {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8}
    texts = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    sizes = {"embed_dim": 12, "vision_cfg": photos, "text_cfg": texts}
    Path("model").mkdir()
    Path("model/open_clip_config.json").write_text(json.dumps({"model_cfg": sizes, "preprocess_cfg": {}}))
    save_model(open_clip.create_model("local-dir:model"), "model/open_clip_model.safetensors")
    run(f"lexlip index {VAL} --model model")
    find(QUERY)
    run(f"lexlip evaluate {VAL} --model model")


def tensorboard() -> None:
    """Train, and read what TensorBoard would show."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(f"lexlip pretrain log=[tensorboard] log_every=1 {BRIEFLY}")
    board = EventAccumulator("runs/scenes/tensorboard").Reload()
    assert [point.step for point in board.Scalars("train/contrastive")] == [1, 2]
    print(board.Scalars("val/mean_recall"))


def anserini() -> None:
    """Search captions by BM25, alone and beside a model."""
    run(f"lexlip index {VAL} --model bm25")
    find(QUERY)
    run(f"lexlip evaluate {VAL} --model bm25")
    run(f"lexlip index {VAL}")
    find("circle", "--captions")


def mteb() -> None:
    """Measure the packaged model on a task of photos and captions, with drawn ones as its data."""
    import mteb

    from lexlip.measure.mteb_model import MtebModel

    task = runpy.run_path(str(TESTS / "measure" / "mteb_tasks.py"))["task"]
    (result,) = mteb.evaluate(MtebModel(), task("Flickr30kT2IRetrieval"), cache=None).task_results
    print({name: value for name, value in result.scores["test"][0].items() if name.startswith("hit_rate")})


def compare() -> None:
    """Compare two run files."""
    Path("a.run").write_text("one Q0 red.jpg 1 2 a\none Q0 blue.jpg 2 1 a\n")
    Path("b.run").write_text("one Q0 blue.jpg 1 2 b\none Q0 red.jpg 2 1 b\n")
    Path("a.qrels").write_text("one 0 red.jpg 1\n")
    assert any("RR" in line and "-0.5000" in line for line in run("lexlip compare a.run b.run a.qrels"))


def draw() -> None:
    """Draw a photo's words, and where in it they are."""
    from lexlip.cli.demo import PHOTOS

    run(f"lexlip explain {shlex.quote(str(PHOTOS / 'coffee.jpg'))} --cloud cloud.svg --heat heat.png")


def raw() -> None:
    """Index RAW files, with a preview and without, and find them."""
    made = runpy.run_path(str(TESTS / "data" / "made_raw.py"))
    Path("photos").mkdir()
    for name, preview in (("seen.dng", made["jpeg"](made["drawing"]())), ("developed.DNG", None)):
        Path("photos", name).write_bytes(made["dng"](preview=preview))
    assert "2 photos, " in run("lexlip index photos")[0]
    find("red")


def jxl() -> None:
    """Index a JPEG XL, and find it."""
    import pillow_jxl  # noqa: F401 (Pillow can write them from now on)
    from PIL import Image

    Path("photos").mkdir()
    Image.new("RGB", (300, 200), "red").save("photos/red.jxl")
    assert "1 photo, " in run("lexlip index photos")[0]
    find("red")


def ocr() -> None:
    """Read what is written in a picture, and find it."""
    from PIL import Image, ImageDraw, ImageFont

    Path("photos").mkdir()
    picture = Image.new("RGB", (800, 400), "white")
    ImageDraw.Draw(picture).text((80, 120), "EXIT 12", "black", ImageFont.load_default(120))
    picture.save("photos/sign.png")
    assert "text: 1 read, 1 photo with some" in run("lexlip index photos --text")[0]
    find('"exit 12"')


def places() -> None:
    """Find a photo by the name of the place where it was taken."""
    from PIL import Image

    exif = Image.Exif()
    exif[0x8825] = {1: "N", 2: (45, 45, 36), 3: "E", 4: (4, 50, 24)}
    Path("photos").mkdir()
    Image.new("RGB", (300, 200), "red").save("photos/red.jpg", exif=exif)
    run("lexlip index photos")
    find("near:lyon")


def languages() -> None:
    """Find a photo by a German sentence, and by a German word."""
    from lexlip.cli.demo import PHOTOS

    run(f"lexlip index {shlex.quote(str(PHOTOS))}")
    for german in ("eine Katze mit großen Augen", "Katze"):
        first, *_ = run(f"lexlip search '{german}' -f paths")
        assert first.endswith("chelsea.jpg"), first


def mcp() -> None:
    """Let an agent search."""
    import anyio
    from mcp import Client, StdioServerParameters

    from lexlip.cli.demo import PHOTOS

    run(f"lexlip index {shlex.quote(str(PHOTOS))}")

    async def ask() -> None:
        command = StdioServerParameters(command=sys.executable, args=["-m", "lexlip", "mcp"])
        async with Client(command) as agent:
            answer = await agent.call_tool("search", {"query": "a cat with big eyes"})
            assert not answer.is_error, answer
            assert answer.structured_content is not None
            print(answer.structured_content["hits"][0]["id"])

    anyio.run(ask)


def ray() -> None:
    """Index tars, one shard for each, and search them."""
    from lexlip.cli.demo import PHOTOS

    for number in range(2):
        with tarfile.open(f"{number}.tar", "w") as tar:
            for photo in sorted(PHOTOS.glob("*.jpg"))[number::2]:
                tar.add(photo, photo.name)
    run("lexlip index '*.tar' --ray local")
    find("a cup of coffee on a table")


def bench() -> None:
    """Measure this engine beside others, each of which must be there, and draw the figures.

    The engines to compare with are not in the package: without the clone, the command says so.
    """
    run("lexlip bench engine", code=2)
    os.environ["PYTHONPATH"] = str(TESTS.parent)
    engines = ["lexlip", "pyserini", "faiss-flat", "bmp", "qdrant"]
    engines += ["seismic-cut10-heap0.9"] if sys.version_info < (3, 13) else []  # it has no wheel for 3.13
    chosen = " ".join(f"--engine {name}" for name in engines)
    report = "\n".join(run(f"lexlip bench engine --docs 1000 --queries 10 --rounds 1 --json {chosen}"))
    assert set(json.loads(report)["engines"]) == set(engines)
    Path("report.json").write_text(report)
    run("lexlip bench plot report.json --out pictures")


TRIES: dict[str, Callable[[], None]] = {
    task.__name__: task
    for task in (
        lean,
        mcp,
        compare,
        draw,
        raw,
        jxl,
        ocr,
        places,
        languages,
        ray,
        anserini,
        train,
        dense,
        openclip,
        tensorboard,
        mteb,
        bench,
    )
}
"""By extra what is tried; those with torch, which take long to install, are last."""

if __name__ == "__main__":
    TRIES[sys.argv[1]]()
