"""Indexes of a test's own on the servers that `make servers` starts, for photos, and photos for them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from PIL import Image

from lexlip.data import Scenes
from lexlip.other_engines.engine_contract import Made
from lexlip.other_engines.servers import Solr
from tests.cli.conftest import Run, as_json
from tests.other_engines.real_servers import Place, asked, place
from tests.tiny import CAPTIONS

KINDS = ("opensearch", "solr")


@contextmanager
def index_of_its_own(kind: str, shards: int = 2, replicas: int = 0) -> Iterator[str]:
    """Give the address of an index that will have shards; it is deleted.

    It does not exist yet, but in Solr, where somebody has made it with a schema of another kind, if it is to
    have more than one shard.
    """
    with place(kind) as there:
        if kind == "opensearch":
            settings = {"number_of_shards": shards, "number_of_replicas": replicas}
            template = {"index_patterns": [there.name], "template": {"settings": settings}}
            asked("PUT", f"{there.url}/_index_template/{there.name}", template)
        elif shards > 1:
            make_empty(there, shards, replicas)
        try:
            yield f"{kind}+{there.url}{'/solr' * (kind == 'solr')}/{there.name}"
        finally:
            if kind == "opensearch":
                asked("DELETE", f"{there.url}/_index_template/{there.name}")


def make_empty(there: Place, shards: int, replicas: int) -> None:
    """Make an empty collection, with the schema of an export."""
    admin = f"{there.url}/solr/admin"
    for name, text in Solr().settings(Made("", "", ()), there.name).items():
        asked("POST", f"{admin}/configs?action=UPLOAD&name={there.name}&overwrite=true&filePath={name}", text)
    how = f"collection.configName={there.name}&numShards={shards}&replicationFactor={1 + replicas}"
    asked("POST", f"{admin}/collections?action=CREATE&name={there.name}&{how}")


COUNTS = ("added", "changed", "deleted", "unchanged", "moved", "described", "kept")


def indexed(lexlip: Run, address: str, *more: object) -> dict[str, Any]:
    """What a run of `lexlip index` says in JSON."""
    return as_json(lexlip, "index", "photos", "--server", address, *more)


FOLDERS = ("2019 italy/Anna", "2020/SnowMan12", "été", "old/deep/er")
NAMES = ("IMG_0012", "beach-house", "anna maria", "Zoë")
KEYWORDS = ("family;holiday", "", "snow man", "")


def write_library(folder: Path, number: int = 48) -> Path:
    """Drawn photos with names, folders, captions, dates, places and keywords; some lack some of these."""
    scenes = Scenes(number, seed=3)
    for photo in range(number):
        below = folder / FOLDERS[photo % 4]
        below.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        if photo % 5:
            date = f"{2015 + photo % 7}:{1 + photo % 12:02}:{1 + photo % 28:02} 10:00:{photo:02}"
            exif.get_ifd(0x8769)[0x9003] = date
        if photo % 3:
            north, east = 45 + photo / 40, 9 + photo / 50
            exif.get_ifd(0x8825).update({1: "N", 2: degrees(north), 3: "E", 4: degrees(east)})
        if keywords := KEYWORDS[photo % 4]:
            exif[0x9C9E] = keywords.encode("utf-16-le")
        name = f"{NAMES[photo // 4 % 4]} {photo}"
        file = below / f"{name}.jpg"
        scenes.image(photo).save(file, exif=exif)
        written = datetime(2014 + photo % 8, 1 + photo % 12, 3, 4).timestamp()
        os.utime(file, (written, written))
        if photo % 6:
            (below / f"{name}.txt").write_text(CAPTIONS[(photo + 1) % len(CAPTIONS)] + "\n")
    twin = next(iter(sorted(folder.rglob("*.jpg"))))
    shutil.copy(twin, folder / "copy.jpg")
    return folder


def degrees(value: float) -> tuple[float, float, float]:
    return (int(value), int(value % 1 * 60), round(value * 3600 % 60, 2))


def versions(address: str) -> dict[str, int]:
    """The version of each photo's document, by id: another one each time that it is written."""
    kind, _, url = address.partition("+")
    if kind == "solr":
        asked("POST", f"{url}/update", {"commit": {}})
        query = {"query": "id:*", "limit": 1000, "fields": ["id", "_version_"]}
        return {
            one["id"]: one["_version_"] for one in asked("POST", f"{url}/select", query)["response"]["docs"]
        }
    asked("POST", f"{url}/_refresh")
    query = {"size": 1000, "query": {"exists": {"field": "id"}}, "version": True}
    hits = asked("POST", f"{url}/_search", query)["hits"]["hits"]
    return {hit["_source"]["id"]: hit["_version"] for hit in hits}
