"""Function words of English, German, French and Czech: they carry grammar rather than content.

An entry of a tokenizer has no language, so one list serves all four. A word that is grammatical in one
language and a content word in captions of another is left out: "man" and "hat" are also German, "son" is also
French, and "tom" and "jim" are also Czech. So are numbers, sizes and people, which stop-word lists often
include ("deux", "mann", "personnes").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache

ENGLISH = """
a about above across after against all along also although among an and another any are around as at
away back be because been before behind being below beneath beside between beyond both but by can could
did do does doing down during each either else even every few for from had has have having he her here
hers herself him himself his how i if in inside into is it its itself just like many may me might more
most much must my near neither no nor not of off on one onto or other others our out outside over own
per s same she should since so some such t than that the their them themselves then there these they
this those through to together too toward towards under underneath until up upon us very via was we were
what when where which while who whom whose why will with within without would you your
"""

GERMAN = """
ab aber alle allem allen aller alles als also am an andere anderem anderen anderer anderes auf aus außen
außer außerhalb bei beide beiden beim bereits bis bist da dabei dadurch dafür dagegen dahin dahinter
damit danach daneben dann daran darauf daraus darin darum darunter darüber das dass davon davor dazu
dazwischen dein deine dem den denen denn der deren derselbe derselben des dessen die dies diese diesem
diesen dieser dieses doch draußen drinnen durch durchs ein einander eine einem einen einer eines einige
einigem einigen einiger einiges entlang er es etwas euch für gegen gegenüber gerade habe haben hatte
hatten her herab heran herauf heraus herein herum herunter hier hin hinab hinauf hinaus hindurch hinein
hinten hinter hinterher hinunter hinüber ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in
indem innen innerhalb ins irgendetwas irgendwo ist ja je jedem jeden jeder jedes jedoch jemand jemandem
jemanden jene jenem jenen jener jenseits kann kein keine keinem keinen keiner können könnte mehr mein
meine mich mir mit miteinander mithilfe mitten muss müssen nach nachdem nahe neben nebeneinander nicht
nichts noch nun nur nähe ob oben oberhalb oder ohne sehr sein seine seinem seinen seiner seines seit
seitlich sich sie sind so sobald sodass sogar solche soll sonst sowie statt trotz um umher und uns unser
unten unter unterhalb viel viele vielen vieler vom von voneinander vor voran vorbei vorn vorne wann
warum was wegen weil welche welchem welchen welcher welches wenn wer werden wie wieder wir wird wo wobei
woran worauf worden worin wurde wurden während wäre würde zu zueinander zum zur zusammen zwar zwischen
über überall
"""

FRENCH = """
afin ai ainsi alors après au aucun aucune auprès auquel aussi autour autre autres aux avaient avait
avant avec avoir ayant beaucoup c ce ceci cela celle celles celui cependant certaines certains ces cet
cette ceux chacun chacune chaque chez comme comment contre côté d dans de dedans dehors depuis derrière
des dessous dessus devant donc dont du duquel durant déjà elle elles en encore ensemble entre est et eux
faire faisant fait font il ils j jusqu jusque l la laquelle le lequel les lesquelles lesquels leur leurs
lors lorsqu lorsque lui là m ma mais malgré me mes moi même mêmes n ne ni nos notre nous on ont ou où
par parce parmi pas pendant peu plus plusieurs pour pourquoi presque près puis puisque qu quand que quel
quelle quelles quelqu quelque quelques quels qui quoi sa sans se selon sera ses si soi sont sous sur t
ta tandis te tel telle tes toi tous tout toute toutes travers trop très tu un une va vers via vont vos
votre vous y à étaient était étant être
"""

CZECH = """
a aby ale ani asi ač ačkoli až bez blízko bude budou by byl byla byli bylo být během co což další
dalších dalšího dalším dalšími do dokud dolů ho i ihned jak jako jakoby jaké jaký je jeden jedna jednak
jedno jednoho jednom jednou jednu jedné jedním jeho jehož jej jejich jejichž její jejím jemu jen jenom
jenž jestli ještě jež ji jich jimi jimž jinou jiná jiné jiného jiném jiný jiných jiným jinými již
jsem jsme jsou jste já jí jím k kam kde kdo kdy když ke kolem komu kterak kterou která které kterého
kterém kterému který kterých kterým kterými kteří kvůli mají mezi mi mimo mně moc my má mít mě můj na
nad nade nahoru naproti ne nebo není než ni nic nich nim nimi nás náš ní ním ně něco něho něj nějakou
nějaká nějaké nějakého nějakém nějaký nějakých nějakým nějakými někde někdo někoho několik několika
někom někomu některé některý někým něčeho něčem něčemu něčím o oba obě od ode okolo on ona oni ono ony
ostatní ostatních pak po poblíž pod pode podle podél pokud pouze pro proti proto protože proč před přede
přes přese při s sama se sebe sebou sem si sice skrz směrem sobě společně spolu svoje svoji svojí svou
svá své svého svém svému svých svým svými svůj sám ta tady tak takový také takže tam tedy tento to tohle
toho tohoto tomto tomu tou tu tuto ty tyto té této tím tě těch těmi u uprostřed uvnitř už v ve vedle
velmi venku vně vy vzhůru vám vás váš však vše všech všechny všemi všichni vůči z za zatím zatímco zda
zde ze čem či čím že
"""

BY_LANGUAGE = {
    language: frozenset(words.split())
    for language, words in {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "cs": CZECH}.items()
}
"""By the language's code, as in ISO 639-1."""

FUNCTION_WORDS = frozenset().union(*BY_LANGUAGE.values())
"""Those of all languages; they do not count in words@10."""


@lru_cache(maxsize=2**16)  # captions come again in every epoch
def likely_language(text: str) -> str:
    """Return the language of most of a text's function words; English if there are none, or in a tie."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return max(BY_LANGUAGE, key=lambda language: sum(word in BY_LANGUAGE[language] for word in words))


_MORE = {
    "es": """
a al con de del desde donde dos e el en entre es est está están hacia la las le lo los más muy no o para pero
por que se sobre su sus un una uno unos y él
""",
    "it": """
a accanto ad ai al alla alle allo che con da dal dalla davanti degli dei del dell della delle dello di
dietro e gli hanno i il in la le lo mentre nel nell nella nessun nessuna nessuno per senza sono su sul sull
sulla tra un una uno è
""",
    "pt": """
a ao as com da das de do dos e em na nas não no num numa o os para pela pelo por que sem seu sua um uma é
""",
    "nl": """
aan achter bij de deze een en geen heeft het hij in naar naast niet op tussen uit voor wordt zijn zonder
""",
    "pl": "bez dla i jego jest ma na nad nie obok od oraz pod przed przez przy się są w z za ze",
    "sv": "bakom bredvid det ett framför från genom hennes i inte med mellan och på som utan är",
    "da": "af bagved efter foran fra hendes ikke med mellem og på til uden ved",
    "no": "bak etter foran fra hennes ikke med mellom og på til uten ved",
    "fi": "ilman ja kanssa ovat päällä vieressä",
    "hu": "alatt az egy mellett nélkül és",
    "ro": "cu fără la lângă pe pentru sunt un în și",
    "hr": "bez i iz ispred kod na pored sa uz",
    "ru": "без в во за и из или к на над не нет ни о от по под с со у",
    "tr": "altında bir ile ve için içinde yanında üstünde üzerinde",
    "vi": "bên có của không những trên trong và với",
    "id": "dari dengan pada sebuah seekor seorang tanpa yang",
    "sw": "bila juu katika kwa kwenye",
}
MORE_BY_LANGUAGE = {language: frozenset(words.split()) for language, words in _MORE.items()}
"""Of further languages, by code: only to tell the language of a query."""

_NEITHER = {  # what stands before the first thing, and before the second
    "de, nl": ("weder|noch", "noch"),
    "fr, es": ("ni", "ni"),
    "it": ("n[eé]", "n[eé]"),
    "pt": ("nem", "nem"),
    "pl, cs, sk": ("ani", "ani"),
    "ru, uk": ("ни|ні", "ни|ні"),
    "sv, da, no": ("varken|h?verken", "eller"),
}
_LEAVE_OUT = {
    "de": r"ohne|kein(?:e[mnrs]?)?",
    "fr": r"sans|aucune?|pas\s+(?:de|d['’].*|une?)",
    "es": r"sin(?:\s+que\s+haya)?|ning[uú]na?|no\s+hay(?:\s+ni)?",
    "it": r"senza|nessun[ao]?|non\s+c'è|non\s+ci\s+sono",
    "pt": r"sem|nenhuma?|n[ãa]o\s+h[áa]",
    "nl": "zonder|geen",
    "pl, cs, sk, hr": "bez",
    "pl": r"nie\s+ma|brak",
    "cs": "není|nejsou|žádn[áéýí]",
    "ru, uk, bg": "без|нет|немає|няма",
    "sv, da, no": "utan|uden|uten|ing(?:en|a|et)|intet",
    "ro": "f[ăa]r[ăa]",
    "fi, id, el, vi": r"ilman|tanpa|χωρίς|không\s+có",
    "ar, fa, he": "بدون|بلا|בלי|ללא",
}
_BOTH = [rf"(?:{one})(?=(?:\s+\S+){{1,2}}\s+(?:{other})\s)" for one, other in _NEITHER.values()]
LEAVE_OUT = rf"(?<![\w'’-])(?:{'|'.join([*_LEAVE_OUT.values(), *_BOTH])})\s+"
"""What stands before a thing that is not to be there, in other languages than English, of any case."""

_AND = {
    code: words
    for codes, words in (
        ("it, pt", "e"),
        ("es", "y e"),
        ("cs, sk", "a"),
        ("pl, hr", "i"),
        ("ru, bg", "и"),
        ("uk", "і та й"),
        ("da, no", "og"),
        ("de", "und"),
        ("fr", "et"),
        ("nl", "en"),
        ("sv", "och"),
        ("ro", "și"),
        ("fi", "ja"),
    )
    for code in codes.split(", ")
}


def languages_of_and(negation: str, conjunction: str) -> set[str]:
    """Return the languages, of those of a negation, that have a word for "and"."""
    found = (one for one, pattern in _LEAVE_OUT.items() if re.search(rf"(?i)\b(?:{pattern})\s", negation))
    codes = (code for one in found for code in one.split(", "))
    return {code for code in codes if conjunction.lower() in _AND.get(code, "").split()}


OF_MORE = frozenset().union(*MORE_BY_LANGUAGE.values())

QUERY_LANGUAGES = {**BY_LANGUAGE, "fr": BY_LANGUAGE["fr"] | {"a"}, **MORE_BY_LANGUAGE}
QUERY_WORDS = FUNCTION_WORDS | OF_MORE
"""Those of all languages whose function words count in a query, by language and together."""


def is_latin(text: str) -> bool:
    """Return whether all letters of a text are Latin."""
    return all("LATIN" in unicodedata.name(letter, "") for letter in text if letter.isalpha())


def looks_foreign(text: str, unknown: Collection[str]) -> bool:
    """Return whether a sentence does not look like English, to a model that lacks half of its content words.

    Most of its letters are not Latin, or it has more function words of another language that are not English,
    and unknown words with accents after the first ("Zürich"), than of English that are not the other's.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if unknown and 2 * sum("LATIN" in unicodedata.name(letter, "") for letter in letters) < len(letters):
        return True
    languages = [*BY_LANGUAGE.values(), OF_MORE]
    words = re.findall(r"[^\W\d_]+", text.lower())
    lacked = [word for word in unknown if word.lower() not in OF_MORE]
    content = sum(not any(word in language for language in languages) for word in words)
    accented = max(sum(not word.isascii() for word in lacked) - 1, 0) if len(words) > 2 else 0  # crème brûlée
    english = languages[0]
    surplus = [
        sum((word in language) - (word in english) for word in words) + accented for language in languages
    ]
    return bool(lacked) and 2 * len(lacked) >= content and max(surplus[1:]) > 0
