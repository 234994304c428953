"""Assertions of a row, all of which an answer must meet, or enough of them by weight."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tiebreak.core.assertions import CODE, JUDGED, SET, Assertion, assertions_of
from tiebreak.core.errors import ScorerError, UsageError
from tiebreak.core.extras import optional
from tiebreak.core.message import Usage
from tiebreak.core.own_thread import OwnThread
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Outcome, Output, Score
from tiebreak.scorers.answers import shown
from tiebreak.scorers.judge import graded
from tiebreak.scorers.own_functions import called
from tiebreak.scorers.patterns import compiled
from tiebreak.scorers.rubric import question_rubric
from tiebreak.scorers.schema import fault

_LONGEST = 200_000
"""Characters that are compared one by one; no expected answer is nearly as long."""
_MOST_NAMED = 3
_SHARE = "share"
_PYTHON = "python"
_LONGEST_WORDS = 20_000
_LONGEST_JUDGED = 50_000
_THREAD = OwnThread()
"""For the functions of the user's file, whichever assertion calls them."""
_ASKED = {
    "factuality": "Does the answer agree with this reference, and say nothing that contradicts it? Reference: {}",
    "model-graded-closedqa": "Does the answer meet this criterion? {}",
}
"""What a judge is asked, where a kind's value is not the question itself."""
_TIMES_BRACES = 1_000
"""Places in an answer at which JSON may begin."""


@dataclass(frozen=True, slots=True)
class Held:
    """What became of one assertion."""

    passed: bool
    share: float
    """From 0 to 1; what its weight is multiplied by."""
    because: str = ""

    @classmethod
    def if_(cls, condition: bool, because: str = "") -> Held:
        """Held or not, and nothing between."""
        return cls(condition, float(condition), because)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, as assertions look at it."""

    text: str
    output: Output
    sample: Sample
    context: AskContext
    functions: Any
    spent: list[Usage | None] = field(default_factory=list)
    """What judges consumed for it."""
    noted: list[str] = field(default_factory=list)
    """Assertions that do not hold and weigh nothing."""


class Assertions:
    """Right when the row's assertions hold: all, or by weight its `threshold`. `assert:share` gives their weighted share."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("assert",)
    takes_code: ClassVar[bool] = True

    def __init__(self, option: Any = "") -> None:
        self._graded = option == _SHARE
        self._functions = None if isinstance(option, str) else option
        if option == _PYTHON:
            raise UsageError(
                "rows of the dataset call Python functions, and data may not run code here: name the file that holds them, "
                "as in --scorer assert:./checks.py"
            )
        if isinstance(option, str) and option not in ("", _SHARE):
            raise UsageError(f"there is no assert:{option}; there is assert:{_SHARE}, and assert:./file.py for Python functions")

    def unfit(self, sample: Sample) -> str:
        """An assertion by a function that the file does not have."""
        wanted = () if self._functions is None else _functions_in(_asserted(sample))
        missing = next((name for name in wanted if not callable(getattr(self._functions, name, None))), None)
        if missing is None:
            return ""
        there = [name for name, value in vars(self._functions).items() if inspect.isfunction(value)]
        return f"the file of --scorer assert:FILE has no function {missing!r}; it has {', '.join(there) or 'none'}"

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Look at each assertion; the ones that failed are named."""
        asserted, threshold = _asserted(sample), sample.metadata.get("threshold")
        answer = Answer(answer_text(output.text), output, sample, context, self._functions)
        whole = await _all_of(asserted, threshold, answer)
        passed = whole.passed and output.outcome is not Outcome.CUT_OFF
        because = "cut off by the length limit" if output.outcome is Outcome.CUT_OFF else whole.because
        value = whole.share if self._graded else float(passed)
        because = because or ("all that count held" if answer.noted else f"all {len(asserted)} held")
        because += f"; not counted: {'; '.join(answer.noted[:_MOST_NAMED])}" if answer.noted else ""
        return Score(value=value, answer=shown(answer.text), because=because, usage=_total(answer.spent))


class JudgedAssertions(Assertions):
    """The same where a judge decides some of them."""

    needs_judge: ClassVar[bool] = True


def _total(spent: list[Usage | None]) -> Usage | None:
    known = [usage for usage in spent if usage is not None]
    return sum(known[1:], known[0]) if known else None


def _asserted(sample: Sample) -> tuple[Assertion, ...]:
    try:
        return assertions_of(sample.metadata.get("assert"))
    except ValueError as error:
        raise ScorerError(f"the sample {sample.id!r} has no assertions: {error}") from None


def _functions_in(asserted: tuple[Assertion, ...]) -> Iterator[str]:
    """The names of the functions that assertions call, also of those inside of others."""
    for assertion in asserted:
        if assertion.kind == SET:
            yield from _functions_in(assertion.members)
        elif assertion.kind == CODE:
            yield _function_name(assertion)


def _function_name(assertion: Assertion) -> str:
    return str(assertion.value).rpartition(":")[2]


async def _all_of(asserted: tuple[Assertion, ...], threshold: float | None, answer: Answer) -> Held:
    """All assertions together: each must hold, or their weighted share must reach the threshold."""
    held = [(assertion, await _one(assertion, answer)) for assertion in asserted]
    weight = sum(assertion.weight for assertion in asserted)
    share = sum(assertion.weight * one.share for assertion, one in held) / weight if weight else 1.0
    failed = [
        f"{assertion.words}: {one.because}" if one.because else assertion.words for assertion, one in held if not one.passed
    ]
    passed = not failed if threshold is None else share >= threshold
    named = "; ".join(failed[:_MOST_NAMED]) + (f"; {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else "")
    reached = "" if threshold is None else f"{share:.2f} of {threshold:g} needed; "
    return Held(passed, share, f"{reached}failed: {named}" if failed else "")


async def _one(assertion: Assertion, answer: Answer) -> Held:
    held = await _looked_at(assertion, answer)
    if assertion.negated:
        held = Held(not held.passed, 1 - held.share)
    if assertion.weight == 0 and not held.passed:
        # What weighs nothing is there to be looked at, and fails nobody.
        answer.noted.append(f"{assertion.words}: {held.because}".removesuffix(": "))
        return Held(True, held.share)
    return held


async def _looked_at(assertion: Assertion, answer: Answer) -> Held:
    if assertion.kind == SET:
        return await _all_of(assertion.members, assertion.threshold, answer)
    if assertion.kind == CODE:
        return await _called(assertion, answer)
    if assertion.kind in JUDGED:
        return await _judged(assertion, answer)
    return _CHECKS[assertion.kind](assertion, answer)


# --- each kind -------------------------------------------------------------------------------------


def _equals(assertion: Assertion, answer: Answer) -> Held:
    if not isinstance(assertion.value, dict | list):
        return Held.if_(_plain(assertion.value) == answer.text)
    return Held.if_(_same(_json(answer.text, _Nothing), assertion.value))


def _plain(value: Any) -> str:
    """A value as JSON prints it: true and 3, not True and 3.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)


class _Nothing:
    """What text that is no JSON holds."""


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _contains(assertion: Assertion, answer: Answer) -> Held:
    return Held.if_(assertion.value in answer.text)


def _icontains(assertion: Assertion, answer: Answer) -> Held:
    return Held.if_(assertion.value.lower() in answer.text.lower())


def _contains_list(assertion: Assertion, answer: Answer) -> Held:
    """One of the texts, or all of them; with an i before, in small or capital letters."""
    text, wanted = answer.text, assertion.value
    if assertion.kind.startswith("i"):
        text, wanted = text.lower(), [one.lower() for one in wanted]
    missing = [given for given, one in zip(assertion.value, wanted, strict=True) if one not in text]
    if assertion.kind.endswith("-any"):
        return Held.if_(len(missing) < len(wanted))
    return Held.if_(not missing, f"missing {', '.join(map(repr, missing))}"[:200])


def _starts_with(assertion: Assertion, answer: Answer) -> Held:
    return Held.if_(answer.text.startswith(assertion.value))


def _matches(assertion: Assertion, answer: Answer) -> Held:
    return Held.if_(compiled(assertion.value).search(answer.text) is not None)


def _is_json(assertion: Assertion, answer: Answer) -> Held:
    data = _json(answer.text, _Nothing)
    if data is _Nothing:
        return Held.if_(False, "no JSON")
    wrong = fault(data, assertion.value) if assertion.value else ""
    return Held.if_(not wrong, wrong)


def _contains_json(assertion: Assertion, answer: Answer) -> Held:
    found = list(_objects(answer.text))
    faults = [fault(data, assertion.value) if assertion.value else "" for data in found]
    return Held.if_("" in faults, faults[-1] if faults else "no JSON object")


def _json(text: str, otherwise: Any) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return otherwise


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _objects(text: str) -> Any:
    """The JSON objects in a text, from left to right."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    place = -1
    for _ in range(_TIMES_BRACES):
        place = text.find("{", place + 1)
        if place < 0:
            return
        try:
            data, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            continue
        yield data
        place = end - 1


def _levenshtein(assertion: Assertion, answer: Answer) -> Held:
    measure = optional("rapidfuzz.distance", extra="scorers", needed_by="levenshtein").Levenshtein
    limit = 5 if assertion.threshold is None else int(assertion.threshold)
    if max(len(answer.text), len(assertion.value)) > _LONGEST:
        return Held.if_(False, f"more than {_LONGEST:,} characters")
    distance = measure.distance(answer.text, assertion.value, score_cutoff=limit)
    return Held.if_(distance <= limit, f"more than {limit} letters differ")


def _rouge(assertion: Assertion, answer: Answer) -> Held:
    """The words both have, by F; words are cut as in the Penn Treebank."""
    said, wanted = (_tokens(text.lower()) for text in (answer.text[:_LONGEST_WORDS], assertion.value[:_LONGEST_WORDS]))
    shared = (said & wanted).total()
    share = 2 * shared / (said.total() + wanted.total()) if shared else 0.0
    least = 0.75 if assertion.threshold is None else assertion.threshold
    return Held(share >= least, share, f"{share:.2f}")


def _tokens(text: str) -> Counter[str]:
    treebank = optional("nltk.tokenize.treebank", extra="scorers", needed_by="rouge-n")
    return Counter(treebank.TreebankWordTokenizer().tokenize(text))


def _latency(assertion: Assertion, answer: Answer) -> Held:
    if answer.output.cached:
        raise ScorerError("the answer was remembered from an earlier run: how long it took is not known")
    if answer.output.batched:
        raise ScorerError("the answer came in a batch: how long it took is not known")
    took, limit = answer.output.timing.model_s * 1000, assertion.threshold
    assert limit is not None
    return Held.if_(took <= limit, f"took {took:,.0f} ms")


def _cost(assertion: Assertion, answer: Answer) -> Held:
    usage, limit = answer.output.usage, assertion.threshold
    assert limit is not None
    if usage is None or usage.cost_usd is None:
        raise ScorerError("what the answer cost is not known: give the model a price, or leave the assertion 'cost' out")
    return Held.if_(usage.cost_usd <= limit, f"${usage.cost_usd:.6f}")


def _word_count(assertion: Assertion, answer: Answer) -> Held:
    count, wanted = len(answer.text.split()), assertion.value
    least, most = (wanted, wanted) if isinstance(wanted, int) else (wanted.get("min", 0), wanted.get("max", count))
    return Held.if_(least <= count <= most, f"{count} words")


async def _judged(assertion: Assertion, answer: Answer) -> Held:
    """By the judge: passed or failed; with a threshold, a grade that must reach it."""
    asked = _ASKED.get(assertion.kind, "{}").format(assertion.value)
    rubric = question_rubric(asked if assertion.threshold is not None else f"pass/fail: {asked}")
    score = await graded(answer.sample, answer.text.strip()[:_LONGEST_JUDGED], rubric, answer.context)
    answer.spent.append(score.usage)
    least = 1.0 if assertion.threshold is None else assertion.threshold
    return Held(score.value >= least, score.value, score.because)


async def _called(assertion: Assertion, answer: Answer) -> Held:
    """A function of the file the user named: `function(text, sample)`, plain or async."""
    name = _function_name(assertion)
    function = getattr(answer.functions, name, None)
    if not callable(function):
        raise ScorerError(f"the file of --scorer assert:FILE has no function {name!r}")
    value = await called(f"the assertion {name}", _THREAD, function, answer.text, answer.sample)
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        raise ScorerError(f"the assertion {name} returned {value!r}; it should be right or wrong, or a number from 0 to 1")
    least = 1.0 if assertion.threshold is None else assertion.threshold
    return Held(value >= least, float(value), f"{value:g}" if 0 < value < 1 else "")


_CHECKS: Mapping[str, Callable[[Assertion, Answer], Held]] = {
    "equals": _equals,
    "contains": _contains,
    "icontains": _icontains,
    **dict.fromkeys(("contains-all", "contains-any", "icontains-all", "icontains-any"), _contains_list),
    "starts-with": _starts_with,
    "regex": _matches,
    **dict.fromkeys(("is-json", "json_schema"), _is_json),
    "contains-json": _contains_json,
    "levenshtein": _levenshtein,
    "rouge-n": _rouge,
    "latency": _latency,
    "cost": _cost,
    "word-count": _word_count,
}
