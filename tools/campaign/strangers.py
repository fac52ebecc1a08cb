"""Models and indexes that strangers made: no code of theirs runs, no hub is asked, and everything ends."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import threading
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from .contract import Broken, Place, attack
from .fuzz_json import unseal, write_clip
from .prepare import copy_index, index_of
from .processes import LEXLIP, Ended, check_end, invoke, run, shown

NAMES = ("attacker/tracker", "openai/clip-vit-base-patch32", "a.b-c/d_e.f")
CONFIGS = ("config.json", "preprocessor_config.json", "tokenizer_config.json")
CLASSES = {
    "model_type": "AutoConfig",
    "image_processor_type": "AutoImageProcessor",
    "tokenizer_class": "AutoTokenizer",
}


@attack("strangers.models", 60, 2, 120)
def models(random: Random, place: Place) -> None:
    """Index with a model whose files name Python files, pickles, files outside, or others' models."""
    model, ran = place.folder / "model", place.folder / "ran"
    code = f"open({str(ran)!r}, 'w')"
    if random.random() < 0.5:
        write_clip(model)
        _spoil_clip(random, model, code)
    else:
        shutil.copytree(place.model, model)
        (model / "checksums.txt").unlink()
        _spoil_words(random, model)
    evil = f"{code}\nfrom transformers import *\nclass Evil(CLIPConfig): model_type = 'own'\n"
    (model / "evil.py").write_text(evil)
    _without_network("index", place.prepared / "library", "--model", model, "--index", "new")
    if ran.exists():
        configs = [file.read_text()[:300] for file in model.glob("*config.json")]
        raise Broken(f"code of a model has run: {configs}")


def _spoil_clip(random: Random, model: Path, code: str) -> None:
    for key, file in zip(CLASSES, CONFIGS, strict=True):
        if random.random() < 0.5:
            evil = ["evil.Evil", "evil.Evil"] if key == "tokenizer_class" else "evil.Evil"
            changes: dict[str, Any] = {"auto_map": {CLASSES[key]: evil, "AutoModel": "evil.Evil"}}
            if random.random() < 0.7:
                changes[key] = "own"
            _change(model / file, changes)
    if random.random() < 0.2:
        _change(model / "config.json", {"attn_implementation": random.choice(NAMES)})
    if random.random() < 0.2:
        (model / "model.safetensors").unlink()
        (model / "pytorch_model.bin").write_bytes(pickle.dumps(_Runs(code)))


def _spoil_words(random: Random, model: Path) -> None:
    kind = random.randrange(4)
    config = json.loads((model / "config.json").read_text())
    if kind == 0:
        config["text_architecture"] = None
        config["model"]["text"]["name"] = random.choice(NAMES)
    elif kind == 1:
        config["text_architecture"].update(model_type="own", auto_map={"AutoModel": "evil.Evil"})
    elif kind == 2:
        config["model"]["image"]["name"] = f"hf-hub:{random.choice(NAMES)}"
    else:
        from lexlip.models import onnx_format

        graph = onnx_format.model(
            [onnx_format.node("Add", ["pixels", "w"], ["logits"])],
            [onnx_format.declared("w", "float32", [4])],
            [onnx_format.value("pixels", "float32", [4])],
            [onnx_format.value("logits", "float32", [4])],
        )
        outside = random.choice([b"../x.data", b"/dev/zero", b"link.data"])
        (model / "image.onnx").write_bytes(graph.replace(b"in memory", outside))
        (model.parent / "x.data").write_bytes(bytes(16))
        (model / "link.data").symlink_to("../x.data")
    (model / "config.json").write_text(json.dumps(config))
    _change(model / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}})


@attack("strangers.indexes", 60, 1, 120)
def indexes(random: Random, place: Place) -> None:
    """Give an index's model a name of the hub, and use the index."""
    unseal(copy_index(place, random.choice(["impact", "flat"])), model=random.choice(NAMES))
    asked = ("search", "two red circles"), ("explain", "two red circles"), ("doctor", "--verify")
    command = random.choice(asked)
    ended = _without_network(*command, "--index", "index")
    if command[0] == "search" and (ended.code != 2 or "--model" not in ended.stderr):
        raise Broken(f"a search with a model that is not here ends with {ended.code}: {ended.stderr[-300:]}")


@attack("strangers.address-space", 60, 1, 150)
def address_space(random: Random, place: Place) -> None:
    """Run a command with little address space: it works, or says in one sentence what would be enough."""
    kilobytes = int(10 ** random.uniform(5.3, 6.8))
    library, index = place.prepared / "library", index_of(place.prepared, "impact")
    commands: tuple[tuple[object, ...], ...] = (
        ("search", "two red circles", "--index", index),
        ("index", library, "--index", "new", "--model", "mini"),
        ("doctor", "--index", index),
    )
    command = random.choice(commands)
    limited = ["sh", "-c", f'ulimit -v {kilobytes} && exec "$@"', "sh", *LEXLIP]
    ended = run([*limited, *command], place.folder)
    what = f"lexlip {command[0]} with ulimit -v {kilobytes}"
    check_end(ended, what, 0, 2, *([1] if command[0] == "doctor" else []))
    if "initialization of VM" in ended.stdout or (ended.code == 2 and ended.stdout):
        raise Broken(f"{what} prints {ended.stdout[:300]!r}")


def _without_network(*arguments: object) -> Ended:
    """Run a command of one who answers every question with yes; it must not ask, nor speak to the hub."""
    asked: list[str] = []
    connected = _hub()
    before = len(connected)

    def answer(prompt: str = "") -> str:
        asked.append(prompt)
        return "y"

    with patch("builtins.input", answer):
        ended = invoke(*arguments)
    check_end(ended, f"lexlip {shown(arguments)}", 0, 2, *([1] if arguments[0] == "doctor" else []))
    if asked:
        raise Broken(f"lexlip {shown(arguments)} asks: {asked[0][:200]}")
    if len(connected) > before:
        raise Broken(f"lexlip {shown(arguments)} asks the hub: {connected[-1][:200]!r}")
    return ended


@cache
def _hub() -> list[bytes]:
    """Return what the model hub of this process is asked, from its first use on; it answers nothing."""
    os.environ.pop("HF_HUB_OFFLINE", None)
    listening = socket.create_server(("127.0.0.1", 0))
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{listening.getsockname()[1]}"
    requests: list[bytes] = []

    def serve() -> None:
        while True:
            with listening.accept()[0] as connection:
                requests.append(connection.recv(4096))

    threading.Thread(target=serve, daemon=True).start()
    return requests


class _Runs:
    """Runs Python when it is unpickled."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, (self.code,)


def _change(file: Path, changes: dict[str, Any]) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
