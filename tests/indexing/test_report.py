import json

from lexlip.data import Skipped
from lexlip.indexing.report import Indexed, Updated

BAD = [Skipped("bad.jpg", "not an image")]
FILES = {"photos": 7, "hidden": 1}


def test_reports_as_plain_values() -> None:
    indexed = Indexed("ix", photos=6, postings=None, megabytes=0.5, seconds=2.0, skipped=BAD, files=FILES)
    given = {"index": "ix", "photos": 6, "postings": None, "megabytes": 0.5, "seconds": 2.0, "files": FILES}
    none = {"resumed": 0, "unlisted": [], "captions_left_out": 0, "unsealed": "", "missed": 0}
    none |= {"text_read": 0, "with_text": 0, "text_unread": 0, "text_failed": 0, "misplaced": []}
    skipped = [{"id": "bad.jpg", "reason": "not an image"}]
    assert indexed.to_dict() == {**given, **none, "skipped": skipped}
    counts = {"added": 1, "changed": 2, "deleted": 3, "unchanged": 4}
    updated = Updated("ix", 6, None, 0.5, 2.0, BAD, files=FILES, **counts)
    others = dict.fromkeys("moved described repaired encoded_anew damaged_files kept listed_ahead".split(), 0)
    assert updated.to_dict() == {**indexed.to_dict(), **counts, **others}
    json.dumps(updated.to_dict())
