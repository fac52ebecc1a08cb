import json

from lexlip.retrieval.answer import Answer, Hit


def test_an_answer_as_plain_values() -> None:
    hits = [Hit(1, "a.jpg", "/photos/a.jpg", 0.5, {"dog": 0.5}), Hit(2, "b.jpg", "b", 0.25, {}, 0.75)]
    answer = Answer("a dog", {"dog": 1.0}, hits, {"encode": 1.0, "search": 2.0}, ["quokka"])
    plain = {
        "query": "a dog",
        "terms": {"dog": 1.0},
        "hits": [
            {
                "rank": 1,
                "id": "a.jpg",
                "path": "/photos/a.jpg",
                "score": 0.5,
                "words": {"dog": 0.5},
                "probability": None,
            },
            {"rank": 2, "id": "b.jpg", "path": "b", "score": 0.25, "words": {}, "probability": 0.75},
        ],
        "ms": {"encode": 1.0, "search": 2.0},
        "unknown": ["quokka"],
    }
    assert answer.to_dict() == plain
    assert list(answer.to_dict()) == list(plain)
    assert json.loads(json.dumps(answer.to_dict())) == plain
