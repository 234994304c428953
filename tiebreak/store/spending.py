"""What was spent over many runs, by month and model: a ledger read from their stores."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebreak.core.errors import BenchmarkError
from tiebreak.store.reader import StoreReader

_LEDGER = """
    CREATE TABLE entries (
        entry TEXT PRIMARY KEY, run TEXT NOT NULL, month TEXT NOT NULL, model TEXT NOT NULL, judging INTEGER NOT NULL,
        tokens INTEGER NOT NULL, cost_usd REAL
    )
"""
# What a merged run has of its parts is the same entry: who looks at both counts it once.
_TRIALS = """
    SELECT id || finished_at, substr(finished_at, 1, 7), contestant,
        coalesce(input_tokens, 0) + coalesce(output_tokens, 0), cost_usd
    FROM trials WHERE cached = 0 AND (cost_usd IS NOT NULL OR input_tokens IS NOT NULL)
"""
_TIMINGS = "SELECT 'timing' || asked || model_s, ?, contestant, 0, cost_usd FROM timings"
_JUDGEMENTS = """
    SELECT 'judged' || trial || scorer || judge || at, substr(at, 1, 7), judge,
        coalesce(input_tokens, 0) + coalesce(output_tokens, 0), cost_usd FROM judgements WHERE calls > 0
"""
_PREFERENCES = """
    SELECT 'compared' || sample || first || second || scorer || judge || at, substr(at, 1, 7), judge,
        coalesce(input_tokens, 0) + coalesce(output_tokens, 0), cost_usd FROM preferences WHERE calls > 0
"""
_SUMS = """
    SELECT month, model, max(judging), count(DISTINCT run), count(*), total(tokens), total(cost_usd),
        sum(cost_usd IS NULL) FROM entries GROUP BY month, model, judging ORDER BY month DESC, total(cost_usd) DESC, model
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one model took in one month."""

    month: str
    model: str
    judging: bool
    """As a judge; else as a contestant."""
    runs: int
    calls: int
    """Trials, or verdicts, that were paid for."""
    tokens: int
    cost_usd: float
    """Of those whose price is known."""
    unknown: int
    """Trials, or verdicts, whose cost nobody knows."""


def spending(folders: Iterable[Path]) -> tuple[list[Spent], list[str]]:
    """The ledger of these runs, the last month first, and what could not be read. Local models cost nothing and are left out."""
    unread: list[str] = []
    # A database of its own on the disk: a ledger may have more entries than fit into memory.
    with contextlib.closing(sqlite3.connect("", isolation_level=None)) as ledger:
        ledger.execute(_LEDGER)
        for folder in folders:
            try:
                with StoreReader(folder, check=False) as reader:
                    _enter(ledger, reader)
            except BenchmarkError as error:
                unread.append(f"{folder.name}: {error}")
        rows = ledger.execute(_SUMS).fetchall()
    names = ("month", "model", "judging", "runs", "calls", "tokens", "cost_usd", "unknown")
    kinds = (str, str, bool, int, int, int, float, int)
    return [Spent(**{n: kind(v) for n, kind, v in zip(names, kinds, row, strict=True)}) for row in rows], unread


def _enter(ledger: sqlite3.Connection, reader: StoreReader) -> None:
    """Enter what one run spent; what another tool spent is not ours to count."""
    info = reader.info
    if info.protocol.imported:
        return
    hosted: dict[Any, str] = {
        reader.numbers[c.label]: c.model.label for c in info.contestants if not c.model.local and not c.reference
    }
    judges: dict[Any, str] = {judge.label: judge.label for judge in info.protocol.judges if not judge.local}
    found = [
        (reader.rows(_TRIALS), hosted, 0),
        (reader.rows(_TIMINGS, f"{info.created_at:%Y-%m}"), hosted, 0),
        (reader.rows(_JUDGEMENTS), judges, 1),
        (reader.rows(_PREFERENCES), judges, 1),
    ]
    with ledger:  # Of a store that turns out to be damaged, nothing is entered.
        ledger.execute("BEGIN")
        for rows, models, judging in found:
            entries = (
                (entry, info.run_id, month, models[who], judging, tokens, cost)
                for entry, month, who, tokens, cost in rows
                if who in models
            )
            ledger.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", entries)
