"""Free text judged by what it says and does not say."""

import pytest

from tiebreak.core.trial import Outcome

COLOURS = {"accept": ("red", "crimson"), "reject": ("blue",)}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("It is red.", True),
        ("RED!", True),
        ("Crimson, I think", True),
        ("red or crimson", True),
        ("It is blue.", False),
        ("It is red or blue.", False),
        ("It is not blue, it is red.", True),
        ("Blue is a myth; it is red", True),
        ("It is not red.", False),
        ("Red is wrong.", False),
        ("No, it is red.", True),
        ("bored, scarred", False),
        ("infrared", False),
        ("", False),
        ("green", False),
        ("réd", True),
        ("*red*", True),
        ("Never red", False),
        ("neither red nor crimson", False),
    ],
)
def test_a_keyword_must_be_said_and_not_denied(judge, text, right):
    """Whole words, undenied, and no rejected one among them."""
    assert judge("keywords", text, keywords=COLOURS).value == float(right)


@pytest.mark.parametrize(("text", "right"), [("red and crimson", True), ("red", False)])
def test_all_keywords_can_be_needed(judge, text, right):
    """One is then not enough."""
    assert judge("keywords", text, keywords={**COLOURS, "need_all": True}).value == float(right)


def test_without_keywords_the_targets_are_looked_for(judge):
    """A sample with targets only can be scored by keywords too."""
    assert judge("keywords", "I live in Paris now", targets=("Paris",)).value == 1.0


def test_the_reason_names_what_should_not_have_been_said(judge):
    """A reader of the report sees why."""
    assert judge("keywords", "blue", keywords=COLOURS).because == "says 'blue'"


def test_a_cut_off_answer_is_never_right(judge):
    """The rest might have denied it."""
    assert judge("keywords", "red", keywords=COLOURS, outcome=Outcome.CUT_OFF).value == 0.0


def test_thoughts_are_not_scored(judge):
    """Thinking of blue does not spoil red."""
    assert judge("keywords", "<think>blue?</think>red", keywords=COLOURS, thinking="blue").value == 1.0
    assert judge("keywords", "<think>red</think>dunno", keywords=COLOURS).value == 0.0
