"""The files of a run, cell by cell."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from tiebreak.report.tabular import _csv_line
from tiebreak.report.work_files import guarded_cell

HOSTILE = st.text(st.sampled_from("a,\"\r\n\t =+-@'\x00é“\ufeff")) | st.text()
CELL = HOSTILE | st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(row=st.lists(CELL, min_size=2, max_size=6))
def test_a_line_is_what_the_csv_module_writes(row: list[str | int | float | None]) -> None:
    """With the cells guarded that a spreadsheet would run."""
    written = io.StringIO(newline="")
    csv.writer(written).writerow([guarded_cell(cell) if isinstance(cell, str) else cell for cell in row])
    assert _csv_line(("the id", *row)) == written.getvalue()
