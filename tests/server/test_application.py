import asyncio
import http.client
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect

from lexlip.retrieval.answer import key_of
from lexlip.server import connections
from lexlip.server.access import Access
from lexlip.server.application import Guard
from tests.search.indexes import Indexed
from tests.server.conftest import TOKEN
from tests.server.serving import Serving, problem, serving

UNSAID = "positive_data_acceptance"  # a schema cannot say which dates exist, or which marks a query may have


def test_the_description_is_whole(server: Serving) -> None:
    described = server.client.get("/api/openapi.json").json()
    calls = {f"{method} {path}" for path, of in described["paths"].items() for method in of}
    assert calls == {
        *("get /api/search", "post /api/search", "get /api/explain/{key}", "get /api/words"),
        *("get /api/telling", "get /api/facets", "get /api/photos/{key}", "get /api/photos/{key}/thumbnail"),
        *("get /api/photos/{key}/original", "get /api/photos/{key}/places", "get /api/photos/{key}/heat"),
        *("get /api/photos", "get /api/timeline", "get /api/status", "post /api/update", "get /api/health"),
        *(
            "get /api/map",
            "get /api/towns",
            "post /api/download",
            "get /api/albums",
            "post /api/albums/{name}",
        ),
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


@pytest.mark.parametrize("path", ["/", "/docs", "/api/health", "/api/search?q=dog", "/api/nothing"])
def test_head_is_get_without_the_body(server: Serving, path: str) -> None:
    asked, got = (raw(server, method, path, {}) for method in ("HEAD", "GET"))
    assert asked[:2] == (got[0], b"")
    assert asked[2]["content-type"] == got[2]["content-type"]


def test_an_unknown_address_is_a_problem(server: Serving) -> None:
    for path in ("/api/nothing", "/nothing", "/api"):
        assert "there is nothing at this address: photos are searched at /" in problem(
            server.client.get(path), 404
        )


def test_it_keeps_its_own_description(
    changing: tuple[Path, Serving], tmp_path: Path, towns_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """schemathesis sends what the description allows, and what it does not, and looks at the answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(towns_home))
    _, server = changing
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
    assert "Tested: 21" in done.stdout
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


def raw(server: Serving, method: str, path: str, headers: dict[str, str], body: str = "") -> Any:
    """Ask as a client does that is no browser and no library; paths go as they are."""
    url = server.client.base_url
    connection = http.client.HTTPConnection(url.host, url.port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode() or None)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data, {name.lower(): value for name, value in answer.getheaders()}


@pytest.mark.parametrize("path", ["/", "/docs", "/docs.js", "/api/health", "/api/search", "/no"])
def test_every_answer_has_the_headers_of_safety(server: Serving, path: str) -> None:
    headers = server.client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_pictures_come_from_one_more_origin_if_it_is_named() -> None:
    origin = "https://photos.example.org"
    for more, pictures in (("", ""), (origin, f" {origin}")):
        policy = Guard(FastAPI(), Access(), more).headers["Content-Security-Policy"]
        assert f"img-src 'self' blob: data:{pictures}" in policy.split("; ")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "[::2]"],
)
@pytest.mark.parametrize("path", ["/", "/api/search?q=dog", "/api/health"])
def test_names_that_a_stranger_made_lead_here_are_refused(server: Serving, host: str, path: str) -> None:
    problem(server.client.get(path, headers={"Host": host}), 400)


def test_a_request_may_name_the_server_with_the_path(server: Serving) -> None:
    """As to a proxy; the Host header beside it does not count."""
    host = server.client.base_url.netloc.decode()
    for path in ("/", "/api/health", "/api/search?q=a%20dog&k=1", "/api/photos/0.jpg%2F..", "/no"):
        whole, *_ = answers = [
            raw(server, method, f"{begin}{path}", {"Host": name})[:2]
            for method in ("GET", "HEAD")
            for begin, name in ((f"http://{host}", "evil.example"), (f"HTTP://{host}", host), ("", host))
        ]
        assert whole[0] == server.client.get(path).status_code
        assert {status for status, _ in answers} == {whole[0]}
    assert raw(server, "GET", f"http://{host}", {})[0] == 200
    for evil in ("http://evil.example/", "http:///", f"http://{host}@evil.example/", "http://evil.example?/"):
        assert raw(server, "GET", evil, {"Host": host})[0] == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8642", "[::1]:3", "photos.home"])
def test_its_own_names_are_let_in(locked_server: Serving, host: str) -> None:
    assert locked_server.client.get("/api/health", headers={"Host": host}).status_code == 200


def test_a_host_cannot_disguise_a_path(locked_server: Serving) -> None:
    for host in ("localhost/api/health?", "localhost/?", "localhost#"):
        status, _, _ = raw(locked_server, "GET", "/api/status", {"Host": host})
        assert status in (400, 401)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/api/update", "/api/search"])
def test_pages_of_other_sites_cannot_make_a_browser_call(
    server: Serving, path: str, headers: dict[str, str]
) -> None:
    answer = server.client.post(path, json={}, headers=headers)
    assert problem(answer, 403) == "this call came from a page of another site"
    assert not server.get("/status")["update"]["running"]


def test_its_own_page_may_call(server: Serving) -> None:
    own = str(server.client.base_url).rstrip("/")
    headers = {"Origin": own, "Sec-Fetch-Site": "same-origin"}
    assert server.client.post("/api/search", json={"q": "dog"}, headers=headers).status_code == 200
    assert server.client.options("/api/search", headers={"Origin": "https://evil.example"}).status_code == 403


def test_other_sites_cannot_show_the_photos(server: Serving) -> None:
    key = server.search("dog")["hits"][0]["key"]
    answer = server.client.get(f"/api/photos/{key}/thumbnail", headers={"Sec-Fetch-Site": "cross-site"})
    problem(answer, 403)


def test_a_token_is_asked_for_everywhere_but_by_health(locked_server: Serving) -> None:
    for path in ("/", "/index.html", "/docs", "/api/search?q=dog", "/api/openapi.json", "/api/photos/x"):
        answer = locked_server.client.get(path)
        assert "token" in problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert locked_server.client.get("/api/health").status_code == 200


@pytest.mark.parametrize(
    "shown",
    ["Bearer wrong", "Basic " + TOKEN, TOKEN, "Bearer", "Bearer " + TOKEN[:-1], "Bearer\u00a0ü"],
)
def test_a_wrong_token_is_refused(locked_server: Serving, shown: str) -> None:
    answer = locked_server.client.get("/api/status", headers={"Authorization": shown.encode()})
    problem(answer, 401)
    problem(locked_server.client.get("/", params={"token": "wrong"}), 401)


def test_a_program_shows_the_token_with_every_call(library: Indexed) -> None:
    with serving(library.bm25, token="a plain token 1234") as server:
        answer = server.client.get("/api/status", headers={"Authorization": "Bearer a plain token 1234"})
        assert answer.status_code == 200


def test_a_browser_shows_the_token_once(locked_server: Serving) -> None:
    address = locked_server.client.base_url
    with httpx2.Client(base_url=address) as browser:
        answer = browser.get("/", params={"q": "two dogs & <b>", "token": TOKEN})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/?q=two+dogs+%26+%3Cb%3E"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        assert browser.get("/api/status").json()["kind"] == "bm25"  # a client keeps cookies
    name, _, value = cookie.partition(";")[0].partition("=")
    with httpx2.Client(base_url=address) as fresh:
        problem(fresh.get("/api/status", headers={"Cookie": f"{name}={value[:-1]}0x"}), 401)
        problem(fresh.get("/api/status", headers={"Cookie": '"=;;;' + name}), 401)


def test_the_rate_of_a_client_is_bounded(library: Indexed) -> None:
    with serving(library.bm25, rate=0.5) as server:
        answers = [server.client.get("/api/health") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert "0.5 requests a second" in problem(answers[2], 429)
        assert int(answers[2].headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    "path",
    [
        "/../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/vendor/../../served_index.py",
        "/vendor/%2e%2e/%2e%2e/access.py",
        "/%00",
        "//evil.example/",
        "/page/../access.py",
    ],
)
def test_no_path_leads_out_of_the_page(server: Serving, path: str) -> None:
    status, data, _ = raw(server, "GET", path, {})
    assert status in (400, 404)
    assert b"root:" not in data
    assert b"import" not in data


def test_a_fault_of_the_program_is_a_problem_without_details(
    server: Serving, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server.served, "facets", lambda: 1 / 0)
    says = problem(server.client.get("/api/facets"), 500)
    assert says == "the server made a mistake: its own messages say more"
    printed = capfd.readouterr()
    assert "ZeroDivisionError: division by zero" in printed.err
    assert "Traceback" not in printed.err + printed.out


def test_what_serves_imports_nothing_heavy(library: Indexed) -> None:
    code = (
        "import sys; from pathlib import Path; from lexlip.server.application import make_application;"
        " from lexlip.server.served_index import ServedIndex; from lexlip.server.access import Access;"
        f" s = ServedIndex(Path({str(library.words)!r})); make_application(s, Access());"
        " s.search.text('dog');"
        " print([n for n in ('torch', 'transformers', 'timm', 'faiss') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_client_that_hangs_up_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    async def hung_up(*_: object) -> None:
        raise ClientDisconnect

    async def call() -> None:
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "scheme": "http"}
        await Guard(hung_up, Access())({**scope, "headers": [(b"host", b"localhost")]}, hung_up, hung_up)

    asyncio.run(call())
    assert capsys.readouterr().err == ""


def test_who_waits_when_the_server_ends_is_told(
    library: Indexed, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connections, "GRACE", 1)
    asked, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as caller:
        with serving(library.bm25) as server:
            server.served.facets = lambda: asked.set() or done.wait(30)  # type: ignore[assignment, method-assign, func-returns-value]
            waiting = caller.submit(httpx2.get, f"{server.address}api/facets", timeout=30)
            assert asked.wait(30)
        done.set()
        assert (
            problem(waiting.result(), 503) == "the server ends, and has no answer yet: ask again once it runs"
        )
    assert "Traceback" not in capfd.readouterr().err
