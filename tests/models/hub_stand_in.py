"""A stand-in for the model hub's HTTP interface, as far as one model's download and upload need it."""

from __future__ import annotations

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubStandIn(ThreadingHTTPServer):
    """Holds files by repository and path; `asked` lists what came in, as "GET /path"."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HubStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            files = self.server.repositories.get("/".join(parts[2:4]))
            if files is None:
                self._missing("RepoNotFound")
            elif "tree" in parts:
                self._json([_entry(name, content) for name, content in sorted(files.items())])
            else:
                siblings = [{"rfilename": name} for name in sorted(files)]
                self._json({"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings, "tags": []})
            return
        files = self.server.repositories.get("/".join(parts[:2]))
        if files is None:
            self._missing("RepoNotFound")
        elif (content := files.get("/".join(parts[4:]))) is None:
            self._missing("EntryNotFound")
        else:
            self._answer(200, content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"'})

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(f"POST {path}")
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        name = "/".join(path.strip("/").split("/")[2:4])
        if path == "/api/repos/create":
            asked = json.loads(body)
            owner = asked.get("organization") or "me"
            self.server.repositories.setdefault(f"{owner}/{asked['name']}", {})
            self._json({"url": f"{self.server.address}/{owner}/{asked['name']}", "id": "1"})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for file in json.loads(body)["files"]
            ]
            self._json({"files": files})
        else:
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.repositories[name][line["value"]["path"]] = content
            url = f"{self.server.address}/{name}/commit/{COMMIT}"
            self._json({"success": True, "commitOid": COMMIT, "commitUrl": url, "hookOutput": ""})

    def _json(self, content: Any) -> None:
        self._answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str) -> None:
        self._answer(404, b"", {"X-Error-Code": code, "X-Error-Message": "not here"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {"X-Repo-Commit": COMMIT, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _entry(name: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
