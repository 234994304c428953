"""Checks of a dataset: its samples are there by position, the same every time, each with an id of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiebreak.core.errors import BenchmarkError
from tiebreak.core.sample import Sample
from tiebreak.plugin_checks.findings import (
    Attribute,
    Finding,
    check_attributes,
    named,
    passed,
    short,
    text,
    texts,
    words,
    wrong,
)
from tiebreak.registry import load_dataset, make_scorer

_READ_TWICE = 200
_SHOWN = 3


def check(name: str) -> Iterator[Finding]:
    """Everything about a dataset."""
    dataset: Any = load_dataset(name)
    yield passed("it can be made")
    attributes = (text("name"), text("digest"), text("about"), texts("scorers"), words("kinds", ("question", "task")))
    declared = list(check_attributes(dataset, (*attributes, _numbers("shuffle", dataset), _numbers("categories", dataset))))
    yield from declared
    if any(finding.is_wrong for finding in declared):
        return
    if len(dataset) == 0:
        yield wrong("it has no samples")
        return
    yield from _check_samples(dataset)
    yield from _check_again(name, dataset)
    yield from _check_scorers(dataset)


def _numbers(name: str, dataset: Any) -> Attribute:
    def holds(value: Any) -> bool:
        return hasattr(value, "__getitem__") and len(value) == len(dataset)

    return Attribute(name, "a sequence with a number for each sample", holds)


def _check_samples(dataset: Any) -> Iterator[Finding]:
    """Every sample is read once; what is wrong is told for the first few."""
    problems: list[str] = []
    seen: dict[str, int] = {}
    for position in range(len(dataset)):
        problem = _problem(dataset, position, seen)
        if problem:
            problems.append(problem)
    for problem in problems[:_SHOWN]:
        yield wrong(problem)
    if len(problems) > _SHOWN:
        yield wrong(f"the same kind of mistake in {len(problems) - _SHOWN:,} more samples")
    if not problems:
        yield passed(f"{len(dataset):,} samples, each with a question, scorers and an id of its own")


def _problem(dataset: Any, position: int, seen: dict[str, int]) -> str:
    try:
        sample = dataset[position]
    except Exception as error:
        return f"sample {position} cannot be read: {named(error)}"
    if not isinstance(sample, Sample):
        return f"position {position} should hold a Sample; it holds {short(sample)}"
    first = seen.setdefault(sample.id, position)
    if first != position:
        return f"the id {sample.id!r} is used twice, at positions {first} and {position}"
    if not sample.messages and sample.task is None:
        return f"sample {sample.id!r} asks nothing: it has no messages"
    missing = [scorer for scorer in sample.scorers if scorer not in dataset.scorers]
    if missing or not sample.scorers:
        return f"sample {sample.id!r} has the scorers {sample.scorers}; the dataset's are {dataset.scorers}"
    return ""


def _check_again(name: str, dataset: Any) -> Iterator[Finding]:
    step = max(1, len(dataset) // _READ_TWICE)
    positions = range(0, len(dataset), step)
    again = load_dataset(name)
    changed = [position for position in positions if not _is_same(dataset, again, position)]
    if changed:
        yield wrong(f"the sample at position {changed[0]} is another one when it is read again; a run could not be resumed")
    elif again.digest != dataset.digest:
        yield wrong("its digest is another one when it is made again; a run could not be resumed")
    else:
        yield passed("read again, its samples and its digest are the same")


def _is_same(dataset: Sequence[Sample], again: Any, position: int) -> bool:
    try:
        first = dataset[position]
        return bool(first == dataset[position] == again[position])
    except Exception:
        return False


def _check_scorers(dataset: Any) -> Iterator[Finding]:
    for scorer in dataset.scorers:
        try:
            make_scorer(scorer)
        except BenchmarkError as error:
            yield wrong(str(error))
            return
    yield passed(f"its scorers are there: {', '.join(dataset.scorers)}")
