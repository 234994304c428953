"""One pass over a run's trials: what each contestant's trials add up to, in numbers alone."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import fsum, isnan, nan
from string import Template
from typing import Any

from tiebreak.stats.intervals import Estimate, estimate_mean
from tiebreak.store.reader import StoreReader
from tiebreak.store.rows import REFUSED

# The join is crossed to keep its order: trials are read as they lie, samples are looked up.
_TRIALS = Template(
    "SELECT t.contestant, s.rowid, t.superseded, t.outcome, t.score, t.second, t.answer IS NULL, t.failure_kind, t.category,"
    " t.cached, t.model_s, t.first_token_s, $first_answer, t.in_flight, t.input_tokens, t.output_tokens, t.cost_usd,"
    " t.unjudged IS NOT NULL"
    " FROM trials t CROSS JOIN samples s ON s.asked = t.asked"
)
# With repeats and prompts one sample is shown in several ways, each a row; they share its number.
_NUMBERED = (
    "SELECT rowid, dense_rank() OVER (ORDER BY first, sample) - 1, first, grouped FROM"
    " (SELECT rowid, sample, grouped, min(place) OVER (PARTITION BY sample) AS first FROM samples)"
)
_TIMED_ALONE = (
    "SELECT t.contestant, s.rowid, t.model_s, t.first_token_s FROM timings t CROSS JOIN samples s ON s.asked = t.asked"
    " WHERE t.model_s > 0"
)
_PARTLY_UNPRICED = "SELECT contestant, count(DISTINCT trial) FROM unknown_calls GROUP BY contestant"
_UNJUDGED = "unjudged"
"""The kind of failure that is a judge's, not the contestant's."""


class SampleNumbers:
    """Every sample of the run by a number from 0, in the order of the plan, and the groups they belong to."""

    def __init__(self, reader: StoreReader) -> None:
        self._by_row = array("l", [0])
        known: dict[str, int] = {}
        groups: dict[int, int] = {}
        places: dict[int, int] = {}
        for row, number, place, grouped in reader.rows(_NUMBERED):
            if row >= len(self._by_row):
                self._by_row.extend([0] * (row + 1 - len(self._by_row)))
            self._by_row[row] = number
            places[number] = place
            if grouped:
                groups[number] = known.setdefault(grouped, len(known))
        self.count = max(self._by_row, default=-1) + 1 if len(self._by_row) > 1 else 0
        self.places = array("l", (places[number] for number in range(self.count)))
        """For each sample its position in the plan."""
        completed = (groups.get(number, len(known) + number) for number in range(self.count))
        self.groups = array("l", completed) if groups else None
        """For each sample its group's number; one in no group is a group of its own. None without any groups."""

    def __getitem__(self, row: int) -> int:
        return self._by_row[row]


class Taken:
    """What the answers to each sample took: added up, and how many they are."""

    def __init__(self, samples: int) -> None:
        self.sums = array("d", bytes(8 * samples))
        self.counts = array("i", bytes(4 * samples))

    def add(self, number: int, value: float) -> None:
        """Count an answer."""
        self.sums[number] += value
        self.counts[number] += 1

    def means(self) -> Iterator[float]:
        """The mean of each sample that has any."""
        return (total / n for total, n in zip(self.sums, self.counts, strict=True) if n)


class Tally:
    """What one contestant's trials add up to; a few numbers per sample, no texts."""

    def __init__(self, samples: int) -> None:
        self.sums = array("d", bytes(8 * samples))
        """For each sample its scores added up; an outcome without a score counts 0."""
        self.second_sums = array("d", bytes(8 * samples))
        """The same by the second reading, where there is one."""
        self.counts, self.rights, self.failed = (array("i", bytes(4 * samples)) for _ in range(3))
        self.speed, self.alone, self.prices = Taken(samples), Taken(samples), Taken(samples)
        """How long each sample took with the others, by itself, and what it cost."""
        self.flights = array("d", bytes(8 * samples))
        """For each sample the requests in flight when it was sent, added up; not a number where nobody knows."""
        self.second_readings = self.readings_differ = 0
        self.right = self.wrong = self.no_answer = 0
        self.unjudged = self.awaiting_judge = 0
        """Answers without a score because a judge failed, and all that some judge has still to judge."""
        self.outcomes: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.categories: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
        self.times, self.first_tokens, self.first_answers, self.in_flight = array("d"), array("d"), array("d"), array("d")
        self.timed_tokens = 0
        self.timed_s = 0.0
        self.input_tokens = self.output_tokens = 0
        self.cost_usd, self.unpriced, self.partly_unpriced = 0.0, 0, 0
        """What is known of the cost; the trials of which nothing is known, and those of which not all is."""
        self.remembered = 0
        self.answers, self.answers_usd = 0, 0.0
        """Answers that were not remembered, and what they cost; not a number where nobody knows of one."""
        self.model_s = 0.0
        self.rows = 0

    def add(self, number: int, row: tuple[Any, ...]) -> None:
        """Count a trial; one that was asked again since counts only for what it took."""
        _, _, superseded, outcome, score, second, unread, kind, category, cached, *taken = row
        seconds, first, first_answer, flight, sent, made, cost, awaiting = taken
        self._spend(seconds, sent, made, cost)
        # A request that was refused costs nothing, and neither does an answer of an earlier run.
        self.unpriced += cost is None and not cached and (sent is not None or kind not in REFUSED)
        if superseded:
            return
        self.outcomes[outcome] += 1
        self.awaiting_judge += awaiting
        if outcome == "failed":
            if kind == _UNJUDGED:
                self.unjudged += 1
            else:
                self.failures[kind] += 1
            self.failed[number] += 1
            return
        self._judge(number, score, unread, category)
        self._read_again(number, score, second)
        if cached:
            self.remembered += 1
        else:
            self.answers += 1
            self.answers_usd += nan if cost is None else cost
            self.prices.add(number, nan if cost is None else cost)
            if seconds:
                self._time(seconds, first, first_answer, made)
                self.speed.add(number, seconds)
                self._fly(number, flight)

    def _spend(self, seconds: float | None, sent: int | None, made: int | None, cost: float | None) -> None:
        self.rows += 1
        self.input_tokens += sent or 0
        self.output_tokens += made or 0
        self.model_s += seconds or 0.0
        self.cost_usd += cost or 0.0

    def _judge(self, number: int, score: float | None, unread: int, category: str) -> None:
        value = score or 0.0
        self.sums[number] += value
        self.counts[number] += 1
        if value >= 1:
            self.right += 1
            self.rights[number] += 1
        elif score is None or unread:
            self.no_answer += 1
        else:
            self.wrong += 1
        if category:
            kind = self.categories[category]
            kind[0] += value
            kind[1] += 1

    def _read_again(self, number: int, score: float | None, second: float | None) -> None:
        if second is None:
            self.second_sums[number] += score or 0.0
            return
        self.second_sums[number] += second
        self.second_readings += 1
        self.readings_differ += (second >= 1) != ((score or 0.0) >= 1)

    def _fly(self, number: int, flight: int | None) -> None:
        self.flights[number] += nan if flight is None else flight
        if flight is not None:
            self.in_flight.append(flight)

    def _time(self, seconds: float, first: float | None, first_answer: float | None, made: int | None) -> None:
        self.times.append(seconds)
        if first is not None:
            self.first_tokens.append(first)
        if first_answer is not None:
            self.first_answers.append(first_answer)
        if made:
            self.timed_tokens += made
            self.timed_s += seconds

    def estimate(self, groups: Sequence[int] | None) -> Estimate:
        """The mean over samples, repeats averaged within a sample first; failed trials are left out."""
        # Arrays: a million numbers in a list would weigh more than the whole run.
        values = array("d", (s / c for s, c in zip(self.sums, self.counts, strict=True) if c))
        answered = None if groups is None else array("l", (g for g, c in zip(groups, self.counts, strict=True) if c))
        return estimate_mean(values, answered)

    def mean_with_failures_wrong(self) -> float | None:
        """The same mean with every failed trial a wrong answer."""
        means = array("d", (s / (c + f) for s, c, f in zip(self.sums, self.counts, self.failed, strict=True) if c + f))
        return fsum(means) / len(means) if means else None

    def cost_per_trial(self) -> float | None:
        """Mean dollars of an answer; None where the price of any is not known."""
        return self.answers_usd / self.answers if self.answers and not isnan(self.answers_usd) else None

    def counted(self) -> Iterator[tuple[int, int]]:
        """For each sample, how often it was answered and how often rightly."""
        return ((n, c) for n, c in zip(self.counts, self.rights, strict=True) if n)


def tally_trials(reader: StoreReader) -> tuple[dict[int, Tally], SampleNumbers]:
    """Every trial of the run, added up by contestant."""
    numbers = SampleNumbers(reader)
    tallies: dict[int, Tally] = defaultdict(lambda: Tally(numbers.count))
    # Only of a streamed answer is it known, and to reach it takes reading all texts.
    first_answer = "t.first_answer_s" if reader.info.pace.stream else "NULL"
    for row in reader.rows(_TRIALS.substitute(first_answer=first_answer)):
        tallies[row[0]].add(numbers[row[1]], row)
    for contestant, trials in reader.rows(_PARTLY_UNPRICED):
        tallies[contestant].partly_unpriced = trials
    for contestant, row, seconds, _ in reader.rows(_TIMED_ALONE):
        tallies[contestant].alone.add(numbers[row], seconds)
    return tallies, numbers
