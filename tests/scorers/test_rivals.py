"""An answer that states another candidate is wrong, wherever it mentions the accepted one; look-alikes are right."""

import asyncio

import pytest

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import make_scorer

FRANCE = ("What is the capital of France?", "Paris")
AUTHOR = ("Who wrote Hamlet?", "William Shakespeare")
PLANET = ("Which planet is the largest?", "Jupiter")
PAINTER = ("Who painted the Mona Lisa?", "Leonardo da Vinci")

ANOTHER = [
    (*FRANCE, "The capital of France is London. Paris is a city in Texas."),
    (*FRANCE, "The capital of France is Marseille; Paris was the capital before 1940."),
    (*FRANCE, "France's capital is Lyon. Paris is merely its largest city."),
    (*FRANCE, "It is Lyon. Paris is only the largest city."),
    (*FRANCE, "Lyon. Paris is the most visited city."),
    (*FRANCE, "**Lyon** — Paris is a common mistake."),
    (*FRANCE, "The answer is Paris. The answer is Lyon."),
    (*AUTHOR, "Christopher Marlowe wrote Hamlet. Shakespeare wrote Macbeth."),
    (*AUTHOR, "Marlowe wrote it; Shakespeare only acted in it."),
    (*AUTHOR, "It was written by Thomas Kyd, a rival of Shakespeare."),
    (*PLANET, "Saturn is the largest planet. Jupiter is the second."),
    (*PLANET, "The largest planet is Saturn (Jupiter comes next)."),
    (*PLANET, "Saturn and Jupiter"),
    (*PAINTER, "Michelangelo painted the Mona Lisa, while Leonardo da Vinci designed machines."),
    (*PAINTER, "Raphael painted it. Leonardo da Vinci was his teacher."),
]
ACCEPTED = [
    (*FRANCE, "The capital of France is Paris. London is a city in England."),
    (*FRANCE, "The capital of France is the city of Paris. Lyon is the third-largest city."),
    (*FRANCE, "Many cities are large. Paris is the capital of France."),
    (*FRANCE, "Paris. Lyon is only the third-largest city."),
    (*FRANCE, "Yes. Paris is a lovely place and it has been the capital for centuries."),
    (*FRANCE, "France: Paris is its capital, London that of England."),
    (*FRANCE, "It is not Lyon. Paris is it."),
    (*FRANCE, "Lyon? No. Paris is the capital of France."),
    (*FRANCE, "France is a country in Europe. Paris is its capital and Lyon its third city."),
    (*FRANCE, "Paris, France"),
    (*AUTHOR, "Hamlet is a tragedy. William Shakespeare wrote it around 1600."),
    (*AUTHOR, "Shakespeare wrote Hamlet. Marlowe wrote Doctor Faustus."),
    (*AUTHOR, "Dr. Johnson edited it. Shakespeare wrote it."),
    (*PLANET, "Jupiter is the largest planet, and Saturn comes next."),
    (*PLANET, "Saturn comes second. Jupiter is the largest planet."),
    (*PAINTER, "Leonardo da Vinci painted it; Michelangelo painted the ceiling of the Sistine Chapel."),
    (*PAINTER, "The painter was Leonardo da Vinci. Raphael was younger."),
    ("Which duo sang it?", "Simon & Garfunkel", "Simon and Garfunkel"),
]


def scored(question, target, answer, kind="match"):
    sample = Sample(id="s", messages=(user(question),), targets=(target,), scorers=(kind,))
    return asyncio.run(make_scorer(kind).score(sample, Output(text=answer), None)).value


@pytest.mark.parametrize(("question", "target", "answer"), ANOTHER)
def test_another_candidate_is_stated(question, target, answer):
    assert scored(question, target, answer) == 0.0


@pytest.mark.parametrize(("question", "target", "answer"), ACCEPTED)
def test_the_accepted_one_is_stated(question, target, answer):
    assert scored(question, target, answer) == 1.0


@pytest.mark.parametrize("target", ["17", "18"])
@pytest.mark.parametrize(
    "answer", ["The answer is 17. The answer is 18.", "So the answer is 17. The answer is **18**.", "Answer: 17; answer: 18"]
)
def test_two_numbers_called_the_answer_are_none(target, answer):
    assert scored("How many?", target, answer, "numeric") == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is 18. The final answer is 18.",
        "The answer is 9 × 2. The answer is 18.",
        "The answer is 17. Wait, I forgot one. The answer is 18.",
        "The answer is 17. No, the answer is 18.",
        "The answer is 17.\n\nThe final answer is 18.",
        "The answer is $18. The answer is 18 dollars.",
        "Step 1: the answer is found by adding 9 and 9. The answer is 18.",
    ],
)
def test_the_same_number_twice_or_a_corrected_one_is_one(answer):
    assert scored("How many?", "18", answer, "numeric") == 1.0
