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
        "unsealed": "",
        "missed": 0,
    }
    updated = Updated("ix", 6, None, 0.5, 2.0, BAD, files=FILES, added=1, changed=2, deleted=3, unchanged=4)
    assert updated.to_dict() == indexed.to_dict() | {
        "added": 1,
        "changed": 2,
        "deleted": 3,
        "unchanged": 4,
        "moved": 0,
        "described": 0,
        "repaired": 0,
        "damaged_files": 0,
        "kept": 0,
        "listed_ahead": 0.0,
    }
    json.dumps(updated.to_dict())
