import asyncio
import threading

import pytest

from lexlip.server.problems import Problem
from lexlip.server.served_index import Gate, Threads


def test_so_many_run_so_many_wait_and_the_rest_is_refused() -> None:
    go, running = threading.Event(), []

    def work(number: int) -> int:
        running.append(number)
        go.wait(30)
        return number

    async def test() -> None:
        threads = Threads("searches", 2, 5)
        tasks = [asyncio.create_task(threads.run(work, number)) for number in range(8)]
        while len(running) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(running) == 2
        refused = [task for task in tasks if task.done()]
        assert len(refused) == 3
        for task in refused:
            problem = task.exception()
            assert isinstance(problem, Problem)
            assert (problem.status, problem.headers) == (503, {"Retry-After": "1"})
            assert problem.detail == "the server is busy with searches: try again in a second"
        go.set()
        assert [task.result() for task in tasks[:5] if await task is not None] == list(range(5))
        assert await threads.run(work, 9) == 9  # there is room again
        threads.close()

    asyncio.run(test())


def test_an_error_gives_the_place_back() -> None:
    gate = Gate("uploads", 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), gate.enter():
            _ = 1 / 0
    with gate.enter(), pytest.raises(Problem), gate.enter():
        pass
