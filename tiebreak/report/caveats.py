"""What to bear in mind when reading a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from tiebreak.core.batch import BATCH_PRICE
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Protocol
from tiebreak.core.work import WorkOutcome
from tiebreak.report.summary import ContestantSummary, Summary

_FEW = 20
_COMPARED = {"dataset_digest": "samples", "scorers": "scorers", "seed": "seed", "tasks": "rules for coding tasks"}
"""Parts of a protocol that must be the same for two results to be compared, and what people call them."""


def caveats(summary: Summary) -> list[str]:
    """Lines to be read with the verdict; none when everything is as it should be."""
    found = []
    if unequal_settings([c.model for c in summary.tested]):
        found.append("the models were asked with different settings")
    if summary.info.pace.batch:
        found.append(f"answers from batches cost {BATCH_PRICE:.0%} of the usual price, and how long they took says nothing")
    found += [f"{remembered_words(c.label, c.remembered)}: they say how it answered then" for c in summary.tested if c.remembered]
    found += [_stopped(c) for c in summary.tested if c.cut_off or c.exhausted]
    ranked = summary.ranked
    if len(ranked) > 1 and summary.common_samples < ranked[0].planned_samples and not summary.unseen:
        found.append(
            f"{summary.common_samples:,} of {ranked[0].planned_samples:,} samples were answered by all that are ranked; "
            "each pair is compared on the samples both answered"
        )
    if ranked and 0 < summary.common_samples < _FEW:
        samples = "One sample is" if summary.common_samples == 1 else f"{summary.common_samples} samples are"
        found.append(f"{samples} an anecdote: hardly any difference could be shown")
    if summary.info.protocol.choose_on and summary.chosen is None and ranked:
        found.append("nothing was chosen on one half: that takes two contestants and samples, or groups of them, in both halves")
    if summary.chosen is not None:
        found.append("the tables are of all samples, on which the best of many looks better than it is")
    return [*found, *_work_caveats(summary)]


def remembered_words(label: str, count: int) -> str:
    """How many answers were given in an earlier run."""
    answers = "one answer of {} is" if count == 1 else f"{count:,} answers of {{}} are"
    return f"{answers.format(label)} of an earlier run (--cache or --replay)"


def _stopped(contestant: ContestantSummary) -> str:
    """Answers that count as wrong because they were too long, or their questions were."""
    limit = contestant.model.sent.get("max_tokens")
    at = f" at {limit:,} tokens" if isinstance(limit, int) else ""
    parts = [f"{contestant.cut_off:,} cut off{at}"] if contestant.cut_off else []
    parts += [f"{contestant.exhausted:,} out of context"] if contestant.exhausted else []
    return f"of the answers of {contestant.label}, {' and '.join(parts)} count as wrong"


def _work_caveats(summary: Summary) -> list[str]:
    attempts = [attempt for c in summary.contestants if c.work for attempt in c.work.attempts]
    isolations = [attempt.work.isolation for attempt in attempts]
    found = []
    if len({a.sample for a in attempts}) == 1 and summary.info.planned == 1:
        found.append("one task, run once, is an anecdote: --repeats and more tasks make it a comparison")
    for level, missing in sorted({(own.level, own.missing) for own in isolations if own.level}):
        if level != "bubblewrap":
            found.append(f"not fully sandboxed: the work ran with isolation {level!r}")
        if missing:
            found.append(f"limits that could not be set here: {', '.join(missing)}")
    unchecked = sorted({a.task for a in attempts if a.outcome is WorkOutcome.UNCHECKED})
    if unchecked:
        found.append(f"without a check, and so not judged: {', '.join(unchecked)}")
    return found


def unequal_settings(models: Sequence[ModelRef]) -> bool:
    """Whether the models, references aside, were asked with different settings, besides those that are compared."""
    return len({_common_settings(model) for model in models if not model.reference}) > 1


def _common_settings(model: ModelRef) -> str:
    return str(sorted((name, value) for name, value in model.settings.items() if name not in model.variant))


def protocol_differences(one: Protocol, other: Protocol) -> list[str]:
    """What keeps two results from being compared: the parts in which their protocols differ."""
    return [words for name, words in _COMPARED.items() if getattr(one, name) != getattr(other, name)]
