import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.cli.conftest import Run, error
from tests.conftest import ROOT
from tests.mcp.conftest import HOSTILE, hostile

__all__ = ["hostile"]  # a fixture

COMMAND = ["-m", "lexlip", "mcp", "--index"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def start(index: Path) -> subprocess.Popen[bytes]:
    """The command with pipes."""
    return subprocess.Popen(
        [sys.executable, *COMMAND, str(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def calls(*named: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        for id, (name, arguments) in enumerate(named, 1)
    ]


def lines(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.mark.parametrize(
    ("closed", "said"), [("<&-", "reads what an agent asks"), (">&-", "answers an agent on standard output")]
)
def test_streams_that_are_closed(closed: str, said: str, tmp_path: Path) -> None:
    asked = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *COMMAND, str(tmp_path)]
    done = subprocess.run(asked, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().splitlines()[-1].startswith(f"Error: lexlip mcp {said}")


def test_an_agent(hostile: Path) -> None:
    """The protocol's own client starts the command, calls its tools, and ends it."""

    async def run() -> list[Any]:
        parameters = StdioServerParameters(
            command=sys.executable, args=[*COMMAND, str(hostile)], env=environment()
        )
        async with Client(parameters) as client:
            assert client.server_info is not None
            assert client.server_info.name == "lexlip"
            found = await client.call_tool("search", {"query": "two dogs", "exclude": ["cat"], "k": 50})
            hits = (found.structured_content or {})["hits"]
            results = [found]
            for hit in hits:
                for tool in ("similar", "explain", "show_photo"):
                    results.append(await client.call_tool(tool, {"id": hit["id"]}))
            assert {hit["id"] for hit in hits} >= {f"{HOSTILE[0]}.jpg", f"{HOSTILE[1]}.jpg"} or not hits
            results.append(await client.call_tool("explain", {"query": "dogs", "id": "1.jpg"}))
            results.append(await client.call_tool("status"))
            wrong = await client.call_tool("search", {"query": "dog^101"})
            assert wrong.is_error
            return results

    results = anyio.run(run)
    assert len(results) > 3
    assert not any(result.is_error for result in results)


def test_stdout_holds_the_protocol_alone(hostile: Path) -> None:
    """Raw lines, with some that are no messages; Java's own log goes elsewhere. It ends with its input."""
    with start(hostile) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(lines([HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}]))
        process.stdin.write(b"no message\n\xff\xfe\n")
        asked = calls(
            ("search", {"query": "a dog"}),
            ("search", {"query": "dog^x^2", "add": ["a b"]}),
            ("show_photo", {"id": "null.jpg"}),
            ("show_photo", {"id": "gone.jpg"}),
            ("nothing", {}),
            ("search", {"query": "a dog \ud83d"}),  # half an emoji
        )
        process.stdin.write(lines(asked))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(7)]
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(60) == 0
        assert b"Traceback" not in process.stderr.read()
    assert {answer["id"] for answer in answers} == set(range(7))
    by_id = {answer["id"]: answer["result"] for answer in answers}
    assert by_id[1]["structuredContent"]["hits"]
    assert [by_id[id].get("isError", False) for id in range(1, 7)] == [False, True, False, True, True, False]


@pytest.mark.parametrize("how", ["interrupted", "no reader"])
def test_how_it_ends(hostile: Path, how: str) -> None:
    with start(hostile) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(lines([HELLO]))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 0
        if how == "interrupted":
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == -signal.SIGINT
        else:
            process.stdout.close()
            process.stdin.write(lines(calls(("status", {}))))
            process.stdin.close()
            assert process.wait(60) == 0
        assert b"Traceback" not in process.stderr.read()


@pytest.fixture
def in_process(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this process, whose output stays where it is."""
    monkeypatch.setattr(import_module("lexlip.cli.mcp"), "take_stdout", io.BytesIO)
    return lexlip


def test_without_an_index(in_process: Run) -> None:
    assert error(in_process("mcp", "--index", "nothing", code=2)).startswith("there is no index at nothing")


@pytest.mark.parametrize("old", [True, False])
def test_without_the_package(in_process: Run, monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
    """It is only version 1, or not installed."""
    monkeypatch.setitem(sys.modules, "mcp.server", ModuleType("mcp.server") if old else None)
    says = "lexlip mcp needs the package mcp, version 2 or newer: pip install 'lexlip[mcp]'"
    assert error(in_process("mcp", "--index", "nothing", code=2)) == says


def test_only_the_protocol_is_written(run_python: Callable[..., Any]) -> None:
    code = """
import os, subprocess, sys
print("before")
from lexlip.cli.mcp import take_stdout
output = take_stdout()
print("of Python")
os.write(1, b"of a library\\n")
subprocess.run(["echo", "of a child"], check=True)
from anserini_bridge.jvm import java_class
java_class("java.lang.System").out.println("of Java")
sys.stdout.write("in a buffer at the end")
output.write(b"protocol\\n")
output.flush()
"""
    done = run_python("-c", code)
    assert done.returncode == 0
    assert done.stdout == "before\nprotocol\n"
    for said in ("of Python", "of a library", "of a child", "of Java", "in a buffer at the end"):
        assert said in done.stderr
