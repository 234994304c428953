"""The plain scorers, the reference rules and the libraries' measures."""

import asyncio
import contextlib
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.errors import ScorerError, UsageError
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
from tiebreak.registry import make_scorer
from tiebreak.scorers.reference import cleaned, extracted


@pytest.mark.parametrize(
    ("scorer", "text", "targets", "value"),
    [
        ("exact", " Paris\n", ("Paris",), 1),
        ("exact", "paris", ("Paris",), 0),
        ("exact", "<think>no</think>Paris", ("Paris",), 1),
        ("includes", "It is PARIS, of course", ("Paris",), 1),
        ("includes", "It is Rome", ("Paris", "Rome"), 1),
        ("includes", "It is Bern", ("Paris", "Rome"), 0),
        ("includes", "Yes", (" Yes ",), 1),
        ("includes", "", ("Yes",), 0),
        ("regex", "call 555-0199", (r"\d{3}-\d{4}",), 1),
        ("regex", "call me", (r"\d{3}-\d{4}",), 0),
        ("regex:Answer: (\\w+)", "Answer: a\nAnswer: b", ("b",), 1),
        ("regex:Answer: (\\w+)", "Answer: b\nAnswer: a", ("b",), 0),
        ("regex:Answer: (\\w+)", "none", ("b",), 0),
        ("f1", "the cat sat", ("a cat sat",), 1),
        ("f1", "cat dog", ("cat",), 2 / 3),
        ("f1", "", ("cat",), 0),
        ("bleu", "the quick brown fox jumps", ("the quick brown fox jumps",), 1),
        ("rouge", "the quick brown fox", ("the quick brown fox",), 1),
        ("rouge:rouge1", "a b c d", ("a b x y",), 0.5),
        ("json_schema", '{"a": 1}', (), 1),
        ("json_schema", 'Sure:\n```json\n{"a": 1}\n```', (), 1),
        ("json_schema", "{'a': 1}", (), 0),
        ("bbh", "So the answer is (B).", ("(B)",), 1),
        ("bbh", "So the answer is (b).", ("(B)",), 0),
        ("gsm8k", "#### 18", ("18",), 1),
        ("gsm8k:strict", "so 18", ("18",), 0),
        ("gsm8k:flexible", "so $1,018.", ("1018",), 1),
        ("gsm8k:cot", "The answer is 18.", ("18",), 1),
        ("gsm8k:flexible", "1," * 100_000, ("2",), 0),
    ],
)
def test_plain_rules(judge, scorer, text, targets, value):
    assert judge(scorer, text, targets=targets).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "rule", "found"),
    [
        ("#### 5 then #### 6", "strict", "5"),
        ("####5", "strict", "[invalid]"),
        ("#### -1,234.5", "strict", "-1,234.5"),
        ("It is 12 apples and 7 pears", "flexible", "7"),
        ("Total: $18.00", "flexible", "$18.00"),
        ("nothing", "flexible", "[invalid]"),
        ("The answer is 42.", "cot", "42"),
    ],
)
def test_reference_extraction_takes_what_the_reference_takes(text, rule, found):
    """The first match of a strict rule, the last of the flexible; strings, so 18.00 is not 18."""
    assert extracted(text, rule) == found


def test_reference_cleaning_removes_in_the_references_order():
    assert cleaned("reasoning #### $1,234.") == "1234"
    assert cleaned("18.00") != cleaned("18")


@given(st.text(st.sampled_from("#, $.1a\n")) | st.lists(st.sampled_from(["#### ", "1", ",", "$", ".", "\n", "#"])).map("".join))
def test_reference_cleaning_is_what_the_references_patterns_do(text):
    """The reference removes by regular expressions, one of which takes quadratic time; the outcome is the same."""
    expected = text
    for pattern in (r",", r"\$", r"(?s).*#### ", r"\.$"):
        expected = re.sub(pattern, "", expected)
    assert cleaned(text) == expected.lower()


def test_a_reference_reads_up_to_where_it_has_the_model_stop():
    """Chat models are not told to stop there; their answers still score as the reference would have them."""
    stops = {"reference_stops": ("Q:", "\n\n")}
    asked = Sample(id="s", messages=(user("?"),), targets=("(B)",), metadata=stops)

    def value(text):
        return asyncio.run(make_scorer("bbh").score(asked, Output(text=text), None)).value

    assert value("So the answer is (B).") == 1
    assert value("Let us see.\n\nSo the answer is (B).") == 0


@pytest.mark.needs("scorers")
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a|ab)*c", "a*a*a*b", "(x+x+)+y", "((a?){30})a{30}$", r"(\w+\s?)+!"])
def test_no_pattern_from_data_holds_up_a_run(judge, pattern):
    """A pattern that would take for ever gives up, and then the trial has no score."""
    started = time.process_time()
    try:
        judge("regex", "a" * 30_000 + "?", targets=(pattern,))
    except ScorerError as error:
        assert "takes more than" in str(error)
    assert time.process_time() - started < 1.5


@pytest.mark.needs("scorers")
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"answer.*is.*?(\d+)", "the answer is 12" + " x" * 9000, "12"),
        (r"(?:\d{1,3},)+\d{3}", "in all 1,234,567 of them", "1,234,567"),
        (r"(\w+\s?)+!", "all is well!", "well"),
    ],
)
def test_a_pattern_that_needs_care_finds_what_python_finds(judge, pattern, text, found):
    assert judge(f"regex:{pattern}", text, targets=(found,)).value == 1


@pytest.mark.parametrize(
    "name",
    ["regex:(", "rouge:x", "gsm8k:x", "likelihood:x", "ifeval:x", "truthful:x_y", "exact:x", "json_schema:/none.json", "nothing"],
)
def test_an_option_that_makes_no_sense_is_refused_before_anything_is_asked(name):
    with pytest.raises(UsageError):
        make_scorer(name)


@pytest.mark.needs("scorers")
def test_a_schema_in_a_file_is_followed(tmp_path, judge):
    (tmp_path / "s.json").write_text(json.dumps({"type": "object", "required": ["a"]}))
    scorer = f"json_schema:{tmp_path / 's.json'}"
    assert judge(scorer, '{"a": 1}').value == 1
    missing = judge(scorer, '{"b": 1}')
    assert missing.value == 0
    assert "'a' is a required property" in missing.because


@pytest.mark.needs("scorers")
def test_a_schema_from_data_holds_up_no_run(tmp_path, judge):
    """Its patterns are matched in bounded time, and mean what they mean to jsonschema."""
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"^n": {"type": "integer"}}}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    scorer = f"json_schema:{tmp_path / 's.json'}"
    assert judge(scorer, '{"a": "aaa", "number": 1}').value == 1
    assert judge(scorer, '{"a": "aab"}').because == "wrong value at $.a: 'aab' does not match '^(a+)+$'"
    assert judge(scorer, '{"number": "1"}').value == 0
    started = time.process_time()
    with contextlib.suppress(ScorerError):
        judge(scorer, json.dumps({"a": "a" * 50_000 + "b"}))
    assert time.process_time() - started < 1.5


def weighed(*logprobs):
    return json.dumps({"continuations": ["x"] * len(logprobs), "logprobs": logprobs})


@pytest.mark.parametrize(
    ("scorer", "logprobs", "targets", "value"),
    [
        ("likelihood", (-1.0, -2.0), ("aa",), 1),
        ("likelihood", (-2.0, -2.0), ("aa",), 1),  # of equals the first
        ("likelihood", (-2.0, -1.0), ("aa",), 0),
        ("likelihood:norm", (-2.0, -3.0), ("bbbb",), 1),
        ("likelihood:bytes", (-2.0, -3.0), ("bbbb",), 1),
        ("likelihood:mass", (0.0, 0.0), ("aa",), 0.5),
        ("likelihood:mass", (-1000.0, -2000.0), ("aa",), 1.0),
    ],
)
def test_likelihoods_are_compared_as_in_the_reference(judge, scorer, logprobs, targets, value):
    assert judge(scorer, weighed(*logprobs), targets=targets, choices=("aa", "bbbb")).value == pytest.approx(value)


SAMPLE = Sample(id="s", messages=(user("?"),), targets=("4",))


def lengthy(sample, text):
    return len(text) > 3


async def graded(sample, text):
    return Score(value=0.5, answer=text, because="half")


def broken(sample, text):
    raise ZeroDivisionError("oops")


async def test_any_function_is_a_scorer():
    """Plain or async; what it raises is no score."""
    assert (await make_scorer(f"{__name__}:lengthy").score(SAMPLE, Output(text="long enough"), None)).value == 1
    assert (await make_scorer(f"{__name__}:graded").score(SAMPLE, Output(text="x"), None)).value == 0.5
    with pytest.raises(ScorerError, match="the scorer broken raised ZeroDivisionError: oops"):
        await make_scorer(f"{__name__}:broken").score(SAMPLE, Output(text="x"), None)


@given(st.integers(-(10**12), 10**12))
def test_every_whole_number_is_found_as_it_is_usually_written(number):
    """With and without separators, after the marks models use."""
    from tiebreak.scorers.numbers import to_number
    from tiebreak.scorers.numeric import same_number, stated_number

    for text in (
        f"{number}",
        f"{number:,}",
        f"#### {number}",
        f"The answer is {number:,}.",
        f"\\boxed{{{number}}}",
        f"**{number}**",
    ):
        assert same_number(to_number(stated_number(text)), float(number)), text
