"""A run as JUnit XML: a suite per contestant, a case per trial. CI systems show it beside other tests."""

from __future__ import annotations

import io
import re
import sqlite3
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from tiebreak.core.files import atomic_writer
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.store.reader import StoreReader

_TRIALS = (
    "SELECT c.label, t.sample, t.repeat, t.category, t.outcome, t.score, t.answer, t.because, t.failure_kind, t.failure,"
    " t.model_s FROM trials t JOIN contestants c ON c.contestant = t.contestant WHERE t.superseded = 0"
    " ORDER BY t.contestant, t.sample, t.repeat"
)
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no place for, not even escaped."""


def write_junit(reader: StoreReader, summary: Summary, path: Path) -> None:
    """A wrong answer is a failure of its case, a trial that failed is an error; references are left out."""
    with atomic_writer(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
        xml = _Writer(XMLGenerator(text, encoding="utf-8", short_empty_elements=True))
        xml.begin("testsuites", name=summary.info.run_id)
        tested = {contestant.label: contestant for contestant in summary.tested}
        for label, rows in groupby(reader.records(_TRIALS), key=lambda row: row["label"]):
            if label in tested:
                xml.begin("testsuite", name=label, **_suite_counts(tested[label]))
                for row in rows:
                    _case(xml, label, row, answers=reader.answers)
                xml.end("testsuite")
        xml.end("testsuites")
        text.write("\n")
        text.detach()


def _suite_counts(contestant: ContestantSummary) -> dict[str, object]:
    wrong, seconds = contestant.answered - contestant.right, f"{contestant.model_seconds:.3f}"
    return {"tests": contestant.asked, "failures": wrong, "errors": contestant.failed + contestant.unjudged, "time": seconds}


def _case(xml: _Writer, label: str, row: sqlite3.Row, *, answers: bool) -> None:
    name = row["sample"] if not row["repeat"] else f"{row['sample']} #{row['repeat'] + 1}"
    xml.begin("testcase", classname=f"{label}.{row['category'] or 'all'}", name=name, time=f"{row['model_s'] or 0:.3f}")
    if row["outcome"] == "failed":
        xml.whole("error", row["failure"] or "", type=row["failure_kind"], message=_first_line(row["failure"]))
    elif (row["score"] or 0.0) < 1:
        said = f"score {row['score'] or 0:g}"
        if answers:
            got = row["answer"] if row["answer"] is not None else row["outcome"].replace("_", " ")
            said += f": {row['because'] or ''}; got {got!r}"
        xml.whole("failure", said, type=row["outcome"], message=_first_line(said))
    xml.end("testcase")


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:200]


class _Writer:
    """XML in which any text may stand."""

    def __init__(self, xml: XMLGenerator) -> None:
        self._xml = xml
        xml.startDocument()

    def begin(self, element: str, **attributes: object) -> None:
        self._xml.startElement(element, AttributesImpl({key: _clean(value) for key, value in attributes.items()}))

    def end(self, element: str) -> None:
        self._xml.endElement(element)

    def whole(self, element: str, text: str, **attributes: object) -> None:
        self.begin(element, **attributes)
        self._xml.characters(_clean(text))
        self.end(element)


def _clean(value: object) -> str:
    return _FORBIDDEN.sub("\ufffd", str(value))
