"""How often `tiebreak history` gives a false alarm, and how soon it finds another model. The figures of docs/ci.md.

python perf/drift.py [--runs 1000]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from stats.test_drift import history  # noqa: E402

from tiebreak.stats.drift import drifts  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    rng = np.random.default_rng(1)
    for moving in (0.0, 0.3, 1.0):
        false = sum(bool(drifts(history(rng, runs=50, samples=200, moving=moving), {})) for _ in range(runs))
        print(f"quiet histories of 50 runs, {moving:.0%} of the samples vary: {false / runs:.1%} with a false alarm")
    for lost in (0.05, 0.1, 0.2, 0.4):
        delays = []
        for _ in range(max(20, runs // 5)):
            found = drifts(history(rng, runs=40, samples=200, moving=0.3, change=10, lost=lost), {})
            delays.append(found[0].shown - 9 if found and found[0].shown >= 10 else np.inf)
        half, most = np.quantile(delays, [0.5, 0.9], method="higher")
        share = np.mean(np.isfinite(delays))
        print(f"{lost:.0%} of the samples lost: found in {share:.0%} of 30 runs, after {half:g} runs in half, {most:g} in 90 %")


if __name__ == "__main__":
    main()
