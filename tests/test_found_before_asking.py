"""What could never come out right is refused before anything is asked, by a sentence that says what to change."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tiebreak
from tiebreak.core.errors import BenchmarkError, UsageError

TURNS = ["My name is Ada.", "What is my name?"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that says what it was asked, and would leave a trace."""
    (tmp_path / "m.json").write_text(json.dumps({"answers": [{"text": "42 please"}]}))
    return "scripted/m.json"


def code(name: str, text: str) -> str:
    Path(name).write_text(textwrap.dedent(text))
    return f"./{name}"


def run(model: str, *rows: Mapping[str, Any], **options: Any) -> tiebreak.Run:
    dataset = [{"id": f"r{n}", **({} if "turns" in row else {"input": "Hi"}), **row} for n, row in enumerate(rows)]
    return tiebreak.run(models=model, dataset=dataset, **options)


def refused(model: str, words: str, *rows: Mapping[str, Any], **options: Any) -> None:
    with pytest.raises(UsageError, match=words):
        run(model, *rows, **options)
    assert not list(Path.cwd().glob("*/run*"))


# --- targets that no answer meets -------------------------------------------------------------------


def test_a_word_is_no_target_for_numbers(model: str) -> None:
    """In the row, by the flag, in a later row, and at a turn."""
    words = "'numeric' cannot judge the sample 'r{}': the target 'Ada' is no number"
    refused(model, words.format(0), {"target": "Ada", "scorer": "numeric"})
    refused(model, words.format(1), {"target": "7"}, {"target": "Ada"}, scorers="numeric")
    turns = {"turns": TURNS, "turn_targets": [42, "Ada"]}
    refused(model, words.format(0), {**turns, "scorer": "numeric"})
    refused(model, words.format(0), turns, scorers="numeric")


@pytest.mark.parametrize("target", ["42", 42, "forty-two", ["about right", "42"], "$42.00", "4,200 %"])
def test_numbers_are_numbers_however_they_are_written(target: object, model: str) -> None:
    assert run(model, {"target": target, "scorer": "numeric"}).complete


def test_turns_with_numbers_and_words_are_judged_as_words(model: str) -> None:
    """The first judged turn is a number, and a later one is not: the number alone must not decide."""
    done = run(model, {"turns": TURNS, "turn_targets": [42, "please"]})

    assert done.contestants[0].score == 1.0


def test_turns_have_no_choices(model: str) -> None:
    refused(model, "'choice' judges by choices", {"turns": TURNS, "turn_targets": [None, "A"], "scorer": "choice"})


# --- functions of one's own -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asserted",
    [
        [{"type": "python", "value": "polit"}],
        [{"type": "not-python", "value": "polit"}],
        [{"type": "assert-set", "assert": [{"type": "contains", "value": "x"}, {"type": "python", "value": "polit"}]}],
    ],
)
def test_an_assertion_by_a_function_that_is_not_there(asserted: list[dict[str, Any]], model: str) -> None:
    checks = code("checks.py", "def polite(text, sample): return True")

    refused(model, "no function 'polit'; it has polite", {"assert": asserted}, scorers=f"assert:{checks}")
    assert run(model, {"assert": [{"type": "python", "value": "polite"}]}, scorers=f"assert:{checks}").complete


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "none must take a sample and a text, as in function.sample, text.: too many positional"),
        ("three", "three must take a sample and a text, as in function.sample, text.: missing a required argument"),
        ("value", "is no function, but int"),
    ],
)
def test_a_scorer_that_cannot_be_called(name: str, words: str, model: str) -> None:
    place = code("own.py", "def none(): return 1\ndef three(a, b, c): return 1\nvalue = 5\n")

    refused(model, words, {"target": "x"}, scorers=f"{place}:{name}")


@pytest.mark.parametrize("value", [7, -0.1, float("nan"), float("inf"), "yes", None])
def test_a_score_is_from_0_to_1(value: object, model: str) -> None:
    """A grade of 7 of 10 is not a right answer: the trial has no score, and says why."""
    done = run(model, {"target": "x"}, scorers=[lambda sample, text: value])

    [trial] = done.trials()
    assert (trial.outcome, trial.failure_kind) == ("failed", "verifier")
    assert "right or wrong, or a number from 0 to 1" in trial.failure


# --- tools that are functions ------------------------------------------------------------------------

TOOL = {"tools": [{"name": "weather"}], "expected_calls": []}


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ("", TOOL, "tools.py defines no function that could answer a tool"),
        ("import json\nLIMIT = 3\n", TOOL, "tools.py defines no function"),
        ("def wether(city): ...", TOOL, "are wether, and the samples' tools are weather: a tool's function has its name"),
        ("def weather(city): ...", {"target": "42"}, "are weather, and no sample has a tool"),
    ],
)
def test_a_file_of_tools_that_does_not_fit(text: str, row: dict[str, Any], words: str, model: str) -> None:
    refused(model, words, row, agents=f"direct@tools={code('tools.py', text)}")


def test_a_file_of_tools_may_have_more_functions_than_are_called(model: str) -> None:
    tools = code("tools.py", "def weather(city): ...\ndef helper(): ...\n")

    assert run(model, TOOL, agents=f"direct@tools={tools}").complete


# --- agents of one's own -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "works_on = 'question'\n    async def run(self, sample, context): ...",
            "works_on must be a frozenset of 'question' and",
        ),
        ("works_on = 5\n    async def run(self, sample, context): ...", "works_on must be a frozenset"),
        ("works_on = frozenset({'questions'})\n    async def run(self, sample, context): ...", "works_on must be a frozenset"),
        ("works_on = frozenset({'question'})", "has no method run: write `async def run"),
        ("works_on = frozenset({'question'})\n    async def run(self, sample): ...", "run must take a sample and a context"),
        ("async def run(self, sample, context): ...", "works on coding tasks, and .* has questions only; its class says what"),
    ],
)
def test_an_agent_that_could_never_work(body: str, words: str, model: str) -> None:
    place = code("mine.py", f"class Mine:\n    {body}\n")

    refused(model, words, {"target": "x"}, agents=f"{place}:Mine")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("raise ValueError('oh no')", r"'./mine.py:Mine' raised ValueError: oh no \(\S+/mine.py, line 4\). Mend it and resume"),
        ("raise TimeoutError", r"raised TimeoutError: \(\S+/mine.py, line 4\)"),
        ("await context.ask(5)", r"raised TypeError: .* \(\S+/mine.py, line 4\)"),
        ("return None", r"returned None; run must return an Output of tiebreak.core.trial \(\S+/mine.py\)"),
    ],
)
def test_what_an_agent_raises_is_told_with_its_place(
    lines: str, words: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The contestant ends there, the others go on, and a mended agent goes on where it stopped."""
    head = "class Mine:\n    works_on = frozenset({'question'})\n    async def run(self, sample, context):\n        "
    agent = f"{code('mine.py', head + lines)}:Mine"
    done = run(model, {"target": "42"}, {"target": "42"}, agents=[agent, "direct"])

    failed, other = sorted(done.contestants, key=lambda one: one.state != "failed")
    assert (failed.state, failed.asked) == ("failed", 0)
    assert re.search(words, failed.message), failed.message
    assert (other.state, other.right) == ("finished", 2)
    assert "Traceback" not in "".join(capsys.readouterr())


def test_errors_of_ours_are_still_raised_as_such(model: str) -> None:
    with pytest.raises(BenchmarkError):
        run(model, {"target": "x"}, agents="./nothing.py:Mine")
