import sys
from pathlib import Path

import pytest

from tools.campaign.contract import Broken
from tools.campaign.processes import Ended, check_end, run, shown

STACK = 'Traceback (most recent call last):\n  File "x.py"\nValueError: no\n'
JAVA = 'Exception in thread "main" java.io.IOException: no\n\tat org.apache.Lucene.write(Lucene.java:7)\n'


def test_a_sentence_with_exit_code_2_is_a_good_end() -> None:
    check_end(Ended(0, "21 photos", ""), "lexlip index", 0, 2)
    check_end(Ended(2, "", "Error: there is no index: build one\n"), "lexlip index", 0, 2)


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (Ended(1, "", STACK), "lexlip index shows a stack .*ValueError: no$"),
        (Ended(2, "", JAVA + "Error: no\n"), "lexlip index shows a stack"),
        (Ended(1, "", "Error: no\n"), "lexlip index ends with exit code 1"),
        (Ended(-11, "", ""), "lexlip index ends with exit code -11"),
        (Ended(2, "", "oh\n"), "lexlip index ends with exit code 2 and no sentence"),
    ],
)
def test_bad_ends(ended: Ended, why: str) -> None:
    with pytest.raises(Broken, match=why):
        check_end(ended, "lexlip index", 0, 2)


def test_a_command_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(Broken, match=r"time\.sleep\(60\) has not ended after 0\.5 s$"):
        run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, seconds=0.5)


def test_arguments_are_shown_in_ascii() -> None:
    assert shown(["search", "größe\n", ""]) == r"search gr\xf6\xdfe\n ''"
