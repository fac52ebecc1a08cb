"""Training on a disk that is full at some point: a small file system in memory."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lexlip.config_files import to_dict
from lexlip.errors import DataError
from lexlip.training.log import Log
from lexlip.training.loop import pretrain
from lexlip.training.run_folder import way_on
from tests.disks import mount, unmount
from tests.training.small_run import SMALL, with_data
from tests.training.test_loop import check_same

KILOBYTES = 2000
FIRST = "there is no checkpoint yet: start again with the same command"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An empty disk of KILOBYTES."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "-t", "tmpfs", "-o", f"size={KILOBYTES}k", "tmpfs")
    yield folder
    unmount(folder)


def fill(disk: Path, kilobytes_left: int) -> Path:
    """Fill a disk but for some room; return the file to delete."""
    free = os.statvfs(disk)
    file = disk / "filler"
    file.write_bytes(bytes(free.f_bavail * free.f_frsize - 1024 * kilobytes_left))
    return file


@pytest.mark.parametrize("left", [0, 8, 60, 108, 200, 308, 324])  # kilobytes; a checkpoint needs 332
def test_a_full_disk_leaves_the_last_checkpoint(
    disk: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The log, or any of the files of a checkpoint, may be what has no room."""
    log_step, config = Log.step, replace(SMALL, out=str(disk / "run"))

    def fill_at_5(self: Log, number: int, *arguments: Any) -> None:
        if number == 5:
            fill(disk, left)
        log_step(self, number, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Log, "step", fill_at_5)
        with pytest.raises(DataError) as caught:
            pretrain(config)
    assert str(caught.value) == (
        f"cannot write the run {disk / 'run'}: No space left on device; when that is mended, go on from the"
        " last checkpoint with the same command and --resume"
    )
    assert [folder.name for folder in (disk / "run" / "checkpoints").iterdir()] == ["step-00000004"]
    assert (disk / "run" / "last").resolve().name == "step-00000004"
    with pytest.raises(DataError, match="cannot write the run"):  # still full
        pretrain(config, resume=True)
    (disk / "filler").unlink()
    check_same(pretrain(config, resume=True), finished)


def test_a_disk_that_is_full_from_the_beginning(disk: Path, finished: Path) -> None:
    config = replace(SMALL, out=str(disk / "run"))
    filler = fill(disk, 0)
    with pytest.raises(DataError, match=rf": No space left on device; when that is mended, {FIRST}$"):
        pretrain(config)
    filler.unlink()
    fill(disk, 100)
    with pytest.raises(DataError, match=rf"mended, {FIRST}$"):
        pretrain(config)
    assert list((disk / "run" / "checkpoints").iterdir()) == []
    (disk / "filler").unlink()
    check_same(pretrain(config), finished)


def test_views_of_photos_get_their_room_before_the_first_is_encoded(disk: Path) -> None:
    """What does not fit would kill the process otherwise: they are written through memory."""
    config = with_data(replace(SMALL, out=str(disk / "run")), views=400, crop=1.0)
    config = replace(config, optim=replace(config.optim, lr_scale={"image_encoder.body": 0.0}))
    with pytest.raises(DataError, match=rf": No space left on device; when that is mended, {FIRST}$"):
        pretrain(config)
    assert sorted(path.name for path in (disk / "run").iterdir()) == ["config.yaml"]


def test_what_is_written_is_durable_before_anything_points_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a name stands for what it named: files first, then names, `last` at the end."""
    done: list[tuple[str, str]] = []
    fsync, move = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        fsync(descriptor)

    def moved(path: Path, target: Path) -> Path:
        done.append(("move", str(target)))
        return move(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", moved)
    run = pretrain(replace(SMALL, out=str(tmp_path / "run"), optim=replace(SMALL.optim, steps=4)))
    (folder,) = (run / "checkpoints").iterdir()
    begin = done.index(("move", str(folder)))
    unnamed = {name for what, name in done[:begin] if what == "sync" and f".{folder.name}." in name}
    assert {Path(name).name for name in unnamed} >= {path.name for path in folder.iterdir()}
    assert any(Path(name).name.startswith(f".{folder.name}.") for name in unnamed)  # the folder itself
    assert done[begin + 1 :] == [
        ("sync", str(folder.parent)),
        *(pair for name in ("best", "last") for pair in (("move", str(run / name)), ("sync", str(run)))),
    ]
    assert ("sync", str(run / "config.yaml.tmp")) in done[:begin]


def test_a_later_phase_goes_on_after_the_one_before(tmp_path: Path) -> None:
    """Both lie in the folder of the run; beside a run of one phase, others do not count."""
    for name in ("phase-1", "phase-2"):
        (tmp_path / name).mkdir()
        config = replace(SMALL, out=str(tmp_path / name), phase=name)
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(to_dict(config)))
    assert way_on(tmp_path / "phase-2") == FIRST
    (tmp_path / "phase-1" / "last").mkdir()
    assert way_on(tmp_path / "phase-2").endswith("with the same command and --resume")
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / "config.yaml").write_text(yaml.safe_dump(to_dict(replace(SMALL, phase=None))))
    assert way_on(tmp_path / "another") == FIRST
