"""How often verdicts are wrong in made-up worlds whose truth is known. The figures of docs/statistics.md come from here.

    python perf/verdicts.py [--runs 10000] [--only PART ...] [--processes 1]

Every part prints shares of runs. Where at most 5 % may be wrong, the exact binomial test against 5 % is printed too: a p
below 0.01 means that the bound does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.judged import (  # noqa: E402
    decided,
    engine_run,
    false_in,
    store_run,
    summary_of_draw,
    value_of,
    verdict_of,
)
from support.worlds import TEN_POINTS, VALUES, WORLDS, Draw, World, grown_while_looked_at  # noqa: E402

from tiebreak.report.summary import Summary  # noqa: E402
from tiebreak.stats.decision import decide  # noqa: E402
from tiebreak.stats.distributions import regularised_beta  # noqa: E402
from tiebreak.stats.paired import adjusted_interval, exact_sign_test  # noqa: E402
from tiebreak.stats.planning import samples_needed, smallest_difference_right_or_wrong  # noqa: E402
from tiebreak.stats.schedule import EXTENSION, Look, Schedule  # noqa: E402

Line = tuple[str, str]
_BOUND = 0.05


def false_share(wrong: int, runs: int, bound: float = _BOUND) -> str:
    """A share with the chance of so many or more, if the true one were at the bound."""
    p = 1.0 if wrong == 0 else regularised_beta(wrong, runs - wrong + 1, bound)
    return f"{wrong / runs:.2%} wrong (at most {bound:.0%}: {'holds' if p >= 0.01 else 'DOES NOT HOLD'}, p = {p:.2g})"


def worlds(runs: int) -> Iterator[Line]:
    """A false order, leader or tie, in every world; contradictions raise an error."""
    for name, world in {**WORLDS, "ten points, 500 samples, 20 % differing": TEN_POINTS}.items():
        kinds: Counter[str] = Counter()
        wrong = 0
        for seed in range(runs):
            summary, claim = verdict_of(world, np.random.default_rng(seed))
            kinds[claim.kind] += 1
            wrong += bool(false_in(world, summary, claim))
        shares = ", ".join(f"{kind} {count / runs:.1%}" for kind, count in kinds.most_common())
        yield name, f"{false_share(wrong, runs)}; {shares}"


def values(runs: int) -> Iterator[Line]:
    """Cheapest and fastest, of contestants that are equally good."""
    for name, world in VALUES.items():
        said = [value_of(world, np.random.default_rng(seed)) for seed in range(runs)]
        for place, kind in enumerate(("cost", "speed")):
            count = sum(found[place] is not None for found in said)
            yield f"{name}, {kind}", f"somebody is named in {count / runs:.1%}"


def looks(runs: int) -> Iterator[Line]:
    """A true tie that is looked into ten times, and one that is extended nine times."""
    world = World(skills={"a": 0.7, "b": 0.7}, samples=500)
    for name, units in {"samples": 0, "groups of 5": 5}.items():
        wrong = 0
        for seed in range(runs):
            table, groups = grown_while_looked_at(world, units, np.random.default_rng(seed))
            wrong += any(_looked_at(table, groups, asked) for asked in range(50, 501, 50))
        yield f"ten looks, the last at the end, {name}", false_share(wrong, runs)
    for extensions in (1, 4, 9):
        wrong = 0
        for seed in range(runs):
            table, _ = grown_while_looked_at(world, 0, np.random.default_rng(seed))
            wrong += _extended(table, extensions)
        yield f"extended {extensions} times", false_share(wrong, runs, _BOUND + EXTENSION * extensions)


def _looked_at(table: np.ndarray, groups: np.ndarray | None, asked: int) -> bool:
    """Whether a difference is shown after so many samples to somebody who looks all the time."""
    part = None if groups is None else groups[:asked]
    schedule = Schedule(looks=(Look(500, (50.0, 50.0)),))
    return bool(decide(table[:, :asked], groups=part, done=[asked] * 2, planned=500, schedule=schedule).better)


def _extended(table: np.ndarray, times: int) -> bool:
    """Whether a difference is shown at any end of a run that is extended so often."""
    ends = [500 * (place + 1) // (times + 1) for place in range(times + 1)]
    return any(
        bool(decide(table[:, :end], schedule=Schedule(earlier=tuple(ends[:place]))).better) for place, end in enumerate(ends)
    )


def power(runs: int) -> Iterator[Line]:
    """What looking costs: a difference that is there, 500 samples, 20 % of them differing."""
    for gap in (0.05, 0.1):
        world = World(skills={"a": 0.7, "b": 0.7 - gap}, samples=500, differing=0.2)
        unseen = seen = 0
        for seed in range(runs):
            table, _ = grown_while_looked_at(world, 0, np.random.default_rng(seed))
            unseen += bool(decide(table).better)
            seen += any(_looked_at(table, None, asked) for asked in range(50, 501, 50))
        yield f"{gap:.0%} apart", f"shown in {unseen / runs:.1%} of runs nobody looked into, in {seen / runs:.1%} of others"


def forecasts(runs: int) -> Iterator[Line]:
    """Following a forecast where the difference found is the true one, and what a run could have shown."""
    rng = np.random.default_rng(1)
    for n, differing, gap in ((200, 0.1, 0.01), (200, 0.2, 0.03), (500, 0.2, 0.03), (100, 0.3, 0.06), (500, 0.2, 0.01)):
        won, lost = round(n * (differing + gap) / 2), round(n * (differing - gap) / 2)
        error = adjusted_interval(won, lost, n)[2]
        ends = samples_needed((won - lost) / n, error**2 * n, EXTENSION, right_or_wrong=True)
        assert ends is not None
        kept = [_settled(rng, n, won, lost, end, runs) for end in ends]
        yield f"{won} to {lost} of {n}: from {ends[0]:,} to {ends[1]:,} samples", f"{kept[0]:.1%} and {kept[1]:.1%} settle"
    for n in (50, 100, 200, 500, 2000):
        for differing in (0.1, 0.2, 0.4):
            shown = float(np.mean([_could_show(rng, n, differing) for _ in range(runs)]))
            yield f"could have shown, {n} samples, {differing:.0%} differing", f"kept in {shown:.1%}"


def _settled(rng: np.random.Generator, n: int, won: int, lost: int, end: int, runs: int) -> float:
    """How often a run that is extended so far shows a difference, if what it found is the truth."""
    chances = [won / n, lost / n, 1 - (won + lost) / n]
    more = rng.multinomial(max(0, end - n), chances, size=runs)
    return float(np.mean([exact_sign_test(won + int(w), lost + int(k)) < EXTENSION for w, k, _ in more]))


def _could_show(rng: np.random.Generator, n: int, differing: float) -> bool:
    """Whether the difference that one run of a tie says it could have shown is shown by another where it is there."""
    first = rng.multinomial(n, [differing / 2, differing / 2, 1 - differing])
    gap = smallest_difference_right_or_wrong(n, int(first[0] + first[1]), _BOUND)
    differ = max(differing, gap)
    won, lost, _ = rng.multinomial(n, [(differ + gap) / 2, (differ - gap) / 2, 1 - differ])
    return exact_sign_test(int(won), int(lost)) < _BOUND


def stored(runs: int) -> Iterator[Line]:
    """Whether the store, and the engine, decide as the pure function does; a hundredth of the runs."""
    for name, world in WORLDS.items():
        for way, run in {"store": store_run, "engine": engine_run}.items():
            alike = sum(_decided_alike(world, run, seed) for seed in range(max(1, runs // 100)))
            yield f"{name}, through the {way}", f"{alike} of {max(1, runs // 100)} decided alike"


def _decided_alike(world: World, run: Callable[[World, Draw, Path], Summary], seed: int) -> bool:
    draw = world.draw(np.random.default_rng(seed))
    with tempfile.TemporaryDirectory(prefix="perf-") as folder:
        return bool(decided(run(world, draw, Path(folder))) == decided(summary_of_draw(world, draw)))


PARTS: Mapping[str, Callable[[int], Iterator[Line]]] = {
    "worlds": worlds,
    "values": values,
    "looks": looks,
    "power": power,
    "forecasts": forecasts,
    "stored": stored,
}


def _lines(part: str, runs: int) -> list[str]:
    return [f"{name}: {figures}" for name, figures in PARTS[part](runs)]


def main() -> None:
    """Run the parts and print what they find."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.processes) as pool:
        for part, lines in zip(arguments.only, pool.map(partial(_lines, runs=arguments.runs), arguments.only), strict=True):
            print(f"{part}, {arguments.runs:,} runs each", *lines, "", sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
