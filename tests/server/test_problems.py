import pickle

import pytest

from anserini_bridge.errors import BadVectors, BridgeError, CorruptIndex, IndexLocked, UnknownId
from lexlip.data import UnreadableImage
from lexlip.errors import ConfigError, DataError, ModelError
from lexlip.other_engines.ask import Denied, Later, NoIndex, ServerError
from lexlip.search.cursors import StaleCursor
from lexlip.server.problems import KIND, Problem, problem_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DataError("a sentence"), 400),
        (ConfigError("a sentence"), 400),
        (ModelError("a sentence"), 400),
        (BadVectors("a sentence"), 400),
        (UnknownId("a sentence"), 404),
        (IndexLocked("a sentence"), 409),
        (StaleCursor("a sentence"), 410),
        (UnreadableImage("a sentence"), 422),
        (CorruptIndex("a sentence"), 503),
        (Later("a sentence"), 503),
        (NoIndex("a sentence"), 502),
        (ServerError("a sentence"), 502),
        (Denied("a sentence"), 502),
        (BridgeError("a sentence"), 503),
        (Problem(418, "a sentence"), 418),
    ],
)
def test_an_error_for_the_user_keeps_its_sentence(error: Exception, status: int) -> None:
    problem = problem_of(error)
    assert problem is not None
    assert (problem.status, problem.detail) == (status, "a sentence")


@pytest.mark.parametrize("error", [ZeroDivisionError(), RuntimeError("x"), KeyError("y"), OSError("z")])
def test_a_fault_is_no_problem_of_the_caller(error: Exception) -> None:
    assert problem_of(error) is None


def test_a_problem_is_a_document() -> None:
    answer = Problem(503, "wait", {"Retry-After": "1"}).response()
    assert answer.headers["content-type"] == KIND
    assert answer.headers["retry-after"] == "1"
    assert answer.body == b'{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"wait"}'


def test_a_problem_can_be_sent_to_another_process() -> None:
    problem = pickle.loads(pickle.dumps(Problem(413, "too large", {"A": "b"})))
    assert (problem.status, problem.detail, problem.headers) == (413, "too large", {"A": "b"})
