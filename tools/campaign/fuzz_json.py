"""Hostile JSON in every file that is read as JSON: other values, nested deep, NaN, halves of characters."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from anserini_bridge import read_header

from .contract import Place, attack
from .mutations import hostile_json, mutate, mutate_tree
from .prepare import KINDS, copy_index, index_of, interrupted, pack
from .processes import check_end, invoke, refusals

Command = list[object]
SEARCH: Command = ["search", "two red circles", "--index", "index"]
UPDATE: Command = ["index", "--update", "--index", "index"]


@attack("fuzz.json", 80, 3, 120)
def files(random: Random, place: Place) -> None:
    """Put hostile JSON into a file: every command that reads it works, or ends with a sentence."""
    target = place.in_turn(TARGETS)
    for command in target(random, place):
        what = f"hostile JSON in {target.__name__.strip('_').replace('_', ' ')}: lexlip {command[0]}"
        check_end(invoke(*command), what, *((0, 1) if command[0] == "doctor" else (0, 2)))


def _index(random: Random, place: Place) -> list[Command]:
    index = copy_index(place, random.choice([*KINDS, "shards"]))
    file = random.choice(sorted(index.rglob("*.json")))
    if random.random() < 0.7:
        unseal(index)
    tree = json.loads(file.read_text())
    other = json.dumps(mutate_tree(random, tree)).encode()
    file.write_bytes(random.choice([hostile_json(random, tree), other, mutate(random, other)]))
    with refusals():
        read_header(index)
    return [SEARCH, ["doctor", "--index", "index"], UPDATE, ["optimize", "--index", "index"]]


def _captions_in_a_table(random: Random, place: Place) -> list[Command]:
    index = copy_index(place, "impact")
    header = unseal(index)
    with closing(sqlite3.connect(index / header["directory"] / header["extra"]["photos"])) as rows, rows:
        column = random.choice(["captions", "embedded", "keywords"])
        hostile = hostile_json(random, ["a", "b"]).decode()
        rows.execute(f"UPDATE photos SET {column} = ?, sum = NULL", (hostile,))
    return [SEARCH, UPDATE]


def _model(random: Random, place: Place) -> list[Command]:
    model = Path(shutil.copytree(place.model.resolve(), "model"))
    (model / "checksums.txt").unlink()
    _spoil(random, model)
    return [
        [*SEARCH[:3], index_of(place.prepared, "impact"), "--model", "model"],
        ["index", place.prepared / "others", "--index", "new", "--model", "model"],
        ["doctor", "--model", "model", "--index", "none"],
    ]


def _model_of_transformers(random: Random, place: Place) -> list[Command]:
    write_clip(Path("clip"))
    _spoil(random, Path("clip"))
    return [["index", place.prepared / "others", "--index", "new", "--model", "clip"]]


def _split_file(random: Random, place: Place) -> list[Command]:
    names = [f"{number}.jpg" for number in range(200, 205)]
    images = [{"filename": name, "split": "train", "sentences": [{"raw": "a dog"}]} for name in names]
    Path("dataset.json").write_bytes(hostile_json(random, {"dataset": "flickr8k", "images": images}))
    photos = place.prepared / "others"
    return [["index", "dataset.json", "--images", photos, "--model", "bm25", "--index", "new"]]


def _captions_in_a_tar(random: Random, place: Place) -> list[Command]:
    captions = {"caption": "two dogs", "captions": ["a cat"]}
    members = []
    for photo in sorted((place.prepared / "others").glob("*.jpg")):
        members += [(photo.name, photo.read_bytes()), (f"{photo.stem}.json", hostile_json(random, captions))]
    pack(Path("a.tar"), members)
    return [["index", "a.tar", "--model", "bm25", "--index", "new"]]


def _training_run(random: Random, place: Place) -> list[Command]:
    run = Path(shutil.copytree(interrupted(place.prepared), "run", symlinks=True))
    if random.random() < 0.3:
        lines = (run / "metrics.jsonl").read_bytes().splitlines()
        number = random.randrange(len(lines))
        lines[number] = hostile_json(random, json.loads(lines[number]))
        (run / "metrics.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    else:
        (run / "last" / "checksums.txt").unlink()
        trainer = run / "last" / "trainer.json"
        trainer.write_bytes(hostile_json(random, _without_sums(json.loads(trainer.read_text()))))
    config = place.prepared / "tiny.yaml"
    return [
        ["pretrain", config, "out=run", "--resume"],
        ["pretrain", config, "init=run", "out=next", "optim.steps=1"],
    ]


def _measured_engines(random: Random, place: Place) -> list[Command]:
    row = {"system": "lexlip", "recall": 0.9, "queries_per_second": 100.0, "documents": 9}
    Path("measured.json").write_bytes(hostile_json(random, {"systems": [row], "machine": {"cpu": "x"}}))
    return [["bench", "plot", "measured.json", "--out", "drawn"]]


TARGETS = (
    *(_index, _captions_in_a_table, _model, _model_of_transformers, _split_file, _captions_in_a_tar),
    *(_training_run, _measured_engines),
)
"""Requests and messages are in fuzz_requests."""


def _spoil(random: Random, model: Path) -> None:
    file = random.choice(sorted(model.glob("*.json")))
    file.write_bytes(hostile_json(random, json.loads(file.read_text())))


def unseal(index: Path, **extra: str) -> dict[str, Any]:
    """Change what an index stores; without checksums it is as one of an older version. Return index.json."""
    header = _without_sums(json.loads((index / "index.json").read_text()))
    header.get("extra", {}).update(extra)
    (index / "index.json").write_text(json.dumps(header))
    return header


def _without_sums(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name not in ("checksum", "files")}


def write_clip(folder: Path) -> None:
    """Write a tiny model of transformers."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    from lexlip.encoders.text import word_tokenizer

    tokenizer = word_tokenizer(["two red circles", "a blue square"])
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": len(tokenizer), "max_position_embeddings": 16}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(folder)
    tokenizer.save_pretrained(str(folder))
    square = {"height": 32, "width": 32}
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=square).save_pretrained(folder)
