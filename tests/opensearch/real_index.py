"""An index of a test's own on the OpenSearch nodes that `make servers` starts, and photos for it."""

import json
import shutil
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lexlip.data import Scenes
from tests.tiny import CAPTIONS

NODE = "http://127.0.0.1:19201"


def asked(method: str, path: str, body: Any = None) -> Any:
    """What the first node answers."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{NODE}/{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


@contextmanager
def index_of_its_own(shards: int = 2) -> Iterator[str]:
    """Give the address of an index that does not exist yet, which will have shards; it is deleted."""
    try:
        asked("GET", "")
    except OSError:
        pytest.skip(f"no opensearch at {NODE}: make servers starts it")
    name = f"test-{uuid.uuid4().hex}"
    settings = {"settings": {"number_of_shards": shards, "number_of_replicas": 0}}
    asked("PUT", f"_index_template/{name}", {"index_patterns": [name], "template": settings})
    try:
        yield f"opensearch+{NODE}/{name}"
    finally:
        asked("DELETE", f"{name}?ignore_unavailable=true")
        asked("DELETE", f"_index_template/{name}")


FOLDERS = ("2019 italy/Anna", "2020/SnowMan12", "été", "old/deep/er")
NAMES = ("IMG_0012", "beach-house", "anna maria", "Zoë")
KEYWORDS = ("family;holiday", "", "snow man", "")


def write_library(folder: Path, number: int = 48) -> Path:
    """Drawn photos with names, folders, captions, dates, places and keywords; some lack some of these."""
    scenes = Scenes(number, seed=3)
    for place in range(number):
        below = folder / FOLDERS[place % 4]
        below.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        if place % 5:
            date = f"{2015 + place % 7}:{1 + place % 12:02}:{1 + place % 28:02} 10:00:{place:02}"
            exif.get_ifd(0x8769)[0x9003] = date
        if place % 3:
            north, east = 45 + place / 40, 9 + place / 50
            exif.get_ifd(0x8825).update({1: "N", 2: degrees(north), 3: "E", 4: degrees(east)})
        if keywords := KEYWORDS[place % 4]:
            exif[0x9C9E] = keywords.encode("utf-16-le")
        name = f"{NAMES[place // 4 % 4]} {place}"
        scenes.image(place).save(below / f"{name}.jpg", exif=exif)
        if place % 6:
            (below / f"{name}.txt").write_text(CAPTIONS[(place + 1) % len(CAPTIONS)] + "\n")
    twin = next(iter(sorted(folder.rglob("*.jpg"))))
    shutil.copy(twin, folder / "copy.jpg")
    return folder


def degrees(value: float) -> tuple[float, float, float]:
    return (int(value), int(value % 1 * 60), round(value * 3600 % 60, 2))


def all_hits(address: str) -> list[dict[str, Any]]:
    """All documents of an index but that which says what it is, as the server has them, by id."""
    name = address.rpartition("/")[2]
    asked("POST", f"{name}/_refresh")
    query = {"size": 1000, "query": {"exists": {"field": "id"}}, "sort": ["id"], "version": True}
    return asked("POST", f"{name}/_search", query)["hits"]["hits"]


def versions(address: str) -> dict[str, int]:
    """How often each photo's document was written since it is there."""
    return {hit["_source"]["id"]: hit["_version"] for hit in all_hits(address)}
