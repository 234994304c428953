"""The rate of an account that says nothing of it is learned from being refused, and kept to."""

from __future__ import annotations

import heapq

import pytest

from tiebreak.engine.pace import Pace


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TokenBucket:
    """A server that takes so many requests a second, and a few at once."""

    def __init__(self, rate: float, burst: float = 5.0) -> None:
        self.rate, self.burst, self.tokens, self.last = rate, burst, burst, 100.0

    def takes(self, now: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now - self.last) * self.rate)
        self.last = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class FixedWindow:
    """A server that takes all it gets, up to a number, and then nothing until the minute is over."""

    def __init__(self, most: int) -> None:
        self.most, self.taken, self.minute = most, 0, -1

    def takes(self, now: float) -> bool:
        if int(now // 60) != self.minute:
            self.minute, self.taken = int(now // 60), 0
        self.taken += 1
        return self.taken <= self.most


def sent(
    server: TokenBucket | FixedWindow, seconds: float, *, workers: int = 20, retry_s: float = 1.0
) -> list[tuple[float, bool]]:
    """What a crew of workers sends through a pace: when, and whether it was taken."""
    time = Time()
    pace: Pace | None = None
    ready = [(100.0 + number * 0.01, number) for number in range(workers)]
    heapq.heapify(ready)
    log: list[tuple[float, bool]] = []
    while ready[0][0] < 100.0 + seconds:
        time.now, worker = heapq.heappop(ready)
        wait = pace.wait_s() if pace else 0.0
        if wait:
            time.now += wait
        taken = server.takes(time.now)
        log.append((time.now - 100.0, taken))
        if taken:
            if pace:
                pace.answered()
        else:
            pace = pace or Pace(time)
            pace.refused()
        heapq.heappush(ready, (time.now + (0.3 if taken else retry_s), worker))
    return sorted(log)


@pytest.mark.parametrize("rate", [2.0, 10.0, 40.0])
def test_an_undeclared_rate_is_used_nearly_in_full_and_hardly_ever_passed(rate: float) -> None:
    """After the first minute: at least 85 % of the allowance used, under 5 % refused."""
    log = [entry for entry in sent(TokenBucket(rate), 180.0, workers=60) if entry[0] > 60]
    taken = sum(good for _, good in log)

    assert taken / (120.0 * rate) > 0.85
    assert 1 - taken / len(log) < 0.05


def test_a_server_that_counts_by_the_minute_teaches_no_rate() -> None:
    """All taken, then nothing: no second has both, and pacing by what was seen would be far too slow."""
    time = Time()
    pace = Pace(time)
    server = FixedWindow(100)
    for step in range(600):
        time.now = 100.0 + step * 0.05
        (pace.answered if server.takes(time.now) else pace.refused)()

    assert pace.rate is None and pace.wait_s() == 0.0


def test_without_a_rate_nobody_waits_and_with_one_turns_are_taken() -> None:
    time = Time()
    pace = Pace(time)
    assert pace.wait_s() == 0.0
    pace.rate = 4.0
    pace._changed_at = time.now

    assert [round(pace.wait_s(), 2) for _ in range(3)] == [0.0, 0.25, 0.5]


def test_a_refusal_lowers_the_pace_once_and_peace_raises_it() -> None:
    time = Time()
    pace = Pace(time)
    pace.rate, pace._changed_at = 10.0, time.now - 4
    pace.refused()
    pace.refused()
    lowered = pace.rate
    time.now += 6
    pace.wait_s()

    assert lowered == pytest.approx(9.6) and pace.rate == pytest.approx(9.6 * 1.02)
