from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_index import error

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["photos/1.jpg", "--query-encoder", "words"], "--query-encoder is for sentences"),
        (["photos/1.jpg", "--query-topk", "3"], "--query-topk is for --hit"),
        (["a dog", "--heat", "h"], "--heat is for a picture or --hit"),
        (["a dog", "--word", "dog"], "--word is for a picture or --hit"),
        (["a dog", "--device", "cpu"], "--device is for a picture or --hit"),
        (["a dog", "--caption", "a cat"], "--caption is for a picture without --hit"),
        (["photos/1.jpg", "--hit", "1.jpg", "--caption", "a"], "--caption is for a picture without --hit"),
        (["a dog", "--hit", "1.jpg", "--word", "dog"], "--word is for --heat"),
    ],
)
def test_options_without_effect_are_refused(
    lexlip: Run, photos: Path, arguments: list[str], says: str
) -> None:
    assert error(lexlip("explain", *arguments, code=2)) == f"{says}: leave it out"


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_an_empty_sentence(lexlip: Run, nothing: str) -> None:
    assert "the sentence is empty" in lexlip("explain", nothing, code=2).stderr
