"""`lexlip export` and `lexlip search --server`, from photos to hits, against a stand-in for each engine."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lexlip.other_engines import ask
from tests.cli.test_index import error
from tests.cli.test_search import ALL
from tests.other_engines.exported import exported
from tests.other_engines.stand_in import basic, stand_in

Run = Callable[..., Any]
ENGINES = ("opensearch", "elasticsearch", "qdrant", "milvus", "vespa")
SECRETS = {
    "opensearch": ("Authorization", "Bearer s3cret"),
    "elasticsearch": ("Authorization", "ApiKey s3cret"),
    "qdrant": ("api-key", "s3cret"),
    "milvus": ("Authorization", "Bearer s3cret"),
    "vespa": ("Authorization", "Bearer s3cret"),
}


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ask.KEY, ask.USER, ask.PASSWORD, "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def indexed(lexlip: Run, photos: Path) -> Run:
    lexlip("index", "photos")
    return lexlip


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
    assert "is not one of 'opensearch'" in indexed("export", "solr", "--output", "o", code=2).stderr
    assert "nowhere" in error(indexed("export", "qdrant", "--index", "nowhere", "--output", "o", code=2))


def test_names_and_passwords(indexed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = ("Authorization", basic("ann", "pass:wörd"))
    with stand_in("opensearch", documents(indexed, "opensearch"), secret) as (address, _):
        refused = error(indexed("search", ALL, "--server", address, code=2))
        assert f"refuses to answer (401): set {ask.KEY}, or {ask.USER} and {ask.PASSWORD}" in refused
        monkeypatch.setenv(ask.USER, "ann")
        assert "only one of" in error(indexed("search", ALL, "--server", address, code=2))
        monkeypatch.setenv(ask.PASSWORD, "pass:wörd")
        assert "query words" in indexed("search", ALL, "--server", address).stdout
        monkeypatch.setenv(ask.KEY, "k")
        assert "both LEXLIP_SERVER_KEY and" in error(indexed("search", ALL, "--server", address, code=2))


FAULTS = {
    "404": "has no index named photos (404): load an export into it first",
    "403": "refuses to answer (403): set LEXLIP_SERVER_KEY",
    "500": 'answers with an error (500): {"error": "of the test"}',
    "307": "sends to another address (307): give that one",
    "html": "does not answer as opensearch does (Expecting value",
    "empty": "does not answer as opensearch does (KeyError: 'hits')",
    "closed": "broke the connection off",
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


def test_nobody_listens(lexlip: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    refused = error(lexlip("search", ALL, "--server", f"qdrant+http://127.0.0.1:{port}/photos", code=2))
    assert refused.endswith("cannot be reached (Connection refused): check the address")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://host/photos", "names none of opensearch, elasticsearch, qdrant, milvus, vespa"),
        ("anserini+http://host/photos", "names none of"),
        ("qdrant+http://host", "names no host and index"),
        ("qdrant+http://host/", "names no host and index"),
        ("qdrant+http://host/photos?x=1", "names no host and index"),
        ("qdrant+http://host/a%2Fb", "names no host and index"),
        ("qdrant+http://host:99999/photos", "is no address"),
        ("qdrant+http://ann:hidden@host/photos", "others can read: set LEXLIP_SERVER_USER and"),
        ("ann:hidden@host/photos", "names none of"),
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
        ("--html", "x.html"),
        ("-f", "paths"),
        ("--min-score", "1"),
    ],
)
def test_what_needs_an_index_here(lexlip: Run, more: tuple[str, ...]) -> None:
    result = lexlip("search", ALL, "--server", "qdrant+http://host/photos", *more, code=2)
    name = {"-f": "--format"}.get(more[0], more[0])
    assert f"{name} needs an index on this machine: leave it or --server out" in result.stderr


def test_pictures_and_words_to_leave_out(lexlip: Run) -> None:
    address = "qdrant+http://host/photos"
    result = lexlip("search", "--image", "x.jpg", "--server", address, code=2)
    assert "--image needs an index on this machine" in result.stderr
    assert "--server leaves no words out, such as -dog: ask without it" in error(
        lexlip("search", "two cats -dog", "--server", address, code=2)
    )


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


def test_errors_that_come_with_status_200() -> None:
    from lexlip.other_engines.known import other_engine

    for name, body in (
        ("milvus", {"code": 100, "message": "collection not found"}),
        ("vespa", {"root": {"errors": [{"code": 4, "message": "collection not found"}]}}),
    ):
        with pytest.raises(ValueError, match="collection not found"):
            other_engine(name).found(body)  # type: ignore[attr-defined]
