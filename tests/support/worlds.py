"""Made-up worlds whose truth is known: who is really better, and what a run of them would bring. No product code here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Draw:
    """What one run of a world brings: contestants × samples × repeats."""

    scores: Floats
    """What each answer scores; also of trials that failed, where it says what the answer would have scored."""
    failed: npt.NDArray[np.bool_]
    refused: npt.NDArray[np.bool_]
    """Answers without a score, by the contestant's own doing: they count as wrong."""
    second: Floats
    """What a second rule says of each answer."""
    seconds: Floats
    cost_usd: Floats
    groups: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class World:
    """A truth, and the luck around it."""

    skills: Mapping[str, float]
    """The true score of each contestant, on all samples there could be, failures aside."""
    samples: int = 200
    repeats: int = 1
    difficulty: float = 0.15
    """How much samples differ in difficulty, for everyone alike."""
    taste: float = 0.0
    """How much they differ for each contestant by itself."""
    differing: float = 0.0
    """Of two contestants: the share of samples on which they differ; 0: as difficulty and skill have it."""
    group_size: int = 0
    """Samples that stand or fall together, where there are any."""
    fails_at_random: Mapping[str, float] = field(default_factory=dict)
    fails_where_wrong: Mapping[str, float] = field(default_factory=dict)
    """The share of its wrong answers that a contestant does not live to give: it times out on what is hard for it."""
    refuses: Mapping[str, float] = field(default_factory=dict)
    """The share of answers that would have been right and are refused; the skill is the score after that."""
    misread_at_random: float = 0.0
    """The share of all answers that the two rules judge differently, by chance."""
    misread: Mapping[str, float] = field(default_factory=dict)
    """The share of its right answers that the first rule takes for wrong."""
    slower: Mapping[str, float] = field(default_factory=dict)
    """How many times as long a contestant takes."""
    dearer: Mapping[str, float] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The contestants."""
        return list(self.skills)

    def better(self, one: str, other: str) -> bool:
        """Whether one is truly better."""
        return self.skills[one] > self.skills[other]

    def draw(self, rng: np.random.Generator) -> Draw:
        """One run."""
        shape = len(self.skills), self.samples, self.repeats
        groups = np.arange(self.samples) // self.group_size if self.group_size else None
        right = self._differing(rng) if self.differing else rng.random(shape) < self._chances(rng, groups)
        refused = right & (rng.random(shape) < self._by_label(self.refuses))
        scores = (right & ~refused).astype(np.float64)
        failed = rng.random(shape) < self._by_label(self.fails_at_random)
        failed |= (scores == 0) & (rng.random(shape) < self._by_label(self.fails_where_wrong))
        first = np.where(rng.random(shape) < self._by_label(self.misread), 0.0, scores)
        flipped = rng.random(shape) < self.misread_at_random
        # Where the rules differ by chance, each is as likely to be the one that errs.
        first_errs = flipped & (rng.random(shape) < 0.5)
        return Draw(
            scores=np.where(first_errs, 1 - first, first),
            failed=failed,
            refused=refused,
            second=np.where(flipped & ~first_errs, 1 - scores, scores),
            seconds=rng.lognormal(0, 0.4, shape) * self._by_label(self.slower, 1.0),
            cost_usd=2.6e-6 * rng.lognormal(0, 0.4, shape) * self._by_label(self.dearer, 1.0),
            groups=groups,
        )

    def _differing(self, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Two contestants that differ on so many samples: both right, only the first, only the second, neither."""
        first, second = self.skills.values()
        alone = (self.differing + first - second) / 2, (self.differing - first + second) / 2
        kinds = rng.choice(4, self.samples, p=[first - alone[0], *alone, 1 - first - alone[1]])
        return np.stack([kinds <= 1, (kinds == 0) | (kinds == 2)])[:, :, None]

    def _chances(self, rng: np.random.Generator, groups: npt.NDArray[np.int64] | None) -> Floats:
        """How likely each contestant is right on each sample; on average its skill, before it refuses."""
        asked = np.array([skill / (1 - self.refuses.get(label, 0.0)) for label, skill in self.skills.items()])
        units = self.samples if groups is None else int(groups.max()) + 1
        reach = np.minimum(asked, 1 - asked)[:, None]
        shared = rng.uniform(-1, 1, (1, units)) * min(self.difficulty * np.sqrt(3), float(reach.min()))
        own = rng.uniform(-1, 1, (len(asked), units)) * np.minimum(
            self.taste * np.sqrt(3), np.maximum(reach - abs(shared).max(), 0)
        )
        chances = asked[:, None] + shared + own
        chances = chances if groups is None else chances[:, groups]
        return np.asarray(chances[:, :, None], dtype=np.float64)

    def _by_label(self, values: Mapping[str, float], otherwise: float = 0.0) -> Floats:
        return np.array([values.get(label, otherwise) for label in self.skills])[:, None, None]


WORLDS: Mapping[str, World] = {
    "twins": World(skills={"a": 0.7, "b": 0.7, "c": 0.7}),
    "twins above a third": World(skills={"a": 0.75, "b": 0.75, "c": 0.6}),
    "a flaky third": World(skills={"a": 0.7, "b": 0.7, "c": 0.65}, fails_at_random={"c": 0.4}, taste=0.1),
    "a flaky third that fails where it is wrong": World(
        skills={"a": 0.7, "b": 0.6, "c": 0.6}, fails_where_wrong={"c": 0.8}, samples=400
    ),
    "failures on hard samples": World(skills={"a": 0.7, "b": 0.7}, fails_where_wrong={"a": 0.5}),
    "one fails where it is wrong, the other at random": World(
        skills={"a": 0.7, "b": 0.7}, samples=500, fails_where_wrong={"a": 0.16}, fails_at_random={"b": 0.03}
    ),
    "failures at random": World(skills={"a": 0.8, "b": 0.7, "c": 0.7}, fails_at_random={"a": 0.03, "b": 0.03, "c": 0.03}),
    "refusals": World(skills={"a": 0.7, "b": 0.7}, refuses={"a": 0.1}),
    "six equals": World(skills=dict.fromkeys("abcdef", 0.6)),
    "a ladder": World(skills={"a": 0.8, "b": 0.75, "c": 0.7, "d": 0.65, "e": 0.6}, samples=300),
    "groups": World(skills={"a": 0.6, "b": 0.6, "c": 0.6}, samples=300, group_size=5, taste=0.25, difficulty=0.1),
    "repeats": World(skills={"a": 0.6, "b": 0.6}, samples=120, repeats=3, taste=0.2, difficulty=0.1),
    "readings that differ at random": World(skills={"a": 0.75, "b": 0.65, "c": 0.65}, samples=300, misread_at_random=0.02),
    "one contestant misread": World(skills={"a": 0.7, "b": 0.7}, samples=400, misread={"b": 0.15}),
}
"""Each is to see a false order, leader or tie in at most 5 % of its runs, and a contradiction in none."""

TEN_POINTS = World(skills={"a": 0.7, "b": 0.6}, samples=500, differing=0.2)
"""A true difference of ten points, where one sample in five differs."""


def false_claims(world: World, kind: str, facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """Pairs of whom the first is said to be better, and is not; for the claims of who is best."""
    said = _SAID.get(kind, lambda facts: [])(facts)
    return [(one, other) for one, other in said if not world.better(one, other)]


_SAID: Mapping[str, Callable[[Mapping[str, object]], list[tuple[str, str]]]] = {
    "leads": lambda facts: [(str(facts["first"]), str(other)) for other in list(facts["behind"])],  # type: ignore[call-overload]
    "tie": lambda facts: [(one, o) for one, beaten in dict(facts["ahead"]).items() for o in beaten],  # type: ignore[call-overload]
    "unsettled": lambda facts: [(str(facts["first"]), str(o)) for o in list(facts["better_than"])],  # type: ignore[call-overload]
}


VALUES: Mapping[str, World] = {
    "equal, 50 samples": World(skills={"a": 0.7, "b": 0.7}, samples=50),
    "equal, three of them, 100 samples": World(skills=dict.fromkeys("abc", 0.7), samples=100),
    "equal, groups of 5, 100 samples": World(skills={"a": 0.7, "b": 0.7}, samples=100, group_size=5),
    "1.5 times as much, 100 samples": World(skills={"a": 0.7, "b": 0.7}, samples=100, slower={"b": 1.5}, dearer={"b": 1.5}),
}
"""Contestants that are equally good, and how much they take."""


def grown_while_looked_at(world: World, group_size: int, rng: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64] | None]:
    """The scores of one run, in the order of its plan; in groups of so many that stand or fall together."""
    if not group_size:
        return world.draw(rng).scores[:, :, 0], None
    groups = np.arange(world.samples) // group_size
    whole = rng.random((len(world.skills), world.samples // group_size)) < np.array(list(world.skills.values()))[:, None]
    return whole[:, groups].astype(np.float64), groups
