"""Small damage to bytes, and texts and values that programs stumble over."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

_NUMBERS = (bytes(4), b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x7f", b"\0\1")

TEXTS = (
    *("", " ", "\t\r\n", "\0", "a\0b", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe"),
    *("\u202egpj", "e\u0301" * 3, "\U0001f415", "\U0010ffff", "ß", "İ", "ŉ", "Ⅷ", "٣", "½", "ﬁ", "한국어"),
    *("\ud800", "\udcff", "a\udfffb", "+dog", "-dog", "dog^2", "+dog^", "-dog^2", "dog^-1", "dog^1e9"),
    *("+", "-", "^", "^^", "+-dog", "dog^.", "dog^00000000.5", "+dog^100.0001", "+two+dogs", "-two-dogs"),
    *("dog^١", "+²", "a^½", "dog^" + "9" * 400, "%s%n", "{}", "${x}", "../../etc/passwd", "'; DROP TABLE"),
    *('"', "\\", "*:*", "[a TO b]", "field:word", "AND OR NOT", "<b>&amp;", "nan", "inf", "null", "-0"),
    *("a" * 5000, "dog " * 3000, "+dog " * 500, "\u0300" * 2000, "the of and", "[MASK] [CLS] [SEP]"),
    *("two red circles", "a blue square"),
)
"""Queries, names and values; lone surrogates are what undecodable bytes become."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 10**30, 0.0, -0.0, 0.5, -1.5, 1e308, 1e-320),
    *(math.nan, math.inf, -math.inf, "", "a", "1", "nan", [], [0], [None], [[]], {}, {"": 0}),
    {"a": {"b": []}},
)
"""Of JSON and YAML."""


def mutate(random: Random, data: bytes, most: int = 6, within: int | None = None) -> bytes:
    """Return bytes with `most` changes at most; only the first bytes are changed if `within` is given."""
    changed = bytearray(data)
    for _ in range(random.randint(1, most)):
        end = min(len(changed), within or len(changed))
        place, length = random.randrange(end + 1), random.choice([1, 1, 2, 4, 16, 200])
        kind = random.randrange(8)
        if kind <= 2 and place < len(changed):
            changed[place] ^= 1 << random.randrange(8)
        elif kind == 3:
            changed[place : place + 4] = random.choice(_NUMBERS)
        elif kind == 4:
            del changed[place : place + length]
        elif kind == 5:
            changed[place:place] = random.randbytes(length)
        elif kind == 6:
            start = random.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + length]
        elif random.random() < 0.3:
            del changed[random.randrange(len(changed) + 1) :]
    return bytes(changed)


def perhaps_mutated(random: Random, data: bytes, share: float) -> bytes:
    """Return bytes, with that probability changed."""
    return mutate(random, data) if random.random() < share else data


def text(random: Random) -> str:
    """Return a text of a few hostile pieces."""
    pieces = [random.choice(TEXTS) for _ in range(random.choice([1, 1, 2, 4]))]
    if random.random() < 0.3:
        pieces.append("".join(chr(random.randrange(random.choice([0x300, 0x110000]))) for _ in range(9)))
    return random.choice(["", " ", "\n"]).join(pieces)


def mutate_tree(random: Random, tree: Any) -> Any:
    """Return JSON with one value replaced, removed or moved."""
    tree = json.loads(json.dumps(tree))
    if not (places := _places(tree)):
        return random.choice(VALUES)
    parent, key = random.choice(places)
    kind = random.randrange(5)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[key] = text(random)
    elif kind == 2 and isinstance(parent[key], int | float):
        parent[key] = parent[key] * random.choice([-1, 0, 2, 10**6]) + random.choice([-1, 0, 1])
    else:
        parent[key] = random.choice(VALUES)
    return tree


def hostile_json(random: Random, tree: Any) -> bytes:
    """Return JSON, one value of which is nested very deep, or hardly a value; or which names a key twice."""
    depth = 10**5
    value = random.choice(
        [
            *("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth, '[{"a":' * depth),
            *("9" * depth, "-1e999999", "0." + "1" * depth, "NaN", "-Infinity", '"\\ud800"', '"\\u0000"'),
        ]
    )
    if random.random() < 0.1:
        return value.encode()
    tree = json.loads(json.dumps(tree))
    parent, key = random.choice(_places(tree))
    mark = f"mark of {random.random()}"
    if isinstance(parent, dict) and random.random() < 0.3:
        parent[mark] = 0
        return json.dumps(tree).replace(f"{json.dumps(mark)}: 0", f"{json.dumps(key)}: {value}").encode()
    parent[key] = mark
    return json.dumps(tree).replace(json.dumps(mark), value).encode()


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every value in JSON, as what holds it and its key there."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in ((tree, key), *_places(tree[key]))]
