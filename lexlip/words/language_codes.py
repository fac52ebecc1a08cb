"""Codes of languages, as in ISO 639: those that may be said of a query."""

from __future__ import annotations

TWO_LETTERS = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el
en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu
ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na
nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn
so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
"""All of ISO 639-1."""

THREE_LETTERS = "ast bgn blo chr dsb fil hsb kok nso pcm quc rhg shn syr und vec yue"
"""Of ISO 639-3, for languages without a shorter one that CLDR has names in; `und` is not determined."""

LANGUAGES = frozenset(f"{TWO_LETTERS} {THREE_LETTERS}".split())


def is_language(code: str) -> bool:
    """Return whether a code, such as de, de-AT or zh-Hant, is of a language; in any case."""
    return code.lower().partition("-")[0] in LANGUAGES
