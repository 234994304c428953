"""Dialogues and calls of tools that are made from a seed: solved here anew, from nothing but what the user says."""

import re

import pytest
from support.command import read_csv, run
from support.server import Calls, FakeServer

from tiebreak.core.digest import digest_of_texts
from tiebreak.core.errors import DatasetError
from tiebreak.datasets.audit import audit
from tiebreak.datasets.dice import DAYS
from tiebreak.datasets.fresh import FAMILIES
from tiebreak.registry import load_dataset

LEVELS = (1, 3, 6, 10)


def samples(name):
    dataset = load_dataset(name)
    return [dataset[i] for i in range(len(dataset))]


def said(sample):
    return [sample.messages[0].text, *(turn.text for turn in sample.exchange.turns)]


@pytest.mark.parametrize("level", range(1, 11))
@pytest.mark.parametrize("family", ["tools", "dialogue"])
def test_every_level_has_every_kind_and_no_sample_twice(family, level):
    made = samples(f"fresh:{family}:{level}:count=60")
    assert {sample.category for sample in made} == set(FAMILIES[family])
    assert len({sample.id for sample in made}) == 60
    assert len({sample.asked_digest for sample in made}) >= (54 if level > 1 else 45)
    assert all(sample.needs == ({"turns"} if family == "dialogue" else {"tools"}) for sample in made)


def test_the_same_seed_makes_the_same_exchanges_everywhere():
    """Made once; whoever changes one raises the version."""
    texts = [
        text for family in ("tools", "dialogue") for sample in samples(f"fresh:{family}:5:count=40") for text in all_of(sample)
    ]
    assert digest_of_texts(texts) == "3b4c140ba4a4856326d6bda98db75264"


def all_of(sample):
    results = [result.text for result in sample.exchange.tool_results]
    return [*said(sample), *sample.targets, *results, str(sample.metadata), str(sample.exchange.turn_targets)]


@pytest.mark.parametrize("level", LEVELS)
def test_dialogues_are_right(level):
    for sample in samples(f"fresh:dialogue:{level}:count=80"):
        assert SOLVED[sample.category](sample) in (list(sample.targets), list(sample.exchange.turn_targets)), sample.id


def facts(sample):
    *told, question = said(sample)
    colours = dict(re.search(r"(\w+)'s favourite colour is (\w+)", text).groups() for text in told)
    return [colours[re.search(r"is (\w+)'s", question)[1]]]


def totals(sample):
    total, targets = 0, []
    for text in said(sample):
        word, number = re.search(r"(Remember the number|Add|Subtract) (\d+)", text).groups()
        total = int(number) if word.startswith("R") else total + int(number) if word == "Add" else total - int(number)
        targets.append((str(total),))
    return targets


def lists(sample):
    held = set()
    for text in said(sample)[:-1]:
        act, thing = re.search(r"(Put|Take) the (\w+)", text).groups()
        (held.add if act == "Put" else held.remove)(thing)
    return [str(len(held))]


def plans(sample):
    first, *moves, _ = said(sample)
    day = DAYS.index(re.search(r"on (\w+)\.", first)[1])
    for text in moves:
        number, word = re.search(r"(one|\d+) days? (later|earlier)", text).groups()
        day += (1 if number == "one" else int(number)) * (1 if word == "later" else -1)
    return [DAYS[day % 7]]


SOLVED = {"facts": facts, "totals": totals, "lists": lists, "plans": plans}


@pytest.mark.parametrize("level", LEVELS)
def test_tools_are_right(level):
    for sample in samples(f"fresh:tools:{level}:count=80"):
        offered = [tool.name for tool in sample.exchange.tools]
        assert len(set(offered)) == len(offered)
        if sample.category in ("one", "several", "none"):
            calls = sample.metadata["expected_calls"]
            assert [call["name"] for call in calls if call["name"] not in offered] == []
            values = [str(value) for call in calls for value in call["arguments"].values()]
            assert all(value in sample.messages[0].text for value in values)
            assert len(calls) == {"one": 1, "none": 0}.get(sample.category, 2 + level // 3)
            tools = {tool.name: tool.parameters["required"] for tool in sample.exchange.tools}
            assert all(sorted(call["arguments"]) == sorted(tools[call["name"]]) for call in calls)
        else:
            assert followed(sample) == sample.target


def followed(sample):
    """The answer, by calling the scripted tool as the question says."""
    told = {next(iter(result.arguments.values())): result.text for result in sample.exchange.tool_results}
    text = sample.messages[0].text
    if sample.category == "prices":
        return str(sum(int(amount) * int(told[thing]) for amount, thing in re.findall(r"(\d+) × (\w+)", text)))
    reply = told[re.search(r"the (\w+) box", text)[1]]
    while next_box := re.search(r"Look into the (\w+) box", reply):
        reply = told[next_box[1]]
    return re.search(r"There is a (\w+) in it", reply)[1]


def test_they_run_and_are_judged(tmp_path):
    """A model that opens one box and gives up, and calls nothing else: right where nothing is to be called."""

    def answer(prompt):
        found = re.search(r"Start with the (\w+) box", prompt)
        return Calls((("open_box", {"colour": found[1]}),)) if found else "I cannot tell."

    with FakeServer(answer) as server:
        line = ("run", "--model", "gpt-4o", "--dataset", "fresh:tools:2:count=20", "--output", "out", "--yes")
        done = run(*line, cwd=tmp_path, **server.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    right = {row["category"]: float(row["score"]) for row in read_csv(tmp_path / "out" / "trials.csv")}
    assert right == {"one": 0, "several": 0, "none": 1, "search": 0, "prices": 0}
    assert len(server.ledger) == 24


@pytest.mark.parametrize("name", ["fresh:tools:free", "fresh:dialogue:choice", "fresh:3:tools", "fresh:tools:11", "fresh:songs"])
def test_what_there_is_not_is_named(name):
    with pytest.raises(DatasetError, match=r"is no level|levels go from"):
        load_dataset(name)


@pytest.mark.parametrize("family", ["tools", "dialogue"])
def test_an_audit_takes_none_for_another(family):
    """Two conversations that begin alike are two."""
    found = audit(load_dataset(f"fresh:{family}:6:count=200"))
    assert [finding for finding in found.findings if finding.kind == "duplicates"] == []
