import errno
import json
import os
import re
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
from skips import needs_holes, needs_pipes

from anserini_bridge.given_files import (
    DEEPEST,
    check_file,
    check_files,
    check_form,
    parse_json,
    read_file,
    read_json,
)


def test_json_is_read(tmp_path: Path) -> None:
    content = {"é": [1, 2.5, None, True, {"a": "]]]"}]}
    (tmp_path / "a.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8-sig")
    assert read_json(tmp_path / "a.json") == content
    assert read_file(tmp_path / "a.json").startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", "é".encode("latin-1"), b"[1", '{"a": '])
def test_what_is_not_json(data: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|decode"):
        parse_json(data)


@pytest.mark.parametrize(
    "deep",
    [
        "[" * DEEPEST + "]" * DEEPEST,
        '{"a":' * DEEPEST + "1" + "}" * DEEPEST,
        "[" + ",".join(['["[[["]'] * 1000) + "]",  # brackets in strings are none
        json.dumps(["\\", '"[', '\\"[' * 1000, "]"]),
    ],
)
def test_nesting_that_is_read(deep: str) -> None:
    assert parse_json(deep) == json.loads(deep)


@pytest.mark.parametrize(
    "deep",
    [
        "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "[" * 1_000_000,
        '{"a":' * 1_000_000,
        '["]]]]",' * 1_000_000,  # closed in strings only
        '["\\"]\\\\",' * 1_000_000,
        '["' + '\\"' * 1000 + '",' + "[" * (DEEPEST + 1),
    ],
)
def test_nesting_that_would_overflow_the_stack(deep: str) -> None:
    for data in (deep, deep.encode()):
        with pytest.raises(ValueError, match=f"^nested more than {DEEPEST} deep$"):
            parse_json(data)


@needs_pipes
def test_only_files_are_opened(tmp_path: Path) -> None:
    """A pipe would block for ever, and /dev/zero never ends."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inner").mkdir()
    (folder / "file").write_text("1")
    (folder / "link").symlink_to("file")
    check_files(folder)
    assert read_json(folder / "link") == 1
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("none")
    for path, why in (
        (tmp_path / "pipe", "it is a pipe, not a file"),
        (folder, "it is a folder, not a file"),
        (Path("/dev/zero"), "it is a device, not a file"),
        (tmp_path / "loop", os.strerror(errno.ELOOP)),
        (tmp_path / "nowhere", os.strerror(errno.ENOENT)),
        (tmp_path / ("x" * 300), os.strerror(errno.ENAMETOOLONG)),
    ):
        with pytest.raises(OSError, match=re.escape(why)) as caught:
            read_json(path)
        assert caught.value.filename == str(path)
    for name in ("pipe", "loop", "nowhere"):
        (folder / "odd").symlink_to(tmp_path / name)
        with pytest.raises(OSError, match=r"pipe|Too many levels|No such file"):
            check_files(folder)
        (folder / "odd").unlink()


def test_a_path_with_a_zero_byte_leads_to_no_file() -> None:
    with pytest.raises(FileNotFoundError, match="No such file"):
        read_file("photos\0/index.json")


@needs_holes
def test_a_file_of_absurd_size_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    check_file(tmp_path / "large")
    with pytest.raises(OSError, match=r"it has 1,099,511,627,776 bytes, and 1,073,741,824 are read"):
        read_json(tmp_path / "large")
    with pytest.raises(OSError, match="and 10 are read"):
        read_file(tmp_path / "large", largest=10)


class Point(TypedDict):
    x: int
    name: str | None


class Part(TypedDict, total=False):
    points: list[Point]


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (int, [0, 2**40], [-1, True, 1.0, None, "1", 2**64, [], {}]),
        (float, [0, -1, 0.5], [True, None, float("nan"), float("inf"), 10**400, "1"]),
        (str, ["", "é"], ["a\0", "\ud800", None, 1, []]),
        (bool, [True, False], [1, None, "x"]),
        (int | None, [None, 3], [False, "x", -3]),
        (Literal["a", "b"], ["a"], ["c", 1, None, []]),
        (list[str], [[], ["a"]], [["a", 1], "a", {}, None]),
        (tuple[str] | tuple[str, str], [["a"], ["a", "b"]], [[], ["a", "b", "c"], ["a", 1], "a"]),
        (dict[str, Any], [{}, {"a": [1, {}]}], [[], {"a": "\ud800"}, None]),
        (Point, [{"x": 1, "name": None, "y": 2}], [{}, {"x": 1}, {"x": "1", "name": None}, []]),
        (Part, [{}, {"points": []}, {"other": 1}], [{"points": [{}]}, {"points": None}, []]),
    ],
)
def test_the_form_of_a_value(form: Any, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        check_form(value, form, "it")
    for value in wrong:
        with pytest.raises(ValueError, match=r"^it"):
            check_form(value, form, "it")


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match=r"^it\.points\[1\]\.x is 'one'$"):
        check_form({"points": [{"x": 1, "name": None}, {"x": "one", "name": None}]}, Part, "it")


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "[1, " + "9" * 100_000 + "]"])
def test_integers_that_python_does_not_take(number: str) -> None:
    with pytest.raises(ValueError, match="an integer has thousands of digits"):
        parse_json(number)
    assert parse_json("9" * 400) == int("9" * 400)
