"""How often corrected means hold the true one, and how wide they are beside the votes alone.

Usage: python perf/corrected.py [RUNS]    (2000 by default, which takes most of an hour)
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.voted_world import GradedWorld, VotedWorld, too_few  # noqa: E402

from tiebreak.stats.corrected import correct_mean  # noqa: E402

NAMED = [(0.9, 0.05, 0.05), (0.95, 0.02, 0.02), (0.7, 0.1, 0.1)]
OTHERS = [
    *((mean, error, error) for mean in (0.5, 0.7, 0.9, 0.95, 0.98) for error in (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)),
    *((mean, 0.02, 0.3) for mean in (0.5, 0.7, 0.9)),
    *((mean, 0.3, 0.02) for mean in (0.5, 0.7, 0.9)),
]


def textbook(verdicts: list[float], votes: dict[int, float]) -> tuple[float, float]:
    """The usual normal interval of prediction-powered inference, to compare with."""
    all_verdicts, places = np.array(verdicts), list(votes)
    off = np.array([votes[place] for place in places]) - all_verdicts[places]
    mean = all_verdicts.mean() + off.mean()
    error = np.sqrt(all_verdicts.var(ddof=1) / len(all_verdicts) + off.var(ddof=1) / len(off))
    return mean - 1.96 * error, mean + 1.96 * error


def measure(world: VotedWorld, runs: int, seed: int = 1) -> tuple[int, float, float, int]:
    """Of so many runs: how many intervals hold the mean, their mean width, that by the votes alone, and how many hold it by
    the textbook."""
    covered, corrected, alone, normal = 0, 0.0, 0.0, 0
    for verdicts, votes in world.draws(runs, seed):
        found = correct_mean(verdicts, votes)
        assert found is not None
        covered += found.low <= world.mean <= found.high
        corrected += found.high - found.low
        alone += found.by_votes.high - found.by_votes.low
        low, high = textbook(verdicts, votes)
        normal += low <= world.mean <= high
    return covered, corrected / runs, alone / runs, normal


def main() -> None:
    """A line per world; a star where coverage is below 95 % by an exact test at 1 %, or widths are above 1.05."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    sizes = [(2000, 50), (200, 50), (60, 50), (500, 20)]
    worlds: list[VotedWorld] = [VotedWorld(*named, 2000, 50) for named in NAMED]
    worlds += [VotedWorld(*errors, samples, votes) for samples, votes in sizes for errors in OTHERS]
    worlds += [
        GradedWorld(mean, error, error, 1000, votes) for mean in (0.5, 0.8, 0.95) for error in (0.05, 0.3) for votes in (20, 50)
    ]
    print("mean  missed passed samples votes  covered  p       width  / votes alone  textbook covers")
    for world in worlds:
        covered, width, alone, normal = measure(world, runs)
        p = too_few(covered, runs)
        star = " *" * (p < 0.01) + " wide" * (width > 1.05 * alone)
        sizes_shown = f"{world.mean:.2f}  {world.missed:.2f}   {world.passed:.2f}   {world.samples:7d} {world.votes:5d}"
        kind = " graded" if isinstance(world, GradedWorld) else ""
        print(
            f"{sizes_shown}  {covered / runs:.4f}  {p:.4f}  {width:.4f} {width / alone:.3f}  {normal / runs:.4f}{kind}{star}",
            flush=True,
        )


if __name__ == "__main__":
    main()
