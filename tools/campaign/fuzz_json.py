"""Hostile JSON in every file that is read as JSON: nested deep, huge numbers, NaN, halves of characters."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from .contract import Attack, Workplace
from .flips import interrupted
from .mutations import hostile_json
from .prepare import KINDS, index_of, sharded
from .processes import check_end, invoke

Commands = tuple[list[object], ...]  # that read the file


def files(random: Random, place: Workplace) -> None:
    """Put hostile JSON into a file: every command that reads it works, or ends with a sentence."""
    os.chdir(place.folder)
    target = TARGETS[place.number % len(TARGETS)]
    for command in target(random, place):
        what = f"hostile JSON in {target.__name__.strip('_').replace('_', ' ')}: lexlip {command[0]}"
        check_end(invoke(*command), what, *((0, 1) if command[0] == "doctor" else (0, 2)))


def _index(random: Random, place: Workplace) -> Commands:
    kind = random.choice([*KINDS, "shards"])
    whole = sharded(place.prepared) / ".lexlip" if kind == "shards" else index_of(place.prepared, kind)
    shutil.copytree(whole, "index")
    file = random.choice(sorted(Path("index").rglob("*.json")))
    tree = json.loads(file.read_text())
    if file.name == "index.json":
        tree = _unsealed(tree)
    else:
        _unseal(Path("index"))
    file.write_bytes(hostile_json(random, tree))
    searched: list[object] = ["search", "two red circles", "--index", "index"]
    return searched, ["doctor", "--index", "index"], ["index", "--update", "--index", "index"]


def _captions_in_a_table(random: Random, place: Workplace) -> Commands:
    shutil.copytree(index_of(place.prepared, "impact"), "index")
    header = _unseal(Path("index"))
    table = Path("index", header["directory"], header["extra"]["photos"])
    with closing(sqlite3.connect(table)) as connection, connection:
        column = random.choice(["captions", "embedded", "keywords"])
        hostile = hostile_json(random, ["a", "b"]).decode()
        connection.execute(f"UPDATE photos SET {column} = ?, sum = NULL", (hostile,))
    return ["search", "two red circles", "--index", "index"], ["index", "--update", "--index", "index"]


def _model(random: Random, place: Workplace) -> Commands:
    shutil.copytree((place.prepared / "words" / "best").resolve(), "model")
    Path("model", "checksums.txt").unlink()
    _spoil(random, Path("model"))
    index = index_of(place.prepared, "impact")
    return (
        ["search", "two red circles", "--index", index, "--model", "model"],
        ["index", place.prepared / "others", "--index", "new", "--model", "model"],
        ["doctor", "--model", "model", "--index", "none"],
    )


def _model_of_transformers(random: Random, place: Workplace) -> Commands:
    from transformers import AutoTokenizer, CLIPConfig, CLIPImageProcessor, CLIPModel

    best, sizes = (place.prepared / "words" / "best").resolve(), {"hidden_size": 8, "intermediate_size": 8}
    tokenizer = AutoTokenizer.from_pretrained(best, trust_remote_code=False)
    small = {**sizes, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**small, "vocab_size": len(tokenizer), "max_position_embeddings": 16}
    vision = {**small, "image_size": 32, "patch_size": 16}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained("clip")
    tokenizer.save_pretrained("clip")
    square = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=square).save_pretrained("clip")
    _spoil(random, Path("clip"))
    return (["index", place.prepared / "others", "--index", "new", "--model", "clip"],)


def _split_file(random: Random, place: Workplace) -> Commands:
    names = [f"{number}.jpg" for number in range(200, 205)]
    images = [{"filename": name, "split": "train", "sentences": [{"raw": "a dog"}]} for name in names]
    Path("dataset.json").write_bytes(hostile_json(random, {"dataset": "flickr8k", "images": images}))
    photos = place.prepared / "others"
    return (["index", "dataset.json", "--images", photos, "--model", "bm25", "--index", "new"],)


def _captions_in_a_tar(random: Random, place: Workplace) -> Commands:
    with tarfile.open("a.tar", "w") as tar:
        for photo in sorted((place.prepared / "others").glob("*.jpg")):
            tar.add(photo, photo.name)
            data = hostile_json(random, {"caption": "two dogs", "captions": ["a cat"]})
            member = tarfile.TarInfo(f"{photo.stem}.json")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return (["index", "a.tar", "--model", "bm25", "--index", "new"],)


def _training_run(random: Random, place: Workplace) -> Commands:
    shutil.copytree(interrupted(place.prepared), "run", symlinks=True)
    last = Path("run", "last")
    if random.random() < 0.3:
        lines = Path("run", "metrics.jsonl").read_bytes().splitlines()
        number = random.randrange(len(lines))
        lines[number] = hostile_json(random, json.loads(lines[number]))
        Path("run", "metrics.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    else:
        (last / "checksums.txt").unlink()
        trainer = json.loads((last / "trainer.json").read_text())
        trainer.pop("checksum"), trainer.pop("files")
        (last / "trainer.json").write_bytes(hostile_json(random, trainer))
    resumed = ["pretrain", place.prepared / "tiny.yaml", "out=run", "--resume"]
    return resumed, ["pretrain", place.prepared / "tiny.yaml", "init=run", "out=next", "optim.steps=1"]


def _measured_engines(random: Random, place: Workplace) -> Commands:
    row = {"system": "lexlip", "recall": 0.9, "queries_per_second": 100.0, "documents": 9}
    Path("measured.json").write_bytes(hostile_json(random, {"systems": [row], "machine": {"cpu": "x"}}))
    return (["bench", "plot", "measured.json", "--out", "drawn"],)


TARGETS = (
    *(_index, _captions_in_a_table, _model, _model_of_transformers, _split_file, _captions_in_a_tar),
    *(_training_run, _measured_engines),
)
"""Requests and messages are in fuzz_requests."""


def _spoil(random: Random, model: Path) -> None:
    file = random.choice(sorted(model.glob("*.json")))
    file.write_bytes(hostile_json(random, json.loads(file.read_text())))


def _unseal(index: Path) -> dict[str, Any]:
    """Make an index one without checksums, as older versions wrote them; return its header."""
    header = _unsealed(json.loads((index / "index.json").read_text()))
    (index / "index.json").write_text(json.dumps(header))
    return header


def _unsealed(header: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name not in ("checksum", "files")}


ATTACKS = (Attack("fuzz.json", files, tries=80, short=3, seconds=120),)
