"""Every trial of a run as a Parquet file, for data frames."""

from __future__ import annotations

from pathlib import Path

from tiebreak.core.extras import optional
from tiebreak.core.files import atomic_writer
from tiebreak.report.tabular import COLUMNS, batches_of_trials
from tiebreak.store.reader import StoreReader

_WHOLE = frozenset({"repeat", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "in_flight", "attempts"})
_REAL = frozenset({"score", "second", "cost_usd", "model_s", "first_token_s", "first_answer_s", "queue_s", "retry_s"})


def write_parquet(reader: StoreReader, path: Path) -> None:
    """The columns of trials.csv, typed; texts as they were said."""
    pa, pq = (optional(name, extra="parquet", needed_by="Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    kinds = {
        name: pa.int64() if name in _WHOLE else pa.float64() if name in _REAL else pa.bool_() if name == "cached" else pa.string()
        for name in COLUMNS
    }
    schema = pa.schema(list(kinds.items()))
    with atomic_writer(path) as file, pq.ParquetWriter(file, schema) as writer:
        for rows in batches_of_trials(reader):
            columns = [
                pa.array([bool(cell) if name == "cached" else cell for cell in cells], kinds[name])
                for name, cells in zip(COLUMNS, list(zip(*rows, strict=True))[1:], strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
