"""Multiple choice: which letter did the model settle on?"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from string import ascii_uppercase
from typing import ClassVar

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.negation import NEAR, denied, may_be_denied
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import clauses, says, words
from tiebreak.core.trial import Outcome, Output, Score
from tiebreak.scorers.answers import before_run_on, boxed, declines, readable, shown, statement
from tiebreak.scorers.second import last_letter

# Repeats are bounded, so that a megabyte of brackets costs no more than a megabyte of words.
_OPEN = r"[(\[*_`\"'“{$\\]{0,6}(?:text|textbf|mathrm|mathbf)?[({\s]{0,3}"
_CLOSE = r"[)\]*_`\"'”}$]{0,6}"
_LETTER = rf"{_OPEN}(?<![A-Za-z0-9])(?P<letter>[A-Z]){_CLOSE}(?![A-Za-z0-9'’])"
_SMALL = r"[(\[*_`\"']{0,4}(?<![A-Za-z0-9])(?P<small>[a-z])[)\]*_`\"']{0,4}(?=[.,;:!\n]|\s{0,3}$)"
_NAMED = r"(?:(?:the )?(?:letter|option|choice|answer|statement)[ \t]{1,3})?"
_LINK = (
    r"(?:[\s:*_=\-–—#>]|\b(?:is|would|be|should|must|the|that|therefore|thus|then|correct|right|best|most|likely|closest|final|indeed"
    r"|definitely|probably|clearly|option|choice|letter|answer|given|by|in|either)\b){1,14}?"
)
_CALLED = re.compile(
    r"\b(?:[Aa]nswer|ANSWER|Ans|ANS|ans|[Mm]y (?:best |first |final )?(?:guess|choice|pick|vote))\b"
    rf"[.\"'”]{{0,2}}{_LINK}(?:{_LETTER}|{_SMALL})",
    re.MULTILINE,
)
_FITTING = re.compile(
    rf"(?i:\b(?:correct|right|best|closest|true|most (?:likely|appropriate|accurate)|nearest|final)[ \t]{{1,3}}"
    rf"(?:option|choice|letter|statement)(?:[ \t]{{1,3}}\w{{1,12}}){{0,3}}?[ \t]{{0,3}}(?:\bis\b|[:=]))(?:{_LINK})?{_LETTER}"
)
_PICKED = re.compile(
    rf"\b[Ii](?:['’]d|['’]ll| would| will| am|['’]m)?[ \t]{{1,3}}(?:\w{{1,10}}[ \t]{{1,3}})?"
    rf"(?:choose|pick|select|chose|go with|going with|say|go for|guess|opt for|vote for)[ \t]{{1,3}}{_NAMED}{_LETTER}"
)
_IS_RIGHT = re.compile(
    rf"(?<![\w'’]){_NAMED}{_LETTER}(?:[ \t]{{1,3}}[A-Za-z][\w ]{{0,40}}?)?[ \t]{{0,3}}"
    r"(?:(?:is|must be|would be|seems|appears to be)[ \t]{1,3}(?:the |therefore |thus |also |my |indeed )?"
    r"(?:only |most |single )?(?:correct|right|answer|best|closest|accurate)\b|:[ \t]{0,3}(?:correct|right)\b|it is\b(?! not))"
)
_CONCLUDED = re.compile(
    rf"(?:\b(?:(?:has to|must|should|would|could) be|[Ss]o|[Tt]herefore|[Tt]hus|[Hh]ence|[Ii]t is|[Ii]t['’]s|[Tt]hat['’]s"
    r"|leaves|only|[Mm]ust be|[Yy]es|(?:matches|to|is|closest to|which is)(?=[\s,:*_]{1,6}(?:\(|[Oo]ption|[Cc]hoice)))"
    rf"|[✅👉☑✔])[\s,:*_]{{1,6}}{_NAMED}{_LETTER}(?![ \t]?[=+^_])"
)
_BARE = re.compile(r"[\W_]{0,40}(?:(?:option|choice|letter)[\W_]{1,4})?([A-Za-z])[\W_]{0,40}", re.IGNORECASE)
_SET_APART = re.compile(r"\*\*\(?(?P<letter>[A-Z])\)?[.:]?\*\*(?=\W{0,3}$)|[.!?:=→>]\s{1,3}\(?(?P<small>[A-Z])\)?[.!]?\s{0,3}$")
_LABEL = re.compile(
    rf"^[ \t>#*_(\[`\"'“\-•👉✅]{{0,12}}(?:[Oo]ption |[Cc]hoice )?[(\[*_]{{0,4}}(?P<letter>[A-Z]){_CLOSE}"
    r"(?:[.:)\],]{1,3}(?=[\s*_]|$)|[ \t]{1,3}[—–-][ \t]|[ \t*_✅✔.!]{0,6}$)",
    re.MULTILINE,
)
_ALONE = re.compile(r"(?<![\w'’/])(?:[(\[]|\*\*)?(?P<letter>[B-HJ-Z])(?:[)\]]|\*\*)?(?![\w'’°/])")
_FIELD = re.compile(r"\"(?:choice|letter|option|selected|label|final_answer)\"\s{0,3}:\s{0,3}\"\(?(?P<letter>[A-Z])\b")
_STATEMENTS = (_CALLED, _FITTING, _PICKED, _IS_RIGHT, _FIELD)
_SENTENCES = re.compile(r"[.!?]\s|\n")
_ALTERNATIVES = re.compile(r"\bor\b|=")
_HEDGED_BEFORE = re.compile(r"\b[A-Z]\)?,? (?:or|and) \(?$")
_HEDGED = re.compile(
    r"\s{0,2}(?:,|or|and|/|&)\s{1,2}(?:or )?(?:\([A-Z]\)|[(*]{0,3}[A-Z]\b(?!['’.)]))(?! (?:is|are|was|were|can|does|do|has)\b)"
)
_QUESTIONED = re.compile(r"\?(?! {0,2}(?:yes|correct|right|exactly|indeed)\b)", re.IGNORECASE)
_COMPARED = re.compile(r"(?:^| )(?:better|likelier|rather|worse|closer|more \w+|less \w+) than(?: option| choice| letter)?$")
_LETTERED = re.compile(r"(?:\b[Oo]ption |\b[Cc]hoice )?\(?\b[A-Z]\b(?:[).:,*]{1,3}[ \t*]{0,4}\(?|[ \t]{1,2}\()")
_SEEKS_WRONG = re.compile(
    r"\b(?:NOT|EXCEPT|LEAST|(?i:except|exception|least|false|incorrect|untrue|wrong|odd one out)"
    r"|(?i:which|what|who|whom|one|where|when)\b[^.?!\n]{0,150}(?:n['’]t|\b(?:not|never|cannot)))\b"
)
"""Words of a question about what is not so; "B is false" answers it."""
_SHORT = 200
"""Characters of a text in which a letter may stand alone; in a longer one it may be anything."""
_UNDECIDED = -1
_MOST_MENTIONS = 300
"""Mentions of a letter that are looked at, the last ones."""
_ASKED = 400
"""Characters of a question that say what is asked for, the last ones."""


class Choice:
    """Right when the answer the model settled on is the right choice: its letter, or its words."""

    version: ClassVar[int] = 4
    needs: ClassVar[tuple[str, ...]] = ("choices",)

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare the choice found with the right one."""
        if sample.target not in sample.choices:
            raise ProviderError(
                f"the target {sample.target!r} of {sample.id!r} is none of its choices", kind=FailureKind.VERIFIER
            )
        expected = sample.choices.index(sample.target)
        because = f"expected {_named(sample, expected)}"
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because=f"cut off by the length limit; {because}")
        text = readable(output.text)
        if bare := _bare(text):
            found = _position(bare, len(sample.choices))
        else:
            question = sample.messages[-1].text if sample.messages else ""
            found = chosen(text, sample.choices, by_predicate=not _seeks_wrong(question))
        second = last_letter(text, sample.choices) == expected
        if found is None:
            return Score.of(False, answer=shown(text), because=f"no choice found; {because}", second=second)
        return Score.of(found == expected, answer=_named(sample, found), because=because, second=second)


def _bare(text: str) -> str:
    """The letter that is all of the text; empty where there is more to it."""
    bare = _BARE.fullmatch(text) if len(text) < _SHORT else None
    return bare[1].upper() if bare else ""


@lru_cache(maxsize=1024)
def _seeks_wrong(question: str) -> bool:
    return _SEEKS_WRONG.search(question[-_ASKED:]) is not None


def chosen(text: str, choices: tuple[str, ...], *, by_predicate: bool = True) -> int | None:
    """Position of the choice the text settles on, or None. The surest reading that finds one wins.

    "B is wrong" denies B by its predicate, unless the question is which one is wrong.
    """
    if bare := _bare(text):
        return _position(bare, len(choices))
    text = before_run_on(text)
    for read in (_boxed, _stated, _named_answer, _labelled, _concluded, _in_words, _alone):
        found = read(text, choices, by_predicate)
        if found is not None:
            return None if found == _UNDECIDED else found
    return None


def _boxed(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The letter, or the choice, in the last box."""
    inside = boxed(text)
    if inside is None:
        return None
    letters = re.sub(r"\\[a-z]+|[^A-Za-z]", "", inside)
    return _position(letters, len(choices)) if len(letters) == 1 else _in_words(inside, choices, by_predicate)


def _stated(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The last letter the text calls its answer and does not take back."""
    found = [match for pattern in _STATEMENTS for match in _last_mentions(pattern, text)]
    return _last_kept(sorted(found, key=_place, reverse=True), choices, by_predicate)


def _concluded(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The last letter the text comes to: "so B", "it has to be B"."""
    apart = _SET_APART.search(text, max(0, len(text) - 20))
    if apart and (settled := _last_kept([apart], choices, by_predicate)) is not None:
        return settled
    found = [m for m in _last_mentions(_CONCLUDED, text) if m["letter"] not in "AI" or _dressed(m)]
    return _last_kept(found[::-1], choices, by_predicate)


def _place(match: re.Match[str]) -> int:
    return match.start("letter") if match["letter"] else match.start("small")


def _dressed(match: re.Match[str]) -> bool:
    """Whether a letter that is also a word stands as a letter: in brackets, in bold, or last."""
    after = match.string[match.end("letter") : match.end("letter") + 1]
    return after in ("", ")", "]", "*", ".", ",", ":", ";", "!", "\n")


def _last_kept(found: list[re.Match[str]], choices: tuple[str, ...], by_predicate: bool) -> int | None:
    for match in found:
        letter = match["letter"] or match.groupdict().get("small", "")
        position = _position(letter.upper(), len(choices))
        if position is not None and not _is_denied(match, choices[position], by_predicate):
            # "The answer is A or B" settles on nothing.
            return _UNDECIDED if _HEDGED.match(match.string, match.end()) else position
    return None


def _named_answer(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The choice whose words the text calls its answer."""
    stated = statement(text)
    label = _LABEL.match(stated)
    position = _position(label["letter"], len(choices)) if label else None
    return position if position is not None or not stated else _in_words(stated, choices, by_predicate)


def _labelled(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The letter that labels a line, when only one does, or the first or last line is nothing else."""
    labels = [(m, p) for m in _last_mentions(_LABEL, text) if (p := _position(m["letter"], len(choices))) is not None]
    found = [(m, p) for m, p in labels if not _is_denied(m, choices[p], by_predicate)]
    if not found:
        return None
    if len({position for _, position in found}) == 1:
        return _UNDECIDED if _HEDGED.match(text, found[0][0].end("letter")) else found[0][1]
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for line in (lines[0], lines[-1]):
        match = _LABEL.match(line)
        position = _position(match["letter"], len(choices)) if match else None
        # "B", and lines about the others; a line like "A) Lyon" may be the first of a list.
        if match and position is not None and match.end() == len(line.rstrip()):
            return position
    last = _LABEL.match(lines[-1])
    listed = {position for match, position in found[:-1]}
    return found[-1][1] if last and len(listed) == len(choices) else None


def _in_words(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The one choice whose words the text says without denying them; of several, the one a sentence settles on."""
    if declines(text):
        return None
    last_line = text.strip().rpartition("\n")[2]
    text = _LETTERED.sub(" ", text)
    found = _choices_said(clauses(text), choices, by_predicate)
    if len(found) < 2:
        return found[0] if found else None
    if len(text) > _SHORT or _ALTERNATIVES.search(text):
        return None
    sentences = [clauses(part) for part in _SENTENCES.split(text) if part.strip()]
    if len(found) == len(choices) and _LABEL.match(last_line):
        # All of them, the last with its letter: the choices repeated.
        return None
    parts = [sentences[-1].rpartition(" but ")[2], sentences[-1], sentences[0], sentences[0].partition("|")[0]]
    settled = (said for part in parts if len(said := _choices_said(part, choices, by_predicate)) == 1)
    return next(settled, [None])[0]


def _choices_said(said: str, choices: tuple[str, ...], by_predicate: bool) -> list[int]:
    found = [i for i, choice in enumerate(choices[: len(ascii_uppercase)]) if says(said, choice, by_predicate=by_predicate)]
    # "New York City" also says "New York": the longer choice covers the shorter.
    return [i for i in found if not any(j != i and _words(choices[i]) in _words(choices[j]) for j in found)]


@lru_cache(maxsize=4096)
def _words(choice: str) -> str:
    return words(choice)


def _alone(text: str, choices: tuple[str, ...], by_predicate: bool) -> int | None:
    """The one capital standing alone that is not denied; "A" and "I" are words too and do not count."""
    if declines(text) or len(text) > _SHORT:
        return None
    mentions = [(m, p) for m in _last_mentions(_ALONE, text) if (p := _position(m["letter"], len(choices))) is not None]
    kept = [m for m, p in mentions if not _is_denied(m, choices[p], by_predicate)]
    found = [p for m, p in mentions if m in kept]
    hedged = any(_HEDGED.match(text, m.end()) or _HEDGED_BEFORE.search(text, 0, m.start()) for m in kept)
    return None if len(set(found)) != 1 else _UNDECIDED if hedged else found[0]


def _last_mentions(pattern: re.Pattern[str], text: str) -> deque[re.Match[str]]:
    return deque(pattern.finditer(text), maxlen=_MOST_MENTIONS)


def _is_denied(match: re.Match[str], choice: str, by_predicate: bool) -> bool:
    """Whether the words around a letter, and around the words of its choice behind it, deny it."""
    text, start = match.string, _place(match)
    if by_predicate and _QUESTIONED.match(text, match.end()):
        return True
    before, after = text[max(0, start - NEAR) : start], text[start + 1 : start + 1 + NEAR]
    if not may_be_denied(f"{before} {after}"):
        return False
    said = clauses(before.rstrip("([{*_`\"'“$\\ "))
    follows = after.lstrip(")]}*_`\"'”$")
    named = follows.lstrip(" .:,-–—(")
    follows = named[len(choice) :].lstrip(")") if named.casefold().startswith(choice.casefold()) else follows
    around = f" {said} x {clauses(follows)}"
    place = len(said) + 2
    return bool(_COMPARED.search(said)) or denied(around, place, place + 1, by_predicate=by_predicate, is_letter=True)


def _position(letter: str, count: int) -> int | None:
    index = ascii_uppercase.find(letter) if len(letter) == 1 else -1
    return index if 0 <= index < count else None


def _named(sample: Sample, index: int) -> str:
    return f"{ascii_uppercase[index]}) {sample.choices[index]}"
