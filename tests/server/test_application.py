import re
import subprocess
import sys
from pathlib import Path

import pytest

from lexlip.retrieval.answer import key_of
from tests.conftest import write_photos
from tests.search.indexes import index_words
from tests.server.serving import Serving, problem, serving

UNSAID = "positive_data_acceptance"  # a schema cannot say which dates exist, or which marks a query may have


def test_the_description_is_whole(server: Serving) -> None:
    described = server.client.get("/api/openapi.json").json()
    calls = {f"{method} {path}" for path, of in described["paths"].items() for method in of}
    assert calls == {
        *("get /api/search", "post /api/search", "get /api/explain/{key}", "get /api/words"),
        *("get /api/telling", "get /api/facets", "get /api/photos/{key}", "get /api/photos/{key}/thumbnail"),
        *("get /api/photos/{key}/original", "get /api/photos/{key}/places", "get /api/photos/{key}/heat"),
        *("get /api/status", "post /api/update", "get /api/health"),
    }
    errors = described["paths"]["/api/search"]["get"]["responses"]["422"]["content"]
    assert list(errors) == ["application/problem+json"]
    assert "HTTPValidationError" not in described["components"]["schemas"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/search", {"GET", "POST"}),
        ("DELETE", "/api/photos/x", {"GET"}),
        ("GET", "/api/update", {"POST"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    server: Serving, method: str, path: str, allowed: set[str]
) -> None:
    answer = server.client.request(method, path)
    problem(answer, 405)
    assert set(answer.headers["allow"].split(", ")) == allowed


def test_an_unknown_address_is_a_problem(server: Serving) -> None:
    for path in ("/api/nothing", "/nothing", "/api"):
        assert "there is nothing at this address" in problem(server.client.get(path), 404)


def test_it_keeps_its_own_description(tmp_path: Path, model_folder: Path) -> None:
    """schemathesis sends what the description allows, and what it does not, and looks at the answers."""
    photos = write_photos(tmp_path / "photos")
    with serving(index_words(model_folder, photos, tmp_path / "index")) as server:
        heat = f"/api/photos/{key_of('0.jpg')}/heat?word=dog"
        assert server.client.get(heat).status_code == 200  # the model is loaded
        address = f"{server.client.base_url}/api/openapi.json"
        command = ["run", address, "--max-examples=8", "--seed=7", "--exclude-checks", UNSAID, "--no-color"]
        command += ["--request-timeout=60", "--suppress-health-check=all", "--generation-database=none"]
        code = "from schemathesis.cli import schemathesis; schemathesis()"
        done = subprocess.run(
            [sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Tested: 14" in done.stdout
        assert server.search("dog")["hits"]


def test_the_page_is_at_the_root(server: Serving) -> None:
    answer = server.client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"
    again = server.client.get("/", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_the_api_s_page_needs_nothing_from_elsewhere(server: Serving) -> None:
    page = server.client.get("/docs")
    assert page.headers["cache-control"] == "no-cache"
    assert "http" not in page.text.replace("<html", "")
    assert "<script>" not in page.text  # which the content security policy forbids
    for file in re.findall(r'(?:href|src)="([^"]+)"', page.text):
        assert server.client.get(f"/{file}").status_code == 200


@pytest.mark.parametrize("range", ["bytes=0-9", "bytes=nonsense", "-"])
def test_the_page_is_sent_whole(server: Serving, range: str) -> None:
    """A malformed header too is passed over, instead of an answer that is no problem document."""
    answer = server.client.get("/", headers={"Range": range})
    assert (answer.status_code, answer.text) == (200, server.client.get("/").text)
