import json

from lexlip.data import Skipped
from lexlip.indexing.report import Indexed, Updated

BAD = [Skipped("bad.jpg", "not an image")]
FILES = {"photos": 7, "hidden": 1}


def test_reports_as_plain_values() -> None:
    indexed = Indexed("ix", photos=6, postings=None, megabytes=0.5, seconds=2.0, skipped=BAD, files=FILES)
    assert indexed.to_dict() == {
        "index": "ix",
        "photos": 6,
        "postings": None,
        "megabytes": 0.5,
        "seconds": 2.0,
        "skipped": [{"id": "bad.jpg", "reason": "not an image"}],
        "resumed": 0,
        "unlisted": [],
        "captions_left_out": 0,
        "files": FILES,
        "missed": 0,
    }
    updated = Updated("ix", 1, 2, 3, 4, 0.5, 2.0, [])
    names = ["index", "added", "changed", "deleted", "unchanged", "megabytes", "seconds", "skipped"]
    assert list(updated.to_dict()) == [
        *names,
        "moved",
        "described",
        "repaired",
        "damaged_files",
        "kept",
        "unlisted",
        "captions_left_out",
        "files",
    ]
    assert list(updated.to_dict().values()) == ["ix", 1, 2, 3, 4, 0.5, 2.0, [], 0, 0, 0, 0, 0, [], 0, {}]
    json.dumps([indexed.to_dict(), updated.to_dict()])
