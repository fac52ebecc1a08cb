"""Every command line of the documentation is one that the command line itself understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from lexlip.cli import main
from tests.conftest import ROOT
from tests.docs.pages import Piece, blocks, spans

ENDS = {"|", "||", "&&", ";", ">", ">>", "&"}
PLACEHOLDERS = {"N": "3", "NAME": "stages"}
"""Words that stand for a number or a choice, and one that may stand there; other capitals stand for files."""


def lines(block: Piece) -> Iterator[Piece]:
    """The command lines of a block, each with what follows it after a backslash."""
    rows = iter(enumerate(block.text.splitlines(), block.line))
    for number, row in rows:
        whole = row.strip()
        while whole.endswith("\\"):
            whole = whole[:-1] + next(rows)[1].strip()
        yield Piece(block.page, number, whole.removeprefix("$ "))


def words(line: str) -> list[str]:
    """What the shell would pass on, without what stands for "and so on" and the marks of what is optional."""
    line = re.sub(r"\\\|\S*", "", line)  # "or" in a table
    found = []
    for word in shlex.split(line, comments=True):
        if word in ENDS:
            break
        if word.startswith("[") and ("]" not in word or word.endswith("]")):
            word = word[1:]
        if word.endswith("]") and "[" not in word:
            word = word[:-1]
        word = word.removesuffix("…")
        if word:
            found.append(PLACEHOLDERS.get(word, word))
    return found


def arguments(line: str) -> list[str] | None:
    """What `lexlip` is called with; None if the line does not call it."""
    called = re.match(r"(?:\w+=\S* |time |torchrun .* -m )*lexlip( .*)", line)
    return None if called is None else words(called[1])


def parse(given: list[str], only_names: bool = False) -> None:
    """Let click parse it, without running it; with `only_names` commands may lack their arguments."""
    if only_names and not given:
        return
    command: click.Command = main
    try:
        context = main.make_context("lexlip", given)
    except click.exceptions.Exit:  # --version and --help print, and end the command
        return
    while isinstance(command, click.Group):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        if only_names and not rest:
            return
        command, context = found, found.make_context(name, rest, parent=context)


CALLS = [(block, line) for block in blocks("") for line in lines(block) if arguments(line.text) is not None]
"""The lines of blocks that call `lexlip`, each with its block."""

IN_BLOCKS = [line for _, line in CALLS]
IN_TEXT = [span for span in spans() if arguments(span.text) is not None]


def test_commands_are_found() -> None:
    assert len(IN_BLOCKS) > 70
    assert len(IN_TEXT) > 80


@pytest.mark.parametrize("line", IN_BLOCKS, ids=str)
def test_a_line_is_understood(line: Piece) -> None:
    given = arguments(line.text)
    assert given
    parse(given)


@pytest.mark.parametrize("span", IN_TEXT, ids=str)
def test_a_command_in_a_sentence_is_understood(span: Piece) -> None:
    parse(arguments(span.text) or [], only_names=True)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("lexlip index --topp 3", "No such option"),
        ("lexlip index --quantization none", "is not one of"),
        ("lexlip evaluate", "Missing argument"),
        ("lexlip find dogs", "No such command"),
        ("$ lexlip search -k many dogs", "not a valid int"),
    ],
)
def test_a_wrong_line_is_found(line: str, wrong: str) -> None:
    (found,) = lines(Piece("docs/page.md", 1, line))
    with pytest.raises(click.UsageError) as error:
        parse(arguments(found.text) or [])
    assert wrong in error.value.format_message()


@pytest.mark.parametrize("command", sorted(main.commands))
def test_each_command_is_in_the_table(command: str) -> None:
    table = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert f"| `lexlip {command}" in table


MAKE = {name for block in blocks("") for name in re.findall(r"^make ([\w-]+)", block.text, re.MULTILINE)}
FILES = {
    name
    for piece in (*blocks(""), *spans())
    for name in re.findall(r"(?<!\S)((?:configs|tools|tests)/[\w./-]+\.(?:yaml|py))", piece.text)
}


@pytest.mark.parametrize("target", sorted(MAKE))
def test_a_target_of_make_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_file_that_a_command_names_exists(file: str) -> None:
    assert (ROOT / file).is_file()
