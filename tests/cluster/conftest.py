"""A Ray of two processors that the tests of a file share, and tars of drawn photos."""

import io
import tarfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from anserini_bridge.storage import UNFINISHED
from lexlip.cluster.session import connected
from lexlip.cluster.shard_indexer import ShardIndexer, ShardWork
from lexlip.cluster.shard_indexing import commit, describe_tars, names_of
from lexlip.data import Scenes
from lexlip.models.contract import EncodingSettings
from lexlip.models.model_folder import read_description
from tests.data.pictures import write_tar
from tests.tiny import CAPTIONS

pytest.importorskip("ray")


def write_tars(folder: Path, tars: int = 3, photos: int = 7, first: int = 0) -> list[Path]:
    """Tars of drawn photos, some of them equal, so that scores are too, with captions."""
    scenes, paths = Scenes(5, seed=0), []
    for number in range(first, first + tars):
        files = {}
        for photo in range(photos):
            files[f"{photo}.jpg"] = jpeg_of(scenes, (number + photo) % len(scenes))
            files[f"{photo}.txt"] = CAPTIONS[photo % len(CAPTIONS)].encode()
        paths.append(write_tar(folder / f"{number:02d}.tar", files))
    return paths


def jpeg_of(scenes: Scenes, number: int) -> bytes:
    picture = io.BytesIO()
    scenes.image(number).save(picture, "JPEG")
    return picture.getvalue()


def members(tar: Path) -> dict[str, bytes]:
    with tarfile.open(tar) as opened:
        return {entry.name: opened.extractfile(entry).read() for entry in opened}  # type: ignore[union-attr]


def replace_tar(path: Path, files: dict[str, bytes]) -> None:
    """A tar in another one's place, at once, as copying programs do it."""
    write_tar(path.with_suffix(".part"), files).replace(path)


def add_photos(path: Path, photos: int = 1, caption: str = "a dog") -> None:
    """Put drawn photos 9.jpg, 10.jpg, … at the end of a tar, in whose place the longer one comes at once."""
    scenes, files = Scenes(9 + photos, seed=1), members(path)
    for number in range(9, 9 + photos):
        files |= {f"{number}.jpg": jpeg_of(scenes, number), f"{number}.txt": caption.encode()}
    replace_tar(path, files)


def sharded_index(folder: Path, model: Path, tars: int) -> Path:
    """A sharded index that was made in this process, without a cluster."""
    paths = write_tars(folder / "tars", tars)
    index = folder / "many"
    identity = read_description(model)["identity"]
    indexer = ShardIndexer(EncodingSettings(str(model), identity, "cpu", 32, "unit", 0))
    indexer.open()
    (index / UNFINISHED).mkdir(parents=True)
    names = names_of(paths, identity, 32, "unit")
    for name, path in zip(names.values(), paths, strict=True):
        place = str(index / UNFINISHED / name)
        indexer.index(ShardWork(str(path), str(path.parent), path.stat().st_size, place))
    extra = {"model": str(model), **describe_tars((f"{folder}/tars/*.tar",), paths, 0.0, index)}
    commit(index, names, {}, extra, sealed=True)
    return index


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray, in this process and those that it starts."""
    with ExitStack() as running:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own, while it starts
            running.enter_context(connected("local", 2))
        yield


@contextmanager
def processors_taken(but: int = 0) -> Iterator[int]:
    """All processors of the cluster are taken, as by replicas, but so many; how many it has."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    has = int(ray.cluster_resources()["CPU"])
    wait_until_free(has)
    held = placement_group([{"CPU": 1}] * (has - but))
    try:
        wait_until_free(but)
        yield has
    finally:
        remove_placement_group(held)
        wait_until_free(has)


def wait_until_free(processors: int) -> None:
    """Wait until Ray says that so many processors are free."""
    import ray

    end = time.monotonic() + 60
    while int(ray.available_resources().get("CPU", 0)) != processors:
        assert time.monotonic() < end
        time.sleep(0.1)
