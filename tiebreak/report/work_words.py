"""What coding tasks say, in words; the terminal and the pages show the same ones."""

from __future__ import annotations

from collections.abc import Mapping

from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.table import cost
from tiebreak.report.work import TaskComparison, WorkSummary

MEDALS: Mapping[str, str] = {
    "fastest": "🏆 Fastest",
    "most_efficient": "💬 Most efficient",
    "most_autonomous": "🤖 Most autonomous",
}
HEADINGS = ("Model", "Solved", "First try", "Time", "Prompts", "Calls", "Tokens", "Cost", "Files", "Lines", "Outcome")


def podium(tasks: TaskComparison, ranking: str) -> str:
    """Who leads a ranking, and with what."""
    places = tasks.rankings[ranking]
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


def work_sentences(summary: Summary) -> list[str]:
    """What each contestant solved, in words."""
    return [_solved(c.label, c.work) for c in summary.contestants if c.work is not None and not c.reference]


def _solved(label: str, work: WorkSummary) -> str:
    helped = len(work.solved) - work.solved_alone
    said = f"{label} solved {work.solved_alone} of {work.planned} without help"
    return f"{said}, {helped} more with it." if helped else f"{said}."


def standing(summary: Summary) -> list[ContestantSummary]:
    """Who solved more comes first, then who was faster; controls last."""
    working = [(c, c.work) for c in summary.contestants if c.work is not None]
    working.sort(key=lambda pair: (pair[0].reference, -pair[1].solve_rate, pair[1].mean(lambda a: a.busy_s)))
    return [contestant for contestant, _ in working]


def work_cells(contestant: ContestantSummary) -> tuple[str, ...]:
    """A contestant's row of the table of coding tasks."""
    work = contestant.work or WorkSummary(planned=0)
    attempts, n = work.attempts, max(1, len(work.attempts))
    changes = [attempt.work.changes for attempt in attempts]
    return (
        contestant.label,
        f"{len(work.solved)}/{work.planned}",
        str(work.solved_alone),
        f"{sum(a.work.seconds for a in attempts) / n:.1f} s",
        _number(sum(a.work.prompts_sent for a in attempts) / n),
        _number(sum(a.work.model_calls for a in attempts) / n),
        f"{sum(a.tokens for a in attempts):,}",
        cost(contestant),
        str(sum(len(change.files) for change in changes)),
        f"+{sum(change.lines_added for change in changes)} −{sum(change.lines_removed for change in changes)}",
        ", ".join(f"{name.replace('_', ' ')}{f' {count}' if count > 1 else ''}" for name, count in work.outcomes.items()),
    )
