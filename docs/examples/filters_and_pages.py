"""Find photos of some folder and time, page by page."""

from lexlip import Filters, PhotoSearch

QUERY, FILTERS = "a person in a uniform smiling", Filters(folder="people", after="1990")

with PhotoSearch(".lexlip") as photos:
    cursor = None
    while True:
        answer = photos.text(QUERY, k=2, filters=FILTERS, min_score=0.01, cursor=cursor)
        for hit in answer.hits:
            print(hit.rank, hit.id, hit.taken)
        cursor = answer.cursor
        if cursor is None:
            break
