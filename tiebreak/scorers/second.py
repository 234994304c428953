"""A second, independent reading of an answer for each kind: cruder than the first, and different in method.

Where the two differ, a person should look. None of these functions uses the reader of `answers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from string import ascii_uppercase

from tiebreak.scorers.words import ONES, TENS

_LONGEST = 20_000
"""Characters that are looked at, the last ones."""
_MOST_LETTERS = 4_000
"""Letters of accepted answers that are looked for; a long list of them is looked for in part."""
_MOST_NUMBERS = 100
_SHARE = 0.55
_FIRST, _LAST = 40, 60
"""Characters of a text in which its number is looked for."""
_LARGEST = 1e15
_SIZES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "billion": 1e9}
_ONES, _TENS = ONES.split(), TENS.split()
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"(?<![A-Za-z0-9'’\-])([A-Z])(?![A-Za-z0-9'’\-])")
_ARTICLE = re.compile(r"^(?:the|an?) ", re.IGNORECASE)


def said_by_letters(text: str, targets: Sequence[str]) -> bool:
    """Free text: more than half of the three-letter sequences of an accepted answer occur in the text."""
    said = _squeezed(text[-_LONGEST:])
    looked = 0
    for target in targets:
        sequences = _sequences(target)
        if not sequences:
            if _squeezed(target) in map(str.casefold, _WORD.findall(text[-_LONGEST:])):
                return True
            continue
        if sum(sequence in said for sequence in sequences) >= _SHARE * len(sequences):
            return True
        looked += len(sequences)
        if looked > _MOST_LETTERS:
            break
    return False


@lru_cache(maxsize=8192)
def _sequences(target: str) -> frozenset[str]:
    letters = _squeezed(_ARTICLE.sub("", target.strip()))
    return frozenset(letters[i : i + 3] for i in range(len(letters) - 2)) if len(letters) > 3 else frozenset()


def _squeezed(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def spelled_at_an_end(text: str, targets: Sequence[str]) -> bool:
    """Numbers: a usual spelling of an accepted one stands near the beginning or the end of the text."""
    ends = (text[:_FIRST], text[-_LAST:])
    return any(pattern.search(end) for target in targets[:_MOST_NUMBERS] if (pattern := _spellings(target)) for end in ends)


@lru_cache(maxsize=8192)
def _spellings(target: str) -> re.Pattern[str] | None:
    """How people write a number: 70000, 70,000, 70 000, 70k, seventy thousand; 0.5, 1/2, 50%."""
    plain = target.strip().replace(",", "").lstrip("+$").rstrip("%.")
    top, slash, bottom = plain.partition("/")
    try:
        value = float(top) / float(bottom) if slash else float(plain)
        forms = {re.escape(plain.lstrip("-")), *_forms(abs(value))}
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    sign = r"(?:[-\u2212\u2013]|minus |negative )\$?" if value < 0 else r"(?<![-\u2212])"
    return re.compile(rf"(?<![\w.,/]){sign}(?:{'|'.join(sorted(forms, key=len, reverse=True))})(?!\d|[.,]\d|/\d)", re.IGNORECASE)


def _forms(value: float) -> Iterator[str]:
    yield re.escape(f"{value:.10g}")
    yield re.escape(f"{value:.2f}")
    if value > _LARGEST:
        return
    if value != int(value):
        yield re.escape(f"{value * 100:.10g}") + r" ?\\?(?:%|per ?cent)"
        yield from (f"{top}/{bottom}" for bottom in range(2, 13) for top in (round(value * bottom),) if top == value * bottom)
        return
    whole = int(value)
    yield rf"{whole:,}(?:\.0+)?".replace(",", r"(?:,|\{,\}|,\\!|[ \u00a0\u202f'.])")
    yield from (rf"{whole / size:g}(?: ?{word})".replace(".", r"\.") for word, size in _SIZES.items() if whole >= size)
    if spelled := _in_words(whole):
        yield spelled


def _in_words(value: int) -> str:
    """A number below a hundred, or so many thousands, as words."""
    if value >= 1000 and not value % 1000:
        thousands = _in_words(value // 1000)
        return f"{thousands} thousand" if thousands else ""
    if value < len(_ONES):
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens - 2] + (f"[- ]{_ONES[ones]}" if ones else "") if value < 100 else ""


def last_letter(text: str, choices: Sequence[str]) -> int | None:
    """Choices: the last capital that stands alone; without one, the choice most of whose letters the text has."""
    found = [ascii_uppercase.index(letter) for letter in _LETTER.findall(text[-_LONGEST:])]
    named = [position for position in found if position < len(choices)]
    if named:
        return named[-1]
    said = [position for position, choice in enumerate(choices) if said_by_letters(text, (choice,))]
    return said[0] if len(said) == 1 else None
