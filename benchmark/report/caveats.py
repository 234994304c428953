"""What to bear in mind when reading a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark.core.model import ModelRef
from benchmark.core.run import Protocol
from benchmark.report.summary import Summary

_FEW = 20
_COMPARED = {
    "dataset_digest": "samples",
    "template_digest": "prompt template",
    "scorers": "scorers",
    "agent": "agent",
    "seed": "seed",
    "follow_ups": "number of follow-ups",
}
"""Parts of a protocol that must be the same for two results to be compared, and what people call them."""


def caveats(summary: Summary) -> list[str]:
    """Lines to be read with the verdict; none when everything is as it should be."""
    found = []
    if unequal_settings([m.model for m in summary.contestants]):
        found.append("the models were asked with different settings")
    ranked = summary.ranked
    if len(ranked) > 1 and summary.common_samples < ranked[0].planned_samples:
        found.append(
            f"ranked on the {summary.common_samples:,} of {ranked[0].planned_samples:,} samples that every ranked model answered"
        )
    if ranked and 0 < summary.common_samples < _FEW:
        samples = "One sample is" if summary.common_samples == 1 else f"{summary.common_samples} samples are"
        found.append(f"{samples} an anecdote: hardly any difference could be shown")
    return found


def unequal_settings(models: Sequence[ModelRef]) -> bool:
    """Whether the models, references aside, were asked with different settings."""
    return len({str(sorted(model.settings.items())) for model in models if not model.reference}) > 1


def protocol_differences(one: Protocol, other: Protocol) -> list[str]:
    """What keeps two results from being compared: the parts in which their protocols differ."""
    return [words for name, words in _COMPARED.items() if getattr(one, name) != getattr(other, name)]
