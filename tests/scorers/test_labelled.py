"""Answers in the forms chat models use, each read and labelled by hand (`answers/`), and read as a person reads them.

A row says what is taken as the answer (`taken`, null: none is given), or only whether one is given (`answered`).
"""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.registry import make_scorer
from tiebreak.scorers.numbers import readings

HOME = Path(__file__).parent / "answers"
KINDS = ("choice", "numeric", "match")


def labelled(kind):
    return [json.loads(line) for line in (HOME / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()]


def scored(kind, row):
    sample = Sample(
        id="s",
        messages=(user(row["question"]),),
        targets=tuple(row["targets"]),
        choices=tuple(row.get("choices", ())),
        scorers=(kind,),
    )
    return asyncio.run(make_scorer(kind).score(sample, Output(text=row["answer"]), None))


@pytest.fixture(scope="module")
def verdicts():
    """Every labelled answer with its score."""
    return [(kind, row, scored(kind, row)) for kind in KINDS for row in labelled(kind)]


def test_there_are_enough_of_them_and_of_both_kinds(verdicts):
    assert len(verdicts) > 900
    right = sum(row["right"] for _, row, _ in verdicts)
    assert 0.25 < right / len(verdicts) < 0.85


def test_few_are_read_otherwise_than_a_person_reads_them(verdicts):
    """False right at most 1 %, false wrong at most 3 % of all."""
    false_right = [row["answer"] for _, row, score in verdicts if score.value and not row["right"]]
    false_wrong = [row["answer"] for _, row, score in verdicts if row["right"] and not score.value]
    assert len(false_right) <= 0.01 * len(verdicts), false_right
    assert len(false_wrong) <= 0.03 * len(verdicts), false_wrong


def test_no_answer_means_that_the_model_gave_none(verdicts):
    """A wrong answer has its text; a refusal, an "I don't know" and an empty text have none."""

    def given(row):
        return row["answered"] if "answered" in row else row["taken"] is not None

    differing = [row["answer"] for _, row, score in verdicts if (score.answer is not None) != given(row)]
    assert len(differing) <= 0.005 * len(verdicts), differing


def test_what_is_taken_is_what_a_person_takes(verdicts):
    """The letter, and the value of the number, also where the answer is wrong."""
    letters = [(row["taken"], score.answer) for kind, row, score in verdicts if kind == "choice" and len(row["taken"] or "") == 1]
    numbers = [
        (row["taken"], score.answer) for kind, row, score in verdicts if kind == "numeric" and readings(row.get("taken") or "")
    ]
    assert sum(score == taken or (score or "").startswith(f"{taken})") for taken, score in letters) >= 0.98 * len(letters)
    assert sum(bool(set(readings(taken)) & set(readings(score or ""))) for taken, score in numbers) >= 0.98 * len(numbers)


def test_the_second_rule_is_a_rule_of_its_own(verdicts):
    """It differs from the first on some answers, here on many, since most were written to mislead; and is mostly right."""
    for kind in KINDS:
        counted = Counter()
        for other, row, score in verdicts:
            if other == kind:
                counted.update(n=1, differs=score.second != score.value, right=score.second == row["right"])
        assert counted["differs"] > 0.02 * counted["n"]
        assert counted["right"] > 0.75 * counted["n"]


REPORTED = [
    ("match", "The capital of France is **Paris**. It is the largest city.", True),
    ("match", "El Salvador is the capital of Spain.", False),
    ("numeric", "$18 per day (9 eggs × $2)", True),
    ("numeric", "\\boxed{70{,}000}", True),
    ("numeric", "\\boxed{\\frac{1}{2}}", True),
    ("numeric", "2.5km", True),
    ("numeric", "The answer is 9 × 2 = 18", True),
    ("numeric", "1.5 million", True),
    ("numeric", "1. Eggs laid: 16\n2. Eggs used: 7\n3. Eggs sold: 16 − 7 = 9\n4. Money earned: 9 × 2 = 18", True),
    ("choice", "Answer: B because A and C are wrong.", True),
    ("choice", "The answer is B since Statement 1 is false.", True),
    ("choice", "B\n\nExplanation: Option A is a large city in the south-east. Option D is near Belgium.", True),
    ("choice", "Answer: A\n\nA common mistake is to choose B.", False),
    ("choice", "I can't determine this without knowing the pressure; at sea level many books give 100 °C.", False),
    ("choice", "So the answer is **(B)**.", True),
]


@pytest.mark.parametrize(("kind", "answer", "right"), REPORTED)
def test_an_answer_once_misread_is_read(kind, answer, right):
    """Each of these was once read as something else; each stands in the labelled files too."""
    row = next(row for row in labelled(kind) if row["answer"] == answer)
    assert row["right"] is right
    assert scored(kind, row).value == float(right)
