import socket

import pytest

from lexlip.errors import ConfigError
from lexlip.server.running import listen


def test_answers_do_not_wait_for_more_to_send() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs sockets of IPv4 and IPv6")
def test_all_addresses_of_ipv6_are_those_of_ipv4_too() -> None:
    with listen("::", 0) as listening:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, listening.getsockname()[1]), timeout=5).close()


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), ("no.such.host.invalid", 0)])
def test_where_it_cannot_listen_is_said(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen at {host}, port {port}"):
        listen(host, port)
