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
from lexlip.cluster.shard_indexing import commit, describe_tars, name_of
from lexlip.data import Scenes
from lexlip.models.model_folder import read_description
from tests.tiny import CAPTIONS

pytest.importorskip("ray")


def write_tars(folder: Path, tars: int = 3, photos: int = 7, first: int = 0) -> list[Path]:
    """Tars of drawn photos, some of them equal, so that scores are too, with captions."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = Scenes(5, seed=0)
    paths = []
    for number in range(first, first + tars):
        paths.append(folder / f"{number:02d}.tar")
        with tarfile.open(paths[-1], "w") as tar:
            for photo in range(photos):
                picture = io.BytesIO()
                scenes.image((number + photo) % len(scenes)).save(picture, "JPEG")
                caption = CAPTIONS[photo % len(CAPTIONS)].encode()
                for name, data in ((f"{photo}.jpg", picture.getvalue()), (f"{photo}.txt", caption)):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return paths


def add_photos(path: Path, photos: int = 1, caption: str = "a dog") -> None:
    """Put drawn photos 9.jpg, 10.jpg, … at the end of a tar, in whose place the longer one comes at once."""
    part = path.with_suffix(".part")
    part.write_bytes(path.read_bytes())
    scenes = Scenes(9 + photos, seed=1)
    with tarfile.open(part, "a") as tar:
        for number in range(9, 9 + photos):
            picture = io.BytesIO()
            scenes.image(number).save(picture, "JPEG")
            for name, data in ((f"{number}.jpg", picture.getvalue()), (f"{number}.txt", caption.encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    part.replace(path)


def sharded_index(folder: Path, model: Path, tars: int) -> Path:
    """A sharded index that was made in this process, without a cluster."""
    paths = write_tars(folder / "tars", tars)
    index = folder / "many"
    identity = read_description(model)["identity"]
    indexer = ShardIndexer(str(model), identity, str(model), "cpu", 32, "unit", 0, None)
    indexer.open()
    (index / UNFINISHED).mkdir(parents=True)
    names = [name_of(path, str(folder / "tars"), identity, 32, "unit") for path in paths]
    for name, path in zip(names, paths, strict=True):
        place = str(index / UNFINISHED / name)
        indexer.index(ShardWork(str(path), str(path.parent), path.stat().st_size, place))
    extra = {"model": str(model), **describe_tars((f"{folder}/tars/*.tar",), paths, 0.0, index)}
    commit(index, names, [path.name for path in paths], {}, extra, sealed=True)
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
