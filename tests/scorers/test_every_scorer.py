"""What holds for each scorer, whatever a model says."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tiebreak.core.errors import ScorerError
from tiebreak.registry import names

CITIES = ("Paris", "London", "Rome", "7")
SIZE = 1_000_000
ADVERSARIAL = {
    "stars after a label": "A" + "*" * SIZE + "x",
    "one answer after another": "the answer is A " * (SIZE // 16),
    "denied answers": "not B " * (SIZE // 6),
    "lonely letters": "B " * (SIZE // 2),
    "labels": "A)\n" * (SIZE // 3),
    "brackets": "(" * SIZE,
    "spaces": "answer" + " " * SIZE,
    "combining marks": "a" + "\u0301\u0316" * (SIZE // 2),
    "tags": "<think>" * (SIZE // 7),
    "digits": "1" * SIZE + "a",
    "groups of digits": "1" + ",111" * (SIZE // 4) + "x",
    "decimals": "0." + "1" * SIZE,
    "denied words": "not paris " * (SIZE // 10),
    "boxes": "\\boxed{" * (SIZE // 7),
    "dots": "A" + "." * SIZE + "x",
    "quotes": "'" * SIZE,
    "letters": "a" * SIZE,
    "capitals": "A" * SIZE,
    "new lines": "\n" * SIZE,
    "commas": "," * SIZE,
    "numbers in a row": "1," * (SIZE // 2),
    "hashes": "#### " * (SIZE // 5),
    "fractions": "\\frac{" * (SIZE // 6),
    "changes of mind": "wait, it is 1. " * (SIZE // 15),
    "questions": "\nQuestion: the answer is 1" * (SIZE // 26),
    "bold": "**1 " * (SIZE // 4),
    "number words": "twenty five " * (SIZE // 12),
    "alternatives": "paris or lyon? " * (SIZE // 15),
    "initials": "J. " * (SIZE // 3),
    "refusals": "I don't know " * (SIZE // 13),
    "ideographs": "日" * SIZE,
    "fences": "```a\n" * (SIZE // 5),
}
ELSEWHERE = {"judge", "pairwise", "code", "check", "tests", "ifeval"}
"""Asks a model, runs a program, looks at a workspace, or needs data of its own: tested by themselves."""
JUDGING_BY_TEXT = ["gsm8k:flexible", "gsm8k:cot", "regex:answer.*is.*(.*)"] + [
    name for name in names("scorers") if name not in ELSEWHERE
]
GRADED = {"f1", "bleu", "rouge"}
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.lists(
    st.sampled_from(
        ["A", "B", "answer", " is ", ":", "not ", "Paris", "7", "1/0", "-", "<think>", "</think>", "**", "\n", "(", "."]
    )
).map("".join)


@pytest.mark.parametrize("text", ADVERSARIAL.values(), ids=ADVERSARIAL)
@pytest.mark.parametrize("scorer", JUDGING_BY_TEXT)
def test_a_megabyte_of_anything_is_scored_quickly(judge, scorer, text):
    """No answer holds up a run; loading a library is no part of that."""
    judge(scorer, "Paris", targets=("Paris",), choices=CITIES)
    started = time.process_time()
    judge(scorer, text, targets=("Paris",), choices=CITIES)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("scorer", ["match", "keywords", "numeric", "f1"])
def test_a_long_list_of_targets_is_compared_quickly(judge, scorer):
    """Ten thousand accepted answers, and an answer that has words of all of them."""
    targets = tuple(f"{number}" if scorer == "numeric" else f"word{number} a b" for number in range(10_000))
    started = time.process_time()
    judge(scorer, "a b " * (SIZE // 4), targets=targets)
    assert time.process_time() - started < 1


def test_a_long_list_of_patterns_is_given_up_on_in_time(judge):
    """Nobody's answer is wrong for it: it is the scorer that says what is too much."""
    targets = tuple(f"word{number}.*[a-z]+ b$" for number in range(20_000))
    started = time.process_time()
    with pytest.raises(ScorerError, match=r"of 20,000 patterns take more than 0\.5 s on an answer of 1,000,000 characters"):
        judge("regex", "a b " * (SIZE // 4), targets=targets)
    assert time.process_time() - started < 1.5


@pytest.mark.parametrize("scorer", JUDGING_BY_TEXT)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=ANY_TEXT)
def test_no_text_makes_a_scorer_raise(judge, scorer, text):
    """Model output is data: each text gets a verdict, 0 or 1."""
    value = judge(scorer, text, targets=("7",), choices=CITIES).value
    assert 0.0 <= value <= 1.0 if scorer in GRADED else value in (0.0, 1.0)
