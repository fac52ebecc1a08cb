import io
import signal
import subprocess
import sys
from threading import Event

import pytest
from tqdm import tqdm

import lexlip.machine.progress
from lexlip.machine.progress import ProgressBar, Wait


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time; each look at it takes a tenth of a second."""
    now = [100.0]

    def tick() -> float:
        now[0] += 0.1
        return now[0]

    monkeypatch.setattr(lexlip.machine.progress.time, "monotonic", tick)
    monkeypatch.setattr("tqdm.std.time", tick)
    return now


def test_into_a_pipe_a_line_every_few_seconds(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    began = clock[0]
    with ProgressBar(total=200, desc="index", unit="photo", delay=2) as bar:
        for _ in range(100):
            bar.update(2)
            tqdm.write("something else", sys.stderr)  # does not draw it again
        bar.set_postfix_str("soon")
    lines = [line for line in capsys.readouterr().err.split("\n") if line != "something else"]
    assert 2 <= len(lines) - 1 <= (clock[0] - began) / lexlip.machine.progress.EVERY
    assert lines.pop() == ""
    for line in lines:
        assert line.startswith("index: ")
        assert "/200 [00:" in line  # how many, and since when
        assert "<00:" in line  # the time that remains
        assert "photo/s" in line
        assert line.isprintable()


def test_quick_work_and_hidden_one_show_nothing(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(ProgressBar(range(3), "index")) == [0, 1, 2]
    assert list(ProgressBar(range(300), "index", disable=True)) == list(range(300))
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_bar(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Terminal())
        for _ in ProgressBar(range(9), "index", ncols=60):
            pass
        shown = sys.stderr.getvalue()
    assert shown.startswith("\rindex: ")
    assert "█" in shown or "#" in shown


class Told(list[str]):
    """The lines that were told; `wait` waits for the first one."""

    def __init__(self) -> None:
        super().__init__()
        self._first = Event()

    def __call__(self, line: str) -> None:
        self.append(line)
        self._first.set()

    def wait(self) -> None:
        assert self._first.wait(60)


def test_a_long_wait_is_told_and_once_what_else_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexlip.machine.progress, "LONG", 0)
    told = Told()
    with Wait(told, "a server") as wait:
        told.wait()
        for line in ("a server", "one that is busy", "a server", "a third"):
            wait.now(line)
    assert told == ["a server", "one that is busy"]
    told = Told()
    with Wait(told) as wait:  # for what, is known later
        wait.now("a server that is busy")
        told.wait()
    assert told == ["a server that is busy"]
    with Wait(None, "told to nobody") as wait:
        wait.now("still not")


def test_a_short_wait_is_not_told() -> None:
    told = Told()
    with Wait(told) as wait:
        pass
    assert wait._timer is None  # no thread, where there is no line
    with Wait(told, "a server") as wait:
        pass
    assert wait._timer is not None
    wait._timer.join(60)
    assert not wait._timer.is_alive()
    assert told == []


def test_nothing_is_told_after_the_block() -> None:
    """As from a timer that went off when the block ended."""
    told = Told()
    with Wait(told, "a server") as wait:
        pass
    wait._is_long()
    wait.now("another")
    assert told == []


def test_a_process_that_is_killed_behind_a_bar_leaves_no_semaphore() -> None:
    program = (
        "import multiprocessing, os, signal\n"
        "from lexlip.machine.progress import ProgressBar\n"
        "multiprocessing.set_start_method('spawn')\n"
        "with ProgressBar(total=2):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
