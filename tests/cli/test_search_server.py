"""`lexlip export` and `lexlip search --server`, from photos to hits, against a stand-in for each engine."""

import base64
import json
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from lexlip.other_engines import ask
from lexlip.queries.photo_vectors import PhotoVectors
from tests.cli.conftest import ALL, Run, error
from tests.other_engines.exported import exported
from tests.other_engines.stand_in import Refused, basic, serving, stand_in

ENGINES = ("opensearch", "elasticsearch", "solr", "qdrant", "milvus", "vespa")
SECRETS = {
    "opensearch": ("Authorization", "Bearer s3cret"),
    "elasticsearch": ("Authorization", "ApiKey s3cret"),
    "solr": ("Authorization", "Bearer s3cret"),
    "qdrant": ("api-key", "s3cret"),
    "milvus": ("Authorization", "Bearer s3cret"),
    "vespa": ("Authorization", "Bearer s3cret"),
}


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ask.KEY, ask.USER, ask.PASSWORD, "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


def documents(lexlip: Run, engine: str) -> list[dict[str, Any]]:
    lexlip("export", engine, "--output", engine)
    return exported(Path(engine), engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_answers_as_the_index_does(
    indexed: Run, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = json.loads(indexed("search", ALL, "-k", 4, "--json").stdout)
    monkeypatch.setenv(ask.KEY, "s3cret")
    with stand_in(engine, documents(indexed, engine), SECRETS[engine]) as (address, asked):
        result = indexed("search", ALL, "-k", 4, "--json", "--server", address)
        text = indexed("search", ALL, "-k", 4, "--server", address)
    there = json.loads(result.stdout)
    assert list(there) == list(here)
    assert [hit["id"] for hit in there["hits"]] == [hit["id"] for hit in here["hits"]]
    # a weight above 511 is rounded to the nearest of nine bits: two thousandths at most
    tolerance = 2e-3 if "search" in engine else 1e-12
    assert [hit["score"] for hit in there["hits"]] == pytest.approx(
        [hit["score"] for hit in here["hits"]], rel=tolerance
    )
    assert there["terms"] == here["terms"]
    assert "query words: " in text.stdout
    assert there["hits"][0]["id"] in text.stdout
    assert len(asked) == 2
    assert "s3cret" not in result.output + text.output


def test_the_words_of_export(indexed: Run) -> None:
    done = indexed("export", "opensearch", "--output", "out")
    assert "6 photos, 1 file of documents" in done.stdout
    assert "out/LOAD.txt says how to load it" in done.stdout
    printed = json.loads(indexed("export", "qdrant", "--output", "out", "--json").stdout)
    assert list(printed) == [
        *("output", "engine", "versions", "photos", "words", "files", "megabytes", "seconds"),
        *("largest", "rounded", "relative_error", "recall", "queries"),
    ]
    assert (printed["photos"], printed["rounded"], printed["recall"]) == (6, 0, None)
    assert "is not one of 'opensearch'" in indexed("export", "sphinx", "--output", "o", code=2).stderr
    assert "nowhere" in error(indexed("export", "qdrant", "--index", "nowhere", "--output", "o", code=2))


def test_the_name_of_the_index(indexed: Run, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed("export", "qdrant", "--output", "out", "--name", "holiday")
    assert "PUT /collections/holiday @" in Path("out", "LOAD.txt").read_text()
    indexed("export", "qdrant", library, "--output", "straight", "--name", "holiday")
    assert Path("out", "LOAD.txt").read_text() == Path("straight", "LOAD.txt").read_text()
    monkeypatch.setattr(PhotoVectors, "__init__", None)  # nothing is encoded
    for source in ((), (library,)):
        said = error(indexed("export", "milvus", *source, "--output", "o", "--name", "my-photos", code=2))
        rule = "use ASCII letters, digits and '_', the first a letter (--name)"
        assert said == f"milvus takes no index named 'my-photos': {rule}"
    assert not Path("o").exists()


def test_names_and_passwords(indexed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = ("Authorization", basic("ann", "pass:wörd"))
    with stand_in("opensearch", documents(indexed, "opensearch"), secret) as (address, _):
        refused = error(indexed("search", ALL, "--server", address, code=2))
        assert f"refuses to answer (401): set {ask.KEY}, or {ask.USER} and {ask.PASSWORD}" in refused
        monkeypatch.setenv(ask.USER, "ann")
        assert "only one of" in error(indexed("search", ALL, "--server", address, code=2))
        monkeypatch.setenv(ask.PASSWORD, "pass:wrong")
        wrong = error(indexed("search", ALL, "--server", address, code=2))
        assert wrong.endswith(
            f"refuses this password (401: who are you, Basic …?): check {ask.USER} and {ask.PASSWORD}"
        )
        monkeypatch.setenv(ask.PASSWORD, "pass:wörd")
        assert "query words" in indexed("search", ALL, "--server", address).stdout
        monkeypatch.setenv(ask.KEY, "k")
        assert "both LEXLIP_SERVER_KEY and" in error(indexed("search", ALL, "--server", address, code=2))
        monkeypatch.delenv(ask.USER)
        monkeypatch.delenv(ask.PASSWORD)
        wrong = error(indexed("search", ALL, "--server", address, code=2))
        assert wrong.endswith("refuses this key (401: who are you, Bearer …?): check LEXLIP_SERVER_KEY")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (ask.USER, "a:nn", "holds a colon"),
        (ask.USER, "ann\n", "holds the end of a line"),
        (ask.PASSWORD, "s3cret\n", "holds the end of a line"),
        (ask.PASSWORD, "s3cret\udcff", "or no UTF-8"),
        (ask.KEY, "s3cret\n", "holds other characters than printable ASCII"),
    ],
)
def test_secrets_that_no_header_can_hold(
    lexlip: Run, name: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != ask.KEY:
        monkeypatch.setenv(ask.USER, "ann")
        monkeypatch.setenv(ask.PASSWORD, "s3cret")
    monkeypatch.setenv(name, value)
    result = lexlip("search", ALL, "--server", "qdrant+http://127.0.0.1:1/photos", code=2)
    assert error(result).startswith(f"{name} holds ")
    assert why in error(result)
    assert "s3cret" not in result.output


FAULTS = {
    "404": "has no index named photos (404): make it with `lexlip index --server`, or load an export",
    "403": "gives this key no right to search photos (403: of the test)",
    "500": "answers with an error (500: of the test)",
    "307": "sends to another address (307): give that one",
    "html": "does not answer as opensearch does (Expecting value",
    "empty": "does not answer as opensearch does (KeyError: '_shards')",
    "closed": "without response): ask again, or write opensearch+https if it speaks https",
    "slow": "has not answered for 0.3 seconds: ask again, or check it",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_is_one_sentence(
    indexed: Run, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ask.KEY, "s3cret")
    if fault == "slow":
        monkeypatch.setattr(ask, "TIMEOUT", 0.3)
    with stand_in("opensearch", [], fault=fault) as (address, asked):
        result = indexed("search", ALL, "--server", address, code=2)
    assert FAULTS[fault] in error(result)
    assert "s3cret" not in result.output
    assert len(asked) == 1


NGINX = "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<h1>{0}</h1>\r\n</body>\r\n</html>\r\n"
PAGES = {
    NGINX.format("502 Bad Gateway"): "(502: Bad Gateway)",
    NGINX.format("400 The plain HTTP request was sent to HTTPS port"): (
        "(400: The plain HTTP request was sent to HTTPS port)"
    ),
    '<!DOCTYPE html><TITLE lang="en">Error 500 A&amp;B\n\x1b[31m down</TITLE>': "(500: A&B \\x1b[31m down)",
    "  <p>no title</p>": "(503)",
    "one\nline\n": "(503: one line)",
    "": "(500)",
}


@pytest.mark.parametrize("page", PAGES)
def test_of_a_proxys_page_the_title_is_shown(lexlip: Run, page: str) -> None:
    said = PAGES[page]

    def reply(*_: Any) -> str:
        raise Refused(int(said[1:4]), page)

    with serving(reply) as url:
        assert error(lexlip("search", ALL, "--server", f"qdrant+{url}/photos", code=2)) == (
            f"{url} answers with an error {said}"
        )


def answered(lexlip: Run, page: str) -> str:
    """What is said of a server that answers all with a page and the status 500."""

    def reply(*_: Any) -> str:
        raise Refused(500, page)

    with serving(reply) as url:
        said = error(lexlip("search", ALL, "--server", f"qdrant+{url}/photos", code=2))
    shown = re.fullmatch(rf"{url} answers with an error \(500(?:: (.*))?\)", said)
    assert shown
    return shown[1] or ""


TITLE = "<html><title>{}</title></html>"
REPEATED = [
    ("a&b<c", TITLE.format("no a&amp;b&lt;c here"), "no … here"),
    ("a&b<c", TITLE.format("no a&b<c here"), "no … here"),
    ("a&b<c", "no a&amp;b&lt;c here", "no … here"),
    ("a'b", TITLE.format("no a&#39;b here"), "no … here"),
    ("p&lt;q", TITLE.format("no p&lt;q here"), "no … here"),
    ("p&lt;q", TITLE.format("no p&amp;lt;q here"), "no … here"),
    ("123-s3cret", TITLE.format("123-s3cret"), "…"),
    ("123-s3cret", TITLE.format("&#49;23-s3cret"), "…"),
    ("123-s3cret", TITLE.format("Error 500 123-s3cret"), "…"),
    ("s3cret", "\ufeff" + TITLE.format("500 no s3cret here"), "no … here"),
    ("s3cret", "\n\ufeff\n" + TITLE.format("500 no s3cret here"), "no … here"),
    ('a"b\\cd', json.dumps({"given": 'a"b\\cd'}), '{"given": "…"}'),
    ("säcret", json.dumps({"given": "säcret"}), '{"given": "…"}'),
    ("säcret", json.dumps({"given": "säcret"}, ensure_ascii=False), '{"given": "…"}'),
    ("säcret", base64.b64encode("ann:säcret".encode()).decode(), "…"),
]


@pytest.mark.parametrize(("secret", "page", "shown"), REPEATED)
def test_what_is_shown_of_an_answer_has_no_secret(
    lexlip: Run, secret: str, page: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ask.USER, "ann")
    monkeypatch.setenv(ask.PASSWORD, secret)
    assert answered(lexlip, page) == shown


def test_a_key_of_two_words_is_one_secret(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ask.KEY, "abc def")
    assert answered(lexlip, "no api-key: abc def") == "no api-key: …"
    assert answered(lexlip, "no Bearer abc def, def") == "no Bearer …, def"


def test_a_broken_answer_repeats_no_secret(lexlip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ask.KEY, "s3cret")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"no s3cret here\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"qdrant+http://127.0.0.1:{server.getsockname()[1]}/photos"
        said = error(lexlip("search", ALL, "--server", address, code=2))
        thread.join()
    assert "broke the connection off (no … here)" in said


def test_a_title_is_looked_for_at_the_beginning(lexlip: Run) -> None:
    """A pattern with a beginning and an end looks for its end from each beginning."""
    assert answered(lexlip, f"<html>{' ' * 3000}<title>here</title>") == "here"
    assert answered(lexlip, f"<html>{' ' * 5000}<title>too far</title>") == ""
    assert answered(lexlip, "<" + "<title>" * 32_000) == ""


LIMITS = {
    "opensearch": "OpenSearch: http.max_content_length; ",
    "elasticsearch": "Elasticsearch: http.max_content_length; ",
    "qdrant": "Qdrant: service.max_request_size_mb; ",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_too_large_names_the_limits_of_the_engine_and_of_a_proxy(lexlip: Run, engine: str) -> None:
    with stand_in(engine, [], fault="413") as (address, _):
        said = error(lexlip("search", ALL, "--server", address, code=2))
    assert said.endswith(
        "(413): let it, or the proxy before it, take larger ones"
        f" ({LIMITS.get(engine, '')}nginx: client_max_body_size)"
    )


PART = "answered for only a part of its documents "
WAY_ON = ": ask again, or check it"
LUCENE = {
    '{"timed_out": true, "_shards": {"total": 5, "successful": 5}, "hits": {"hits": []}}': (
        f"{PART}(its own time ran out){WAY_ON}"
    ),
    '{"timed_out": false, "_shards": {"total": 5, "successful": 3, "failed": 0}, "hits": {"hits": []}}': (
        f"{PART}(2 of 5 shards did not answer){WAY_ON}"
    ),
    '{"error": {"type": "x", "reason": "no such field"}, "status": 400}': "refuses (no such field)",
}
SAID = {
    "opensearch": LUCENE,
    "elasticsearch": LUCENE,
    "solr": {
        '{"responseHeader": {"status": 0, "partialResults": true}, "response": {"docs": []}}': (
            f"{PART}(partialResults){WAY_ON}"
        ),
        '{"responseHeader": {"status": 400}, "error": {"msg": "undefined field words", "code": 400}}': (
            "refuses (code 400: undefined field words)"
        ),
    },
    "qdrant": {'{"status": {"error": "Wrong input"}, "time": 0.1}': "refuses (Wrong input)"},
    "milvus": {
        '{"code": 100, "message": "collection not found[collection=photos]"}': (
            "refuses (code 100: collection not found[collection=photos])"
        ),
    },
    "vespa": {
        '{"root": {"fields": {"totalCount": 0}, "coverage": {"coverage": 40, "full": false, "degraded":'
        ' {"match-phase": false, "timeout": true, "non-ideal-state": true}}}}': (
            f"{PART}(timeout, non-ideal-state){WAY_ON}"
        ),
        '{"root": {"errors": [{"code": 4, "summary": "Invalid query", "message": "no schema photos"}]}}': (
            "refuses (code 4: no schema photos)"
        ),
    },
}


@pytest.mark.parametrize(("engine", "body"), [(engine, body) for engine in SAID for body in SAID[engine]])
def test_errors_and_parts_that_come_with_status_200(indexed: Run, engine: str, body: str) -> None:
    with stand_in(engine, [], fault=body) as (address, _):
        said = error(indexed("search", ALL, "--server", address, "--json", code=2))
    assert said.endswith(f": {engine.title().replace('Opens', 'OpenS')} {SAID[engine][body]}")


def test_no_photo_is_an_answer(indexed: Run) -> None:
    for engine in ENGINES:
        with stand_in(engine, []) as (address, _):
            assert "no photo shares a word" in indexed("search", ALL, "--server", address).stdout


def test_403_without_a_key(indexed: Run) -> None:
    with stand_in("opensearch", [], fault="403") as (address, _):
        said = error(indexed("search", ALL, "--server", address, code=2))
    assert f"refuses to answer (403): set {ask.KEY}, or {ask.USER} and {ask.PASSWORD}" in said


def test_no_proxy_is_asked(indexed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with stand_in("qdrant", documents(indexed, "qdrant")) as (address, asked):
        assert "query words" in indexed("search", ALL, "--server", address).stdout
    assert len(asked) == 1


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of 127.0.0.1 that nobody trusts, and its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate, and is not installed")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "certificate.pem").read_text())
    return both


def test_https(indexed: Run, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in("qdrant", documents(indexed, "qdrant"), certificate=certificate) as (address, _):
        said = error(indexed("search", ALL, "--server", address, code=2))
        assert "has no certificate that is trusted here (" in said
        assert said.endswith("name its authority's file in SSL_CERT_FILE")
        plain = address.replace("+https", "+http")
        said = error(indexed("search", ALL, "--server", plain, code=2))
        assert "broke the connection off" in said
        assert said.endswith("ask again, or write qdrant+https if it speaks https")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("certificate.pem")))
        assert "query words" in indexed("search", ALL, "--server", address).stdout


def test_https_where_plain_http_is_spoken(indexed: Run) -> None:
    with stand_in("qdrant", []) as (address, _):
        said = error(indexed("search", ALL, "--server", address.replace("+http", "+https"), code=2))
    assert "does not speak https (" in said
    assert said.endswith("if it speaks plain http, write qdrant+http")


def test_nobody_listens(lexlip: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    refused = error(lexlip("search", ALL, "--server", f"qdrant+http://127.0.0.1:{port}/photos", code=2))
    assert refused.endswith("cannot be reached (Connection refused): check the address")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://host/photos", "names none of opensearch, elasticsearch, solr, qdrant, milvus, vespa"),
        ("anserini+http://host/photos", "names none of"),
        ("qdrant+http://host", "names no host and index"),
        ("qdrant+http://host/", "names no host and index"),
        ("qdrant+http://host/photos?x=1", "names no host and index"),
        (
            "qdrant+http://host/a%2Fb",
            "ends with 'a%2Fb', which is no name of an index (ASCII letters,",
        ),
        ("opensearch+http://host/photos/_search", "ends with '_search', which is no name of an index"),
        ("solr+http://host/solr", "names no host and index: write it as solr+https://HOST/solr/INDEX"),
        ("opensearch+http://host/Photos", "opensearch takes no index named 'Photos': use lower-case ASCII"),
        ("opensearch+http://host/Photos", "the first a letter or a digit (--server)"),
        ("qdrant+http://host:99999/photos", "is no address"),
        ("qdrant+http://ann:hidden@host/photos", "others can read: set LEXLIP_SERVER_USER and"),
        ("ann:hidden@host/photos", "names none of"),
        ("opensearch+https://ann:12/hidden@host", "others can read: set LEXLIP_SERVER_USER and"),
        ("opensearch+https://ann:12/hidden@host/photos", "others can read: set LEXLIP_SERVER_USER and"),
        ("opensearch+https://ann:hidden/x@host/photos", "others can read: set LEXLIP_SERVER_USER and"),
        ("opensearch+https://host/ann:hidden", "--server ends with what is no name of an index (ASCII"),
        ("opensearch+https://host/photos;hidden", "--server ends with what is no name of an index (ASCII"),
        ("opensearch+https://host/key=hidden", "--server ends with what is no name of an index (ASCII"),
    ],
)
def test_addresses(lexlip: Run, address: str, why: str) -> None:
    result = lexlip("search", ALL, "--server", address, code=2)
    assert why in error(result)
    assert "hidden" not in result.output


@pytest.mark.parametrize(
    "more",
    [
        ("--index", "x"),
        ("--captions",),
        ("--folder", "a"),
        ("--sort", "date"),
        ("--group",),
        ("--rerank", "m"),
        ("-f", "paths"),
        ("--min-score", "1"),
    ],
)
def test_what_needs_an_index_here(lexlip: Run, more: tuple[str, ...]) -> None:
    result = lexlip("search", ALL, "--server", "qdrant+http://host/photos", *more, code=2)
    name = {"-f": "--format"}.get(more[0], more[0])
    here = ("--index", "--captions", "--rerank")
    other = "" if name in here else ", or one that `lexlip index --server` has made"
    assert f"{name} needs an index on this machine{other}: leave it or --server out" in result.stderr


def test_pictures_and_words_to_leave_out(lexlip: Run) -> None:
    address = "qdrant+http://host/photos"
    result = lexlip("search", "--image", "x.jpg", "--server", address, code=2)
    assert "--image needs an index on this machine" in result.stderr
    assert "--server leaves no words out, such as -dog: ask without it" in error(
        lexlip("search", "two cats -dog", "--server", address, code=2)
    )
    for field in ("near:48.1,11.6", "folder:italy", "name:anna"):
        says = f"--server looks at no photo's {field.partition(':')[0]}: ask without {field}"
        assert says in error(lexlip("search", f"two cats {field}", "--server", address, code=2))


def test_documents_of_another_model(indexed: Run, other_model: Path) -> None:
    with stand_in("milvus", documents(indexed, "milvus")) as (address, _):
        refused = error(indexed("search", ALL, "--server", address, "--model", other_model, code=2))
    assert "the documents of photos were made with " in refused
    assert refused.endswith("name the model that made them with --model")


def test_documents_quantised_as_the_paper_has_it(lexlip: Run, photos: Path) -> None:
    lexlip("index", "photos", "--quantization", "paper")
    with stand_in("vespa", documents(lexlip, "vespa")) as (address, _):
        assert "were quantised as paper, which --server does not ask" in error(
            lexlip("search", ALL, "--server", address, code=2)
        )


def test_an_index_of_captions_is_not_exported(lexlip: Run, photos: Path) -> None:
    pytest.importorskip("pyserini")
    lexlip("index", "photos", "--model", "bm25")
    assert "only indexes of words are exported" in error(
        lexlip("export", "qdrant", "--output", "out", code=2)
    )
