"""The other command lines of the documentation run at tiny size: on drawn photos, with small models.

SMALLER says what is made smaller; everything else runs as it stands.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lexlip.config_files import to_dict
from lexlip.data import Scenes
from lexlip.models.dual_encoder import DualEncoder
from tests.conftest import ROOT
from tests.data.pictures import write_tar
from tests.docs.pages import Piece
from tests.docs.test_commands import CALLS, IN_BLOCKS, arguments
from tests.docs.test_quick_commands import PAGES as QUICK
from tests.docs.test_quick_commands import compare
from tests.tiny import CAPTIONS, TINY, tiny_balanced, tiny_dense, tiny_model, tiny_stage
from tests.training.run_folders import write_run

pytestmark = [pytest.mark.slow, pytest.mark.docs]

ELSEWHERE = {"docs/cluster.md", "docs/gpu.md", "docs/languages.md"}
"""Pages whose commands are run by tests/cluster, on GPUs, and with a package that is not in git."""

PAGES = sorted({line.page for line in IN_BLOCKS} - ELSEWHERE - set(QUICK))
NOT_HERE = ("torchrun", "openai/", "me/own")
"""Lines for several processes, and of the model hub."""

PHOTOS = 70
TARS = (
    *("train.tar", "val.tar", "val-0000.tar", "coco/val-0000.tar", "distractors/images-0.tar"),
    *("flickr8k/train-0000.tar", "flickr8k/val-0000.tar", "coco/train-0000.tar", "coco/more-0000.tar"),
    *("data/coco/train-0.tar", "data/coco/val-0.tar", "data/flickr30k/test-0.tar"),
)
KINDS = {"triplets": "vldeformer", "flickr": "be", "coco": "be", "mini-multilingual": "lightningdot"}
STAGES = (*("be", "ce", "joint", "lightningdot", "vldeformer"), *KINDS)
LEXICAL = ("lexlip", "one", "other", "NAME")

STANDS_FOR = {
    "LEXLIP_TOKEN=… ": "",
    "…": "data.train=[train.tar] data.val=[val.tar]",
    '"${D[@]}"': "data.train=[train.tar] data.val=[val.tar]",
    '"${T[@]}"': "",
    "$M": "runs/mini-multilingual/best",
    "$language": "de",
    "--python seismic=PYTHON3.11": "",
    "--engine seismic-cut10-heap0.9": "",
}
MODEL = to_dict(TINY)
QUICKLY = ("optim.steps=2", "optim.batch=4", "data.workers=0", "device=cpu")
PRETRAIN = (
    *(f"model.{part}={json.dumps(MODEL[part])}" for part in ("image", "text", "vocabulary")),
    *QUICKLY,
    *("optim.lr_scale={}", "data.views=0", "data.expected=null"),
)
SMALLER: dict[str, tuple[str, ...]] = {
    "pretrain": PRETRAIN,
    "reproduce": (
        *PRETRAIN,
        *("data.train=[train.tar]", "data.val=[val.tar]", "data.sample=null", "optim.micro_batch=null"),
        *("--source", "val.tar", "--seeds", "1", "--processes", "1"),
    ),
    "serve": ("--port", "0"),
    "bench engine": ("--docs", "3000", "--queries", "20", "--rounds", "1"),
    "bench latency": ("--docs", "200", "--queries", "5"),
    "bench encode": ("--photos", "8", "--rounds", "1"),
    "table 2": ("--rounds", "1", "--synthetic-distractors", "500"),
    "table stages": ("--pairs", "4", "--queries", "3"),
    "table retrieve-9": ("--pairs", "4"),
}
"""What is added to lines that begin so: of what is given twice, the last counts."""


def jpeg(scenes: Scenes, index: int) -> bytes:
    file = io.BytesIO()
    scenes.image(index).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages take as there: photos in each way that they can lie, runs, and models."""
    folder = tmp_path_factory.mktemp("given")
    shutil.copytree(ROOT / "configs", folder / "configs")
    photos = {f"{n}": jpeg(Scenes(PHOTOS, seed=0), n) for n in range(PHOTOS)}
    captions = {name: [CAPTIONS[int(name) % 6], CAPTIONS[(int(name) + 1) % 6]] for name in photos}
    files: dict[str, bytes] = {}
    for name, photo in photos.items():
        files[f"{name}.jpg"] = photo
        files[f"{name}.txt"] = captions[name][0].encode()
        files[f"{name}.json"] = json.dumps({"captions": captions[name]}).encode()
    for tar in TARS:
        write_tar(folder / tar, files)
    rows = [f"{name}.jpg\t0\t{texts[0]}" for name, texts in captions.items()]
    for language in ("de", "fr"):
        (folder / f"flickr8k/captions.{language}.tsv").write_text("\n".join(rows) + "\n")
    for place in ("photos", "PHOTOS", "SOURCE", "Pictures", "coco", "val2017"):
        (folder / place).mkdir(exist_ok=True)
        for name, photo in photos.items():
            (folder / place / f"{name}.jpg").write_bytes(photo)
            (folder / place / f"{name}.txt").write_text(captions[name][0])
    table = [
        f"{name}.jpg,{texts[0]},{'val' if int(name) % 3 == 0 else 'train'}"
        for name, texts in captions.items()
    ]
    (folder / "photos/captions.csv").write_text("\n".join(["filename,caption,split", *table]) + "\n")
    images = [
        {"filename": f"{name}.jpg", "split": "test", "sentences": [{"raw": text} for text in texts]}
        for name, texts in captions.items()
    ]
    (folder / "coco/test.json").write_text(json.dumps({"images": images}))
    (folder / "annotations").mkdir()
    numbered = [{"image_id": int(name), "caption": text} for name in photos for text in captions[name]]
    files_of = [{"id": int(name), "file_name": f"{name}.jpg"} for name in photos]
    annotations = json.dumps({"images": files_of, "annotations": numbered})
    (folder / "annotations/captions_val2017.json").write_text(annotations)
    texts = "".join(f"{caption} {number}\n" for number in range(200) for caption in CAPTIONS)
    for name in ("captions.txt", "third.txt"):
        (folder / name).write_text(texts)
    (folder / "CONFIG").write_text("name: own\n")
    make_runs(folder)
    assert not run(folder, "lexlip index PHOTOS").returncode
    return folder


def make_runs(folder: Path) -> None:
    """Runs of tiny models under the names of the pages, and models in folders."""
    tiny_model().save(folder / "clip-words")
    tiny_dense().save(folder / "DENSE")
    no_words = {"flops_image": 0, "flops_text": 0}
    for name in (*STAGES, *LEXICAL, "dense"):
        config: dict[str, Any] = {}
        model: DualEncoder = tiny_balanced()
        if name == "dense":
            model, config = tiny_dense(), {"objective": no_words, "model": {"kind": "dense"}}
        elif name not in LEXICAL:
            kind = KINDS.get(name, name)
            loss = {"contrastive": 0, "matching" if kind == "ce" else "triplet": 1}
            model, config = tiny_stage(kind), {"objective": {**no_words, **loss}, "model": {"kind": kind}}
        model.save(folder / "saved" / name)
        run = write_run(folder / "runs" / name, config, [10], folder / "saved" / name)
        (run / "last").symlink_to("checkpoints/step-00000010")
    shutil.copytree(folder / "runs/one", folder / "RUNS", symlinks=True)


def smaller(text: str) -> list[str]:
    """The arguments of a line, with what stands for others filled in, and what makes it smaller."""
    for name, value in STANDS_FOR.items():
        text = text.replace(name, value)
    own = arguments(text)
    assert own
    for start, added in SMALLER.items():
        if own[: start.count(" ") + 1] == start.split():
            if "--dry-run" in own:
                return own
            return [*own, *(QUICKLY if "configs/own.yaml" in own else added)]
    return own


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a line in a folder, which is the home folder, too; what it redirects goes into its file."""
    own = [re.sub(r"^~(?=/)", str(folder), argument) for argument in smaller(text)]
    made = next((word for word in own if word.startswith("configs/")), None)
    if own[0] == "pretrain" and made and not {"--resume", "--dry-run"} & set(own):
        shutil.rmtree(folder / "runs" / Path(made).stem, ignore_errors=True)  # a run begins anew
    if own[:2] == ["bench", "plot"]:
        for name in (word for word in own if word.endswith(".json")):
            if not (folder / name).exists():
                shutil.copy(folder / "1m.json", folder / name)
    environment = {**os.environ, "HOME": str(folder)}
    if "--allow-host" in own:
        environment["LEXLIP_TOKEN"] = "what only callers know"
    process = subprocess.Popen(
        [sys.executable, "-m", "lexlip", *own],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        first = ""
        if own[0] == "serve":
            assert process.stdout
            first = process.stdout.readline()  # it answers from now on
            process.terminate()
        out, errors = process.communicate(timeout=600)
    done = subprocess.CompletedProcess(process.args, process.returncode, first + out, errors)
    if target := re.search(r" > (\S+)", text):
        (folder / target[1]).write_text(done.stdout)
    return done


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page(page: str, given: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(given, folder, symlinks=True)
    ran: list[Piece] = []
    for block, line in CALLS:
        command = line.text.partition(" #")[0]
        if line.page == page and not any(part in command for part in NOT_HERE):
            done = run(folder, line.text)
            missing = "--dry-run" in line.text and "the run cannot start" in done.stderr  # is what it says
            told = f"{line}: {shlex.join(smaller(line.text))}\n{done.stderr[-3000:]}"
            assert done.returncode == (2 if missing else 0), told
            compare(block, line, done, folder)
            ran.append(line)
    assert ran
