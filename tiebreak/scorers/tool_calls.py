"""Answers that call tools: whether the right ones were called, with the right arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tiebreak.core.errors import UsageError
from tiebreak.core.message import ToolCall
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score

_RULES = ("", "in_order", "bfcl")
_LOOSE = re.compile(r"[ ,./\-_*^]")
"""What is left out of texts before they are compared by the rule for BFCL."""
_MOST_SHOWN = 300

Expected = Mapping[str, Any]


class ToolCalls:
    """Right when the expected tools were called, each as often as expected, with accepted arguments.

    The order does not count; with `tool_calls:in_order` it does. An accepted argument is a value or a list of values, of
    which null says that it may be left out. `tool_calls:bfcl` is for BFCL's answers: texts are compared without punctuation.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("expected_calls",)

    def __init__(self, rule: str = "") -> None:
        if rule not in _RULES:
            raise UsageError(f"tool_calls:{rule}: there are tool_calls, tool_calls:in_order and tool_calls:bfcl")
        self._rule = rule

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Compare all calls of the exchange with the expected ones."""
        expected = sample.metadata.get("expected_calls", ())
        calls = output.tool_calls
        wrong = self._fault(expected, calls)
        return Score.of(not wrong, answer=_in_words(calls), because=wrong or _praise(expected))

    def _fault(self, expected: Sequence[Expected], calls: Sequence[ToolCall]) -> str:
        if not expected:
            return f"called {_names(calls)}, and no call was right" if calls else ""
        if not calls:
            return f"no tool was called, expected {_wanted(expected)}"
        faults = [[self._difference(want, call) for call in calls] for want in expected]
        pairs = list(zip(range(len(expected)), range(len(calls)), strict=False)) if self._rule == "in_order" else _paired(faults)
        for place, want in enumerate(expected):
            own = dict(pairs).get(place)
            if own is None or faults[place][own]:
                return self._nearest(want, faults[place], own, calls)
        if len(calls) > len(expected):
            beside = [call for place, call in enumerate(calls) if place not in dict(pairs).values()]
            return f"{len(calls)} calls, expected {len(expected)}: also called {_names(beside)}"
        return ""

    def _nearest(self, want: Expected, faults: Sequence[str], own: int | None, calls: Sequence[ToolCall]) -> str:
        """What is wrong with the call that was meant, if any was."""
        same_name = [place for place, call in enumerate(calls) if call.name == want["name"]]
        place = own if own is not None and self._rule == "in_order" else next(iter(same_name), None)
        if place is None:
            return f"{want['name']} was not called; called {_names(calls)}"
        return faults[place] or f"{want['name']} was called too seldom: {len(calls)} calls, expected another one"

    def _difference(self, want: Expected, call: ToolCall) -> str:
        """How a call differs from what is expected; empty where it does not."""
        if call.name != want["name"]:
            return f"called {call.name}, expected {want['name']}"
        given = call.parsed()
        if given is None:
            return f"the arguments of {call.name} are no JSON object"
        extra = [name for name in given if name not in want["arguments"]]
        if extra:
            return f"{call.name} has the argument {extra[0]!r}, which is not expected"
        for name, accepted in want["arguments"].items():
            listed = accepted if isinstance(accepted, list) else [accepted]
            if name not in given and None not in listed:
                return f"{call.name} lacks the argument {name!r}"
            if name in given and not any(self._same(one, given[name]) for one in listed):
                return f"{call.name} has {name}={_shown(given[name])}, expected {' or '.join(map(_shown, listed))}"
        return ""

    def _same(self, expected: Any, given: Any) -> bool:
        """Whether a value is the expected one: numbers by value, texts without their case."""
        if isinstance(expected, str) and isinstance(given, str):
            return self._folded(expected) == self._folded(given)
        if isinstance(expected, bool) or isinstance(given, bool):
            return expected is given
        if isinstance(expected, Mapping) and isinstance(given, Mapping):
            return self._same_object(expected, given)
        if isinstance(expected, list) and isinstance(given, list):
            return len(expected) == len(given) and all(map(self._same, expected, given))
        return bool(expected == given)

    def _same_object(self, expected: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
        """In BFCL's answers the values inside an object are lists of accepted ones too."""
        if self._rule != "bfcl":
            return expected.keys() == given.keys() and all(self._same(expected[name], given[name]) for name in expected)
        if not given.keys() <= expected.keys():
            return False
        return all(
            any(self._same(one, given[name]) for one in accepted) if name in given else "" in accepted or None in accepted
            for name, accepted in expected.items()
        )

    def _folded(self, text: str) -> str:
        if self._rule == "bfcl":
            return _LOOSE.sub("", text).lower().replace("'", '"')
        return " ".join(text.split()).casefold()


def _paired(faults: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Expected calls with calls that are right, as many as can be paired: a call may be what several of them accept."""
    taken: dict[int, int] = {}

    def pair(place: int, seen: set[int]) -> bool:
        for call, fault in enumerate(faults[place]):
            if fault or call in seen:
                continue
            seen.add(call)
            if call not in taken or pair(taken[call], seen):
                taken[call] = place
                return True
        return False

    for place in range(len(faults)):
        pair(place, set())
    return [(place, call) for call, place in taken.items()]


def _in_words(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"{call.name}({call.arguments})" for call in calls)[:_MOST_SHOWN] or "no call"


def _names(calls: Sequence[ToolCall]) -> str:
    return ", ".join(dict.fromkeys(call.name for call in calls))[:_MOST_SHOWN]


def _wanted(expected: Sequence[Expected]) -> str:
    return ", ".join(dict.fromkeys(str(want["name"]) for want in expected))


def _praise(expected: Sequence[Expected]) -> str:
    return "called what was expected" if expected else "called nothing, which is right"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:100]
