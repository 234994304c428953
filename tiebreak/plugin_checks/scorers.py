"""Checks of a scorer: it gives a score from 0 to 1, whatever a model says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tiebreak.core.message import user
from tiebreak.core.protocols import Scorer
from tiebreak.core.sample import Keywords, Sample
from tiebreak.core.trial import Outcome, Output, Score
from tiebreak.plugin_checks.context import ScriptedContext, Unscripted
from tiebreak.plugin_checks.findings import (
    Attribute,
    Finding,
    check_attributes,
    check_methods,
    flag,
    named,
    passed,
    run_within,
    short,
    texts,
    unproven,
    wrong,
)
from tiebreak.registry import load_dataset, make_scorer

_DEADLINE_S = 10.0
_SAMPLES_OF_A_DATASET = 5

ODD_TEXTS: Mapping[str, str] = {
    "the target": "42",
    "an empty answer": "",
    "white space": " \n\t ",
    "a wrong answer": "I do not know.",
    "a long answer": "word " * 100_000,
    "one long line of digits": "9" * 10_000,
    "numbers that are none": "1e999 -inf nan 0x2A ４２ ½ 1,2,3.4.5",
    "deep brackets": "[" * 10_000,
    "broken JSON": '{"answer": 42, ',
    "an unclosed code block": "```python\nprint(",
    "control characters": "\x00\x1b[31m42\x7f\ufeff",
    "half a character": "\ud800 42",
    "emoji and right-to-left text": "👩‍👩‍👧 \u202e24\u202c مرحبا",
    "a regular expression": "(a+)+$ .* [",
}
"""What models have been seen to say, and worse, by what it is."""

_SAMPLE = Sample(
    id="scripted",
    messages=(user("What is 6 × 7?"),),
    targets=("42",),
    choices=("42", "7"),
    keywords=Keywords(accept=("42",)),
)
_KNOWN_NEEDS = frozenset({"targets", "choices", "keywords"})
_NEEDS_A_RUN = {
    "needs_judge": "it asks a judge",
    "needs_workspace": "it judges a coding task's workspace",
    "reads_likelihoods": "it reads likelihoods",
}


def check(name: str, dataset: str = "") -> Iterator[Finding]:
    """Everything about a scorer, judged on a dataset's samples or on a scripted one."""
    scorer: Any = make_scorer(name)
    yield passed("it can be made")
    version = Attribute("version", "a whole number", lambda value: type(value) is int)
    flags = (flag("reads_likelihoods"), flag("needs_judge"), flag("needs_workspace"))
    yield from check_attributes(scorer, (version, texts("needs"), *flags))
    problems = list(check_methods(scorer, {"score": ("sample", "output", "context")}))
    yield from problems
    if any(problem.is_wrong for problem in problems):
        return
    reason = next((reason for attribute, reason in _NEEDS_A_RUN.items() if getattr(scorer, attribute) is True), "")
    if reason:
        yield unproven(f"{reason}: its scores are proven only in a run")
    elif not dataset and scorer.needs and not _KNOWN_NEEDS & set(scorer.needs):
        yield unproven(f"it judges by {', '.join(scorer.needs)}: name a dataset that has it with --dataset")
    else:
        yield from _check_scores(scorer, dataset)


def _check_scores(scorer: Scorer, dataset: str) -> Iterator[Finding]:
    problems: list[Finding] = []
    scored = 0
    for sample in _samples(dataset):
        for what, text in {**ODD_TEXTS, "the sample's target": sample.target}.items():
            try:
                problem = _problem(scorer, sample, text)
            except Unscripted as error:
                yield unproven(f"it needs a run: {error}")
                return
            scored += 1
            if problem:
                problems.append(wrong(f"{what} (sample {sample.id}): {problem}"))
    yield from problems or [passed(f"a score from 0 to 1 for each of {scored} answers, empty, long and odd ones among them")]


def _samples(dataset: str) -> list[Sample]:
    if not dataset:
        return [_SAMPLE]
    loaded = load_dataset(dataset)
    return [loaded[position] for position in range(min(len(loaded), _SAMPLES_OF_A_DATASET))]


def _problem(scorer: Scorer, sample: Sample, text: str) -> str:
    output = Output(text=text, outcome=Outcome.ANSWERED)
    try:
        score = run_within(_DEADLINE_S, lambda: scorer.score(sample, output, ScriptedContext()))
    except Unscripted:
        raise
    except TimeoutError as error:
        return str(error)
    except Exception as error:
        return f"score raised {named(error)}"
    if not isinstance(score, Score):
        return f"score should return a Score; it returned {short(score)}"
    if not isinstance(score.value, int | float) or not math.isfinite(score.value) or not 0 <= score.value <= 1:
        return f"the value of a Score should be from 0 to 1; it is {short(score.value)}"
    return ""
