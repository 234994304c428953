"""A run as Markdown: for a pull request, or for the summary page of a CI job."""

from __future__ import annotations

from tiebreak.report.caveats import caveats
from tiebreak.report.summary import Summary
from tiebreak.report.table import cells, headings
from tiebreak.report.verdict import verdict
from tiebreak.report.work_files import guarded_cell

_LIVE = str.maketrans({**{mark: f"\\{mark}" for mark in "\\`*[]|#~"}, "<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "})
"""Characters that mean something in Markdown; a model's label is only text."""


def markdown_report(summary: Summary) -> str:
    """Verdict, table and caveats."""
    info = summary.info
    parts = [
        f"### {plain(info.protocol.dataset.rpartition('/')[2])}",
        " ".join(f"**{plain(said)}**" if i == 0 else plain(said) for i, said in enumerate(verdict(summary))),
        markdown_table(summary),
        *(f"> {plain(caveat)}." for caveat in caveats(summary)),
        f"<sub>{plain(info.run_id)}, {plain(info.made_with)}</sub>",
    ]
    return "\n\n".join(parts) + "\n"


def markdown_table(summary: Summary) -> str:
    """The comparison table alone."""
    names = headings(summary)
    lines = ["| " + " | ".join(names) + " |", "|---|---|" + "---:|" * (len(names) - 2)]
    for contestant in summary.listed:
        name, provider, *numbers = cells(contestant, note=True)
        lines.append("| " + " | ".join((plain(guarded_cell(name)), plain(provider), *numbers)) + " |")
    return "\n".join(lines)


def plain(text: str) -> str:
    """The text with nothing in it that Markdown or HTML would act on."""
    return text.translate(_LIVE)
