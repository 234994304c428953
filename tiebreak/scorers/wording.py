"""Whether a text says an accepted answer in free words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tiebreak.scorers.answers import without_latex
from tiebreak.scorers.denial import stands
from tiebreak.scorers.given_names import GIVEN
from tiebreak.scorers.listing import parts
from tiebreak.scorers.polar import TARGETS, says_polar
from tiebreak.scorers.words import (
    INITIAL,
    MARKS,
    Passage,
    is_number,
    known,
    normal,
    normal_words,
    passage_of,
    raw_tokens,
    squeezed,
)

STOP = known(
    "a an the of in on at to for by and or with from as is are was were be been it its this that these those his her their he she"
    " they i you we s do does did has have had th st nd rd"
) | {""}
_TITLES = known(
    "mr mrs ms miss madame mme"
    " dr prof professor president sir lady lord king queen prince princess saint st pope emperor general captain"
    " colonel senator governor minister judge justice chief actor actress singer author writer director artist scientist"
    " commander admiral major lieutenant sergeant coach astronaut cosmonaut physicist chemist inventor painter poet philosopher"
    " composer explorer father sister brother mother reverend count duke baron comrade chairman"
)
_PARTICLES = known("da de del della der den di dos du la le van von ter ten zu bin ibn al el")
"""Small words inside a name, as in "Leonardo da Vinci"; alone they tell nothing."""
_MONTHS = known("january february march april may june july august septembe october november december")
_UNSPACED = re.compile("[\u3040-\u9fff\u0e00-\u0eff]")
"""Scripts that put no spaces between words."""
_MAYBE_GLUED = re.compile("[a-z][A-Z0-9]|[0-9][A-Z]|[12][0-9]{4}|[\u3040-\u9fff]")
_GLUED = re.compile(
    "(?<=[\u3040-\u9fff])(?=[!-~])|(?<=[!-~])(?=[\u3040-\u9fff])|(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z][a-z])"
    r"|(?<=(?<![\d.,])[12]\d{3})(?=[1-9]{1,2}(?:[.,;\s)]|$))"
)
"""Where words and figures run together in answers with citations: "in19971", "theImperial system"."""
_REACH = 14
"""Words between two words of one mention, at most."""
_LONG = 8
"""Letters by which words are known when they are run together."""
_SEVERAL = re.compile(
    r"\b(?:who|what|which)(?: \w+){0,2} (?:are|were) (?!you\b)"
    r"|^\W*(?:list|name|give|state|mention) (?:all|some|two|three|four|five|ten|\d+|the \w+s\b)"
    r"|\b(?:names|members|steps|types|kinds|examples|candidates|some|several|(?:two|three|four|five|six|ten|\d{1,2}) [a-z]+s)"
    r" (?:of|for|in|that|who|which)\b",
    re.IGNORECASE,
)
"""Words of a question that asks for a list."""
_LONGEST_QUESTION = 1000
"""Characters of a question whose words tell nothing; a longer text has examples in it."""


class Alias:
    """One accepted answer: the words it is known by."""

    __slots__ = (
        "capitals",
        "content",
        "given",
        "initials",
        "is_joint",
        "is_name",
        "is_ordered",
        "is_phrase",
        "numbers",
        "parts",
        "polar",
        "shortened",
        "squeezed",
        "text",
        "words",
        "year",
    )

    def __init__(self, text: str, question: frozenset[str]) -> None:
        raw = [token for token in raw_tokens(without_latex(text)) if token not in MARKS]
        self.text = text.strip()
        self.words = tuple(word for word in normal_words(raw) if word)
        particles = {token for token in raw[1:] if token in _PARTICLES} if raw and raw[0][0].isupper() else set()
        telling = [word for word in dict.fromkeys(self.words) if word not in STOP and word not in particles]
        # What the question says already tells nothing, unless it is all there is to say.
        new = [word for word in telling if word not in question]
        self.content = tuple(new or telling or self.words)
        self.polar = self.words[0] if len(self.words) == 1 and self.words[0] in TARGETS else ""
        self.numbers = frozenset(word for word in self.content if is_number(word))
        self.squeezed = squeezed(text) if len(self.words) > 1 else ""
        self._as_name([token for token in raw if normal(token) not in STOP and token not in particles])
        self._as_date()
        self.is_phrase = len(self.words) > 2 and not self.is_name and not self.numbers
        self.is_joint = " and " in text or " & " in text
        # The question's own words, sorted or chosen from: their order is the answer.
        self.is_ordered = len(telling) > 1 and not new
        self.parts = len(self.words) if self.is_ordered else parts(text)

    def _as_name(self, names: Sequence[str]) -> None:
        self.is_name = bool(names) and all(token[0].isupper() for token in names)
        self.initials = "".join(token[0] for token in names) if self.is_name and len(names) > 1 else ""
        self.capitals = frozenset(letter.lower() for letter in self.text if letter.isupper())
        is_person = self.is_name and len(self.content) > 1 and self.content[0] in GIVEN and "," not in self.text
        self.given = GIVEN.intersection(self.content[:-1]) if is_person else frozenset()
        """First names, none of which is enough without the surname."""
        self.shortened = self.is_name and INITIAL.search(self.text) is not None

    def _as_date(self) -> None:
        longest = max(self.numbers, key=len, default="")
        self.year = longest if len(longest) > 2 and not _MONTHS.isdisjoint(self.words) else ""


class Accepted:
    """The accepted answers of a sample."""

    __slots__ = ("aliases", "are_several", "are_signs", "asked", "words")

    def __init__(self, question: str, targets: Sequence[str]) -> None:
        self.asked = frozenset(normal_words(raw_tokens(question))) - MARKS
        self.aliases = tuple(Alias(target, self.asked) for target in targets)
        self.are_signs = not any(alias.words for alias in self.aliases)
        """Brackets and the like, which have no words."""
        self.are_several = _SEVERAL.search(question) is not None
        """Whether the question asks for a list."""
        self.words = frozenset(word for alias in self.aliases for word in alias.words) - STOP


def _last_question(text: str) -> str:
    """The question itself, where worked examples come before it; nothing where it cannot be told from them."""
    if len(text) <= _LONGEST_QUESTION:
        return text
    last = text[max(text.rfind("\nQ: "), text.rfind("\nQuestion: ")) :] if "\nQ" in text else ""
    return last if len(last) <= _LONGEST_QUESTION else ""


def accepted_of(prompt: str, targets: tuple[str, ...]) -> Accepted:
    """The accepted answers to what was asked."""
    return _remembered(_last_question(prompt), targets)


@lru_cache(maxsize=1024)
def _remembered(question: str, targets: tuple[str, ...]) -> Accepted:
    """Several contestants get the same question one after the other."""
    return Accepted(question, targets)


def says(text: str, accepted: Accepted) -> bool:
    """Whether the text says one of the accepted answers."""
    passage = passage_of(text)
    if _says_any(passage, text, accepted):
        return True
    apart = _GLUED.sub(" ", text) if _MAYBE_GLUED.search(text) else text
    if apart != text and _says_any(Passage(apart), text, accepted):
        return True
    together = squeezed(text)
    return any(
        alias.squeezed in together
        for alias in accepted.aliases
        if len(alias.squeezed) >= _LONG and not passage.present.issuperset(alias.content)
    )


def _says_any(passage: Passage, text: str, accepted: Accepted) -> bool:
    return any(
        (_says(passage, alias, accepted) if alias.content else _has_same_signs(text, alias))
        or (alias.text in text and _UNSPACED.search(alias.text) is not None)
        for alias in accepted.aliases
    )


def _has_same_signs(text: str, alias: Alias) -> bool:
    """Brackets and the like have no words: they are compared as they are, but for white space and mark-up."""
    signs = "".join(alias.text.split())
    said = "".join(text.split()).strip("*_`\"'.$\\")
    closing = said[len(said.rstrip(f"()[]{{}}<>{signs}")) :]
    return bool(signs) and closing in (signs, f"{{{signs}}}")


def _says(passage: Passage, alias: Alias, accepted: Accepted) -> bool:
    """At least half of the telling words are said together, all of its numbers, and nothing in place of the rest."""
    content = alias.content
    if alias.polar:
        return says_polar(passage, alias.polar)
    found = [word for word in content if word in passage.present]
    if len(found) < len(content) and alias.initials and alias.initials in passage.raw:
        return _stands_somewhere(passage, normal(alias.initials), accepted)
    if alias.year and alias.year in passage.present and passage.present.isdisjoint(_MONTHS):
        return _stands_somewhere(passage, alias.year, accepted)
    enough = 2 * len(found) > len(content) if alias.is_joint else 2 * len(found) >= len(content)
    enough = enough or bool(alias.given and content[-1] in found)
    if not enough or not _numbers_agree(passage, alias):
        return False
    if alias.is_ordered or (alias.is_phrase and passage.present == set(alias.words)):
        return _in_order(passage, alias)
    return _is_mentioned(passage, alias, found, accepted)


def _is_mentioned(passage: Passage, alias: Alias, found: Sequence[str], accepted: Accepted) -> bool:
    rarest = min(found, key=lambda word: len(passage.where(word)))
    is_first_name = alias.given.issuperset(found)
    doubtful = 2 * len(found) <= len(alias.content) or alias.shortened
    return any(
        not (is_first_name and _is_without_surname(passage, alias, place))
        and not (doubtful and _is_replaced(passage, alias, accepted, place))
        and stands(passage, *span, accepted=accepted.words, asked=accepted.asked)
        for place in passage.where(rarest)
        if (span := _span(passage, found, place))
    )


def _stands_somewhere(passage: Passage, word: str, accepted: Accepted) -> bool:
    return any(stands(passage, place, place + 1, accepted=accepted.words, asked=accepted.asked) for place in passage.where(word))


def _numbers_agree(passage: Passage, alias: Alias) -> bool:
    """All numbers are said; of a date the year and the month will do, where no other day or month is named."""
    missing = alias.numbers - passage.present
    if not alias.year:
        return not missing
    months = _MONTHS.intersection(alias.content)
    if alias.year in missing or months.isdisjoint(passage.present):
        return False
    beside = {passage.words[near] for month in months for at in passage.where(month) for near in _around(passage, at)}
    return not missing or not any(map(str.isdecimal, beside - {alias.year}))


def _around(passage: Passage, place: int) -> range:
    return range(max(0, place - 2), min(len(passage.words), place + 3))


def _in_order(passage: Passage, alias: Alias) -> bool:
    """Whether the words stand in the order of the accepted answer; the numbers of a list do not come between."""
    pairs = zip(passage.raw, passage.words, strict=True)
    said = f" {' '.join(word for raw, word in pairs if word and word not in MARKS and not raw.isdecimal())} "
    return f" {' '.join(alias.words)} " in said


def _span(passage: Passage, found: Sequence[str], place: int) -> tuple[int, int] | None:
    """First and last place of the mention around a place; None when its words are not together."""
    start, end = place, place + 1
    for word in found:
        near = min(passage.where(word), key=lambda other: abs(other - place))
        if abs(near - place) > _REACH + len(found):
            return None
        start, end = min(start, near), max(end, near + 1)
    return start, end


def _is_replaced(passage: Passage, alias: Alias, accepted: Accepted, place: int) -> bool:
    """Whether another word stands where the missing one should: a sperm whale is no blue whale, nor Ian Fleming Alexander."""
    order = alias.words.index(passage.words[place])
    before = alias.shortened or (order > 0 and alias.words[order - 1] not in STOP)
    beside = place - 1 if before else place + 1
    if not 0 <= beside < len(passage.words):
        return False
    raw, word = passage.raw[beside], passage.words[beside]
    if raw in MARKS or word in STOP or word in accepted.words or word in accepted.asked or raw.lower() in _TITLES:
        return False
    if alias.is_name:
        # "Abe" may be short for Abraham; a surname is not shortened.
        return raw[0].isupper() and not (before and _is_short_for(word, alias, order))
    return before or len(passage.words) <= len(alias.words) + 1


def _is_without_surname(passage: Passage, alias: Alias, place: int) -> bool:
    """Whether a first name stands alone; a surname may be run together with the mark of a footnote."""
    return not any(word.startswith(alias.words[-1]) for word in passage.words[place + 1 : place + 4])


def _is_short_for(word: str, alias: Alias, order: int) -> bool:
    """Whether a first name may stand for the one before the surname: Kate for Kathleen, John for J."""
    if alias.shortened:
        return word[0] in alias.capitals
    first = alias.words[order - 1]
    return first.startswith(word) or word.startswith(first) or (len(word) <= len(first) and word[:2] == first[:2])
