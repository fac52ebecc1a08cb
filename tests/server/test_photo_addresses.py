from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from lexlip.errors import ConfigError, DataError
from lexlip.server.photo_addresses import PhotoAddresses, where_photos_are
from tests.server.conftest import HOSTILE


@pytest.mark.parametrize(
    ("template", "origin", "address"),
    [
        ("https://photos.example.org/{id}", "https://photos.example.org", "/2019/a%20b.jpg"),
        ("http://127.0.0.1:8080/all/{id}", "http://127.0.0.1:8080", "/all/2019/a%20b.jpg"),
        ("https://[::1]:8443/p/{id}?w=300", "https://[::1]:8443", "/p/2019/a%20b.jpg?w=300"),
        (
            "https://Photos.Example.org/?f={id}&x=1",
            "https://photos.example.org",
            "/?f=2019/a%20b.jpg&x=1",
        ),
        ("HTTPS://h/%7Eanna/{id}", "https://h", "/%7Eanna/2019/a%20b.jpg"),
    ],
)
def test_addresses(template: str, origin: str, address: str) -> None:
    addresses = PhotoAddresses(template)
    assert addresses.origin == origin
    assert addresses.of("2019/a b.jpg") == origin + address


@pytest.mark.parametrize(
    "id", [*HOSTILE, "a?b#c&d=e+f", "a\\b", "100%25.jpg", "//evil.example.org/x", "https://e/x"]
)
def test_an_id_stays_in_its_place(id: str) -> None:
    """A browser reads of the address the same host and the same path below the template's."""
    address = urlsplit(PhotoAddresses("https://photos.example.org/all/{id}").of(id))
    assert (address.scheme, address.netloc) == ("https", "photos.example.org")
    assert (address.query, address.fragment) == ("", "")
    assert unquote(address.path) == f"/all/{id}"
    assert address.path.isascii()
    assert not set(address.path) & set(" \"'<>\\\n")


@pytest.mark.parametrize("id", ["../secret.jpg", "a/../../b", "..", "a/.", "./a"])
def test_an_id_that_leads_elsewhere_has_no_address(id: str) -> None:
    with pytest.raises(DataError, match="its id leads to another folder"):
        PhotoAddresses("https://photos.example.org/all/{id}").of(id)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("https://photos.example.org/", "says nowhere where the id"),
        ("https://{id}.example.org/", "says nowhere where the id"),
        ("https://photos.example.org/#{id}", "says nowhere where the id"),
        ("https://anna:secret@photos.example.org/{id}", "holds a name or a password"),
        ("ftp://photos.example.org/{id}", "no address of http or https"),
        ("https:///{id}", "no address of http or https"),
        ("https://photos.example.org;script-src *:1/{id}", "no address"),
        ("https://ex ample.org/{id}", "no address of http or https"),
        ("https://*.example.org/{id}", "no address of http or https"),
        ("https://photos.example.org:x/{id}", "is no address"),
        ("https://photos.example.org/{id}#x", "no address of http or https"),
        ("https://photos.example.org/{path}/{id}", "has {id} and else only"),
        ("https://photos.example.org/a b/{id}", "has {id} and else only"),
        ("https://photos.example.org/ä/{id}", "has {id} and else only"),
    ],
)
def test_templates_that_are_none(template: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PhotoAddresses(template)
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_folders_or_addresses(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert where_photos_are(()) == ((), None)
    assert where_photos_are((f"{tmp_path}/link",)) == ((str(tmp_path),), None)
    folders, addresses = where_photos_are(("https://photos.example.org/{id}",))
    assert addresses is not None
    assert (folders, addresses.origin) == ((), "https://photos.example.org")
    with pytest.raises(ConfigError, match="give that one alone"):
        where_photos_are(("https://photos.example.org/{id}", str(tmp_path)))
    with pytest.raises(ConfigError, match="no folder"):
        where_photos_are((str(tmp_path / "none"),))
