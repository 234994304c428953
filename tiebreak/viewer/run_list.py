"""The list of runs: who leads in each, at what score and cost, how far it is; and two of them compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiebreak.core.errors import UsageError
from tiebreak.core.run import RunInfo
from tiebreak.report.baseline import Baseline, baseline_of
from tiebreak.report.changes import Change, changes, check_protocols, unmatched
from tiebreak.report.money import dollars
from tiebreak.report.summary import ContestantSummary, Summary, summarise
from tiebreak.report.verdict import probability
from tiebreak.store.batches import waiting_batches
from tiebreak.store.folder import is_running, run_label
from tiebreak.store.reader import StoreReader

MOST_SUMMED_UP = 20_000
"""Trials of a finished run without reports that are summed up for the list; a larger one shows no leader."""
_RESULT = ("leader", "score", "score_value", "cost", "cost_value")
_SHOWN = 20
"""Most samples that are named of those that were fixed, or broken."""


def list_row(folder: Path, info: RunInfo, done: int, result: Summary | None) -> dict[str, Any]:
    """What the list says of a run; who leads only once it is at its end, so that the list is no look at a comparison."""
    planned = info.planned * len(info.contestants)
    going = is_running(folder)
    return {
        "problem": "",
        "label": run_label(folder),
        "dataset": info.protocol.dataset.removeprefix("tasks:").rpartition("/")[2] or info.protocol.dataset,
        "contestants": ", ".join(contestant.label for contestant in info.contestants),
        "at": f"{info.created_at:%Y-%m-%d %H:%M}",
        "done": done,
        "planned": planned,
        "state": "running" if going else "finished" if done >= planned else _unfinished(folder),
        **(_result(result) if result and not going else dict.fromkeys(_RESULT, "")),
    }


def _unfinished(folder: Path) -> str:
    lines = sum(waiting.lines for waiting in waiting_batches(folder))
    return f"waiting for {lines:,} answers in batches" if lines else "not finished"


def result_of(reader: StoreReader, done: int) -> Summary | None:
    """The result of a run that is at its end: as it was kept, or summed up where that is quick."""
    if done < reader.info.planned * len(reader.info.contestants):
        return None
    kept: Summary | None = reader.figures("summary", Summary)
    return kept or (summarise(reader, so_far=False, seen=True) if done <= MOST_SUMMED_UP else None)


def _result(summary: Summary) -> dict[str, Any]:
    top = _top(summary)
    best = top[0] if top else None
    usd, known = total_cost(summary.contestants)
    return {
        "leader": leader_words(summary, top),
        "score": f"{best.score:.2f} [{best.low:.2f}, {best.high:.2f}]" if best and best.score is not None else "",
        "score_value": best.score if best and best.score is not None else "",
        "cost": "unknown" if not known and not usd else f"{'' if known else '≥ '}{dollars(usd)}" if usd else "local",
        "cost_value": usd,
    }


def _top(summary: Summary) -> list[ContestantSummary]:
    """Those of the first tier; where nobody is ranked, whoever has a score, the best first."""
    labels = set(summary.tiers[0]) if summary.tiers else set()
    some = [c for c in summary.contestants if c.label in labels] or [c for c in summary.contestants if c.score is not None]
    return sorted(some, key=lambda c: -(c.score or 0.0))


def leader_words(summary: Summary, top: Sequence[ContestantSummary]) -> str:
    """Who leads; or between whom it is a tie; or who was alone."""
    if summary.leader:
        return summary.leader
    if len(top) > 1 and summary.tiers:
        return f"tie: {', '.join(c.label for c in top)}"
    return top[0].label if top else "nobody"


def total_cost(contestants: Sequence[ContestantSummary]) -> tuple[float, bool]:
    """Dollars that are known to have been spent, and whether that is all of them."""
    hosted = [c for c in contestants if not c.model.local]
    return sum(c.known_cost_usd or 0.0 for c in hosted), all(c.cost_usd is not None for c in hosted)


# --- two of them


def comparison(before: Path, after: Path) -> dict[str, Any]:
    """What changed from one finished run to another, contestant by contestant."""
    one, other = _finished(before), _finished(after)
    found = changes(one, other)
    return {
        "before": before.name,
        "after": after.name,
        "differing": check_protocols(one, other, force=True),
        "rows": [_change_row(change) for change in found],
        "notes": unmatched(one, other),
    }


def _finished(folder: Path) -> Baseline:
    with StoreReader(folder) as reader:
        done: int = next(reader.rows("SELECT count(*) FROM trials WHERE NOT superseded"))[0]
        if done < reader.info.planned * len(reader.info.contestants):
            raise UsageError(f"{folder.name} is not finished: it can be compared when it is.")
        return baseline_of(reader)


def _change_row(change: Change) -> dict[str, Any]:
    return {
        "label": change.label if change.was == change.label else f"{change.was} → {change.label}",
        "samples": change.samples,
        "before": f"{change.before:.2f}",
        "after": f"{change.after:.2f}",
        "points": f"{100 * change.difference:+.1f} [{100 * change.low:+.1f}, {100 * change.high:+.1f}]",
        "p": probability(change.p_corrected).removeprefix("p = ").removeprefix("p "),
        "sentence": change.sentence,
        "broken": change.broken[:_SHOWN],
        "fixed": change.fixed[:_SHOWN],
        "more_broken": max(0, len(change.broken) - _SHOWN),
        "more_fixed": max(0, len(change.fixed) - _SHOWN),
    }
