"""Free text against a known answer."""

import pytest

from tiebreak.core.trial import Outcome


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Paris", True),
        ("paris.", True),
        ("**Paris**", True),
        ("  Paris\n", True),
        ("It is Paris", True),
        ("Paris, of course", True),
        ("The answer is Paris.", True),
        ("Answer: Paris", True),
        ("The answer would be Paris", True),
        ("Answer:\n\nParis", True),
        ("PÁRIS", True),
        ("‘Paris’", True),
        ("London", False),
        ("", False),
        ("Not Paris", False),
        ("It is not Paris", False),
        ("Paris is wrong", False),
        ("Comparison", False),
        ("Parisian", False),
        # the last stated answer wins, on one line too
        ("The answer is London. No, the answer is Paris.", True),
        ("The answer is Paris. No, the answer is London.", False),
        ("Answer: Paris\nAnswer: London", False),
        ("Answer: London\nAnswer: Paris", True),
    ],
)
def test_the_last_answer_stated_is_compared(judge, text, right):
    """Said, undenied, and not taken back."""
    assert judge("match", text).value == float(right)


@pytest.mark.parametrize(("text", "right"), [("Zürich", True), ("zurich", True), ("Zuerich", False)])
def test_accents_do_not_matter(judge, text, right):
    """Spelled with or without."""
    assert judge("match", text, targets=("Zürich",)).value == float(right)


def test_any_accepted_answer_will_do(judge):
    """The first is only the one that is shown."""
    assert judge("match", "NYC", targets=("New York", "NYC")).value == 1.0


def test_thousands_separators_do_not_matter(judge):
    """1,000 is 1000."""
    assert judge("match", "1,000", targets=("1000",)).value == 1.0


def test_other_scripts_are_compared_too(judge):
    """Not only Latin letters are letters."""
    assert judge("match", "Столица — Париж", targets=("Париж",)).value == 1.0
    assert judge("match", "東京", targets=("東京",)).value == 1.0


def test_a_cut_off_answer_is_never_right(judge):
    """Even when it begins well."""
    assert judge("match", "Paris", outcome=Outcome.CUT_OFF).value == 0.0


def test_thoughts_are_not_scored(judge):
    """The right answer thought and another said is wrong."""
    assert judge("match", "<think>Paris</think>London").value == 0.0
    assert judge("match", "<think>London</think>Paris", thinking="London").value == 1.0
