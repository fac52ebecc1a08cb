import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from lexlip.server.bodies import Room, read_body
from lexlip.server.problems import Problem


def request(*parts: bytes, ends: bool = True) -> Request:
    """Return a request with a body in parts; if it does not end, the last one never comes."""
    left = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if ends:
        left.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Any:
        if not left:
            await asyncio.sleep(3600)
        return left.pop(0)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def refused(given: Request, most: int = 10, seconds: float = 30) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        asyncio.run(read_body(given, most, seconds, Room(100)))
    return caught.value.status, caught.value.detail


def test_a_body_comes_in_parts() -> None:
    assert asyncio.run(read_body(request(b"one ", b"", b"two"), 7, 30, Room(7))) == b"one two"
    assert refused(request(b"one ", b"two", b"!"), 7) == (413, "the body is too long: send at most 7 bytes")


def test_a_body_that_stops_is_refused_in_time() -> None:
    detail = "the body did not come within 0.01 seconds"
    assert refused(request(b"one", ends=False), 7, seconds=0.01) == (408, detail)


def test_a_client_that_hangs_up_is_told_nothing() -> None:
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        asyncio.run(read_body(Request({"type": "http", "headers": []}, gone), 7, 30, Room(7)))


def test_the_first_body_that_stops_makes_room_for_others() -> None:
    async def test() -> None:
        room = Room(20)
        stopped = [
            asyncio.create_task(read_body(request(b"12345678", ends=False), 10, 3600, room)) for _ in range(2)
        ]
        await asyncio.sleep(0.01)
        assert await read_body(request(b"1234"), 10, 30, room) == b"1234"
        assert await read_body(request(b"1234"), 10, 30, room) == b"1234"  # the one before has left
        assert not any(task.done() for task in stopped)
        assert await read_body(request(b"1234", b"56"), 10, 30, room) == b"123456"
        with pytest.raises(Problem, match="the server is busy with bodies that come faster") as caught:
            await stopped[0]
        assert caught.value.status == 503
        assert not stopped[1].done()
        stopped[1].cancel()

    asyncio.run(test())
