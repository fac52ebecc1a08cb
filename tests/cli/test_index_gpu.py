"""`--device` of the commands that encode."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, error
from tests.tiny import tiny_stage


def test_a_device_that_is_not_there(indexed: Run, tmp_path: Path) -> None:
    tiny_stage("ce").save(tmp_path / "ce")
    tiny_stage("dense").save(tmp_path / "of-dense")
    indexed("index", "photos", "--model", "of-dense", "--index", "dense", "--device", "cpu")
    for command in (
        ["index", "photos", "--index", "new"],
        ["evaluate", "photos"],
        ["words", "photos"],
        ["search", "--image", "photos/0.jpg"],
        ["search", "a dog", "--rerank", "ce"],
        ["search", "a dog", "--index", "dense"],
        ["evaluate", "photos", "--rerank", "ce"],
        ["evaluate", "photos", "--model", "ce"],
    ):
        says = "device 'warp' cannot be used here: there is no such device; take cpu, cuda or cuda:1"
        assert error(indexed(*command, "--device", "warp", code=2)) == says, command


def test_the_cpu_is_where_models_compute_without_a_gpu(lexlip: Run, photos: Path) -> None:
    found = []
    for device in ([], ["--device", "cpu"]):
        lexlip("index", "photos", *device)
        lexlip("index", "--update", "photos", "--model", "mini", *device)
        answer = lexlip("search", "--image", "photos/0.jpg", "--json", *device).stdout
        found.append(json.loads(answer)["hits"])
        lexlip("words", "photos", *device)
        lexlip("evaluate", "photos", *device)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["search", "a dog"], "is for pictures, --rerank and dense models"),
        (["index", "photos", "--model", "bm25"], "is for models, and bm25 takes captions as they are"),
        (["evaluate", "photos", "--model", "bm25"], "is for models, and bm25 takes captions as they are"),
    ],
    ids=["a sentence", "index bm25", "evaluate bm25"],
)
def test_where_nothing_is_encoded_by_torch(indexed: Run, command: list[str], why: str) -> None:
    assert f"--device {why}" in indexed(*command, "--device", "cpu", code=2).stderr


@pytest.mark.gpu
def test_an_index_made_on_a_gpu_answers_as_one_made_on_a_cpu(lexlip: Run, photos: Path) -> None:
    hits, identities = [], []
    for device in ("cpu", "cuda"):
        lexlip("index", "photos", "--index", device, "--device", device)
        answer = lexlip("search", "--image", "photos/0.jpg", "--index", device, "--json", "--device", device)
        hits.append(json.loads(answer.stdout)["hits"])
        identities.append(json.loads((Path(device) / "index.json").read_text())["encoder"])
    assert identities[0] == identities[1]
    on_cpu, on_gpu = ({hit["path"]: hit["score"] for hit in found} for found in hits)
    assert on_gpu == pytest.approx(on_cpu, rel=0.05, abs=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("command", ["words", "evaluate"])
def test_other_commands_on_a_gpu(lexlip: Run, photos: Path, command: str) -> None:
    lexlip(command, "photos", "--device", "cuda")
