"""The parts of the uncertainty of a difference, in worlds where they are planted."""

import numpy as np
import pytest

from tiebreak.stats.noise import Repeated, split_noise


def asked(rng, chances, repeats):
    """Right or wrong, so many times on each sample."""
    right = rng.binomial(repeats, chances).astype(float)
    return Repeated(counts=np.full(len(chances), float(repeats)), sums=right, squares=right)


def planted(rng, samples, repeats, wobbly):
    """Two contestants; on a share of the samples answers change from repeat to repeat, on the others never."""
    chances = [np.where(rng.random(samples) < wobbly, rng.random(samples), rng.random(samples) < 0.7) for _ in range(2)]
    truth = np.var(chances[0] - chances[1], ddof=1)
    noise = np.mean([(own * (1 - own)).mean() for own in chances]) * 2 / repeats
    return chances, noise / (truth + noise)


@pytest.mark.parametrize(("wobbly", "repeats"), [(0.0, 3), (0.3, 2), (0.6, 3), (1.0, 5)])
def test_share_of_repeats_is_the_planted_one_on_average(wobbly, repeats):
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(40):
        chances, share = planted(rng, 400, repeats, wobbly)
        errors.append(split_noise(*(asked(rng, own, repeats) for own in chances)).repeats_share - share)
    assert abs(np.mean(errors)) < 0.02
    assert np.max(np.abs(errors)) < 0.15


def test_what_would_narrow_the_interval_is_what_does():
    """Twice the repeats, and twice the samples: simulated again, the standard error shrinks as was said."""
    rng = np.random.default_rng(4)
    chances, _ = planted(rng, 20_000, 2, 0.7)
    said = split_noise(*(asked(rng, own, 2) for own in chances))

    def spread(repeats):
        one, other = (asked(rng, own, repeats).means for own in chances)
        return np.std(one - other, ddof=1)

    assert 1 - spread(4) / spread(2) == pytest.approx(said.by_repeats, abs=0.02)
    assert said.by_samples == pytest.approx(1 - np.sqrt(0.5))


def test_graded_scores_and_unequal_repeats():
    rng = np.random.default_rng(5)
    level = rng.random(3000)
    counts = rng.integers(1, 5, 3000).astype(float)
    scores = [np.clip(level[i] + rng.normal(0, 0.1, int(n)), -1, 2) for i, n in enumerate(counts)]
    one = Repeated(counts=counts, sums=np.array([s.sum() for s in scores]), squares=np.array([(s**2).sum() for s in scores]))
    still = Repeated(counts=np.full(3000, 2.0), sums=np.ones(3000), squares=np.full(3000, 0.5))
    found = split_noise(one, still)
    assert found.samples == int((counts > 1).sum())
    expected = 0.01 * np.mean(1 / counts[counts > 1])
    assert found.repeats_share == pytest.approx(expected / (np.var(level) + expected), rel=0.15)


@pytest.mark.parametrize("repeats", [1, 2])
def test_nothing_is_said_where_nothing_can_be(repeats):
    same = Repeated(counts=np.full(50, float(repeats)), sums=np.full(50, float(repeats)), squares=np.full(50, float(repeats)))
    assert split_noise(same, same) is None
    few = Repeated(counts=np.full(5, 2.0), sums=np.ones(5), squares=np.ones(5))
    assert split_noise(few, few) is None
