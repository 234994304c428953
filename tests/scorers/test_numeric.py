"""Answers that are numbers."""

import pytest

from tiebreak.core.trial import Outcome
from tiebreak.scorers.numbers import to_number
from tiebreak.scorers.numeric import same_number, stated_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("The answer is 42.", "42"),
        ("Answer: **42**", "42"),
        ("#### 1,234", "1,234"),
        ("\\boxed{7}", "7"),
        ("answer = -3", "-3"),
        ("answer is \u22123", "-3"),
        ("It costs $1,234.50 in all", "$1,234.50"),
        ("3 and 4 make 7", "7"),
        ("The answer is 5, as I had 3 and 2", "5"),
        ("The answer is 5. No, the answer is 6.", "6"),
        ("The answer is not 5; it is 6", "6"),
        ("1/2", "1/2"),
        (".5", ".5"),
        ("1e-3", "1e-3"),
        ("10-5=5", "5"),
        ("She rents out 16 chairs in two 4-week months.", "16"),
        ("a 12-inch pipe", "12"),
        ("GPT4 and B2B", None),
        ("no number", None),
        ("", None),
    ],
)
def test_the_number_a_text_states(text, number):
    """The last one called the answer; else the last of all. A digit inside a word is none."""
    assert stated_number(text) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5),
        ("$5", 5.0),
        ("5%", 5.0),
        ("\u22125", -5.0),
        ("1/4", 0.25),
        ("1/0", None),
        ("", None),
        ("x", None),
        ("1e999", float("inf")),
        ("5.", 5.0),
    ],
)
def test_numbers_as_people_write_them(text, value):
    """What is no number is None, never an error."""
    assert to_number(text) == value


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(1.0, 1.0, True), (0.333333, 1 / 3, True), (0.3333, 1 / 3, False), (1.0, None, False), (None, None, False), (-1, 1, False)],
)
def test_five_digits_are_enough(one, other, same):
    """Equal to five significant digits."""
    assert same_number(one, other) is same


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [("The answer is 0.5", "1/2", True), ("1,000", "1000", True), ("12", "13", False), ("none", "1", False), ("-7", "7", False)],
)
def test_values_are_compared_not_spellings(judge, text, target, right):
    """Half is 1/2 is 0.5."""
    assert judge("numeric", text, targets=(target,)).value == float(right)


def test_a_cut_off_answer_is_never_right(judge):
    """42 may have been the beginning of 421."""
    assert judge("numeric", "42", targets=("42",), outcome=Outcome.CUT_OFF).value == 0.0


def test_thoughts_are_not_scored(judge):
    """Numbers that were only thought do not count."""
    assert judge("numeric", "7 <think>the answer is 42", targets=("7",), thinking="42").value == 1.0
