import pytest

from lexlip.queries.query_language import Query, QueryError, parse_query


@pytest.mark.parametrize(
    "sentence",
    [
        "two dogs in snow",
        "",
        "  spaces   stay ",
        "a - b + c",
        "well-known t-shirt",
        "rock'n'roll -- 3+4",
        "^_^ dog^ish x^y",
        "-- +-dog -+ +",
        "snow_man _a^2",
        "-_x",
        "été à la plage",
        "-\u0301 ❤\ufe0f^2",  # marks of no letter
    ],
)
def test_a_sentence_without_marks_stays_as_it_is(sentence: str) -> None:
    assert parse_query(sentence) == Query(sentence, sentence)
    assert not parse_query(sentence).marked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two dogs +beach", Query("two dogs +beach", "two dogs", added={"beach": 1})),
        ("+beach^2.5", Query("+beach^2.5", "", added={"beach": 2.5})),
        ("dogs -person -man", Query("dogs -person -man", "dogs", without=("person", "man"))),
        ("two dog^2 play", Query("two dog^2 play", "two dog play", factors={"dog": 2})),
        ("dogs dog^0 dog^.5", Query("dogs dog^0 dog^.5", "dogs dog dog", factors={"dog": 0.5})),
        ("-été +日本", Query("-été +日本", "", added={"日本": 1}, without=("été",))),
        ("कुत्ता^2 -बर्फ़", Query("कुत्ता^2 -बर्फ़", "कुत्ता", {"कुत्ता": 2}, without=("बर्फ़",))),
        ("+cafe\u0301", Query("+cafe\u0301", "", added={"cafe\u0301": 1})),
        ("นก^0 -น้ำ", Query("นก^0 -น้ำ", "นก", {"นก": 0}, without=("น้ำ",))),
        ("+שָׁלוֹם -مَدْرَسَة", Query("+שָׁלוֹם -مَدْرَسَة", "", added={"שָׁלוֹם": 1}, without=("مَدْرَسَة",))),
        ("a\t-b\nc", Query("a\t-b\nc", "a c", without=("b",))),
        ("-b -b", Query("-b -b", "", without=("b",))),
    ],
)
def test_marks(text: str, expected: Query) -> None:
    assert parse_query(text) == expected
    assert expected.marked


def test_adjustments_leave_the_sentence_as_it_is() -> None:
    query = parse_query("two  dogs", ["dogs^2", "+beach", "-person"])
    assert query == Query("two  dogs", "two  dogs", {"dogs": 2}, {"beach": 1}, ("person",))
    assert query.plain == "two  dogs beach"
    assert query.words == ["dogs", "beach", "person"]
    with pytest.raises(QueryError, match="'snow' is not \\+word, -word or word\\^2"):
        parse_query("two dogs", ["snow"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("two dogs -person,", "'-person,' at character 10 of the query is not understood"),
        ("+hot-dog", r"'\+hot-dog' at character 1 .*must stand alone"),
        ("dog^", "'dog\\^' at character 1 of the query needs a number from 0 to 100 after \\^, not ''"),
        ("a dog^-2", "at character 3 of the query needs a number"),
        ("dog^2x", "not '2x'"),
        ("dog^1e9", "not '1e9'"),
        ("dog^101", "from 0 to 100"),
        ("+dog^", "needs a number"),
        ("+dog^many", "not 'many'"),
        ("-dog^2", "a word that is left out has no weight"),
    ],
)
def test_a_wrong_mark_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_query(text)


def test_a_negation_leaves_words_out() -> None:
    query = parse_query("snow^2 and no dog -cat", ["+sled"])
    assert query == Query(
        "snow^2 and no dog -cat",
        "snow",
        {"snow": 2},
        {"sled": 1},
        ("cat", "dog"),
        {"and no dog": ("dog",)},
    )
    assert query.with_negations({"and no dog": ("dog", "dogs")}).without == ("cat", "dog", "dogs")
    assert query.with_negations({}).without == ("cat",)
    assert parse_query("snow and no dog", negations=False) == Query("snow and no dog", "snow and no dog")
