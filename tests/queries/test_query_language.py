import random
from functools import cache

import pytest

from lexlip.queries.query_language import (
    SWAP,
    Query,
    QueryError,
    edit_distances,
    forms,
    nearest_words,
    parse_query,
    read_negations,
)


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
        "-\u0301 a",  # a mark of no letter
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
        ("+cafe\u0301", Query("+cafe\u0301", "", added={"café": 1})),
        ("\u200fכלב\u200e -ש\u00adלג", Query("\u200fכלב\u200e -ש\u00adלג", "כלב", without=("שלג",))),
        ("นก^0 -น้ำ", Query("นก^0 -น้ำ", "นก", {"นก": 0}, without=("น้ำ",))),
        ("+שָׁלוֹם -مَدْرَسَة", Query("+שָׁלוֹם -مَدْرَسَة", "", added={"שָׁלוֹם": 1}, without=("مَدْرَسَة",))),
        ("a\t-b\nc", Query("a\t-b\nc", "a c", without=("b",))),
        ("-b -b", Query("-b -b", "", without=("b",))),
    ],
)
def test_marks(text: str, expected: Query) -> None:
    assert parse_query(text) == expected
    assert expected.marked


def test_emoji_are_words() -> None:
    query = parse_query("🐈 on a ❤\ufe0f^2 -🐶🏽")
    assert query == Query("🐈 on a ❤\ufe0f^2 -🐶🏽", "cat on a heart", {"heart": 2}, without=("dog",))
    assert parse_query("name:🐈").narrowed == (("name", "cat"),)
    party = parse_query("name:🎉 cat folder:🎉2019 caption:“🎉 a”")
    assert (party.sentence, party.plain) == ("cat", "cat")
    assert party.narrowed == (
        ("name", '"party popper"'),
        ("folder", '"party popper 2019"'),
        ("caption", "“party popper a”"),
    )
    assert parse_query("cat", ["+🐶"]).added == {"dog": 1}


def test_of_a_path_the_name_counts() -> None:
    query = parse_query('name:/home/me/2019/img.jpg name:"my photos/a b.jpg" folder:2019/italy name:2019/')
    assert [value for _, value in query.narrowed] == ["img.jpg", '"a b.jpg"', "2019/italy", "2019/"]
    query = parse_query("name:2019/05/03 name:24/7")
    assert [value for _, value in query.narrowed] == ["2019/05/03", "24/7"]


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
        ("name:x dög^99999", "at character 8 of the query"),
        ("name:ännä dög +a!b", "at character 15 of the query"),
        ("  é dog^", "at character 5 of the query"),
    ],
)
def test_a_wrong_mark_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse_query(text)


def test_a_negation_leaves_words_out() -> None:
    query = parse_query("snow^2 and no dog -cat", ["+sled"])
    assert query == Query(
        "snow^2 and no dog -cat", "snow", {"snow": 2}, {"sled": 1}, ("cat", "dog"), {"and no dog": ("dog",)}
    )
    assert query.with_negations({"and no dog": ("dog", "dogs")}).without == ("cat", "dog", "dogs")
    assert query.with_negations({}).without == ("cat",)
    assert parse_query("snow and no dog", negations=False) == Query("snow and no dog", "snow and no dog")


@pytest.mark.parametrize(
    ("text", "kept", "negations"),
    [
        ("no dog on the beach", "on the beach", {"no dog": ("dog",)}),
        ("dog without snow", "dog", {"without snow": ("snow",)}),
        ("Dogs but NO Snow.", "Dogs .", {"but NO Snow": ("snow",)}),
        ("street without any cars", "street", {"without any cars": ("cars",)}),
        ("dogs but not cats", "dogs", {"but not cats": ("cats",)}),
        ("there are no people on the beach", "on the beach", {"there are no people": ("people",)}),
        ("beach, not any dogs", "beach", {"not any dogs": ("dogs",)}),
        ("no dogs or cats on grass", "on grass", {"no dogs or cats": ("dogs", "cats")}),
        ("sea with no boats, a bird or the sun", "sea", {"with no boats, a bird or the sun": ()}),
        ("sea with no boats, birds, or people", "sea", {"with no boats, birds, or people": ()}),
        ("beach without people and dogs", "beach", {"without people and dogs": ("people", "dogs")}),
        ("no dog and a cat", "and a cat", {"no dog": ("dog",)}),
        ("snow, no dog, no cat", "snow", {"no dog": ("dog",), "no cat": ("cat",)}),
        ("man without a hat and with no beard", "man", {}),
        ("no dog", "", {"no dog": ("dog",)}),
        ("there is no dog", "", {"there is no dog": ("dog",)}),
        ("a house with no ceiling", "a house", {"with no ceiling": ("ceiling",)}),
        ("dog NOT cat", "dog", {"NOT cat": ("cat",)}),
        ("dog AND NOT the cat OR Birds", "dog", {"AND NOT the cat OR Birds": ("cat", "birds")}),
    ],
)
def test_plain_negations_leave_words_out(text: str, kept: str, negations: dict[str, tuple[str, ...]]) -> None:
    sentence, found = read_negations(text)
    assert sentence == kept
    assert found
    for phrase, words in negations.items():
        assert phrase in found
        assert not words or found[phrase] == words
    assert all(phrase in text for phrase in found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two  dogs in snow",
        "dog not cat",
        "DO NOT ENTER",
        "dog NOT black cat",
        "a no parking sign",
        "no parking",
        "no dogs sign",
        "a sign for no dogs",
        "no smoking",
        "no entry",
        "no U-turn",
        "no left turn",
        "no one on the beach",
        "no longer a boat",
        "No. 5 bus",
        "no man's land",
        "a no-dog beach",
        "a man with no shirt is climbing a rock ledge .",
        "Man without shirt climbing rock face .",
        "a man walking down the street with no shirt pulling luggage",
        "railroad tracks with no trains on them",
        "a large train yard with no trains",
        "a large train yard with no running trains",
        "a child with no toys on",
        "eating pizza without using his hands",
        "dog not in snow",
        "nothing but snow",
        "a casino without",
    ],
)
def test_other_negations_are_text(text: str) -> None:
    assert read_negations(text) == (text, {})


def test_in_quotes_a_negation_is_text() -> None:
    assert read_negations('"no dog" on the beach') == ("no dog on the beach", {})
    assert read_negations("“no dog” on snow, no cat") == ("no dog on snow", {"no cat": ("cat",)})
    assert read_negations('the "big" dog') == ('the "big" dog', {})
    assert read_negations('5" pipe without snow') == ('5" pipe', {"without snow": ("snow",)})


NUMBERS = (
    "dog dogs, person people, child children, bus buses, glass glasses, beach beaches, box boxes, city cities"
    ", boy boys, house houses, pie pies, horse horses"
)


@pytest.mark.parametrize("numbers", NUMBERS.split(", "))
def test_both_numbers_of_a_noun(numbers: str) -> None:
    singular, plural = numbers.split()
    assert plural in forms(singular)
    assert singular in forms(plural)


COUNTS = {"dogs": 9, "dog": 50, "does": 90, "snow": 40, "show": 60, "bicycle": 3, "elephant": 2, "brick": 1}


def plain_distance(one: str, other: str) -> float:
    """Optimal string alignment, by its definition."""

    @cache
    def distance(i: int, j: int) -> float:
        if not i or not j:
            return i + j
        found = min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (one[i - 1] != other[j - 1]),
        )
        if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
            found = min(found, distance(i - 2, j - 2) + SWAP)
        return found

    return distance(len(one), len(other))


def test_distances_are_those_of_the_plain_formula() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcé", k=rng.randrange(7))) for _ in range(60)]
    for word in words:
        assert edit_distances(word, words) == pytest.approx([plain_distance(word, other) for other in words])


TYPED = (
    "dgos dogs, Snwo snow, dig dog, bycicle bicycle, ellephent elephant, sno snow, shnow show snow, dg, xyzzy"
    ", hund"
)


@pytest.mark.parametrize("case", TYPED.split(", "))
def test_letters_that_changed_places_are_first_then_the_most_frequent(case: str) -> None:
    typed, *meant = case.split()
    assert nearest_words(typed, COUNTS, 3) == meant


def test_no_more_than_wanted() -> None:
    assert nearest_words("shnow", COUNTS, 1) == ["show"]
    assert nearest_words("dog", {}, 3) == []
    assert nearest_words("x" * 10_000_000, COUNTS, 3) == []  # at once: none is nearly as long


def test_of_two_places_none_is_passed_over() -> None:
    with pytest.raises(QueryError, match=r"one place: give near:48.1,11.6 or NEAR:\"são paulo\", not both"):
        parse_query('near:48.1,11.6 a boat NEAR:"são paulo"')
    assert parse_query('near:lyon a boat near:"Lyon"').near == "lyon"


def test_a_language_that_is_none() -> None:
    assert parse_query("dog", language="de-AT").language == "de-AT"
    assert parse_query("dog", language="deu").language == "de"
    for code in ("xx", "english", "\x1b"):
        with pytest.raises(QueryError, match="is not the code of a language, such as de or zh-Hant"):
            parse_query("dog", language=code)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("show me photos of dogs", "dogs"),
        ("Please show us all the pictures of my dog", "my dog"),
        ("can you find me a photo of Anna in Rome?", "Anna in Rome?"),
        ("photos of a man on a bike", "a man on a bike"),
        ("pictures from christmas 2019", "christmas 2019"),
        ("where are the pictures of the beach", "the beach"),
        ("I'm looking for images with boats", "boats"),
        ("I’d like to see photos of boats", "boats"),
        ("show me dogs", "dogs"),
        ("do I have any pics of snow", "snow"),
        ("Anna’s photos", "Anna's"),
        ("find my dog's pictures ", "find my dog's"),
        ("a photo of a dog", "a photo of a dog"),
        ("a man taking pictures of a bird", "a man taking pictures of a bird"),
        ("pictures on a wall", "pictures on a wall"),
        ("a dog show", "a dog show"),
        ("people looking for shells", "people looking for shells"),
        ('"photos of dogs"', '"photos of dogs"'),
        ('photos of "exit 12"', '"exit 12"'),
        ("show me", "show me"),
        ("photos of", "photos of"),
        ("photos of …", "photos of …"),
    ],
)
def test_a_request_is_no_part_of_what_is_looked_for(typed: str, sentence: str) -> None:
    query = parse_query(typed)
    assert (query.sentence, query.text) == (sentence, typed)


def test_a_request_goes_with_marks_fields_and_negations() -> None:
    query = parse_query("show me photos of dogs snow^2 folder:italy without cars -cat")
    assert (query.sentence, query.without) == ("dogs snow", ("cat", "cars"))
    assert query.narrowed == (("folder", "italy"),)


@pytest.mark.parametrize("typed", ["?", "!!!", "...", "-", "* . *", "/", "🇫🇷", "__", "photo? -dog ?"])
def test_signs_alone_are_no_sentence(typed: str) -> None:
    query = parse_query(typed)
    assert query.sentence == ("photo? ?" if "photo" in typed else "")
    assert query.text == typed
