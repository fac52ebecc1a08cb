"""The servers that `make servers` starts: indexes of a test's own there, filled by LOAD.txt."""

import json
import re
import shutil
import socket
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lexlip.other_engines.ask import Server
from lexlip.other_engines.export import export
from tools.servers import PATIENCE, Node, peers, ready, wait

KINDS = pytest.mark.parametrize("kind", ["opensearch", "solr"])


def address(kind: str) -> str:
    """Where the first node of a server answers; the test is skipped where its nodes do not all run."""
    first = peers(kind)[0]
    if not ready(first):
        pytest.skip(f"no {kind} at {first.address}: make servers starts it")
    return first.address


def asked(method: str, url: str, body: Any = None) -> Any:
    """What a server answers to a request, whose body is a text, or goes as JSON."""
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, text and text.encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


class Place:
    """An index on a server: where it is, and what is exported for it."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name, self.url = kind, name, address(kind)

    @property
    def server(self) -> Server:
        """As `lexlip search --server` asks it."""
        return Server.of(f"{self.kind}+{self.url}/{self.name}")

    def export(self, index: Path, output: Path, shards: int = 2, replicas: int = 0) -> Path:
        """Write what LOAD.txt loads: as printed, but for the address, the password, shards and replicas."""
        export(index, self.kind, output, name=self.name)
        change(output / "LOAD.txt", r"^URL=.*$", f"URL={self.url}")
        change(output / "LOAD.txt", r"^AUTH=\([^)]*\)", "AUTH=()")
        if self.kind == "solr":
            change(output / "LOAD.txt", "numShards=1", f"numShards={shards}")
            change(output / "LOAD.txt", "replicationFactor=1", f"replicationFactor={1 + replicas}")
        else:
            made = json.loads((output / "index.json").read_text())
            made["settings"] = {"number_of_shards": shards, "number_of_replicas": replicas}
            (output / "index.json").write_text(json.dumps(made))
        return output

    def holders(self) -> list[str]:
        """The nodes with its shards and replicas."""
        if self.kind == "opensearch":
            told = asked("GET", f"{self.url}/_cat/shards/{self.name}?format=json")
            return [shard["node"] for shard in told]
        told = asked("GET", f"{self.url}/solr/admin/collections?action=CLUSTERSTATUS&collection={self.name}")
        ports = {f"127.0.0.1:{node.port}_solr": node.name for node in peers("solr")}
        shards = told["cluster"]["collections"][self.name]["shards"].values()
        return [ports[one["node_name"]] for shard in shards for one in shard["replicas"].values()]

    def delete(self) -> None:
        """Delete it, and what belongs to it."""
        if self.kind == "opensearch":
            asked("DELETE", f"{self.url}/{self.name}?ignore_unavailable=true")
            return
        told = asked("GET", f"{self.url}/solr/admin/collections?action=LIST")
        if self.name in told["collections"]:
            asked("GET", f"{self.url}/solr/admin/collections?action=DELETE&name={self.name}")
        asked("GET", f"{self.url}/solr/admin/configs?action=DELETE&name={self.name}")


@contextmanager
def place(kind: str) -> Iterator[Place]:
    """Give an index of its own, which is deleted at the end."""
    one = Place(kind, f"test-{uuid.uuid4().hex}")
    try:
        yield one
    finally:
        one.delete()


@contextmanager
def dying(node: Node) -> Iterator[Node]:
    """Give a node that may be killed, and start it again at the end."""
    try:
        yield node
    finally:
        node.start()
        wait(peers(node.kind))


def change(file: Path, pattern: str, into: str) -> None:
    """Replace what a pattern finds once in a file."""
    text, found = re.subn(pattern, lambda _: into, file.read_text(), flags=re.MULTILINE)
    assert found == 1, pattern
    file.write_text(text)


def load(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run LOAD.txt as it says."""
    return subprocess.run(["bash", "LOAD.txt"], cwd=folder, capture_output=True, text=True, timeout=500)


NGINX = """\
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ }}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate server.pem;
        ssl_certificate_key server.key;
        client_max_body_size {largest};
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
def with_tls(folder: Path, behind: str, largest: str = "1m") -> Iterator[str]:
    """Give the address of an nginx that wants https, of an authority of its own, a user and a password.

    The user is admin, the password PASSWORD, and folder/root-ca.pem the authority. Requests that are larger
    than `largest`, as nginx writes it, are refused.
    """
    for program in ("nginx", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder.mkdir()
    subprocess.run(["bash", "-e"], input=AUTHORITY, text=True, cwd=folder, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(NGINX.format(port=port, folder=folder, behind=behind, largest=largest))
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
