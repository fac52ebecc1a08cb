"""What a type checker knows of the package's own API: mypy reads this file, nothing runs it."""

from typing import assert_type

from lexlip import Answer, Filters, Hit, LexLIP, PhotoSearch, Query, index, parse_query, update

with PhotoSearch("index") as photos:
    answer = photos.text("two dogs", k=3, filters=Filters(after="2014"), sort="date")
    assert_type(answer, Answer)
    assert_type(answer.hits, list[Hit])
    assert_type(answer.hits[0].words, dict[str, float])
    assert_type(photos.similar("a.jpg").cursor, str | None)
    photos.text(3)  # type: ignore[arg-type]
    photos.text("two dogs", sort="size")  # type: ignore[arg-type]
assert_type(parse_query("two dogs"), Query)
assert_type(index("photos", topk=16).photos, int)
assert_type(update("index").added, int)
assert_type(LexLIP.from_pretrained("mini"), LexLIP)
