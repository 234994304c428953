"""A run as a small table with its verdict, for notebooks."""

from __future__ import annotations

from html import escape

from tiebreak.report.caveats import caveats
from tiebreak.report.summary import Summary
from tiebreak.report.table import cells, headings
from tiebreak.report.verdict import verdict


def html_snippet(summary: Summary) -> str:
    """The table and the sentences below it; whatever a model or a user wrote is escaped."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings(summary))
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(contestant, note=True))}</tr>"
        for contestant in summary.listed
    )
    notes = [f"Note: {caveat}." for caveat in caveats(summary)]
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in (*verdict(summary), *notes))
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{said}</div>"
