"""The index of equations at the head of the method: complete, and each entry leads to code that cites it."""

import inspect
import re
from importlib import import_module

import pytest

from lexlip.training import method

ENTRY = re.compile(r"^    (\d[\d, -]*?)\s{2,}\S.*?\s{2,}([\w.]+):([\w.]+)$")


def numbers(text: str) -> set[int]:
    """ "1, 4" and "8-10" as numbers."""
    found = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def entries() -> list[tuple[set[int], str, str]]:
    """Equations, module and name of each line."""
    found = filter(None, map(ENTRY.match, (method.__doc__ or "").splitlines()))
    return [(numbers(entry[1]), entry[2], entry[3]) for entry in found]


def test_every_equation_has_its_entry() -> None:
    assert set().union(*(equations for equations, _, _ in entries())) == set(range(1, 25))


@pytest.mark.parametrize(("equations", "module", "name"), entries())
def test_an_entry_leads_to_code_that_cites_its_equations(equations: set[int], module: str, name: str) -> None:
    target = import_module(module)
    texts = []
    for part in name.split("."):
        target = getattr(target, part)
        texts.append(inspect.getdoc(target) or "")
    cited = set()
    for match in re.finditer(r"Eq\. (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)", " ".join(texts)):
        cited |= numbers(match[1])
    assert equations <= cited
