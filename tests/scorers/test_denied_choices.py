"""A choice that is denied is not chosen, whether by its letter or by its words."""

import pytest

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import make_scorer

CITIES = ("Paris", "London", "Rome", "New York")
FORMS = ("B", "(B)", "**B**", "London", "B) London")

DENIED = """
Not {}. | not {} | Definitely not {}. | Absolutely not {}! | Surely not {} | Hardly {}.
It isn't {}. | It is not {} | It's definitely not {}. | It can't be {}. | It cannot be {} | It couldn't be {}.
It will never be {}
{} is wrong. | {} is not right. | {} isn't right | {} is incorrect. | {} is clearly wrong | {} is not it.
{} isn't it | {} must be wrong
{} is not the answer. | {} cannot be right. | {} can't be it | {} doesn't fit. | {} does not apply
{} would be wrong. | {} seems wrong
{} is out. | {} is ruled out. | {} can be ruled out. | {} can be excluded | {} is impossible. | {} is a trap
{} is the worst option.
{}? No. | {}? Not really. | {} - no
Everything but {} | Anything but {}. | All but {} | All except {}. | All of them except {}
Anything other than {}.
Every option apart from {} | Any of them besides {} | Everything except for {}
The answer is not {}. | The answer isn't {}. | The answer cannot be {} | The answer is definitely not {}.
The answer is anything but {}.
Answer: not {} | **Answer:** anything but {} | The wrong answer is {}. | The incorrect option is {}.
My answer is not {}.
I would not choose {}. | I wouldn't pick {} | I won't go with {} | I don't think it is {}.
I don't think it's {} | I'd rule out {}.
I don't think the answer is {}. | I do not believe it is {} | I doubt it is {}. | I doubt that the answer is {}
I would exclude {}.
I reject {}. | Avoid {}. | Never choose {} | You should not choose {} | Neither Rome nor {}
I am not convinced it is {}. | It is a mistake to choose {}. | {} is unlikely
~~{}~~ | The answer is ~~{}~~ | <del>{}</del> | ❌ {} | {} ❌
"""

AFFIRMED = r"""
It is not Paris; it is {}. | It isn't A, it's {} | Paris is wrong, the answer is {} | A is wrong. {}
Not A but {} | Not Paris, but {}.
~~Paris~~ {} | The answer is ~~A~~ {} | <s>Paris</s> {} | A ❌\n{} ✅
It's {}, no doubt. | No doubt: {} | Without a doubt {}. | There is no question that it's {}.
I don't doubt that it's {}
None other than {}. | Nothing but {} | It can't be anything but {} | It cannot be anything other than {}
Everything but {} is wrong. | All except {} are wrong. | Everything except {} can be ruled out
We can eliminate all but {}.
Not only is {} right, it is obvious. | {} is not wrong | {}, not Paris. | {} rather than A | {} instead of Paris
I don't know why, but it's {}
Paris is wrong and {} is right | There's no other option than {}. | It would be wrong to say anything but {}.
Paris and Rome are wrong; it's {}.
"""


def split(table):
    return [one.strip().replace("\\n", "\n") for line in table.strip().splitlines() for one in line.split(" | ")]


def verdict(judge, text):
    return judge("choice", text, targets=("London",), choices=CITIES).value


@pytest.mark.parametrize("said", split(DENIED))
def test_what_is_denied_is_not_chosen(judge, said):
    assert [form for form in FORMS if verdict(judge, said.format(form))] == []


@pytest.mark.parametrize("said", split(AFFIRMED))
def test_what_is_set_against_a_denial_is_chosen(judge, said):
    assert [form for form in FORMS if not verdict(judge, said.format(form))] == []


@pytest.mark.parametrize(
    ("question", "text", "letter"),
    [
        ("Which of these is NOT a noble gas?", "B is not a noble gas.", "B"),
        ("Which of these is not a noble gas?", "Oxygen is not a noble gas.", "B"),
        ("All of these are noble gases except:", "B is not.", "B"),
        ("Which statement is false?", "B is false.", "B"),
        ("Which of these isn't a noble gas?", "Not B.", None),
        ("Which of these is a gas of the air?", "B is not.", None),
    ],
)
async def test_what_is_said_not_to_be_so_answers_a_question_about_it(question, text, letter):
    gases = ("helium", "oxygen", "neon", "argon")
    sample = Sample(id="s", messages=(user(question),), targets=("oxygen",), choices=gases, scorers=("choice",))
    score = await make_scorer("choice").score(sample, Output(text=text), None)
    assert score.value == float(letter == "B")
