"""How a sample is put to a model."""

import math
from collections import Counter

from tiebreak.core.message import system, user
from tiebreak.core.sample import Sample
from tiebreak.datasets.shipped import truthfulness
from tiebreak.engine.prompting import labels, present

SAMPLE = Sample(id="s", messages=(system("Be brief."), user("Pick {one}")), targets=("a",), choices=("a", "b", "c", "d"))


def test_the_order_depends_on_seed_id_and_repeat_alone():
    """The same three give the same order, whatever the choices say; another gives another."""
    other = Sample(id="s", messages=(user("Other words"),), targets=("W",), choices=("W", "X", "Y", "Z"))
    moved = dict(zip(other.choices, SAMPLE.choices, strict=True))
    shown = present(SAMPLE, seed=1, repeat=0).choices
    assert tuple(moved[choice] for choice in present(other, seed=1, repeat=0).choices) == shown
    assert len({present(SAMPLE, seed=seed, repeat=0).choices for seed in range(50)}) > 10
    assert len({present(SAMPLE, seed=0, repeat=repeat).choices for repeat in range(50)}) > 10


def test_choices_are_listed_with_letters():
    """Earlier messages stay, braces in the question are no trouble."""
    shown = present(SAMPLE, seed=0, repeat=0)
    assert shown.messages[0] == system("Be brief.")
    assert "Pick {one}" in shown.prompt
    for letter, choice in zip(labels(shown), shown.choices, strict=True):
        assert f"{letter}) {choice}" in shown.prompt
    assert (shown.target, sorted(shown.choices)) == ("a", ["a", "b", "c", "d"])


def test_free_text_is_asked_as_it_is():
    """Nothing is added."""
    free = Sample(id="s", messages=(user("Why?"),), targets=("x",))
    assert present(free, seed=3, repeat=2) is free


def test_the_right_choice_may_stand_anywhere():
    """Over the shipped questions each position is as likely, within three standard errors."""
    dataset = truthfulness()
    n = len(dataset)
    for seed in range(3):
        shown = [present(dataset[i], seed=seed, repeat=0) for i in range(n)]
        places = Counter(sample.choices.index(sample.target) for sample in shown)
        error = math.sqrt(0.25 * 0.75 / n)
        assert all(abs(places[place] / n - 0.25) <= 3 * error for place in range(4)), (seed, places)
