import gc
import multiprocessing.context
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # the tests of the bridge run without what these need
    from click.testing import Result

ROOT = Path(__file__).parents[1]

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run beside each other: more threads are slower
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a model that is not there is not looked for on the hub

# A background job of a script is started with Ctrl-C ignored, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected: modules are no garbage, and looking takes seconds


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.enable()


class Clock:
    """Goes on only when it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest test first, so that others run beside it."""
    items.sort(key=lambda item: item.name != "test_a_share_of_each_family")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no GPU: torch.cuda.is_available() is False")


@pytest.fixture
def local_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets this process's time zone, for the test."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def shared() -> Path:
    """The folder of real photos, which is not part of the repository."""
    beside = ROOT.parent / "shared"
    folder = Path(os.environ.get("LEXLIP_SHARED", beside)) / "data"
    if not folder.is_dir():
        pytest.skip(f"no real photos: {folder} does not exist (LEXLIP_SHARED names the folder above it)")
    return folder


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for thousands of caches: where each test's folder is, pytest reads all names for the next."""
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def cache_home(caches: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    folder = Path(tempfile.mkdtemp(dir=caches))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def towns_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the table of towns, which takes seconds: made by one of the workers, not to be changed."""
    from filelock import FileLock

    from lexlip.errors import MissingPackage
    from lexlip.retrieval.gazetteer import find_place

    beside = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        beside = beside.parent
    home = beside / "towns"
    with FileLock(beside / "towns.lock"), pytest.MonkeyPatch.context() as patch:
        home.mkdir(exist_ok=True)
        patch.setenv("XDG_CACHE_HOME", str(home))
        with suppress(MissingPackage):
            find_place("paris")
    return home


@pytest.fixture(autouse=True, scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A key of the tests' own, with which they seal indexes."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def forked() -> None:
    """Processes of their own start with torch loaded."""
    from tests.forks import forks

    forks()


@pytest.fixture
def workers_are_forked(forked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So do worker processes that are spawned since Java runs here."""
    from tests.forks import forks

    monkeypatch.setitem(multiprocessing.context._concrete_contexts, "spawn", forks())  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model on disk, not to be changed."""
    from tests.tiny import tiny_model

    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model().save(folder)
    return folder


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another one of the same vocabulary, not to be changed."""
    from tests.tiny import tiny_model

    folder = tmp_path_factory.mktemp("models") / "other"
    tiny_model(seed=1).save(folder)
    return folder


def write_photos(folder: Path, number: int = 6) -> Path:
    """Drawn photos 0.jpg, 1.jpg, ... with a caption each, of words that the tiny model knows."""
    from lexlip.data import Scenes
    from tests.tiny import CAPTIONS

    folder.mkdir(parents=True, exist_ok=True)
    scenes = Scenes(number, seed=0)
    for index in range(number):
        scenes.image(index).save(folder / f"{index}.jpg")
        (folder / f"{index}.txt").write_text(CAPTIONS[index % len(CAPTIONS)] + "\n")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of six photos with captions, which a test may change."""
    return write_photos(tmp_path / "photos")


@pytest.fixture
def lexlip(tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., "Result"]:
    """Runs the command line in a folder of the test's own; the tiny model has the packaged one's name."""
    from click.testing import CliRunner

    import lexlip.models.model_folder
    from lexlip.cli import main

    (tmp_path / "packaged").mkdir()
    (tmp_path / "packaged" / "mini").symlink_to(model_folder)
    monkeypatch.setattr(lexlip.models.model_folder, "PACKAGED", tmp_path / "packaged")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, code: int = 0) -> "Result":
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return run


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a process of its own runs in this one: starting another takes seconds."""
    monkeypatch.setattr(
        "lexlip.machine.resources.in_own_process", lambda function, *given, **_: function(*given)
    )


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a Python of its own in the test's folder."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run
