"""A run as one page that works from disk, offline: verdict, tables, charts, every sample, how it was made.

Nothing a model wrote becomes mark-up: the template escapes what it prints, and what the page's own script shows is
carried as compressed data and put in place as text.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup

from tiebreak.core.files import atomic_writer
from tiebreak.report.browse import Census, Previews, SampleFacts, SampleView, most_telling, sample_facts, view_samples
from tiebreak.report.overview import browser, overview
from tiebreak.report.summary import Summary
from tiebreak.store.reader import StoreReader

if TYPE_CHECKING:
    from jinja2 import Environment

REPORT_HTML = "comparison_report.html"
TEMPLATES = Path(__file__).parent / "templates"
_MOST_TRIALS = 20_000
"""A page with more answers than this would be too heavy to open or to mail."""
_MOST_CHARACTERS = 24_000_000
_BATCH = 500
_NO_WAY_OUT = "base-uri 'none'; form-action 'none'"
_LONGEST, _SHORTEST = 2_000, 200


def write_page(reader: StoreReader, summary: Summary, path: Path) -> Path:
    """Write the page, whole or not at all."""
    page = report_page(reader, summary).encode("utf-8", "replace")
    with atomic_writer(path) as file:
        file.write(page)
    return path


def report_page(reader: StoreReader, summary: Summary) -> str:
    """The whole page."""
    census, per_sample = Census(), len(summary.contestants) * max(1, summary.info.protocol.repeats)
    chosen = most_telling(census.of(sample_facts(reader, summary)), max(1, _MOST_TRIALS // max(1, per_sample)))
    most = _cut(sum(f.trials.count(",") + 1 for f in chosen))
    previews = Previews(reader)
    style, script = asset("page.css"), asset("page.js")
    return render(
        "report.html",
        **overview(reader, summary),
        **browser(summary, census),
        shown=len(chosen),
        cut=most,
        answers=reader.answers,
        data=_packed(view_samples(reader, summary, some, most, previews) for some in _in_batches(chosen)),
        style=Markup(style),  # noqa: S704 -- our own file
        script=Markup(script),  # noqa: S704 -- our own file
        policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; {_NO_WAY_OUT}",
    )


def _cut(trials: int) -> int:
    return max(_SHORTEST, min(_LONGEST, _MOST_CHARACTERS // max(1, trials)))


def _in_batches(chosen: Sequence[SampleFacts]) -> Iterator[Sequence[SampleFacts]]:
    """So many at a time that their texts never weigh much."""
    return (chosen[start : start + _BATCH] for start in range(0, len(chosen), _BATCH))


def _packed(batches: Iterable[Sequence[SampleView]]) -> str:
    """Data in a page: compressed, and spelled in letters that mean nothing to a parser."""
    squeezed = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    pieces, separator = [squeezed.compress(b"[")], b""
    for batch in batches:
        # Encoded together and without the brackets of the list.
        pieces.append(squeezed.compress(separator + msgspec.json.encode(batch)[1:-1]))
        separator = b","
    pieces += [squeezed.compress(b"]"), squeezed.flush()]
    return base64.b64encode(b"".join(pieces)).decode()


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
