import io
import sys

import pytest
from tqdm import tqdm

import lexlip.machine.progress
from lexlip.machine.progress import ProgressBar


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
