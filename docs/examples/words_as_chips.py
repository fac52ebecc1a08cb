"""Change the words of a query, as the chips of a page do, and search with words alone."""

from lexlip import PhotoSearch, parse_query

with PhotoSearch(".lexlip") as photos:
    answer = photos.text("a cat looking at the camera", suggest=5)
    print("words:", answer.terms)
    print("suggested:", answer.suggestions)

    changed = parse_query("a cat looking at the camera", adjust=["cat^2", "looking^0", "-cup"])
    answer = photos.text(changed)
    print("changed:", answer.terms, "without", answer.without)
    print("best:", answer.hits[0].id)

    answer = photos.words({"coffee": 1.0, "table": 0.5}, without=["people"])
    print("by words:", answer.hits[0].id, answer.hits[0].words)

    answer = photos.similar(answer.hits[0].id)
    print("similar:", [hit.id for hit in answer.hits])
