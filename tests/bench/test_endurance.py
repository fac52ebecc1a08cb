import asyncio

import pytest

from lexlip.bench import endurance
from lexlip.bench.endurance import KINDS, Held, K, _are_best, holding, measure_endurance


def test_what_counts_as_the_best() -> None:
    scores = {f"{number}.jpg": 1.0 - number // 2 / 100 for number in range(K + 11)}  # in pairs of equal ones
    best = sorted(scores.items(), key=lambda hit: -hit[1])[:K]
    assert _are_best(best, scores)
    assert _are_best([best[1], best[0], *best[2:]], scores)  # equal scores, the other way round
    assert not _are_best(best[:-1], scores)
    assert not _are_best([*best[1:], best[0]], scores)
    assert not _are_best([("other.jpg", best[0][1]), *best[1:]], scores)
    assert not _are_best([(best[0][0], 2.0), *best[1:]], scores)
    assert not _are_best([*best[:-1], (f"{K + 9}.jpg", scores[f"{K + 9}.jpg"])], scores)
    assert _are_best([], {})


@pytest.mark.slow
def test_a_server_endures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run: nothing is wrong, the server follows and stays as it is."""
    changes = {
        "PHOTOS": 80,
        "CHANGE": 5.0,
        "HOLDING": 20,
        "IDLE_SECONDS": 5.0,
        "CLOSED_SECONDS": 3.0,
        "OVERLOAD_SECONDS": 3.0,
    }
    for name, value in changes.items():
        monkeypatch.setattr(endurance, name, value)
    report = measure_endurance(0.5, 2)
    for phase in ("idle", "load", "overload"):
        assert report[phase]["wrong"] == []
        assert report[phase]["statuses"]["200"] > 0
    assert {"400", "404", "405", "415", "422"} <= report["load"]["statuses"].keys()
    for held in report["held"].values():
        assert held["opened"] >= 20
        assert held["refused"] == 0
    assert report["held"]["silent"]["closed"] > 0
    assert report["updates"] >= 1
    assert report["restart"]["documents"] == report["restart"]["expected"]


# ---- clients that hold the server up ----


async def hold(closes: bool, each: int = 1, seconds: float = 0.3) -> tuple[dict[str, Held], list[bytes]]:
    """Return what is reported of clients of each kind, and what a server got that never closes."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not closes:
            came.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with holding(f"http://127.0.0.1:{port}/", each) as held:
        await asyncio.sleep(seconds)
    server.close()
    await server.wait_closed()
    return held, came


def test_what_is_closed_by_the_server_is_counted() -> None:
    held, _ = asyncio.run(hold(closes=True, each=3))
    assert {kind: (one.opened, one.closed, one.refused) for kind, one in held.items()} == {
        "silent": (3, 3, 0),
        "half_head": (3, 3, 0),
        "slow_body": (3, 3, 0),
        "hanging_up": (3, 0, 0),
    }


def test_each_kind_says_only_a_part() -> None:
    held, came = asyncio.run(hold(closes=False))
    assert sorted(came) == sorted(KINDS.values())
    assert all(one.opened == 1 and one.closed == 0 and one.longest > 0 for one in held.values())


def test_where_nobody_listens_all_are_refused() -> None:
    async def refused() -> dict[str, Held]:
        async with holding("http://127.0.0.1:9/", 2) as held:
            await asyncio.sleep(0.1)
        return held

    assert all((one.opened, one.refused) == (0, 2) for one in asyncio.run(refused()).values())
