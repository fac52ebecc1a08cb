from collections.abc import Callable
from typing import Any

CODE = """
import os, subprocess, sys
print("before")
from lexlip.mcp.protocol_output import take_stdout
output = take_stdout()
print("of Python")
os.write(1, b"of a library\\n")
subprocess.run(["echo", "of a child"], check=True)
sys.stdout.write("in a buffer at the end")
output.write(b"protocol\\n")
output.flush()
"""


def test_only_the_protocol_is_written(run_python: Callable[..., Any]) -> None:
    done = run_python("-c", CODE)
    assert done.returncode == 0
    assert done.stdout == "before\nprotocol\n"
    for said in ("of Python", "of a library", "of a child", "in a buffer at the end"):
        assert said in done.stderr


def test_java_prints_elsewhere(run_python: Callable[..., Any]) -> None:
    code = """
from lexlip.mcp.protocol_output import take_stdout
take_stdout()
from anserini_bridge.jvm import java_class
java_class("java.lang.System").out.println("of Java")
"""
    done = run_python("-c", code)
    assert done.stdout == ""
    assert "of Java" in done.stderr
