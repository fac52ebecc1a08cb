import os
import signal
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import lexlip
from anserini_bridge.errors import BridgeError, IndexNotFound
from lexlip.cli import main
from lexlip.cli.exit_codes import (
    Commands,
    Interrupted,
    UserError,
    interruptible,
    terminated_as_interrupted,
)
from lexlip.data import UnreadableImage
from lexlip.errors import ConfigError, DataError, LexLIPError, ModelError


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        *((kind("x"), True) for kind in (LexLIPError, ConfigError, DataError, ModelError, UnreadableImage)),
        *((kind("x"), True) for kind in (BridgeError, IndexNotFound)),
        *((kind("x"), False) for kind in (ValueError, OSError, ZeroDivisionError)),
    ],
)
def test_errors_that_a_user_can_mend(error: Exception, wanted: bool) -> None:
    """One class is for all of them, whichever package raises them."""
    assert isinstance(error, lexlip.FixableError) is wanted


def test_ctrl_c_says_how_to_go_on() -> None:
    with pytest.raises(Interrupted) as caught, interruptible("start again"):
        raise KeyboardInterrupt
    assert (caught.value.message, caught.value.exit_code) == ("interrupted: start again", 130)


def test_ctrl_c_in_a_command_that_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Commands, "get_command", press)  # as its module is loaded
    for arguments in (["search", "dog"], ["--help"]):
        done = CliRunner().invoke(main, arguments)
        assert (done.exit_code, done.stderr) == (130, "Error: interrupted\n")


def test_sigterm_is_as_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted), interruptible("start again"), terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_says_how_to_go_on() -> None:
    with pytest.raises(Interrupted, match="start again"), interruptible("start again"):
        os.kill(os.getpid(), signal.SIGTERM)


def test_other_errors_pass_through() -> None:
    with pytest.raises(DataError, match="no photo"), interruptible("start again"):
        raise DataError("no photo")
    with interruptible("start again"):
        pass


def test_exit_codes_are_those_of_shells() -> None:
    assert issubclass(UserError, click.ClickException)
    assert (UserError("x").exit_code, Interrupted("x").exit_code) == (2, 130)


@pytest.mark.parametrize("command", [["index"], ["words", "."]])
def test_a_folder_that_was_removed_under_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert result.stderr == "Error: the folder that you are in was removed: go to another one\n"


def test_a_limit_on_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index need not be built again."""

    def fail(*_: object) -> None:
        raise BridgeError("Lucene failed (FileSystemException: Too many open files): build the index anew")

    monkeypatch.setattr(Commands, "get_command", fail)
    done = CliRunner().invoke(main, ["search", "dog"])
    said = "Error: too many files are open: raise the limit, as with `ulimit -n 4096`\n"
    assert (done.exit_code, done.stderr) == (2, said)


@pytest.mark.parametrize("command", [["search", "a dog"], ["index", "--update"], ["doctor", "--verify"]])
def test_a_name_that_is_too_long(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--index", 300 * "a"])
    found = command[0] == "doctor" and sys.version_info >= (3, 14)  # where pathlib asks for no such file
    assert result.exit_code == (1 if found else 2)
    assert "is too long for a name: give a shorter one" in (result.stdout if found else result.stderr)
