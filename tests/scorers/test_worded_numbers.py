"""Numbers as powers, in words, as bounds, and none at all."""

import asyncio

import pytest

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import make_scorer

APPLES = "How many apples are there?"

BOUNDS = """
less than {} | Less than {}. | more than {} apples | at least {} | At most {}. | fewer than {} | greater than {}
over {} | under {}
above {} | below {} | no more than {} | no fewer than {} | not less than {} | up to {} | upwards of {}
just under {} | exceeds {}
It is less than {} | There are more than {}. | The answer is more than {}. | Answer: at least {} | **more than {}**
a minimum of {}
< {} | <{} | x > {} | ≥ {} | <= {} | {} or more | {} or fewer | {}+ | {} and up | {} at least | {} < x | {} and counting
not {} | anything but {} | It isn't {}. | {} is wrong | {}? No. | ~~{}~~ | I don't think it's {} | all but {}
half of {} | twice {} | a third of {} | √{} | {} squared | {} dozen | {} thousand | {}^2 | {}²
"""

STATED = """
{} or so | about {} | ~{} | ≈{} | roughly {} | around {} apples | {}, give or take | {} or thereabouts
{}, more or less | exactly {}
{}, not 35 | not 35; {} | more than 30, namely {} | {}, which is less than 40 | {} (more than 30)
Less than 40, exactly {}
It's at least 30; in fact it is {} | {}, more than enough | It's {}. That is at least 6 more than before.
nothing but {}
It adds up to {}. | {} out of 40 | {} = 6 × 6 | 6 × 6 = {} | half of 72 is {} | 6² = {} | Over 4 days she earns {}
"""


def value(target, answer, question=APPLES):
    sample = Sample(id="s", messages=(user(question),), targets=(target,), scorers=("numeric",))
    return asyncio.run(make_scorer("numeric").score(sample, Output(text=answer), None)).value


def split(table):
    return [one.strip() for line in table.strip().splitlines() for one in line.split(" | ")]


def misread(target, answers, *, right):
    return [answer for answer in answers if value(target, answer) != float(right)]


def test_a_bound_and_a_part_are_not_the_number():
    assert misread("36", [said.format(36) for said in split(BOUNDS)], right=False) == []


def test_what_stands_beside_a_bound_or_is_rounded_is():
    assert misread("36", [said.format(36) for said in split(STATED)], right=True) == []


@pytest.mark.parametrize("question", ["What is the minimum number of apples?", "At least how many apples are needed?"])
def test_a_bound_answers_a_question_for_it(question):
    assert value("36", "At least 36 are needed.", question) == 1.0


@pytest.mark.parametrize(
    ("target", "answers"),
    [
        (
            "1000000",
            "10^6 | 10**6 | 10 ** 6 | 10⁶ | 1e6 | 1E6 | 10^{6} | $10^6$ | 1 × 10⁶ | 1 * 10**6 | **10^6** | \\boxed{10^6} | 100^3",
        ),
        ("1000000", "It is 10⁶. | The answer is 10**6 | 10 to the power of 6 | a million | 1 million | 1000k | 1,000,000 apples"),
        ("1024", "2^10 | 2**10 | 2¹⁰ | $2^{10}$ | 2^10 = 1024"),
        ("0.001", "10^-3 | 10**-3 | 10⁻³ | $10^{-3}$ | 1e-3 | 1/1000"),
        ("9", "9 m² | 9 m^2 | 9 cm^2 | 3² | There are 9 (3^2)."),
        ("12", "a dozen | A dozen. | one dozen | 1 dozen | dozen | a dozen apples"),
        ("6", "half a dozen | half-dozen | a half dozen | There are half a dozen of them"),
        ("36", "three dozen | 3 dozen | three dozens | Thirty-six apples | thirty six or so"),
        ("18", "1.5 dozen | one and a half dozen"),
        ("100", "a hundred | A hundred. | one hundred | hundred | There are a hundred."),
        ("2", "a couple | a pair | a couple of apples"),
    ],
)
def test_powers_and_words_are_numbers(target, answers):
    assert misread(target, answers.split(" | "), right=True) == []
    assert misread("10", answers.split(" | "), right=False) == []


NONE = """
none | None. | **None** | None at all | none of them | none of the apples | There are none. | There are none left
None are left.
no apples | No apples. | There are no apples left. | She has no apples left. | So none are left. | not one
not a single apple
There is nothing left. | Nothing remains. | nil
There aren't any. | The answer is none. | Answer: none | zero | The answer is zero.
No apples, because she ate them.
She ate all 5, so none are left.
"""
NOT_NONE = """
I have none of the information | None of the above | none of the information is given | None of these | No idea
I have no idea
No answer | No solution | No. | There is no way to know | There is no information given. | null | NaN | N/A | `None`
print(None)
The function returns None | I know nothing about it | I have nothing to say | nothing | No number is given | no comment
"""
FIVE = """
no problem, there are 5 | There are 5, no more. | No apples were eaten, so 5 are left.
None of the 5 were eaten, so there are 5.
none other than 5 | 5, none of them red | There are no red apples but 5 green ones. | nothing but 5
5 – no more, no less | No doubt 5
"""


def test_none_is_zero_where_it_is_the_answer():
    assert misread("0", split(NONE), right=True) == []
    assert misread("0", split(NOT_NONE) + split(FIVE), right=False) == []
    assert misread("5", split(FIVE), right=True) == []


def test_asked_for_dozens_the_dozens_count():
    assert value("7", "7 dozen", "How many dozen eggs are there?") == 1.0
    assert value("7", "7 dozen") == 0.0
