"""Which choice did the model settle on?"""

import pytest

from tiebreak.core.trial import Outcome
from tiebreak.scorers.choice import chosen

CITIES = ("Paris", "London", "Rome", "New York")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        # the letter alone, however it is dressed
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("**B**", "B"),
        ("B.", "B"),
        (" B\n", "B"),
        ("`B`", "B"),
        ("[B]", "B"),
        ("$B$", "B"),
        ("B) London", "B"),
        ("B: London", "B"),
        ("**B)** London", "B"),
        # stated
        ("The answer is B", "B"),
        ("The answer is (B).", "B"),
        ("Answer: **B**", "B"),
        ("answer: b", "B"),
        ("I would choose B, since it rains there.", "B"),
        ("The correct option is therefore C.", "C"),
        ("B is correct.", "B"),
        ("$\\boxed{B}$", "B"),
        ("\\boxed{\\text{B}}", "B"),
        # the last stated answer wins
        ("The answer is A. No wait, the answer is B.", "B"),
        ("Answer: A\n\nOn reflection:\nAnswer: C", "C"),
        ("I pick A. Hmm. Final answer: D", "D"),
        ("A is correct? No: the answer is B", "B"),
        # denied
        ("The answer is not A. The answer is B.", "B"),
        ("The answer is B, not A.", "B"),
        ("It isn't A, it must be B", "B"),
        # a letter inside a word is no answer
        ("Because of a big cat", None),
        ("The answer is a matter of debate", None),
        ("The answer is Bern", None),
        ("Don't ask", None),
        ("I am not sure", None),
        ("A good question", None),
        # the words of a choice
        ("London", "B"),
        ("It is london.", "B"),
        ("I believe it is New York", "D"),
        ("It is not Paris but London", "B"),
        ("Paris or London", None),
        # all the choices repeated say nothing
        ("A) Paris\nB) London\nC) Rome\nD) New York", None),
        # letters that name no choice
        ("E", None),
        ("The answer is Z", None),
        ("", None),
        ("   \n", None),
        ("答えはBです", None),
        ("答えは B です", "B"),
        ("Réponse : London 🇬🇧", "B"),
        ("𝐁", None),
    ],
)
def test_the_choice_a_text_settles_on(text, letter):
    """The surest reading that finds one wins; no reading is forced on a text."""
    found = chosen(text, CITIES)
    assert (None if found is None else "ABCD"[found]) == letter


def test_the_longer_choice_covers_the_shorter():
    """Saying "New York City" is not also saying "New York"."""
    assert chosen("It is New York City", ("New York", "New York City")) == 1


@pytest.mark.parametrize(("text", "value"), [("B", 1.0), ("A", 0.0), ("no idea", 0.0)])
def test_a_score_says_what_was_taken_and_expected(judge, text, value):
    """Right is 1, wrong and unreadable are 0; the reason names the right choice."""
    score = judge("choice", text, targets=("London",), choices=CITIES)
    assert score.value == value
    assert "B) London" in score.because
    assert (score.answer is None) == (text == "no idea")


def test_a_cut_off_answer_is_never_right(judge):
    """What was cut off may have been taken back in the next word."""
    score = judge("choice", "The answer is B", targets=("London",), choices=CITIES, outcome=Outcome.CUT_OFF)
    assert (score.value, score.answer) == (0.0, None)


@pytest.mark.parametrize("text", ["<think>The answer is B</think>A", "The answer is B</think>A", "A<think>The answer is B"])
def test_thoughts_are_not_scored(judge, text):
    """Only what was said counts."""
    assert judge("choice", text, targets=("Paris",), choices=CITIES, thinking="The answer is B").value == 1.0
