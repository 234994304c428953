"""Calls are judged as BFCL's own checker judges them, on BFCL's own data: right calls, and calls with one thing changed."""

import json
import random
from collections import Counter

import pytest
from support import bfcl

from tiebreak.core.message import Message, Tool, ToolCall, user
from tiebreak.core.sample import Exchange, Sample
from tiebreak.core.trial import Output
from tiebreak.datasets.layouts import in_our_words
from tiebreak.scorers.tool_calls import ToolCalls

CHANGES = 5


@pytest.mark.needs("bfcl")
async def test_verdicts_are_those_of_its_own_checker():
    """Over 2,000 rows of eight sets and some 14,000 answers; nearly two in five are right."""
    valid, chance = bfcl.checker(), random.Random(20)
    seen, other = Counter(), []
    for category in bfcl.SETS:
        for row in bfcl.rows(category):
            for number in range(1 + CHANGES):
                calls, kind = bfcl.right_calls(row, chance), "right"
                if number:
                    kind, calls = bfcl.perturbed(calls, chance)
                theirs = valid(row, calls, category)
                score = await judged(row, calls)
                seen[kind, theirs] += 1
                if (score.value == 1) is not theirs:
                    other.append((row["id"], kind, theirs, score.because, calls))
    assert not other, f"{len(other)} of {sum(seen.values())}: {other[:5]}"
    assert sum(seen.values()) > 12_000
    assert all(seen[kind, False] > 300 for kind in bfcl.KINDS if kind not in ("other order", "other spelling"))
    assert seen["other spelling", True] > 300
    assert seen["right", True] > 1_900


async def judged(row, calls):
    """By the row as our dataset reads it."""
    made = in_our_words({name: row[name] for name in ("id", "question", "function", "ground_truth")})
    tools = tuple(Tool(name=t["name"], description="", parameters=t["parameters"]) for t in made["tools"])
    sample = Sample(
        id=row["id"],
        messages=(user("?"),),
        metadata={"expected_calls": made["expected_calls"]},
        exchange=Exchange(tools=tools),
    )
    given = [(name, arguments) for call in calls for name, arguments in call.items()]
    called = tuple(ToolCall(id=str(n), name=name, arguments=json.dumps(a)) for n, (name, a) in enumerate(given))
    output = Output(text="", messages=(Message(role="assistant", tool_calls=called),) if called else ())
    return await ToolCalls("bfcl").score(sample, output, None)
