"""A small HTTP server in the place of each engine: it refuses what the engine's documentation does not have.

It answers from exported documents by brute force. Where something is to go wrong, `fault` says what.
"""

import base64
import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.other_engines.exported import best

Query = tuple[dict[int, int], int]
INDEX = "photos"


class Refused(Exception):
    """With the status and the text of the answer."""


def _need(fits: bool, why: str) -> None:
    if not fits:
        raise Refused(400, json.dumps({"error": why}))


def _only(tree: dict[str, Any], *names: str) -> None:
    _need(set(tree) == set(names), f"expected {names}, got {list(tree)}")


def _whole(weight: Any) -> int:
    _need(weight == int(weight) and weight > 0, f"weight {weight}")
    return int(weight)


def _lucene_server(body: Any) -> None:
    _only(body, "size", "track_total_hits", "_source", "query")
    _need(body["track_total_hits"] is False, "track_total_hits")


def opensearch(path: str, body: Any) -> Query:
    _need(path == f"/{INDEX}/_search", path)
    _lucene_server(body)
    _only(body["query"], "bool")
    _only(body["query"]["bool"], "should")
    query = {}
    for one in body["query"]["bool"]["should"]:
        _only(one, "rank_feature")
        _only(one["rank_feature"], "field", "linear", "boost")
        _need(one["rank_feature"]["linear"] == {}, "linear takes no parameters")
        field, number = one["rank_feature"]["field"].split(".")
        _need(field == "words", field)
        query[int(number)] = _whole(one["rank_feature"]["boost"])
    return query, body["size"]


def elasticsearch(path: str, body: Any) -> Query:
    _need(path == f"/{INDEX}/_search", path)
    _lucene_server(body)
    _only(body["query"], "sparse_vector")
    asked = body["query"]["sparse_vector"]
    _only(asked, "field", "query_vector", "prune")
    _need(asked["field"] == "words" and asked["prune"] is False, "field, prune")
    return {int(n): _whole(weight) for n, weight in asked["query_vector"].items()}, body["size"]


def solr(path: str, body: Any) -> Query:
    _need(path == f"/solr/{INDEX}/select", path)
    _only(body, "query", "limit", "fields", "params")
    _need(body["fields"] == ["id", "model", "scheme", "score"], "fields")
    _need(body["params"] == {"shards.tolerant": False, "omitHeader": False}, "params")
    asked = re.fullmatch(r"words:\(((?:\d+\^\d+ ?)+)\)", body["query"])
    _need(asked is not None, body["query"])
    assert asked is not None
    pairs = (pair.split("^") for pair in asked[1].split())
    return {int(number): _whole(int(weight)) for number, weight in pairs}, body["limit"]


def qdrant(path: str, body: Any) -> Query:
    _need(path == f"/collections/{INDEX}/points/query", path)
    _only(body, "query", "using", "limit", "with_payload")
    _only(body["query"], "indices", "values")
    _need(body["using"] == "words" and body["with_payload"] is True, "using")
    numbers, weights = body["query"]["indices"], body["query"]["values"]
    _need(len(set(numbers)) == len(numbers) == len(weights), "indices are unique, one value each")
    return dict(zip(numbers, map(_whole, weights), strict=True)), body["limit"]


def milvus(path: str, body: Any) -> Query:
    _need(path == "/v2/vectordb/entities/search", path)
    _only(body, "collectionName", "data", "annsField", "limit", "outputFields", "searchParams")
    _need(body["collectionName"] == INDEX and body["annsField"] == "words", "collectionName, annsField")
    _need(body["searchParams"] == {"metricType": "IP", "params": {"drop_ratio_search": 0}}, "searchParams")
    (vector,) = body["data"]
    return {int(n): _whole(weight) for n, weight in vector.items()}, body["limit"]


def vespa(path: str, body: Any) -> Query:
    _need(path == "/search/", path)
    _only(body, "yql", "hits", "ranking", "timeout")
    _need(body["timeout"] == "10s", "timeout")
    form = r"select id, model, scheme from photos where \(\{targetHits:(\d+)\}wand\(words,(\[.*\])\)\)"
    asked = re.fullmatch(form, body["yql"])
    _need(asked is not None and int(asked[1]) == body["hits"] and body["ranking"] == "words", body["yql"])
    assert asked is not None
    return {number: _whole(weight) for number, weight in json.loads(asked[2])}, body["hits"]


READ = {f.__name__: f for f in (opensearch, elasticsearch, solr, qdrant, milvus, vespa)}


def answer(engine: str, hits: list[tuple[dict[str, Any], float]]) -> Any:
    """The JSON of an engine's answer."""
    fields = [
        ({name: one[name] for name in ("id", "model", "scheme")}, one["key"], score) for one, score in hits
    ]
    if engine in ("opensearch", "elasticsearch"):
        found = [{"_index": INDEX, "_id": key, "_score": score, "_source": f} for f, key, score in fields]
        shards = {"total": 5, "successful": 5, "skipped": 0, "failed": 0}
        return {"took": 3, "timed_out": False, "_shards": shards, "hits": {"hits": found}}
    if engine == "solr":
        docs = [{**f, "score": score} for f, _, score in fields]
        header = {"zkConnected": True, "status": 0, "QTime": 3}
        return {"responseHeader": header, "response": {"numFound": len(docs), "start": 0, "docs": docs}}
    if engine == "qdrant":
        points = [{"id": key, "version": 1, "score": score, "payload": f} for f, key, score in fields]
        return {"result": {"points": points}, "status": "ok", "time": 0.001}
    if engine == "milvus":
        return {
            "code": 0,
            "cost": 0,
            "data": [{**f, "key": key, "distance": score} for f, key, score in fields],
        }
    children = [{"id": f"index:photos/0/{key}", "relevance": score, "fields": f} for f, key, score in fields]
    root = {"id": "toplevel", "relevance": 1.0, "fields": {"totalCount": len(fields)}, "coverage": WHOLE}
    return {"root": {**root, "children": children} if children else root}


WHOLE = {"coverage": 100, "documents": 6, "full": True, "nodes": 1, "results": 1, "resultsFull": 1}


class _Quiet(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them

    def handle_error(self, *arguments: Any) -> None:
        """The client did not wait for a slow answer, as it is meant to."""


Reply = Callable[[str, str, Any, str], str | None]
"""Given method, path, headers and body, the text of an answer; None is none. `Refused` is another status."""


@contextlib.contextmanager
def serving(reply: Reply, certificate: Path | None = None) -> Iterator[str]:
    """Give the address of a server; with a file of a certificate and its key it speaks https."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("utf-8", "replace")
            try:
                status, text = 200, reply(self.command, self.path, self.headers, body)
            except Refused as refused:
                status, text = refused.args
            if text is None:
                return
            self.send_response(status)
            if status == 307:
                self.send_header("Location", "http://localhost:1/elsewhere")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_GET = do_POST

        def log_message(self, *arguments: Any) -> None:
            pass

    server = _Quiet(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def stand_in(
    engine: str,
    documents: list[dict[str, Any]],
    secret: tuple[str, str] | None = None,
    fault: str = "",
    certificate: Path | None = None,
) -> Iterator[tuple[str, list[Any]]]:
    """Give the address of a server, and what it was asked: path, headers and body.

    Args:
        engine: which one.
        documents: see `exported`.
        secret: a header that a request must have.
        fault: "slow", "html", "closed", "redirect", "empty", a status, or a whole answer: a JSON object.
        certificate: see `serving`.
    """
    asked: list[Any] = []

    def reply(method: str, path: str, headers: Any, body: str) -> str | None:
        if method == "GET":
            raise Refused(404, '{"found": false}')  # an export does not say what it is
        if path == f"/solr/{INDEX}/get":
            return '{"responseHeader": {}, "response": {"docs": []}}'  # nor here
        asked.append((path, dict(headers), body.encode()))
        if secret is not None and headers[secret[0]] != secret[1]:
            raise Refused(401, f"who are you, {headers[secret[0]]}?")
        if fault == "slow":
            time.sleep(1.5)
        if fault.isdigit():
            raise Refused(int(fault), '{"error": "of the test"}')
        if fault.startswith("{"):
            return fault
        query, k = READ[engine](path, json.loads(body))
        said = json.dumps(answer(engine, best(documents, query, k)))
        return {"html": "<html>a proxy's page</html>", "empty": '{"status": "green"}', "closed": None}.get(
            fault, said
        )

    with serving(reply, certificate) as address:
        yield f"{engine}+{address}/{INDEX}", asked


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
