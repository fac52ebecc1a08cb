import asyncio

from lexlip.bench.holding_clients import KINDS, Held, holding


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
