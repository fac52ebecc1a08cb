import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lexlip.data import decode
from lexlip.errors import DataError
from lexlip.models.lexlip import LexLIP
from lexlip.server.model_process import ModelProcess, make_tasks
from lexlip.server.problems import Problem
from tests.search.indexes import Indexed
from tests.server.serving import until
from tests.server.some_tasks import make_some_tasks


@contextmanager
def started(idle: float = 60) -> Iterator[ModelProcess]:
    process = ModelProcess(make_some_tasks, ("It",), idle)
    try:
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def process() -> Iterator[ModelProcess]:
    """One for all tests: the next call starts it again if a test has ended it."""
    with started() as process:
        yield process


def refused(process: ModelProcess, *call: Any, **how: Any) -> int:
    """The status with which a call is refused."""
    with pytest.raises(Problem) as error:
        process.call(*call, **how)
    return error.value.status


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_starts_with_the_first_call_and_without_what_is_heavy(process: ModelProcess) -> None:
    assert process.pid is None
    assert process.call("greet", "you") == "It greets you"
    assert process.call("pid") == process.pid != os.getpid()
    assert not {"torch", "jnius", "transformers"} & set(process.call("modules"))


def test_progress_comes_in_order_before_the_value(process: ModelProcess) -> None:
    seen: list[int] = []
    assert process.call("count", 5, progress=seen.append) == 5
    assert seen == [0, 1, 2, 3, 4]


def test_tasks_of_two_names_do_not_wait_for_each_other(process: ModelProcess) -> None:
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(process.call, "wait", 3)
        until(lambda: process.pid is not None)
        assert process.call("greet", "you") == "It greets you"
        assert not long.done()


def test_many_threads_get_their_own_answers(process: ModelProcess) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: process.call("greet", n), range(200)))
    assert answers == [f"It greets {n}" for n in range(200)]


def test_an_error_for_the_user_comes_as_it_is(process: ModelProcess) -> None:
    with pytest.raises(DataError, match=r"^no such photo$"):
        process.call("refuse")


def test_a_fault_comes_by_its_name_and_the_process_goes_on(process: ModelProcess) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: by zero"):
        process.call("fail")
    with pytest.raises(RuntimeError, match=r"FileNotFoundError: .*nothing there"):
        process.call("read", "nothing there")
    assert process.call("greet", "you")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_answers_that_nobody_can_take(process: ModelProcess) -> None:
    def fail(value: object) -> None:
        raise SystemExit  # ends the thread that listens

    assert refused(process, "count", 5, progress=fail) == 503
    assert process.call("greet", "you") == "It greets you"


def test_a_crash_ends_the_calls_that_run_and_the_next_starts_anew(process: ModelProcess) -> None:
    before = process.call("pid")
    assert refused(process, "crash") == 503
    assert process.call("pid") != before


def test_what_takes_too_long_is_ended(process: ModelProcess) -> None:
    before = process.call("pid")
    assert refused(process, "wait", 600, seconds=0.2) == 504
    until(lambda: not alive(before))
    assert process.call("pid") != before


def test_it_ends_when_idle_and_not_while_a_task_runs() -> None:
    with started(idle=0.3) as process:
        before = process.call("pid")
        assert process.call("wait", 1) == before
        until(lambda: process.pid is None and not alive(before))
        assert process.call("greet", "you") == "It greets you"


def test_closing_ends_what_runs() -> None:
    with started() as process, ThreadPoolExecutor(1) as threads:
        pid = process.call("pid")
        waiting = threads.submit(refused, process, "wait", 600)
        time.sleep(0.3)
        process.close()
        assert waiting.result(10) == 503
        assert not alive(pid)
        with pytest.raises(Problem, match="stopping"):
            process.call("pid")


def test_ctrl_c_is_for_the_server(process: ModelProcess) -> None:
    pid = process.call("pid")
    os.kill(pid, signal.SIGINT)
    assert process.call("pid") == pid


def test_it_ends_with_a_server_that_is_killed(tmp_path: Path, run_python: Any) -> None:
    code = tmp_path / "server.py"
    code.write_text(
        "import os\n"
        "from lexlip.server.model_process import ModelProcess\n"
        "from tests.server.some_tasks import make_some_tasks\n"
        "if __name__ == '__main__':\n"
        "    process = ModelProcess(make_some_tasks, ('It',), idle=60)\n"
        "    print(process.call('pid'), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = run_python(code)
    assert done.returncode == -9
    until(lambda: not alive(int(done.stdout)))


def test_a_picture_becomes_what_the_model_makes_of_it(library: Indexed, model_folder: Path) -> None:
    model = LexLIP.from_pretrained(model_folder).fold_batch_norms()
    data = (library.photos / "1.jpg").read_bytes()
    expected = model.encode_image([decode(data, 32)])
    given = make_tasks(str(library.words), None, "cpu", 10**9)["encode"](data, progress=print)
    assert (given != expected).nnz == 0


def test_too_many_pixels_are_refused_before_they_are_decoded(library: Indexed) -> None:
    data = (library.photos / "large.jpg").read_bytes()
    tasks = make_tasks("no index is needed to say so", None, "cpu", 1_079_999)
    with pytest.raises(Problem, match="1,080,000 pixels") as error:
        tasks["encode"](data, progress=print)
    assert error.value.status == 413
