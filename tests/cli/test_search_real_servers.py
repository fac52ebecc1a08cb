"""`lexlip export` and `search --server` with real servers, which `make servers` starts; TLS by nginx."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lexlip.other_engines import ask
from tests.cli.conftest import ALL, Run, error
from tests.other_engines.real_servers import KINDS, address, change, load, place

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
        assert "no photo shares a word" in indexed("search", "--server", at, "-k", 1, "🐱").stdout
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in here["hits"]]
    # a weight above 511 is rounded to the nearest of nine bits by OpenSearch
    tolerance = 2e-3 if kind == "opensearch" else 1e-12
    scores = [hit["score"] for hit in here["hits"]]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx(scores, rel=tolerance)


NGINX = """\
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ }}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate server.pem;
        ssl_certificate_key server.key;
        auth_basic photos;
        auth_basic_user_file {folder}/users;
        location / {{ proxy_pass {behind}; proxy_set_header Authorization ""; }}
    }}
}}
"""
AUTHORITY = """\
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out root-ca.pem \\
    -addext keyUsage=critical,keyCertSign
openssl req -newkey rsa:2048 -nodes -subj /CN=server -keyout server.key -out server.csr
printf 'subjectAltName=IP:127.0.0.1\\nauthorityKeyIdentifier=keyid\\n' > names
openssl x509 -req -in server.csr -CA root-ca.pem -CAkey ca.key -CAcreateserial -days 2 \\
    -extfile names -out server.pem
echo "admin:$(openssl passwd -apr1 PASSWORD)" > users
"""


@contextmanager
def with_tls(folder: Path, behind: str) -> Iterator[str]:
    """Give the address of an nginx that wants https, of an authority of its own, a user and a password."""
    for program in ("nginx", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder.mkdir()
    subprocess.run(["bash", "-e"], input=AUTHORITY, text=True, cwd=folder, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(NGINX.format(port=port, folder=folder, behind=behind))
    with (folder / "log.txt").open("w") as log:
        command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
        nginx = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while nginx.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                pass
        assert nginx.poll() is None, (folder / "log.txt").read_text()
        yield f"https://127.0.0.1:{port}"
    finally:
        nginx.terminate()
        nginx.wait()


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
        assert "(400: <html>" in plain
