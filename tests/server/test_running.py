import pytest

from lexlip.errors import ConfigError
from lexlip.server.running import listen


def test_answers_do_not_wait_for_more_to_send() -> None:
    import socket

    with listen("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), ("no.such.host.invalid", 0)])
def test_where_it_cannot_listen_is_said(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen at {host}, port {port}"):
        listen(host, port)
