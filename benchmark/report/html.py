"""A run as one page that works from disk, offline: verdict, tables, charts, every sample, how it was made.

Nothing a model wrote becomes mark-up: the template escapes what it prints, and what the page's own script shows is
carried as compressed data and put in place as text.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from benchmark.core.files import atomic_writer
from benchmark.report.batch import BatchSummary
from benchmark.report.browse import SampleFacts, SampleView, sample_facts, view_samples
from benchmark.report.overview import browser, overview
from benchmark.report.summary import Summary
from benchmark.store.reader import StoreReader

if TYPE_CHECKING:
    from jinja2 import Environment

REPORT_HTML = "comparison_report.html"
TEMPLATES = Path(__file__).parent / "templates"
_MOST_TRIALS = 50_000
"""A page with more answers than this would be too heavy to open or to mail."""
_MOST_CHARACTERS = 24_000_000
_NO_WAY_OUT = "base-uri 'none'; form-action 'none'"
_LONGEST, _SHORTEST = 2_000, 200


def write_page(reader: StoreReader, summary: Summary, path: Path, batch: BatchSummary | None = None) -> Path:
    """Write the page, whole or not at all."""
    page = report_page(reader, summary, batch).encode("utf-8", "replace")
    with atomic_writer(path) as file:
        file.write(page)
    return path


def report_page(reader: StoreReader, summary: Summary, batch: BatchSummary | None = None) -> str:
    """The whole page."""
    facts = sample_facts(reader, summary)
    chosen = _chosen(facts, len(summary.models) * max(1, summary.info.protocol.repeats))
    most = _cut(sum(f.trials.count(",") + 1 for f in chosen))
    samples = view_samples(reader, summary, chosen, most)
    style, script = asset("page.css"), asset("page.js")
    return render(
        "report.html",
        **overview(reader, summary, batch),
        **browser(summary, facts),
        shown=len(chosen),
        cut=most,
        data=_packed(samples),
        style=Markup(style),  # noqa: S704 -- our own file
        script=Markup(script),  # noqa: S704 -- our own file
        policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; {_NO_WAY_OUT}",
    )


def _chosen(facts: list[SampleFacts], per_sample: int) -> list[SampleFacts]:
    """All samples, or where they are too many those that tell most: first where models disagree."""
    most = max(1, _MOST_TRIALS // max(1, per_sample))
    if len(facts) <= most:
        return facts
    kept = sorted(range(len(facts)), key=lambda place: (-facts[place].spread, place))[:most]
    return [facts[place] for place in sorted(kept)]


def _cut(trials: int) -> int:
    return max(_SHORTEST, min(_LONGEST, _MOST_CHARACTERS // max(1, trials)))


def _packed(samples: Sequence[SampleView]) -> str:
    """Data in a page: compressed, and spelled in letters that mean nothing to a parser."""
    squeezed = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = squeezed.compress(msgspec.json.encode(samples)) + squeezed.flush()
    return base64.b64encode(data).decode()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> str:
    """A file of ours that pages are made of."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def environment(*more: Path) -> Environment:
    """Where templates come from, ours and those of whoever adds some; everything they print is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([*more, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, *more: Path, **values: Any) -> str:
    """A template, filled in."""
    return environment(*more).get_template(template).render(values)
