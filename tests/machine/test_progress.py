import io
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


def test_a_long_wait_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexlip.machine.progress, "LONG", 0)
    told: list[str] = []
    is_told = Event()

    def tell(line: str) -> None:
        told.append(line)
        is_told.set()

    with Wait(tell, "a server") as wait:
        assert is_told.wait(60)
        wait.now("another")
    assert told == ["a server"]
    is_told.clear()
    with Wait(tell) as wait:  # for what, is known later
        wait.now("a server that is busy")
        assert is_told.wait(60)
        wait.now("another")
    assert told[1:] == ["a server that is busy"]
    with Wait(None, "told to nobody") as wait:
        wait.now("still not")


def test_a_short_wait_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for seconds, what in ((60, "a server"), (0, "")):
        monkeypatch.setattr(lexlip.machine.progress, "LONG", seconds)
        with Wait(told.append, what) as wait:
            pass
        wait._timer.join(60)
        assert not wait._timer.is_alive()
    assert told == []
