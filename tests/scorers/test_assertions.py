"""Assertions of a row: each kind, weights and thresholds, and what is refused before anything is asked."""

import asyncio
import time

import pytest

from tiebreak.core.assertions import KINDS, SET, assertions_of, filled, in_short, threshold_of
from tiebreak.core.errors import ScorerError, UsageError
from tiebreak.core.message import Reply, Usage, user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Output, Timing
from tiebreak.registry import make_scorer
from tiebreak.scorers.assertions import _CHECKS


def judged(text, *asserted, threshold=None, scorer="assert", **output):
    metadata = {"assert": list(asserted)} | ({} if threshold is None else {"threshold": threshold})
    sample = Sample(id="1", messages=(user("?"),), scorers=(scorer,), metadata=metadata)
    return asyncio.run(make_scorer(scorer).score(sample, Output(text=text, **output), None))


def test_every_kind_that_is_read_is_looked_at():
    decided_elsewhere = {SET, "python", "judge", "llm-rubric", "model-graded-closedqa", "factuality"}
    assert set(_CHECKS) | decided_elsewhere == KINDS


def test_what_failed_is_named():
    score = judged("a cat", {"type": "contains", "value": "dog"}, {"type": "word-count", "value": {"min": 5}})
    assert score.value == 0
    assert score.because == "failed: contains 'dog'; word-count {'min': 5}: 2 words"


def test_share_is_by_weight():
    asserted = {"type": "contains", "value": "a", "weight": 3}, {"type": "contains", "value": "z"}
    assert judged("a", *asserted, scorer="assert:share").value == 0.75
    assert judged("a", *asserted, threshold=0.75).value == 1
    assert judged("a", *asserted, threshold=0.8).value == 0


def test_thoughts_are_not_the_answer():
    assert judged("<think>Rome? No.</think>Paris", {"type": "not-contains", "value": "Rome"}).value == 1


def test_answer_that_was_cut_off_is_wrong():
    assert judged("Paris", {"type": "contains", "value": "Paris"}, outcome=Outcome.CUT_OFF).value == 0


def test_latency_and_cost_go_by_what_the_answer_took():
    slow = {"timing": Timing(model_s=1.2), "usage": Usage(input_tokens=1, output_tokens=1, cost_usd=0.02)}
    assert judged("x", {"type": "latency", "threshold": 1500}, {"type": "cost", "threshold": 0.02}, **slow).value == 1
    late = judged("x", {"type": "latency", "threshold": 1000}, **slow)
    assert (late.value, late.because) == (0, "failed: latency (1000): took 1,200 ms")
    assert judged("x", {"type": "cost", "threshold": 0.01}, **slow).value == 0


@pytest.mark.parametrize(
    ("asserted", "output", "told"),
    [
        ({"type": "latency", "threshold": 1}, {"cached": True}, "how long it took is not known"),
        ({"type": "cost", "threshold": 1}, {}, "what the answer cost is not known"),
    ],
)
def test_what_cannot_be_known_is_no_verdict(asserted, output, told):
    with pytest.raises(ScorerError, match=told):
        judged("x", asserted, **output)


@pytest.mark.parametrize(
    ("asserted", "told"),
    [
        ([], "must be a list of assertions"),
        ("contains: x", "must be a list of assertions"),
        ([{"value": "x"}], "has a 'type'"),
        ([{"type": "javascript", "value": "true"}], "'javascript' is not understood; known are assert-set"),
        ([{"type": "similar", "value": "x"}], "'similar' is not understood"),
        ([{"type": "contains", "value": "x", "transform": "y"}], "has 'transform', which is not understood"),
        ([{"type": "contains"}], "needs a text"),
        ([{"type": "contains-all", "value": []}], "needs a list of texts"),
        ([{"type": "regex", "value": "("}], "is no regular expression"),
        ([{"type": "latency"}], "needs a 'threshold': milliseconds"),
        ([{"type": "contains", "value": "x", "weight": -1}], "must be a number that is not negative"),
        ([{"type": "is-json", "value": 3}], "takes a JSON schema"),
        ([{"type": "word-count", "value": {"most": 3}}], "needs a number of words"),
        ([{"type": "word-count", "value": {"min": 5, "max": 1}}], "needs a number of words"),
        ([{"type": "contains", "value": "file://a.txt"}], "names the file 'file://a.txt', which is not read"),
        ([{"type": "assert-set", "assert": [{"type": "moderation"}]}], "'moderation' is not understood"),
    ],
)
def test_what_is_not_understood_is_refused(asserted, told):
    with pytest.raises(ValueError, match=told):
        assertions_of(asserted)


@pytest.mark.parametrize(
    ("cell", "meant"),
    [
        ("contains: Paris", {"type": "contains", "value": "Paris"}),
        ("not-icontains:x", {"type": "not-icontains", "value": "x"}),
        ("levenshtein(3): kitten", {"type": "levenshtein", "threshold": 3.0, "value": "kitten"}),
        ("is-json", {"type": "is-json"}),
        ("latency(200)", {"type": "latency", "threshold": 200.0}),
        ("cost: 0.01", {"type": "cost", "threshold": 0.01}),
        ("word-count: 3", {"type": "word-count", "value": "3"}),
        ("Just Paris", {"type": "equals", "value": "Just Paris"}),
        ("https://example.org", {"type": "equals", "value": "https://example.org"}),
    ],
)
def test_assertion_in_one_cell(cell, meant):
    assert in_short(cell) == meant


def test_variables_stand_in_their_places_and_templates_that_do_more_are_refused():
    assert filled(["{{a}} and {{ b.c }}", {"value": "{{a}}"}], {"a": 1, "b": {"c": 2}}) == ["1 and 2", {"value": "1"}]
    for template in ("{{ a | upper }}", "{% if a %}x{% endif %}", "{{missing}}"):
        with pytest.raises(ValueError, match=r"not understood|has not got"):
            filled(template, {"a": 1})


def test_python_functions_come_from_the_file_that_was_named(tmp_path):
    checks = tmp_path / "checks.py"
    checks.write_text("def short(text, sample):\n    return len(text) < 5\n\nasync def half(text, sample):\n    return 0.5\n")
    scorer = f"assert:{checks}"
    assert judged("four", {"type": "python", "value": "short"}, scorer=scorer).value == 1
    assert judged("longer", {"type": "python", "value": "file://checks.py:short"}, scorer=scorer).value == 0
    assert judged("x", {"type": "python", "value": "half", "threshold": 0.5}, scorer=scorer).value == 1
    with pytest.raises(ScorerError, match="has no function 'absent'"):
        judged("x", {"type": "python", "value": "absent"}, scorer=scorer)
    with pytest.raises(UsageError, match="data may not run code here"):
        make_scorer("assert:python")


@pytest.mark.needs("scorers")
def test_a_megabyte_takes_no_second():
    """Of anything, for every kind."""
    values = {
        **{kind: ["x", "y"] for kind in ("contains-all", "contains-any", "icontains-all", "icontains-any")},
        **{kind: {"type": "object"} for kind in ("is-json", "contains-json", "json_schema")},
        "regex": r"(a+)+b",
        "word-count": 3,
    }
    for kind in _CHECKS:
        asserted = {"type": kind, "threshold": 5}
        if kind not in ("latency", "cost"):
            asserted["value"] = values.get(kind, "kitten")
        for text in ("a" * 1_000_000, "{" * 1_000_000, "word " * 200_000, '{"a": ' * 160_000):
            begun = time.process_time()
            usage = Usage(input_tokens=1, output_tokens=1, cost_usd=0.02)
            try:
                judged(text, asserted, usage=usage)
            except ScorerError as error:
                assert "takes more than" in str(error)
            assert time.process_time() - begun < 3, (kind, text[:10])


class Grader:
    """A judge that says the same of everything."""

    def __init__(self, reply):
        self.reply, self.asked = reply, []

    async def judge(self, messages, schema):
        self.asked.append(messages[-1].text)
        return Reply(text=self.reply, usage=Usage(input_tokens=10, output_tokens=2))


@pytest.mark.parametrize(
    ("asserted", "reply", "value", "asked"),
    [
        ({"type": "llm-rubric", "value": "Is it polite?"}, '{"reason": "yes", "verdict": "pass"}', 1, "Is it polite?"),
        ({"type": "llm-rubric", "value": "Is it polite?"}, '{"reason": "no", "verdict": "fail"}', 0, "Is it polite?"),
        ({"type": "judge", "value": "Clear?", "threshold": 0.6}, '{"reason": "so so", "grade": 5}', 0, "Clear?"),
        ({"type": "judge", "value": "Clear?", "threshold": 0.5}, '{"reason": "so so", "grade": 5}', 1, "Clear?"),
        (
            {"type": "factuality", "value": "Bern is the capital"},
            '{"reason": "", "verdict": "pass"}',
            1,
            "Reference: Bern is the",
        ),
    ],
)
def test_judge_decides_an_assertion(asserted, reply, value, asked):
    grader = Grader(reply)
    sample = Sample(id="1", messages=(user("?"),), metadata={"assert": [asserted, {"type": "contains", "value": "x"}]})
    score = asyncio.run(make_scorer("assert-judged").score(sample, Output(text="x y"), grader))
    assert score.value == value
    assert asked in grader.asked[0]
    assert score.usage == Usage(input_tokens=10, output_tokens=2)


def test_rubric_of_a_row_is_no_file(tmp_path):
    """Else data could have any file of this machine sent to a judge."""
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    grader = Grader('{"reason": "", "verdict": "pass"}')
    sample = Sample(id="1", messages=(user("?"),), metadata={"assert": [{"type": "llm-rubric", "value": str(secret)}]})
    asyncio.run(make_scorer("assert-judged").score(sample, Output(text="x"), grader))
    assert "the secret" not in grader.asked[0]


def test_what_weighs_nothing_and_does_not_hold_is_named():
    score = judged("a cat", {"type": "contains", "value": "cat"}, {"type": "contains", "value": "dog", "weight": 0})
    assert (score.value, score.because) == (1, "all that count held; not counted: contains 'dog'")


@pytest.mark.parametrize("value", [5, -1, "much", True, float("nan")])
def test_threshold_is_a_share(value):
    with pytest.raises(ValueError, match="from 0 to 1"):
        threshold_of(value)
