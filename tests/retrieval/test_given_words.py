"""Which words of a query may come with photos, and which photos have them."""

import pytest

from lexlip.retrieval.given_words import MOST_PHRASES, Phrase, date_words, phrases, phrases_in, texts_of
from lexlip.words.plain_text import spelled


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("a dog on the beach", ["dog", "beach"]),
        ("the who", ["the", "who"]),  # nothing but function words
        ("cc_00111.jpg", ['"cc 00111 jpg"']),
        ("2019/italy", ["2019", "italy"]),
        ('"exit 12" sign', ['"exit 12"', "sign"]),
        ("“on the road” DOG", ['"on the road"', "dog"]),
        ("dog dog ... !", ["dog"]),
        ("STRASSE straße", ["strasse"]),
        ("ﬁsh", ["fish"]),
        ('"" " "', []),
        ('a 12" pizza', ["12", "pizza"]),
        ("日本 tower", ["日本", "tower"]),
        ("ÉTÉ Übersee", ["ete", "ubersee"]),
        ("Anna's and Tom’s photos", ["anna", "tom", "photos"]),
        ("party in may 2019", ["party", "may", "2019"]),
        ("7/4/2019", ['"7 4 2019"']),
        ("beach 4 July 2019!", ["beach", '"4 july 2019"']),
        ("may 4th, 2019 party", ['"may 4th 2019"', "party"]),
        ("4 July 20190", ["4", "july", "20190"]),
        ("O'Brien 'sweet' dogs'", ['"o brien"', "sweet", "dogs"]),
    ],
)
def test_phrases_of_a_query(typed: str, wanted: list[str]) -> None:
    assert [str(one) for one in phrases(typed)] == wanted


def test_of_a_pasted_text_the_beginning_counts() -> None:
    text = " ".join(f"word{number}" for number in range(100_000))
    assert [str(one) for one in phrases(text)] == text.split()[:MOST_PHRASES]


def test_a_phrase_stands_in_one_text_as_it_was_typed() -> None:
    texts = [["three", "dogs", "run"], ["exit", "12"]]
    assert Phrase(("dog",)).is_in(texts)  # the other number of a noun
    assert not Phrase(("dog",), exact=True).is_in(texts)
    assert Phrase(("dog", "run")).is_in(texts)
    assert Phrase(("exit", "12"), exact=True).is_in(texts)
    assert not Phrase(("12", "exit")).is_in(texts)
    assert not Phrase(("run", "exit")).is_in(texts)
    assert not Phrase(("dog",)).is_in([])


def test_texts_of_a_photo_by_field() -> None:
    texts = texts_of("Trips/RomeDay2/IMG_0012.JPG", ["A dog's day", "pets"], ["EXIT", "Gate12"])
    assert texts["caption"] == [["a", "dog", "s", "day"], ["pets"]]
    assert texts["name"] == [["img", "0012", "jpg"]]
    assert texts["folder"] == [["trips", "romeday2"], ["trips", "rome", "day", "2"]]
    assert texts["text"] == [["exit", "gate12"], ["exit", "gate", "12"]]
    found = phrases_in(texts, phrases('rome IMG_0012 pet cat trips "exit gate"'))
    assert found == ["folder:rome", 'name:"img 0012"', "caption:pet", "folder:trips", 'text:"exit gate"']


@pytest.mark.parametrize(
    "typed",
    [
        *(
            "2019",
            "july",
            "jul",
            "July 2019",
            '"july 2019"',
            "2019-07",
            "07.2019",
            "2019-07-04",
            "2019/07/04",
        ),
        *("4.7.2019", "04.07.2019", "7/4/2019", "4/7/2019", "July 4th 2019", '"4 Jul 2019"', "4th of july"),
    ],
)
def test_a_date_is_found_as_people_write_it(typed: str) -> None:
    for texts in (texts_of("a.jpg", [], [], "2019-07-04T12:30:00"), texts_of("a.jpg", [], [], "2019-07-04")):
        long = [one for one in phrases(typed) if one.dates]
        assert phrases_in(texts, phrases(typed)) == [f"taken:{one}" for one in long] != []


@pytest.mark.parametrize(
    "typed", ["12", "4", "07", "12:30", "7 4", '"07 04"', "2018", "june", "3 people", "2020-07-04"]
)
def test_other_numbers_are_no_date(typed: str) -> None:
    assert phrases_in(texts_of("a.jpg", [], [], "2019-07-04T12:30:00"), phrases(typed)) == []
    assert "taken" not in texts_of("a.jpg", [], [])
    assert texts_of("a.jpg", [], [], "2019-13-04T12:30:00")["taken"] == []


def test_endings_of_days() -> None:
    written = {str(day): date_words(f"2019-07-{day:02}T00:00:00") for day in range(1, 32)}
    assert {day for day, ways in written.items() if ["july", f"{day}st", "2019"] in ways} == {"1", "21", "31"}
    assert {day for day, ways in written.items() if ["july", f"{day}nd", "2019"] in ways} == {"2", "22"}
    assert {day for day, ways in written.items() if ["july", f"{day}rd", "2019"] in ways} == {"3", "23"}


def test_emoji_are_words_of_texts() -> None:
    texts = texts_of("🏖\ufe0f 2019/Anna🎉-👍🏽.jpg", ["our 🐶"], [])
    assert texts["name"] == [["anna", "party", "popper", "thumbs", "up", "sign", "jpg"]]
    assert texts["folder"] == [["beach", "with", "umbrella", "2019"]]
    assert texts["caption"] == [["our", "dog"]]
    for query in ("🎉", "anna🎉", "🏖", '"party popper"', "🐶"):
        assert phrases_in(texts, phrases(spelled(query)))
    assert not phrases_in(texts, phrases(spelled("🎈")))
