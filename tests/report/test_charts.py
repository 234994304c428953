"""Charts are mark-up that every number in them can be read back from."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.report.charts import (
    Dot,
    Point,
    Scale,
    Times,
    front_chart,
    latency_chart,
    score_chart,
    seconds,
    two_digits,
)
from tiebreak.report.money import dollars

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co")), max_size=40)
SHARES = st.floats(0, 1)
AMOUNTS = st.floats(1e-9, 1e6)


@given(st.lists(st.tuples(NAMES, SHARES, SHARES, SHARES, st.integers(1, 9)), max_size=8))
def test_any_scores_are_drawn_within_the_picture(rows: list[tuple[str, float, float, float, int]]) -> None:
    """Well-formed whatever a model is called, and nothing lies outside."""
    dots = [
        Dot(label=name, name=name, value=sorted(three)[1], low=min(three), high=max(three), tier=tier)
        for name, *three, tier in rows
    ]
    drawn = ET.fromstring(score_chart(dots))
    circles = drawn.findall(".//circle")
    assert len(circles) == len(dots)
    assert all(0 <= float(c.get("cx") or -1) <= 480 for c in circles)
    assert [g.findtext("title") for g in drawn.findall("g")] == [f"{dot.label}: " for dot in dots]


@given(st.lists(st.tuples(NAMES, AMOUNTS, SHARES, st.booleans()), min_size=2, max_size=12))
def test_any_front_is_drawn(rows: list[tuple[str, float, float, bool]]) -> None:
    points = [
        Point(label=name, name=name, x=x, x_interval=(x / 2, x * 2), y=y, y_interval=(y * 0.9, min(1.0, y * 1.1)), in_front=best)
        for name, x, y, best in rows
    ]
    drawn = ET.fromstring(front_chart(points, title="Cost", x_label="dollars", x_words=dollars))
    assert len(drawn.findall(".//circle")) == len(points)
    assert len(drawn.findall("path")) == (sum(p.in_front for p in points) > 1)
    assert all(math.isfinite(float(c.get("cx") or "nan")) for c in drawn.findall(".//circle"))


def test_better_stands_higher_and_dearer_further_right() -> None:
    points = [
        Point(label=str(n), name=str(n), x=10.0**n, x_interval=None, y=n / 4, y_interval=(n / 5, n / 3), in_front=True)
        for n in range(3)
    ]
    circles = ET.fromstring(front_chart(points, title="t", x_label="x", x_words=seconds)).findall(".//circle")
    by_name = sorted(circles, key=lambda c: float(c.get("cx") or 0))
    assert [float(c.get("cy") or 0) for c in by_name] == sorted((float(c.get("cy") or 0) for c in by_name), reverse=True)


@given(AMOUNTS, st.floats(1, 1e5), st.lists(st.integers(0, 1000), min_size=1, max_size=60))
def test_any_times_are_drawn(fastest: float, ratio: float, bins: list[int]) -> None:
    row = Times(label="a", name="a", bins=bins, median_s=fastest * ratio**0.5, p95_s=fastest * ratio, tier=1)
    drawn = ET.fromstring(latency_chart([row], fastest, fastest * ratio))
    assert "nan" not in ET.tostring(drawn, encoding="unicode")


@pytest.mark.parametrize(("low", "high", "ratios"), [(0, 1, False), (0.8, 0.9, False), (0.001, 900, True), (0.5, 0.9, True)])
def test_scales_have_a_few_round_ticks(low: float, high: float, ratios: bool) -> None:
    ticks = Scale(low, high, 0, 100, ratios).ticks()
    assert 2 <= len(ticks) <= 13
    assert ticks == sorted(ticks)
    assert all(low <= tick <= high for tick in ticks)
    assert all(float(f"{tick:.2g}") == pytest.approx(tick) for tick in ticks)


def test_numbers_are_spoken_shortly() -> None:
    assert (two_digits(0.5), two_digits(0.85), two_digits(1.0)) == ("0.5", "0.85", "1.0")
    assert (dollars(0.012), dollars(0.0000026), dollars(0.0)) == ("$0.012", "$0.0000026", "$0.00")
    assert (seconds(0.25), seconds(3.0), seconds(180.0)) == ("0.25 s", "3 s", "3 min")
