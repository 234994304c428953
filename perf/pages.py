"""How long the report page and the viewer's pages take.

    python perf/pages.py               # prints the figures

The report of ten models on a thousand samples, and pages of a run of two models on fifty thousand that has
kept nothing, as one that still goes on; for one at rest see perf/large.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

from support.made import Planted, Trials, samples, write_run  # noqa: E402

from tiebreak.pipeline import rebuild  # noqa: E402
from tiebreak.viewer.run_view import RunView  # noqa: E402

_WORDS = (HERE.parent / "README.md").read_text(encoding="utf-8").split()
_ASKED = {"q": "", "only": "", "category": "", "sort": "sample", "page": 0, "per_page": 25}


def made(folder: Path, models: int, count: int) -> Path:
    """A run with answers of three hundred characters."""
    chance = Random(1)
    contestants = [
        Planted(
            label=f"model-{number}",
            planted=[float(chance.random() < 0.5 + number / 25) for _ in range(count)],
            seconds=[chance.lognormvariate(0, 0.5) for _ in range(count)],
            texts=[" ".join(chance.choices(_WORDS, k=60))[:300] for _ in range(count)],
        )
        for number in range(models)
    ]
    return write_run(folder, contestants, Trials(samples(count)))


def timed(what: str, act: Callable[[], object]) -> None:
    """Do it once and say how long it took."""
    began = time.perf_counter()
    act()
    print(f"{what:<44}{1000 * (time.perf_counter() - began):>9.0f} ms")


def main() -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as scratch:
        small = made(Path(scratch) / "small", 10, 1000)
        timed("report of 10 models x 1,000 samples", lambda: rebuild(small))
        print(f"{'its size':<44}{(small / 'comparison_report.html').stat().st_size / 1e6:>9.2f} MB")
        watched = RunView(made(Path(scratch) / "large", 2, 50_000))
        timed("viewer, 2 x 50,000: the first look", lambda: watched.page.get(watched.stamp()))
        for name, asked in {
            "a page": {"page": 1000},
            "a page of a filter": {"only": "disagree", "page": 200},
            "a first page in another order": {"sort": "apart"},
            "a search": {"q": "exact paired"},
            "its second page": {"q": "exact paired", "page": 1},
        }.items():
            timed(f"viewer, 2 x 50,000: {name}", lambda asked=asked: watched.samples(**{**_ASKED, **asked}))  # type: ignore[misc]


if __name__ == "__main__":
    main()
