"""The questions that come with the tool are sound."""

import asyncio
import json
import math
from collections import Counter
from pathlib import Path

import pytest

import tiebreak.datasets.shipped as shipped
from tiebreak.core.text import clauses, says
from tiebreak.core.trial import Output
from tiebreak.scorers.texts import Keywords

DATA = Path(shipped.__file__).parent / "data"


def rows_of(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


ROWS = rows_of("truthfulness.jsonl")
WARMUP = rows_of("warmup.jsonl")


def is_right(sample, text):
    return asyncio.run(Keywords().score(sample, Output(text=text), None)).value == 1.0


@pytest.fixture(scope="module")
def by_id():
    """The open questions, as samples."""
    dataset = shipped.truthfulness_open()
    return {sample.id: sample for sample in (dataset[i] for i in range(len(dataset)))}


def test_there_are_enough_questions():
    """At least 300, of at least 12 categories, at least half of them hard."""
    assert len(ROWS) >= 300
    assert len({row["category"] for row in ROWS}) >= 12
    assert 2 * sum(row["difficulty"] == "hard" for row in ROWS) >= len(ROWS)


@pytest.mark.parametrize("rows", [ROWS, WARMUP], ids=["truthfulness", "warmup"])
def test_ids_and_questions_are_unique(rows):
    """Nothing is asked twice."""
    for field in ("id", "question"):
        assert [value for value, count in Counter(row[field] for row in rows).items() if count > 1] == []


def test_every_question_has_three_other_wrong_answers():
    """Four choices, all different however they are written."""
    odd = [r["id"] for r in ROWS if len(r["wrong"]) != 3 or len({c.casefold().strip() for c in (r["best"], *r["wrong"])}) != 4]
    assert odd == []


def test_every_best_answer_passes_and_no_wrong_one_does(by_id):
    """The keywords agree with the choices."""
    assert [row["id"] for row in ROWS if not is_right(by_id[row["id"]], row["best"])] == []
    assert [(row["id"], wrong) for row in ROWS for wrong in row["wrong"] if is_right(by_id[row["id"]], wrong)] == []


@pytest.mark.parametrize("rows", [ROWS, WARMUP], ids=["truthfulness", "warmup"])
def test_no_question_says_its_own_keywords(rows):
    """Repeating the question earns and costs nothing."""
    given_away = [(r["id"], w) for r in rows for w in (*r["accept"], *r["reject"]) if says(clauses(r["question"]), w)]
    assert given_away == []


@pytest.mark.parametrize("guess", [max, min], ids=["longest", "shortest"])
def test_length_tells_nothing(guess):
    """A guesser that looks only at lengths is as good as chance, within three standard errors."""
    right = 0.0
    for row in ROWS:
        lengths = [len(choice) for choice in (row["best"], *row["wrong"])]
        guessed = guess(lengths)
        right += (lengths[0] == guessed) / lengths.count(guessed)
    error = math.sqrt(0.25 * 0.75 / len(ROWS))
    assert abs(right / len(ROWS) - 0.25) <= 3 * error


def test_the_warmup_is_fifty_questions_of_ten_categories():
    """And each of its answers passes."""
    dataset = shipped.warmup()
    samples = [dataset[i] for i in range(len(dataset))]
    assert len(samples) == 50
    assert len({sample.category for sample in samples}) == 10
    assert [sample.id for sample in samples if not is_right(sample, sample.target)] == []


def test_both_forms_ask_the_same_questions():
    """Multiple choice and free text differ in form only."""
    choice, free = shipped.truthfulness(), shipped.truthfulness_open()
    assert [choice[i].id for i in range(len(choice))] == [free[i].id for i in range(len(free))]
    assert choice.scorers == ("choice",)
    assert free.scorers == ("keywords",)
