"""Questions made from a seed."""

import json
from collections import Counter

import pytest
from support.command import run

from tiebreak.core.digest import digest_of_texts
from tiebreak.core.errors import DatasetError
from tiebreak.datasets.dice import Dice
from tiebreak.datasets.fresh import KINDS, parse
from tiebreak.registry import load_dataset


def all_of(dataset):
    return [dataset[i] for i in range(len(dataset))]


def test_the_same_seed_makes_the_same_questions_everywhere():
    """This digest was made once; whoever changes a question raises the version and makes it anew."""
    texts = [part for sample in all_of(load_dataset("fresh:3:count=48")) for part in (sample.prompt, sample.target)]
    assert digest_of_texts(texts) == DIGEST


DIGEST = "9f0c5035c1b34766b53426b94a87f07a"


@pytest.mark.parametrize("level", range(1, 11))
def test_every_level_has_every_kind_with_one_right_choice_of_four(level):
    samples = all_of(load_dataset(f"fresh:{level}:count=120"))
    assert Counter(sample.category for sample in samples) == dict.fromkeys(KINDS, 10)
    assert all(len(set(sample.choices)) == 4 and sample.choices.count(sample.target) == 1 for sample in samples)
    assert all(choice in sample.prompt for sample in samples for choice in sample.choices)
    assert len({sample.id for sample in samples}) == 120


def test_the_right_choice_stands_anywhere():
    places = Counter(sample.choices.index(sample.target) for sample in all_of(load_dataset("fresh:4:count=1200")))
    assert all(240 < places[place] < 360 for place in range(4))


def test_answers_are_right_by_construction():
    """Sums are sums: checked by another way of computing them."""
    for level in (1, 5, 10):
        for sample in all_of(load_dataset(f"fresh:{level}:free:count=240")):
            if sample.category == "arithmetic":
                expression = sample.prompt.removeprefix("What is ").partition("?")[0]
                assert set(expression) <= set("0123456789+-*() ")
                assert eval(expression) == int(sample.target)


def test_free_text_has_no_choices():
    sample = load_dataset("fresh:hard:free")[0]
    assert (sample.choices, sample.scorers) == ((), ("numeric",))


def test_levels_seeds_and_counts_are_named_behind_the_name():
    assert (parse("hard").level, parse("3:seed=7:count=10").seed, parse("free").free) == (8, 7, True)
    assert load_dataset("fresh:1:seed=1")[0].prompt != load_dataset("fresh:1:seed=2")[0].prompt
    for wrong in ("x", "11", "count=0", "seed=a"):
        with pytest.raises(DatasetError, match="fresh:"):
            load_dataset(f"fresh:{wrong}")


def test_dice_depend_on_their_texts_alone():
    assert [Dice("a").below(1000) for _ in range(3)] == [Dice("a").below(1000)] * 3
    assert len({Dice(str(i)).below(10**6) for i in range(100)}) == 100


def test_at_the_highest_level_no_answer_can_be_left_out_without_thinking():
    """Of a colour nobody spoke of, or of a person who says nothing, one would know without reading on that it is wrong."""
    for sample in all_of(load_dataset("fresh:hardest:count=240")):
        if sample.category in ("classes", "heights", "swaps"):
            told = sample.prompt.partition("\n")[2]
            assert all(choice in told for choice in sample.choices)
        if sample.category == "truth":
            a, b = sample.prompt.rpartition("so of ")[2].rstrip("?").split(" and ")
            assert all(a in choice or b in choice for choice in sample.choices)


@pytest.mark.needs("embedded")
def test_the_embedded_model_is_above_chance_at_the_lowest_level_and_not_at_the_highest(tmp_path):
    """Weighing four answers, as docs/datasets.md says; chance is a quarter."""
    lowest, highest = (weighed(level, count, tmp_path) for level, count in ((1, 48), (10, 12)))
    assert lowest["interval"][0] > 0.25
    assert highest["interval"][0] < 0.25


def weighed(level, count, folder):
    options = ("--model", "llama_cpp/smollm2-135m", "--likelihood", "--no-preflight", "--quiet", "--output", folder / f"{level}")
    done = run("run", "--dataset", f"fresh:{level}:count={count}", *map(str, options), cwd=folder, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    [model] = json.loads((folder / f"{level}" / "comparison_report.json").read_text())["contestants"]
    assert model["samples"] == count
    return model
