"""A text as words that can be compared: lower case, no accents, no plurals, number words as digits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from tiebreak.scorers.answers import without_latex

MARKS = frozenset(".!?;:,()[]\n—–|")
"""What ends a clause."""
_TOKEN = re.compile(r"(?<![\w)\]])-\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*|[^\W\d]\w*|[.!?;:,()\[\]\n—–|]")
_COMBINING = re.compile("[\u0300-\u036f]+")
_SINGLE = re.compile(r"\b[^\W\d_]\.")
_ACRONYM = re.compile(r"\b(?:[^\W\d_]\.){2,6}")
INITIAL = re.compile(r"\b[A-Z]\.\s{1,2}(?=[A-Z])")
ONES = (
    "zero one two three four five six seven eight nine ten"
    " eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
# "First" and "second" are said of anything; they count nothing.
_ORDINALS = "third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_NUMBERS = (
    {word: str(value) for value, word in enumerate(ONES.split())}
    | {word: str(value) for value, word in enumerate(_ORDINALS.split(), start=3)}
    | {word: str(value * 10) for value, word in enumerate(TENS.split(), start=2)}
)
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_LONGEST_NUMBER = 12
_WHOLE_TENS = frozenset(str(value) for value in range(20, 100, 10))
_DIGITS = frozenset("123456789")
_STEM = 8
"""Letters by which a word is known: Zoroastrian and Zoroastrianism are one."""
_INDEXED = 300
"""Words from which on it is quicker to note where each stands."""
_MENTIONS = 40
"""Places of a word that are looked at."""


def known(words: str) -> frozenset[str]:
    """Words to be looked up, each as `normal` puts it."""
    return frozenset(words.split())


@lru_cache(maxsize=1 << 15)
def normal(token: str) -> str:
    """A word as it is compared."""
    word = token.lower()
    if not word.isascii():
        word = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    if is_number(word):
        return _number(word)
    if word in _NUMBERS:
        return _NUMBERS[word]
    if len(word) > 3 and word[-1] == "s" and word[-2] not in "suia":
        word = word[:-1]
    if len(word) > 4:
        word = f"{word[:-3]}ter" if word.endswith("tre") else f"{word[:-3]}or" if word.endswith("our") else word
    return word[:_STEM] if word.isalpha() else word


def is_number(word: str) -> bool:
    """Whether a word is written in digits."""
    return word[:1].isdigit() or (word[:1] == "-" and word[1:2].isdigit())


def _number(word: str) -> str:
    whole, comma, part = word.rpartition(",")
    digits = whole.replace(",", "") + part if comma and len(part.partition(".")[0]) == 3 else word
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def raw_tokens(text: str) -> list[str]:
    """The words and marks of a text, as they are written; initials are left out, U.S. is US."""
    if not text.isascii():
        text = _COMBINING.sub("", text).replace("’", "").replace("\u2212", "-")
    if _SINGLE.search(text):
        text = _ACRONYM.sub(lambda found: found[0].replace(".", "") + " ", text)
        text = INITIAL.sub("", text)
    return _TOKEN.findall(text.replace("'", ""))


def normal_words(raw: Sequence[str]) -> list[str]:
    """The words as they are compared; twenty-five is one."""
    words = list(map(normal, raw))
    if not _SCALES.keys().isdisjoint(words):
        _scale(words)
    if not _WHOLE_TENS.isdisjoint(words):
        for place in range(len(words) - 2, -1, -1):
            if words[place] in _WHOLE_TENS and words[place + 1] in _DIGITS and (raw[place] + raw[place + 1]).isalpha():
                words[place : place + 2] = [str(int(words[place]) + int(words[place + 1])), ""]
    return words


def _scale(words: list[str]) -> None:
    """Puts "1.5 million" and "one hundred" as one number, at the place of the first of its words."""
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word in _SCALES and is_number(before) and len(before) < _LONGEST_NUMBER:
            words[place - 1 : place + 1] = [f"{float(before.replace(',', '')) * _SCALES[word]:.15g}", ""]


def squeezed(text: str) -> str:
    """The letters and digits of a text, in lower case: "rear-view" is rearview."""
    return "".join(filter(str.isalnum, text.lower()))


class Passage:
    """A text as words, and where each stands."""

    __slots__ = ("_places", "present", "raw", "words")

    def __init__(self, text: str) -> None:
        self.raw = raw_tokens(without_latex(text))
        """As written."""
        self.words = normal_words(self.raw)
        """The same as they are compared, at the same places."""
        self.present = set(self.words)
        self._places: dict[str, list[int]] = {}

    def where(self, word: str) -> list[int]:
        """The first places of a word."""
        if len(self.words) < _INDEXED:
            return [place for place, other in enumerate(self.words) if other == word]
        if not self._places:
            for place, other in enumerate(self.words):
                self._places.setdefault(other, []).append(place)
        return self._places.get(word, [])[:_MENTIONS]

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """Where the sentence around two places begins and ends, as far as is looked."""
        first = max(0, start - 40)
        last = min(len(self.words), end + 40)
        start = next((place + 1 for place in range(start - 1, first - 1, -1) if self.words[place] in ".!?\n"), first)
        end = next((place for place in range(end, last) if self.words[place] in ".!?\n"), last)
        return start, end


@lru_cache(maxsize=2)
def passage_of(text: str) -> Passage:
    """The text as words; several rules look at the same one, one after the other."""
    return Passage(text)
