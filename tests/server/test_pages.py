import re

import pytest

from tests.server.serving import Serving


def test_the_page_is_at_the_root(server: Serving) -> None:
    answer = server.client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"
    again = server.client.get("/", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


def test_the_api_s_page_needs_nothing_from_elsewhere(server: Serving) -> None:
    page = server.client.get("/docs")
    assert page.headers["cache-control"] == "no-cache"
    assert "http" not in page.text.replace("<html", "")
    assert "<script>" not in page.text  # which the content security policy forbids
    for file in re.findall(r'(?:href|src)="([^"]+)"', page.text):
        assert server.client.get(f"/{file}").status_code == 200


@pytest.mark.parametrize("range", ["bytes=0-9", "bytes=nonsense", "-"])
def test_the_page_is_sent_whole(server: Serving, range: str) -> None:
    """A malformed header too is passed over, instead of an answer that is no problem document."""
    answer = server.client.get("/", headers={"Range": range})
    assert (answer.status_code, answer.text) == (200, server.client.get("/").text)
