"""Answers that are numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from tiebreak.core.negation import denied, may_be_denied
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import clauses
from tiebreak.core.trial import Outcome, Output, Score
from tiebreak.scorers.answers import before_run_on, corrected, readable, shown, stated_before, statement
from tiebreak.scorers.numbers import Figure, figures, plain, readings
from tiebreak.scorers.second import spelled_at_an_end

_LOOKED_AT = 400
"""Numbers of a text that are looked at, the last ones."""
_NEAR = 60
_SHORT = 40
_BARE = re.compile(r"\s*(-?\d+(?:\.\d+)?)\.?\s*")
_BOLD = re.compile(r"(?<!\*)\*\*(?!\s)([^*\n]{1,120})\*\*")
_LABEL = re.compile(
    r"^[ \t>]{0,8}(?:[-*•][ \t]{1,3})?(?:\*\*)?"
    r"(?:\(?\d{1,3}[.)](?=[ \t*]{1,4}[^\s*])|(?:Step|Part|Day|Week|Case|Stage)[ \t]{1,3}\d{1,3}\b[.:)]?)",
    re.IGNORECASE | re.MULTILINE,
)
_HEADING = re.compile(r"^\W{0,4}(?:step|part|stage|case|note|explanation|check|verification|given|note)\b", re.IGNORECASE)
_AFTERWORD = re.compile(
    r"(?:\n|(?<=[.!?*])[ \t]{1,3})[\s*_#>-]{0,8}"
    r"(?:check|explanation|verification|verify|to verify|to check|proof|note|reasoning|breakdown|let me know|feel free"
    r"|here['’]?s (?:how|why)|for (?:context|reference|comparison)|over a)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^()\n]{1,200}\)|\bfrom \d{4} (?:to|until) \d{4}\b")
_CONTRAST = re.compile(
    r"[,;]?\s{1,2}(?:while|whereas|unlike|compared (?:to|with)|as opposed to|instead of|rather than"
    r"|since|because|as of|after|on a"
    r"|ie|for a total|or (?:about|roughly|approximately)|including|excluding|up from|down from|which has|ahead of)\b",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"[ \t]{0,3}(?:\b(?:or|to)\b|[–—]|-(?=\d))[ \t]{0,3}"
    r"(?:more\b|less\b|so\b|[-+$€£]{0,2}\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b)",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(r"\b(?:so|thus|hence|therefore|which means|rounds)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween[ \t]{1,3}[-+$€£]{0,2}$", re.IGNORECASE)


class Numeric:
    """Right when the number the answer states equals the target to five significant digits."""

    version: ClassVar[int] = 4
    needs: ClassVar[tuple[str, ...]] = ("targets",)

    def unfit(self, sample: Sample) -> str:
        """A target that is no number is met by no answer."""
        by_turn = sample.exchange.turn_targets if sample.exchange is not None else ()
        for targets in filter(None, by_turn or (sample.targets,)):
            if not any(map(readings, targets)):
                return f"the target {targets[0]!r:.80} is no number; name another scorer, such as match"
        return ""

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare the number found with each accepted one."""
        because = f"expected {sample.target!r}"
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because=f"cut off by the length limit; {because}")
        text = readable(output.text)
        number = stated_number(text)
        wanted = [value for target in sample.targets for value in readings(target)]
        second = spelled_at_an_end(text, sample.targets)
        if number is None:
            return Score.of(False, answer=shown(text), because=f"no number found; {because}", second=second)
        right = any(_is_one_of(value, wanted) for value in readings(number))
        return Score.of(right, answer=number, because=because, second=second)


def _is_one_of(value: float | None, wanted: Sequence[float]) -> bool:
    return any(same_number(value, other) for other in wanted)


def stated_number(text: str) -> str | None:
    """The number called the answer; else the one in bold; else the last that is neither aside nor denied."""
    if len(text) < _SHORT and (bare := _BARE.fullmatch(text)):
        return bare[1]
    text = before_run_on(text)
    stated = statement(text)
    if stated and _contradicted(stated, stated_before(text)):
        return None
    for part, read in ((stated, _in_statement), (text, _in_bold), (text, _in_text)):
        found = read(part) if part else None
        if found is not None:
            return found or None
    return None


def _contradicted(stated: str, before: str) -> bool:
    """Whether two sentences running call different numbers the answer; several numbers are a way to it."""
    if len(figures(plain(before))) != 1:
        return False
    numbers = [_in_statement(part) for part in (stated, before)]
    first, second = (set(readings(number)) if number else set() for number in numbers)
    return bool(first and second) and not any(_is_one_of(value, tuple(second)) for value in first)


def _in_statement(stated: str) -> str | None:
    """The result of a calculation, else the first number; nothing when the statement names several."""
    said = plain(stated)
    found = [figure for figure in figures(said) if not _is_denied(said, figure)]
    if not found:
        return None
    chosen = _after_equals(said, found) or found[0]
    return "" if _undecided(said, chosen) else chosen.text


def _after_equals(said: str, found: list[Figure]) -> Figure | None:
    equals = said.rfind("=")
    return next((figure for figure in found if figure.start > equals), None) if equals >= 0 else None


def _in_bold(text: str) -> str | None:
    """The number of the last bold words that have one; headings in bold state none."""
    if "**" not in text:
        return None
    parts = [part for part in _BOLD.findall(text)[-_LOOKED_AT:] if not _HEADING.match(part)]
    return next((found for part in reversed(parts) if (found := _in_statement(part.rstrip(":.")))), None)


def _in_text(text: str) -> str | None:
    """The last number that is said, and neither denied, nor an aside, nor the number of a step."""
    said = _LABEL.sub(" ", plain(text)).replace("i.e.", "ie").replace("e.g.", "eg")
    cut = _AFTERWORD.search(said)
    if cut and figures(said[: cut.start()]):
        said = said[: cut.start()]
    said = corrected(said)
    bare = _ASIDE.sub(" ", said)
    if figures(bare):
        said = bare
    found = [figure for figure in _kept(said) if not _is_denied(said, figure)]
    if not found:
        return None
    undecided = len(found) < 3 and any(_undecided(said, figure) for figure in found)
    return "" if undecided else found[-1].text


def _kept(said: str) -> list[Figure]:
    """The numbers but for those that the last sentence only compares with, or came from, where others are left."""
    found = figures(said)[-_LOOKED_AT:]
    if len(found) < 2:
        return found
    sentence = max(said.rfind(". ", 0, found[-1].start), said.rfind("\n", 0, found[-1].start))
    equals = said.rfind("=")
    if equals > sentence:
        # "9 + 6 = 15 litres of 24": what was worked out is what is meant, or what follows from it.
        concluded = _CONCLUSION.search(said, equals)
        after = [figure for figure in found if figure.start > (concluded.end() if concluded else equals)]
        return after[:1] or found
    cut = _CONTRAST.search(said, max(sentence, 0))
    kept = [figure for figure in found if cut is None or figure.end <= cut.start()]
    found = kept if kept and kept[-1].start > sentence else found
    # "77 in total: 72 and 5": what follows the colon is how it came about.
    colon = said.find(": ", max(sentence, 0))
    left = [figure for figure in found if sentence < figure.start < colon]
    return left if left and sum(figure.start > colon for figure in found) > 1 else found


def _undecided(said: str, figure: Figure) -> bool:
    """Whether the number is one of two, as in "18 or 20", "15–20" and "between 15 and 20"."""
    near = said[max(0, figure.start - 20) : figure.start]
    return bool(_UNDECIDED.match(said, figure.end) or _BETWEEN.search(near))


def _is_denied(said: str, figure: Figure) -> bool:
    near = said[max(0, figure.start - _NEAR) : figure.start]
    if not may_be_denied(near):
        return False
    before = clauses(near)
    return denied(f"{before} x", len(before) + 1, len(before) + 2)


def same_number(a: float | None, b: float | None) -> bool:
    """Equal to five significant digits; nothing equals what is no number."""
    if a is None or b is None:
        return False
    return a == b or format(a, ".5g") == format(b, ".5g")
