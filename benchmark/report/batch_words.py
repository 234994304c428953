"""What a batch of coding tasks says, in words; the terminal and the pages show the same ones."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark.report.batch import BatchSummary, Contestant

MEDALS: Mapping[str, str] = {
    "fastest": "🏆 Fastest",
    "most_efficient": "💬 Most efficient",
    "most_autonomous": "🤖 Most autonomous",
}
HEADINGS = ("Model", "Solved", "First try", "Time", "Prompts", "Calls", "Tokens", "Cost", "Files", "Lines", "Outcome")


def podium(summary: BatchSummary, ranking: str) -> str:
    """Who leads a ranking, and with what."""
    places = summary.rankings[ranking]
    if not places:
        return "nobody solved anything"
    leaders = [place.label for place in places if place.rank == 1]
    name = " = ".join(leaders) + (" (a tie)" if len(leaders) > 1 else "")
    values = places[0].values
    if ranking == "fastest":
        return f"{name}, {values['seconds']:.1f} s a task"
    if ranking == "most_efficient":
        prompts, calls = _counted(values["prompts_sent"], "prompt"), _counted(values["model_calls"], "model call")
        return f"{name}, {prompts} and {calls} a task"
    return f"{name}, {1 - values['not_solved_without_help']:.0%} solved without help"


def _counted(value: float, word: str) -> str:
    return f"{_number(value)} {word}{'' if value == 1 else 's'}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def batch_sentences(summary: BatchSummary) -> list[str]:
    """What the batch says, in words."""
    said = [
        f"{c.label} solved {c.first_try} of {c.planned} without help"
        + (f", {len(c.solved) - c.first_try} more with it." if len(c.solved) > c.first_try else ".")
        for c in summary.contestants
        if not c.reference
    ]
    return [*said, *summary.caveats]


def standing(summary: BatchSummary) -> list[Contestant]:
    """Who solved more comes first, then who was faster; controls last."""
    return sorted(summary.contestants, key=lambda c: (c.reference, -c.solve_rate, c.mean(lambda a: a.busy_s)))


def batch_cells(c: Contestant) -> tuple[str, ...]:
    """A contestant's row of the table."""
    n = max(1, len(c.attempts))
    seconds = sum(a.work.seconds for a in c.attempts) / n
    tokens = sum(a.tokens for a in c.attempts)
    added, removed = (sum(getattr(a.work.changes, name) for a in c.attempts) for name in ("lines_added", "lines_removed"))
    return (
        c.label,
        f"{len(c.solved)}/{c.planned}",
        str(c.first_try),
        f"{seconds:.1f} s",
        _number(sum(a.work.prompts_sent for a in c.attempts) / n),
        _number(sum(a.work.model_calls for a in c.attempts) / n),
        f"{tokens:,}",
        "local" if c.model.local else "unknown" if c.cost_usd is None else f"${c.cost_usd:.4f}",
        str(sum(len(a.work.changes.files) for a in c.attempts)),
        f"+{added} −{removed}",
        ", ".join(f"{name.replace('_', ' ')}{f' {count}' if count > 1 else ''}" for name, count in c.outcomes.items()),
    )
