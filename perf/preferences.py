"""How often pairwise verdicts are false, find a real preference, and how often the effects' intervals hold the truth.

Usage: python perf/preferences.py [RUNS]    (2000 by default, which takes about ten minutes)
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.preference_world import PreferenceWorld  # noqa: E402
from support.voted_world import too_few  # noqa: E402

from tiebreak.stats.preferences import Verdict, fit_preferences  # noqa: E402

PREFERRED = math.log(0.65 / 0.35)
"""One is preferred in 65 % of comparisons: 15 points more than half."""
BIASED = {"position": 0.8, "length": 0.5, "errors": 0.1}
WORLDS = {
    "equals, fair judge": PreferenceWorld((0.0, 0.0)),
    "equals, position bias": PreferenceWorld((0.0, 0.0), position=1.5),
    "equals, one writes twice as much, length bias": PreferenceWorld((0.0, 0.0), (0.5, -0.5), length=0.8),
    "equals, all biases": PreferenceWorld((0.0, 0.0), (0.5, -0.5), **BIASED),
    "equals, all biases, 50 samples": PreferenceWorld((0.0, 0.0), (0.5, -0.5), samples=50, **BIASED),
    "equals, all biases, 20 samples": PreferenceWorld((0.0, 0.0), (0.5, -0.5), samples=20, **BIASED),
    "four equals, all biases": PreferenceWorld((0.0,) * 4, (0.5, 0.2, -0.2, -0.5), **BIASED),
    "three equals and one better, ties": PreferenceWorld((0.0, 0.0, 0.0, 0.6), (0.3, 0.0, 0.0, -0.3), ties=0.3, **BIASED),
    "ten equals on circles": PreferenceWorld((0.0,) * 10, (0.5,) * 5 + (-0.5,) * 5, ring=True, **BIASED),
    "a 15-point preference": PreferenceWorld((PREFERRED, 0.0)),
    "a 15-point preference, position and length bias": PreferenceWorld((PREFERRED, 0.0), (-0.3, 0.3), position=0.8, length=0.5),
    "a 15-point preference, also 5 % errors": PreferenceWorld(
        (PREFERRED, 0.0), (-0.3, 0.3), position=0.5, length=0.3, errors=0.05
    ),
}


def measure(world: PreferenceWorld, runs: int, seed: int = 1) -> tuple[int, int, int, int]:
    """Of so many runs: those with a false verdict, those that find every true one, and how many intervals hold the effects."""
    rng = np.random.default_rng([seed, world.samples, len(world.strengths)])
    effects = world.fitted_effects()
    true = {(a, b) for a in range(len(world.strengths)) for b in range(len(world.strengths)) if world.better(a, b)}
    false = found = position = length = 0
    for _ in range(runs):
        said = world.draw(rng)
        verdicts = [
            Verdict(first=one.first, second=one.second, points=one.points, longer=one.longer, cluster=one.sample) for one in said
        ]
        fitted = fit_preferences(verdicts, len(world.strengths))
        false += bool(fitted.better - true)
        found += true <= fitted.better
        assert fitted.length is not None
        for_position, for_length = (1 / (1 + math.exp(-effect)) for effect in effects)
        position += fitted.position.low <= for_position <= fitted.position.high
        length += fitted.length.low <= for_length <= fitted.length.high
    return false, found, position, length


def main() -> None:
    """A line per world; a star where an exact test at 1 % rejects 5 % false verdicts, or 95 % coverage."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print("false   found   position length covered")
    for name, world in WORLDS.items():
        false, found, position, length = measure(world, runs)
        too_many = any(too_few(right, runs) < 0.01 for right in (runs - false, position, length))
        shares = "  ".join(f"{count / runs:.4f}" for count in (false, found, position, length))
        print(f"{shares}  {name}{' *' * too_many}", flush=True)


if __name__ == "__main__":
    main()
