"""Free text that only seems to say an accepted answer, or says it in other words."""

import asyncio

import pytest

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import make_scorer

FRANCE = ("What is the capital of France?", "Paris")
PLANET = ("Which planet is the largest?", "Jupiter")


def split(table):
    return [one.strip() for line in table.splitlines() for one in line.split(" | ")]


def value(question, target, answer):
    sample = Sample(id="s", messages=(user(question),), targets=(target,), scorers=("match",))
    return asyncio.run(make_scorer("match").score(sample, Output(text=answer), None)).value


def misread(question, target, answers, *, right):
    return [answer for answer in answers if value(question, target, answer) != float(right)]


@pytest.mark.parametrize(
    ("target", "enough", "too_little"),
    [
        (
            "Albert Einstein",
            ["Einstein", "A. Einstein", "It was Einstein", "Professor Einstein", "Einstein, Albert"],
            ["Albert", "It was Albert.", "**Albert**", "The answer is Albert", "Albert who had an office", "Albert Schweitzer"],
        ),
        ("Marie Curie", ["Curie", "Madame Curie", "Marie Skłodowska Curie"], ["Marie", "It was Marie", "Marie Antoinette"]),
        ("Neil Armstrong", ["Armstrong", "Commander Armstrong", "Neil Armstrong1"], ["Neil", "Neil was it", "Louis Armstrong"]),
        ("John Wilkes Booth", ["Booth", "J. W. Booth"], ["John"]),
        ("George VI", ["King George VI"], ["George", "King George"]),
        ("Leonardo da Vinci", ["Leonardo", "da Vinci", "Leonardo from Vinci"], ["Raphael"]),
        ("Michelangelo Buonarroti", ["Michelangelo"], ["Raphael"]),
        ("Pacific Ocean", ["Pacific", "the Pacific."], ["Atlantic Ocean"]),
        ("Austin, Texas", ["Austin", "In Austin"], ["Houston"]),
    ],
)
def test_a_first_name_alone_names_nobody(target, enough, too_little):
    """Unless the first name is one by which a person, or the first word one by which a place, is known."""
    assert misread("Who or what was it?", target, enough, right=True) == []
    assert misread("Who or what was it?", target, too_little, right=False) == []


LISTS = [
    *(mark.join(["", "Paris", "London", "Rome", "Madrid", "Berlin"]).strip("\n,;|/ ") for mark in ("\n", "\n\n", ",\n", ";\n")),
    *("\n".join(f"{mark} {city}" for city in ("London", "Paris", "Rome")) for mark in "-*•"),
    "1. Paris\n2. London\n3. Rome",
    "1) Paris\n2) London",
    "a. Paris\nb. London\nc. Rome",
    "**Paris**\n**London**\n**Rome**",
    "paris\nlondon\nrome",
    "Here are five capitals:\n\n1. London\n2. Rome\n3. Paris\n4. Berlin\n5. Madrid",
    "Possible answers:\n\n* Paris\n* Lyon\n\nI hope this helps!",
    "Answer:\nParis\nLondon\nRome",
    "The answer is:\n- Paris\n- London\n- Rome",
    "Capitals: Paris; London; Rome",
    "1. Paris, 2. Lyon, 3. Nice",
    "Paris, London and Rome",
    "Paris / London / Rome",
    "Paris | London | Rome",
    "Paris & Lyon",
    "Paris as well as Lyon",
]


@pytest.mark.parametrize("answer", LISTS)
def test_one_of_a_list_is_no_answer(answer):
    assert value(*FRANCE, answer) == 0.0


@pytest.mark.parametrize(
    ("question", "target", "answer"),
    [
        (*FRANCE, "Paris\nFrance"),
        (*FRANCE, "- Country: France\n- Capital: Paris"),
        (*FRANCE, "1. France is a country.\n2. Its capital is Paris."),
        (*FRANCE, "Answer: Paris\n\nI hope this helps!"),
        (*FRANCE, "**Step 1.** We look.\n\n**Step 2.** We conclude.\n\n**Paris**"),
        (*FRANCE, "- Lyon\n- Paris\n- Nice\n\n**Paris**"),
        (*FRANCE, "| Country | Capital |\n|---|---|\n| France | Paris |"),
        ("Who sang it?", "Simon & Garfunkel", "- Simon\n- Garfunkel"),
        (
            "Who were the members of the band?",
            "Ringo Starr",
            "1. John Lennon\n2. Paul McCartney\n3. George Harrison\n4. Ringo Starr",
        ),
        ("What are the three colours of the flag?", "red, white and blue", "red\nwhite\nblue"),
    ],
)
def test_what_only_looks_like_a_list_of_candidates_is_an_answer(question, target, answer):
    assert value(question, target, answer) == 1.0


def test_a_hedge_between_two_is_no_answer():
    hedges = """might be Paris or Lyon | Paris or maybe Lyon | Paris, or possibly Lyon | Maybe Paris, maybe Lyon
    Maybe Paris. Maybe Lyon.
    Perhaps Paris, perhaps Lyon. | It's between Paris and Lyon. | I'm torn between Paris and Lyon
    Could be Paris, could be Lyon
    It could be Paris. It could also be Lyon. | Paris/Lyon | Paris and/or Lyon
    Depending on who you ask, Paris or Lyon
    Lyon, alternatively Paris | Paris perhaps, or Lyon | It is one of Paris, Lyon or Nice.
    The answer is Paris or Lyon."""
    assert misread(*FRANCE, split(hedges), right=False) == []
    assert misread(*FRANCE, ["Maybe Paris", "It might be Paris.", "Probably Paris", "I'm not sure, but Paris"], right=True) == []


def test_what_is_taken_back_excepted_or_struck_out_is_not_said():
    not_said = """~~Paris~~ Lyon | The capital is ~~Paris~~ **Lyon**. | <s>Paris</s> Lyon | ~~Paris~~ | Paris ❌
    Everything but Paris | Anything but Paris | All French cities except Paris | Any city other than Paris
    Paris, no, Lyon
    I doubt it is Paris. | The wrong answer is Paris | It was once thought to be Paris, but it is Lyon"""
    assert misread(*FRANCE, split(not_said), right=False) == []
    said = [
        "~~Lyon~~ Paris",
        "Nothing but Paris",
        "None other than Paris",
        "It can't be anything but Paris",
        "No doubt it is Paris",
    ]
    assert misread(*FRANCE, said, right=True) == []
    assert misread(*PLANET, ["No planet is larger than Jupiter.", "Nothing beats Jupiter"], right=True) == []


YES = """Yes | yep. | Yeah | Absolutely! | Indeed. | Indeed it is | Correct | That's correct | Right. | Certainly.
Definitely | Of course it is.
Sure | True | Affirmative | Exactly | It is. | Without a doubt | No doubt | Undoubtedly | For sure | I think so
I believe so. | Why, yes.
It sure is | You bet | Absolutely, it is legal. | Yes, no question about it. | Yes, without a doubt."""
NO = """No | Nope. | Nah | Absolutely not. | Certainly not | Of course not | Definitely not, it is not.
Not at all | Not really | By no means
Never | Incorrect. | False | That's wrong | That is not true. | It isn't. | No way | Surely not | I don't think so
I'm afraid not
Most certainly not | Negative | No, and yes would be wrong."""
NEITHER = """Yes and no | Neither | Yes and no: it depends. | Both yes and no | Yes or no | yes/no | Yes, no
Neither yes nor no | No and yes | It depends
Sometimes yes, sometimes no | Yes in summer, no in winter | I can't say yes or no | Maybe | Not sure | No idea
I have no idea | Hard to say
There is no simple answer | No one knows. | It could be yes or no | Perhaps"""


@pytest.mark.parametrize(("target", "right", "wrong"), [("Yes", YES, NO), ("No", NO, YES)])
def test_yes_and_no_have_many_words(target, right, wrong):
    assert misread("Is it legal?", target, split(right), right=True) == []
    assert misread("Is it legal?", target, split(wrong) + split(NEITHER), right=False) == []


def test_true_and_false_have_them_too():
    true = ["True", "That's true", "Correct", "Yes", "The statement is correct", "Absolutely true", "The statement is not false."]
    false = [
        "False",
        "Not true",
        "The statement is not true",
        "Incorrect",
        "No",
        "True and false",
        "Neither true nor false",
        "Nope",
    ]
    assert misread("True or false: water is wet.", "True", true, right=True) == []
    assert misread("True or false: water is wet.", "True", false, right=False) == []


def test_an_opening_courtesy_is_no_yes():
    assert misread("Is it legal?", "No", ["Certainly! The answer is no.", "Sure. No."], right=True) == []
