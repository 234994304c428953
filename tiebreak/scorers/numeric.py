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
_LAST_WORDS = 300
"""Characters at the end of a text in which it may say that there is none."""
_DOZENS = re.compile(r"\bdozens?\b")
_BOUNDED_WITHIN = 30
"""Characters either side of a number in which it may be called a bound."""
_SHORT = 40
_NONE_WORDS = ("no", "nil", "aught", "n't any", "n’t any")
_BOUND_WORDS = (
    "half", "third", "quarter", "fth", "tenth", "twice", "double", "triple", "root", "√", "sqrt", "squared", "cubed",
    "counting", "than", "least", "most", "over", "under", "above", "below", "beyond", "up", "exceed", "imum", " and ",
    "geq", "leq", "<", ">", "≤", "≥", "+", " or ",
)  # fmt: skip
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
    r"|since|because|out of|as of|after|on a"
    r"|ie|for a total|or (?:about|roughly|approximately)|including|excluding|up from|down from|which has|ahead of)\b",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"[ \t]{0,3}(?:\b(?:or|to)\b|[–—]|-(?=\d))[ \t]{0,3}"
    r"(?:more\b|less\b|[-+$€£]{0,2}\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b)",
    re.IGNORECASE,
)
_OPERATED = re.compile(r"[ \t]?[×x*·+/-][ \t]?\d")
_CONCLUSION = re.compile(r"\b(?:so|thus|hence|therefore|which means|rounds)\b", re.IGNORECASE)
_BOUND = (
    r"(?:\b(?:(?:less|more|fewer|greater|higher|lower|larger|smaller|bigger) than(?: or equal to)?|at (?:least|most)|over|under"
    r"|above|below|beyond|(?<!add )(?<!adds )(?<!comes )up to|upwards? of|exceed(?:s|ed|ing)?|(?:minimum|maximum) of|[gl]eq?)"
    r"|(?:^|(?<=[\s(:*]))[<>]=?|[≤≥])"
)
_PART = r"(?:\b(?:half(?: of)?|(?:third|quarter|fifth|tenth)s? of|twice|double|triple|root of)|√|\bsqrt[ \t]?\(?)"
_BOUNDED_BEFORE = re.compile(
    rf"(?:{_BOUND}|{_PART})[ \t*]{{0,3}}(?:(?:about|around|the|a|an)[ \t]{{1,2}})?[$€£]?$", re.IGNORECASE
)
_BOUNDED_AFTER = re.compile(
    r"\+(?=[\s.,;)*]|$)|[ \t]?[<>≤≥]|[ \t]{1,2}(?:(?:\w+ )?(?:or (?:more|less|fewer|above|below|over|under|higher|lower|greater)"
    r"|at (?:least|most)|and (?:up|above|over|counting|more(?! than)))|minimum|maximum|squared|cubed)\b",
    re.IGNORECASE,
)
"""What makes of a number a bound, or another number: "more than 36", "36 or more", "half of 36"."""
_SEEKS_BOUND = re.compile(
    r"\b(?:at least|at most|least|most|fewest|minim\w{1,4}|maxim\w{1,4}|limit|bound|threshold|more than|less than|up to"
    r"|over|under)\b",
    re.IGNORECASE,
)
"""Words of a question whose answer may be put as "at least 36"."""
_NONE = re.compile(
    r"(?:(?:so|thus|therefore|then|hence|and) )*"
    r"(?:(?!i )[a-z]+ (?:is|are|was|were|has|have|had|will be|will have|would be|would have)(?: now| then)? )?"
    r"(?:none|nothing(?= (?:is |are |was )?(?:left|remain))|nil|nought|naught|zero|no (?P<no>[a-z]+)"
    r"|not (?:one|a single (?:one|(?P<not>[a-z]+)))|(?:there )?(?:arent|isnt) any)"
    r"(?: of (?:them|it|(?:the|her|his|their) (?P<of>[a-z]+)))?"
    r"(?: (?:at all|whatsoever|(?:(?:is|are|was|were|will be) )?(?:left|remaining|remain|remains|over)|any ?more|there))*"
)
"""A clause that says nothing but that there is none, of what the question asks for."""
_BETWEEN = re.compile(r"\bbetween[ \t]{1,3}[-+$€£]{0,2}$", re.IGNORECASE)


class Numeric:
    """Right when the number the answer states equals the target to five significant digits."""

    version: ClassVar[int] = 5
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
        question = sample.messages[-1].text if sample.messages else ""
        number = stated_number(text, question)
        wanted = [value for target in sample.targets for value in readings(target)]
        second = spelled_at_an_end(text, sample.targets)
        if number is None:
            return Score.of(False, answer=shown(text), because=f"no number found; {because}", second=second)
        right = any(_is_one_of(value, wanted) for value in _worth(number, question))
        return Score.of(right, answer=number, because=because, second=second)


def _worth(number: str, question: str) -> tuple[float, ...]:
    """What the number may be worth; asked "how many dozen", 7 dozen is 7."""
    return readings(number) + (readings(_DOZENS.sub("", number)) if "dozen" in number and "dozen" in question else ())


def _is_one_of(value: float | None, wanted: Sequence[float]) -> bool:
    return any(same_number(value, other) for other in wanted)


def stated_number(text: str, question: str = "") -> str | None:
    """The number called the answer; else the one in bold; else the last that is neither aside nor denied.

    "More than 36" states no number, unless the question is how many at least; "none" is 0 where it is the answer.
    """
    if len(text) < _SHORT and (bare := _BARE.fullmatch(text)):
        return bare[1]
    text = before_run_on(text)
    stated = statement(text)
    if stated and _contradicted(stated, stated_before(text)):
        return None
    if _says_none(stated or text, question):
        return "0"
    for part, read in ((stated, _in_statement), (text, _in_bold), (text, _in_text)):
        found = read(part, question) if part else None
        if found is not None:
            return found or None
    return None


def _says_none(text: str, question: str) -> bool:
    """Whether the text, or what is called its answer, is that there is none: "none are left", "so no apples"."""
    end = text[-_NEAR:].lower()
    if not _has_one(end, _NONE_WORDS) or "`" in text or "(none" in end:
        return False
    said = [clause.strip("| ") for clause in clauses(text[-_LAST_WORDS:]).split(" | ") if clause.strip("| ")]
    if not said:
        return False
    if _is_none(said[-1], question):
        return True
    return len(text) <= _LAST_WORDS and _is_none(said[0], question) and not figures(plain(text))


def _has_one(text: str, words: Sequence[str]) -> bool:
    for word in words:  # noqa: SIM110 -- a generator takes twice as long
        if word in text:
            return True
    return False


def _is_none(clause: str, question: str) -> bool:
    found = _NONE.fullmatch(clause)
    things = [thing for thing in (found["no"], found["not"], found["of"]) if thing] if found else []
    asked = {word.removesuffix("s") for word in clauses(question).split()} if things else set()
    return found is not None and all(thing.removesuffix("s") in asked for thing in things)


def _contradicted(stated: str, before: str) -> bool:
    """Whether two sentences running call different numbers the answer; several numbers are a way to it."""
    if len(figures(plain(before))) != 1:
        return False
    numbers = [_in_statement(part, "") for part in (stated, before)]
    first, second = (set(readings(number)) if number else set() for number in numbers)
    return bool(first and second) and not any(_is_one_of(value, tuple(second)) for value in first)


def _in_statement(stated: str, question: str) -> str | None:
    """The result of a calculation, else the first number; nothing when the statement names several."""
    said = plain(stated)
    found = _meant(said, figures(said), question)
    if not found:
        return None
    chosen = _after_equals(said, found) or found[0]
    return "" if _undecided(said, chosen) else chosen.text


def _after_equals(said: str, found: list[Figure]) -> Figure | None:
    equals = said.rfind("=")
    result = next((figure for figure in found if figure.start > equals), None) if equals >= 0 else None
    if result is not None and _OPERATED.match(said, result.end):
        # "36 = 6 × 6": the result stands first.
        return next((figure for figure in reversed(found) if figure.end <= equals), result)
    return result


def _in_bold(text: str, question: str) -> str | None:
    """The number of the last bold words that have one; headings in bold state none."""
    if "**" not in text:
        return None
    parts = [part for part in _BOLD.findall(text)[-_LOOKED_AT:] if not _HEADING.match(part)]
    return next((found for part in reversed(parts) if (found := _in_statement(part.rstrip(":."), question))), None)


def _in_text(text: str, question: str) -> str | None:
    """The last number that is said, and neither denied, nor an aside, nor the number of a step."""
    said = _LABEL.sub(" ", plain(text)).replace("i.e.", "ie").replace("e.g.", "eg")
    cut = _AFTERWORD.search(said)
    if cut and figures(said[: cut.start()]):
        said = said[: cut.start()]
    said = corrected(said)
    bare = _ASIDE.sub(" ", said)
    if figures(bare):
        said = bare
    found = _meant(said, _kept(said), question)
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
        if after and _OPERATED.match(said, after[0].end):
            return [figure for figure in found if figure.end <= equals][-1:] or after[:1]
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


def _meant(said: str, found: list[Figure], question: str) -> list[Figure]:
    """The numbers that are not denied, nor a bound, as in "more than 36"."""
    kept = [figure for figure in found if not _is_denied(said, figure)]
    bounded = [figure for figure in kept if _is_bound(said, figure)]
    if bounded and _SEEKS_BOUND.search(question):
        return kept
    return [figure for figure in kept if figure not in bounded]


def _is_bound(said: str, figure: Figure) -> bool:
    before = said[max(0, figure.start - _BOUNDED_WITHIN) : figure.start]
    if not _has_one(before.lower() + said[figure.end : figure.end + _BOUNDED_WITHIN], _BOUND_WORDS):
        return False
    return bool(_BOUNDED_BEFORE.search(before) or _BOUNDED_AFTER.match(said, figure.end))


def _is_denied(said: str, figure: Figure) -> bool:
    before, after = said[max(0, figure.start - _NEAR) : figure.start], said[figure.end : figure.end + _NEAR]
    if not may_be_denied(f"{before} {after}"):
        return False
    said = clauses(before)
    return denied(f" {said} x {clauses(after)} ", len(said) + 2, len(said) + 3)


def same_number(a: float | None, b: float | None) -> bool:
    """Equal to five significant digits; nothing equals what is no number."""
    if a is None or b is None:
        return False
    return a == b or format(a, ".5g") == format(b, ".5g")
