"""`lexlip export` and `search --server` with real servers, which `make servers` starts; TLS by nginx."""

import json
from pathlib import Path

import pytest

from lexlip.other_engines import ask
from tests.cli.conftest import ALL, Run, error
from tests.other_engines.real_servers import KINDS, address, change, load, place, with_tls

MAKE_IT = "make it with `lexlip index --server`, or load an export into it first"

pytestmark = pytest.mark.servers


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ask.KEY, ask.USER, ask.PASSWORD, "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


@KINDS
def test_a_server_answers_as_the_index_does(indexed: Run, kind: str) -> None:
    here = json.loads(indexed("search", ALL, "-k", 4, "--json").stdout)
    with place(kind) as there:
        at = f"{kind}+{there.url}/{there.name}"
        missing = error(indexed("search", ALL, "--server", at, code=2))
        assert missing.endswith(f"has no index named {there.name} (404): {MAKE_IT}")
        assert load(there.export(Path(".lexlip"), Path("out"))).returncode == 0
        found = json.loads(indexed("search", ALL, "-k", 4, "--json", "--server", at).stdout)
        assert "no photo shares a word" in indexed("search", "--server", at, "-k", 1, "犬").stdout
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in here["hits"]]
    # a weight above 511 is rounded to the nearest of nine bits by OpenSearch
    tolerance = 2e-3 if kind == "opensearch" else 1e-12
    scores = [hit["score"] for hit in here["hits"]]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx(scores, rel=tolerance)


@KINDS
def test_https_with_an_authority_of_ones_own_a_user_and_a_password(
    indexed: Run, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(kind) as there, with_tls(tmp_path / "nginx", address(kind)) as url:
        authority = tmp_path / "nginx" / "root-ca.pem"
        there.url, behind = url, there.url
        folder = there.export(Path(".lexlip"), Path("out"))
        assert "SSL certificate problem" in load(folder).stderr
        change(folder / "LOAD.txt", r"^AUTH=\(\)", f"AUTH=(--cacert {authority})")
        refused = load(folder)
        assert "401" in refused.stderr
        assert refused.returncode == 1
        change(folder / "LOAD.txt", r"^AUTH=\(", "AUTH=(-u 'admin:PASSWORD' ")
        done = load(folder)
        there.url = behind
        assert (done.returncode, done.stderr) == (0, "")
        assert "6 photos were exported, and the server counts: " in done.stdout

        asked = ("search", ALL, "-k", 4, "--server", f"{kind}+{url}/{there.name}")
        assert error(indexed(*asked, code=2)).endswith("): name its authority's file in SSL_CERT_FILE")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert f"refuses to answer (401): set {ask.KEY}, or {ask.USER}" in error(indexed(*asked, code=2))
        monkeypatch.setenv(ask.USER, "admin")
        monkeypatch.setenv(ask.PASSWORD, "WRONG")
        assert "refuses this password (401" in error(indexed(*asked, code=2))
        monkeypatch.setenv(ask.PASSWORD, "PASSWORD")
        assert "query words: " in indexed(*asked).stdout
        plain = error(indexed(*asked[:-1], asked[-1].replace("+https", "+http"), code=2))
        assert plain.endswith("answers with an error (400: The plain HTTP request was sent to HTTPS port)")
