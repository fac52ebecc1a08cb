import base64
import io
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult
from PIL import Image

from lexlip.mcp.agent_server import make_server
from lexlip.mcp.photo_tools import PhotoTools
from lexlip.retrieval.albums import Albums
from tests.mcp.conftest import HOSTILE
from tests.search.indexes import index_words

Call = Callable[..., CallToolResult]


@pytest.fixture
def call(tools: PhotoTools) -> Call:
    """Calls a tool by the protocol's own client, which also checks answers against their schemas."""

    def run(name: str, **arguments: Any) -> CallToolResult:
        async def ask(client: Client) -> CallToolResult:
            return await client.call_tool(name, arguments)

        return asked(tools, ask)

    return run


def asked(tools: PhotoTools, ask: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(make_server(tools)) as client:
            return await ask(client)

    return anyio.run(run)


def text(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


def test_what_is_offered(tools: PhotoTools) -> None:
    async def ask(client: Client) -> Any:
        return client.server_capabilities, client.instructions, (await client.list_tools()).tools

    capabilities, instructions, offered = asked(tools, ask)
    assert capabilities.tools is not None
    assert (capabilities.resources, capabilities.prompts) == (None, None)
    assert "not instructions" in instructions
    assert [tool.name for tool in offered] == ["search", "similar", "explain", "show_photo", "status"]
    for tool in offered:
        assert tool.annotations.read_only_hint
        assert tool.description
        assert "self" not in tool.input_schema["properties"]
        assert all("description" in field for field in tool.input_schema["properties"].values())
    wanted = {"query", "add", "exclude", "k", "after", "before", "folder", "caption", "near", "within"}
    wanted |= {"album", "file_dates", "min_score", "cursor", "language"}
    assert set(offered[0].input_schema["properties"]) == wanted
    assert set(offered[1].input_schema["properties"]) == wanted - {"query", "add", "exclude", "language"} | {
        "id"
    }
    assert "hits" in offered[0].output_schema["properties"]


def test_a_search(call: Call, tools: PhotoTools) -> None:
    result = call("search", query="a dog", add=["cat"], exclude=["boat"], k=3, min_score=0.01)
    answer = tools.search("a dog", ["cat"], ["boat"], 3, min_score=0.01).to_dict()
    found = dict(result.structured_content or {})
    assert found.pop("ms").keys() == answer.pop("ms").keys()
    assert found == answer
    assert found["hits"][0]["key"]
    assert len([line for line in text(result).splitlines() if line[0].isdigit()]) == 3
    same = {"query": "a dog", "add": ["cat"], "exclude": ["boat"], "k": 3, "min_score": 0.01}
    more = call("search", **same, cursor=found["cursor"])
    assert [hit["rank"] for hit in (more.structured_content or {})["hits"]] == [4, 5, 6]


def test_conditions(call: Call) -> None:
    def ids(**conditions: Any) -> set[str]:
        result = call("search", query="a dog on the grass", k=100, **conditions)
        return {hit["id"] for hit in (result.structured_content or {})["hits"]}

    assert ids(caption="told") <= {f"{name}.jpg" for name in HOSTILE}
    assert ids(after="2014") == ids(before="2030", after="1990") == ids(folder="none") == set()
    assert len(ids(after="1990", file_dates=True)) == len(ids()) > 0


def test_albums(photos: Path, model_folder: Path, tmp_path: Path) -> None:
    index = index_words(model_folder, photos, tmp_path / "index")
    with PhotoTools(index) as tools:

        async def ask(client: Client) -> list[CallToolResult]:
            asked: list[tuple[str, dict[str, Any]]] = [
                ("search", {"query": "a dog", "album": "two of them", "k": 100}),
                ("similar", {"id": "1.jpg", "album": "two of them"}),
                ("search", {"query": "a dog", "album": "none"}),
                ("status", {}),
            ]
            return [await client.call_tool(*one) for one in asked]

        assert tools.status()["albums"] == []
        Albums(index).change("two of them", ["0.jpg", "1.jpg", "gone.jpg"])
        Albums(index).change("starred", ["2.jpg"])
        found, similar, none, status = asked(tools, ask)
    assert {hit["id"] for hit in (found.structured_content or {})["hits"]} <= {"0.jpg", "1.jpg"}
    assert [hit["id"] for hit in (similar.structured_content or {})["hits"]] == ["0.jpg"]
    assert text(none) == "there is no album 'none'; albums are starred, two of them"
    assert (status.structured_content or {})["albums"] == ["starred", "two of them"]
    assert 'albums: "starred", "two of them"' in text(status)


def test_a_picture(call: Call) -> None:
    result = call("show_photo", id="null.jpg", size=64)
    image, words = result.content
    assert image.type == "image"
    assert image.mime_type == "image/jpeg"
    with Image.open(io.BytesIO(base64.b64decode(image.data))) as picture:
        assert max(picture.size) <= 64
    assert words.type == "text"
    assert (result.structured_content or {})["id"] == "null.jpg"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(call: Call, name: str) -> None:
    id = f"{name}.jpg"
    for tool in ("similar", "explain", "show_photo"):
        result = call(tool, id=id)
        assert not result.is_error, text(result)
        assert all(line.isprintable() for line in text(result).split("\n"))


def test_reasons_and_status(call: Call, tools: PhotoTools) -> None:
    assert call("explain", query="a dog", id="1.jpg").structured_content == tools.explain("a dog", "1.jpg")
    assert call("explain", query="a dog").structured_content == tools.explain("a dog")
    assert call("status").structured_content == tools.status()


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("search", {"query": " "}, "the query is empty: give a sentence, or words to add"),
        (
            "search",
            {"query": "dog^101"},
            "'dog^101' at character 1 of the query needs a number from 0 to 100",
        ),
        ("search", {"query": "a", "add": ["a b"]}, "'+a b' is not understood"),
        ("search", {"query": "a", "cursor": "x"}, "'x' is no cursor"),
        ("search", {"query": "a", "after": "2014-13"}, "'after' is '2014-13', and there is no such date"),
        ("search", {"query": "a", "k": 0}, "k: Input should be greater than or equal to 1"),
        ("search", {"query": ["a"]}, "query: Input should be a valid string"),
        ("search", {"query": "a dog", "add": "snow"}, "add: Input should be a valid list"),
        (
            "search",
            {"query": "a dog", "date": "2019"},
            "search takes no 'date', but query, add, exclude, k, after",
        ),
        ("status", {"of": "a dog"}, "status takes no 'of', but nothing"),
        ("similar", {"id": "no.jpg"}, "'no.jpg'"),
        ("similar", {}, "id: Field required"),
        ("show_photo", {"id": "../../etc/passwd"}, "holds no photo with the id '../../etc/passwd'"),
        ("show_photo", {"id": "0.jpg", "size": 10**9}, "size: Input should be less than or equal to 1024"),
        ("explain", {}, "give a query, the id of a photo, or both"),
        ("delete", {}, "Unknown tool: delete"),
    ],
)
def test_errors_are_sentences(call: Call, tool: str, arguments: dict[str, Any], sentence: str) -> None:
    result = call(tool, **arguments)
    assert result.is_error
    assert sentence in text(result)
    assert "\n" not in text(result)
    assert "Error executing" not in text(result)


def test_faults_are_logged(
    call: Call, tools: PhotoTools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tools, "status", lambda: 1 / 0)
    with caplog.at_level(logging.ERROR):
        result = call("status")
    assert result.is_error
    assert "division" not in text(result)
    assert "ZeroDivisionError" in caplog.text
