import pytest

from lexlip.errors import ConfigError
from lexlip.server import access as module
from lexlip.server.access import Access, is_local
from lexlip.server.problems import Problem

TOKEN = "twelve signs"


def test_an_address_of_ipv4_may_be_written_as_one_of_ipv6() -> None:
    access = Access("::", "a token of its own")
    access.check_host("192.168.1.5:8642", "::ffff:192.168.1.5")
    with pytest.raises(Problem):
        access.check_host("192.168.1.6:8642", "::ffff:192.168.1.5")
    for nowhere in (None, "::ffff:192.168.1.5"):
        with pytest.raises(Problem):
            access.check_host("", nowhere)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "::1", "127.1.2.3"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert is_local(host)
    assert Access(host).is_known({})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "photos.home", "localhost.evil.example"])
def test_other_machines_need_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="give a --token, or set LEXLIP_TOKEN"):
        Access(host)
    assert not Access(host, TOKEN).is_known({})


@pytest.mark.parametrize("origin", ["http://[", "null", "https://localhost.evil.example", "localhost"])
def test_pages_of_other_sites_change_nothing(origin: str) -> None:
    with pytest.raises(Problem, match="a page of another site"):
        Access().check_origin("POST", {"origin": origin, "host": "localhost"})
    Access().check_origin("POST", {"origin": "http://LocalHost:80", "host": "localhost:80"})


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 12 ASCII characters"):
        Access(token="eleven sign")
    with pytest.raises(ConfigError, match="at least 12 ASCII characters"):
        Access(token="twelve signs with ü")


def test_the_address_at_which_a_caller_came_in_is_a_name() -> None:
    access = Access("0.0.0.0", TOKEN)
    access.check_host("192.168.1.7:8642", "192.168.1.7")
    access.check_host("[fe80::1]:8642", "fe80::1")
    with pytest.raises(Problem):
        access.check_host("192.168.1.8", "192.168.1.7")


def test_tokens_are_compared_whole() -> None:
    access = Access(token=TOKEN)
    assert access.is_token(TOKEN)
    assert not any(map(access.is_token, ("", TOKEN[:-1], TOKEN + " ", TOKEN.upper(), "\udcff")))
    assert not Access().is_token("")


def test_the_cookie_is_secure_over_https() -> None:
    access = Access(token=TOKEN)
    assert access.cookie(secure=True).endswith("; Secure")
    assert "Secure" not in access.cookie(secure=False)
    assert access.is_known({"cookie": access.cookie(secure=False).partition(";")[0]})


def test_requests_come_back_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    access = Access(rate=2)

    def allowed(client: str) -> bool:
        try:
            access.check_rate(client)
        except Problem as problem:
            return problem.status != 429
        return True

    assert [allowed("one") for _ in range(10)] == [True] * 8 + [False] * 2
    assert allowed("other")
    now += 1
    assert [allowed("one") for _ in range(3)] == [True, True, False]
    now += 1000
    assert [allowed("one") for _ in range(9)] == [True] * 8 + [False]


def test_clients_are_forgotten_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLIENTS", 10)
    access = Access(rate=1)
    for number in range(100):
        access.check_rate(str(number))
    assert len(access._clients) == 10
