"""A row of the comparison table, as words; the terminal and Markdown show the same ones."""

from __future__ import annotations

from collections.abc import Sequence

from tiebreak.report.factors import Factor
from tiebreak.report.money import dollars
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.verdict import duration, probability

_LEAST_USD = 0.001
_HEADINGS = ("Provider", "Score", "Right", "Wrong", "No answer", "Failed", "Time", "Cost")


def noun(summary: Summary) -> str:
    """What is compared: plain models, or models with prompts, settings and agents."""
    plain = all(c.label == c.model.label for c in summary.contestants)
    return "model" if plain else "contestant"


def headings(summary: Summary) -> tuple[str, ...]:
    """The headings of the comparison table."""
    return (noun(summary).capitalize(), *_HEADINGS)


def cells(contestant: ContestantSummary, *, note: bool = False) -> tuple[str, ...]:
    """A contestant's row; `note` adds in words what the terminal shows by lines and colours."""
    name, provider = contestant.label, contestant.model.provider
    if note and not contestant.finished:
        name += f" ({contestant.state.replace('_', ' ')})"
    return (
        name,
        provider + (" (reference)" if contestant.reference and note else ""),
        score(contestant),
        str(contestant.right),
        str(contestant.wrong),
        str(contestant.no_answer),
        str(contestant.failed),
        duration(contestant.seconds) if contestant.seconds else "–",
        cost(contestant),
    )


def short_name(contestant: ContestantSummary) -> str:
    """Its name without who serves it or whose it is."""
    ref = contestant.model
    return contestant.label.removeprefix(f"{ref.provider}/").removeprefix(f"{ref.house}/")


def score(contestant: ContestantSummary) -> str:
    """The score with its interval, and with its count where not everything was asked.

    Both ends of the interval are written: near 0 and 1 it is not symmetric.
    """
    if contestant.score is None:
        return "–"
    n = "" if contestant.not_asked == 0 else f" n={contestant.answered}"
    return f"{contestant.score:.2f} [{contestant.low:.2f}, {contestant.high:.2f}]{n}"


def by_scorer(contestant: ContestantSummary) -> str:
    """The score by every scorer that judged, the one that ranks first."""
    return ", ".join(f"{name} {mean:.2f}" for name, mean in contestant.by_scorer.items())


def contestant_notes(summary: Summary) -> list[str]:
    """Why contestants did not get through, and what each scorer says, where several judged."""
    notes = []
    for contestant in summary.listed:
        if contestant.message and not contestant.decided:
            notes.append(f"{contestant.label}: {contestant.state.replace('_', ' ')}: {contestant.message}")
        if contestant.by_scorer:
            notes.append(f"{contestant.label} by scorer: {by_scorer(contestant)}")
    return notes


def factor_rows(factor: Factor) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The score at each level of a factor, and what it gains on the best one with all else equal."""
    best = factor.levels[0].level
    effects = {frozenset((effect.first, effect.second)): effect for effect in factor.effects}
    rows = []
    for level in factor.levels:
        effect = effects.get(frozenset((best, level.level)))
        sign = "" if effect is None or not effect.difference else "−" if effect.first == best else "+"
        against = "" if effect is None else f"{sign}{100 * effect.difference:.1f}, {probability(effect.p_corrected)}"
        shown = f"{level.mean:.2f} [{level.low:.2f}, {level.high:.2f}]"
        rows.append((level.level or f"no {factor.name}", shown, against, str(level.contestants)))
    return (factor.name.capitalize(), "Score", "Against the first", "Contestants"), rows


def cost(contestant: ContestantSummary) -> str:
    """Dollars, or at least so many; a local model costs none, and an unknown price is not none."""
    if contestant.model.local:
        return "local"
    if contestant.cost_usd is not None:
        return _total(contestant.cost_usd)
    return f"≥ {_total(contestant.known_cost_usd)}" if contestant.known_cost_usd else "unknown"


def _total(usd: float) -> str:
    """Four places, so that a column lines up; more where these would say nothing."""
    return f"${usd:.4f}" if usd >= _LEAST_USD or usd == 0 else dollars(usd)
