"""The sentences of the verdict: what they may say, and what they must never say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.judged import summary_of_draw
from support.made import Planted, Trials, samples, summary_of, write_run
from support.worlds import World

from tiebreak.report.markdown import markdown_report
from tiebreak.report.money import dollars, per_thousand_words
from tiebreak.report.overview import overview
from tiebreak.report.summary import Summary
from tiebreak.report.tabular import summary_data
from tiebreak.report.verdict import Claim, _check, claims
from tiebreak.store.reader import StoreReader


def told(summary: Summary) -> dict[str, Claim]:
    """The claims by kind."""
    return {claim.kind: claim for claim in claims(summary)}


def only(count: int, *wrong: range) -> list[float]:
    """Right on all samples but these."""
    missed = {place for places in wrong for place in places}
    return [float(place not in missed) for place in range(count)]


# --- who leads --------------------------------------------------------------------------------------


def test_a_leader_is_shown_to_be_better_than_everyone(tmp_path: Path) -> None:
    """a is better than b; c scores less than b, but on samples of its own: it is level with both. Nobody leads."""
    contestants = [
        Planted(label="a", planted=only(200, range(20))),
        Planted(label="b", planted=only(200, range(30))),
        Planted(label="c", planted=only(200, range(100, 132))),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 200))
    claim = claims(summary)[0]
    against_c = summary.comparison("a", "c")

    assert against_c is not None
    assert not against_c.separated
    assert summary.tiers == (("a", "c"), ("b",))
    assert summary.leader is None
    assert claim.kind == "tie"
    assert claim.facts["tied"] == ["a", "c"]
    assert claim.facts["ahead"] == {"a": ["b"]}
    assert claim.sentence.startswith("a and c are tied at the top: on 200 common samples neither is shown to be better")
    assert claim.sentence.endswith("a is better than b.")


def test_the_sentence_of_a_leader_names_whom_it_is_least_clearly_ahead_of(tmp_path: Path) -> None:
    contestants = [
        Planted(label="a", planted=only(200, range(20))),
        Planted(label="b", planted=only(200, range(40))),
        Planted(label="c", planted=only(200, range(80))),
    ]
    claim = claims(summary_of(write_run(tmp_path, contestants, 200)))[0]
    assert claim.kind == "leads"
    assert claim.sentence.startswith("a is better than b and c: the least clear difference is the one to b, 10.0 points")


def test_a_flaky_third_throws_no_sample_away() -> None:
    """Order and tests are from all samples both answered: nobody is tied with whom it is shown to differ from."""
    world = World(skills={"a": 0.72, "b": 0.6, "c": 0.6}, samples=400, fails_where_wrong={"c": 0.9})
    for seed in range(40):
        summary = summary_of_draw(world, world.draw(np.random.default_rng(seed)))
        ordered = [model.label for model in summary.ranked]
        for pair in summary.comparisons:
            tier = {label: number for number, found in enumerate(summary.tiers) for label in found}
            assert not pair.separated or tier[pair.first] < tier[pair.second]
            assert not pair.separated or ordered.index(pair.first) < ordered.index(pair.second)
        claim = claims(summary)[0]
        assert claim.kind != "tie" or claim.facts["p_corrected"] >= 0.05


def test_a_sentence_that_contradicts_its_tests_is_not_told(tmp_path: Path) -> None:
    """The code that renders checks what it is given."""
    contestants = [Planted(label="a", planted=only(100)), Planted(label="b", planted=only(100, range(50)))]
    summary = summary_of(write_run(tmp_path, contestants, 100))
    leads = claims(summary)[0]
    with pytest.raises(AssertionError):
        _check(replace(summary, comparisons=()), leads)
    tie = Claim("tie", {"p_corrected": 0.2, "tied": ["a", "b"], "ahead": {}})
    with pytest.raises(AssertionError):
        _check(summary, tie)
    with pytest.raises(AssertionError):
        _check(summary, Claim("tie", {"p_corrected": 0.01, "tied": ["a"], "ahead": {}}))


def test_comparisons_that_go_round_in_a_circle_are_called_so(tmp_path: Path) -> None:
    """Each pair answered other samples: a beats b, b beats c and c beats a."""
    third = 40
    right, wrong, failed = [1.0] * third, [0.0] * third, ["timeout"] * third
    contestants = [
        Planted(label="a", planted=[*right, *failed, *wrong]),
        Planted(label="b", planted=[*wrong, *right, *failed]),
        Planted(label="c", planted=[*failed, *wrong, *right]),
    ]
    claim = claims(summary_of(write_run(tmp_path, contestants, 3 * third)))[0]
    assert claim.kind == "contradiction"
    assert claim.sentence.startswith("Nothing can be said of who is best: the comparisons of a, b and c contradict each other")


# --- what would turn it -----------------------------------------------------------------------------


def test_failures_that_would_turn_the_verdict_are_named_first(tmp_path: Path) -> None:
    """With 30 timeouts left out a is better; counted wrong, it is not. Tiers and pairs claim nothing either."""
    contestants = [
        Planted(label="a", planted=[*only(170), *["timeout"] * 30]),
        Planted(label="b", planted=only(200, range(12), range(180, 190))),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 200))
    claim = claims(summary)[0]

    assert claim.kind == "depends"
    assert claim.sentence == (
        "There is no leader: with failed trials left out a is better than every other, but if failed trials count as wrong a"
        " and b are tied at the top."
    )
    assert summary.tiers == (("a", "b"),)
    assert summary.comparisons[0].depends_on == ("failures",)
    assert not summary.comparisons[0].separated
    assert summary_data(summary)["alternatives"][1]["counted"] == "failures"


def test_a_tie_stays_one_where_failures_counted_as_wrong_would_only_show_more(tmp_path: Path) -> None:
    """Nobody leads as it is counted: that is said, and then what the other way of counting would show."""
    contestants = [
        Planted(label="a", planted=only(200, range(190, 200))),
        Planted(label="b", planted=[*["timeout"] * 30, *[1.0] * 160, *[0.0] * 8, 1.0, 1.0]),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 200))
    claim = claims(summary)[0]

    assert claim.kind == "tie"
    assert claim.sentence.startswith("b and a are tied at the top: on 170 common samples neither is shown to be better")
    assert claim.sentence.endswith(" If failed trials count as wrong, a is better than every other.")
    assert claim.facts["otherwise"] == {"counted": "failures", "leader": "a", "top": ["a"]}
    assert summary.tiers == (("b", "a"),)


def test_failures_that_only_turn_the_order_behind_leave_the_leader(tmp_path: Path) -> None:
    contestants = [
        Planted(label="a", planted=only(200)),
        Planted(label="b", planted=[*only(150, range(40)), *["timeout"] * 50]),
        Planted(label="c", planted=only(200, range(70), range(150, 160))),
    ]
    claim = claims(summary_of(write_run(tmp_path, contestants, 200)))[0]
    assert claim.kind == "leads"
    assert claim.facts["tiers_depend_on"] == ["failures"]
    assert claim.sentence.endswith("The order behind changes if failed trials count as wrong.")


def test_a_choice_does_not_hang_on_failures_either(tmp_path: Path) -> None:
    """Chosen on one half; on the other it is better only because its timeouts are left out."""
    rng = np.random.default_rng(2)
    hard = rng.random(400) < 0.3
    contestants = [
        Planted(label="a", planted=["timeout" if miss else 1.0 for miss in hard]),
        Planted(label="b", planted=[float(luck > 0.2) for luck in rng.random(400)]),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 400, choose_on="half"))
    claim = claims(summary)[0]
    assert claim.kind == "chosen"
    assert (claim.facts["label"], claim.facts["better_than"], claim.facts["depends_on_failures"]) == ("a", [], ["b"])
    assert claim.sentence.endswith("Against b it depends on whether failed trials count as wrong.")


def test_a_misreading_of_one_contestant_withholds_the_leader(tmp_path: Path) -> None:
    """Twenty right answers of b that the first rule takes for wrong; the second reads them."""
    right = only(200, range(20))
    contestants = [
        Planted(label="a", planted=right, second=right),
        Planted(label="b", planted=only(200, range(40)), second=right),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 200))
    claim = claims(summary)[0]

    assert claim.kind == "depends"
    assert claim.facts["counted"] == "reading"
    assert claim.sentence == (
        "There is no leader: by the first reading of the answers a is better than every other, but if answers are read by the"
        " second rule a and b are tied at the top."
    )
    assert told(summary)["readings"].sentence.startswith("A second rule judges 20 of 400 answers otherwise: b 20.")


def test_a_few_readings_that_differ_either_way_leave_the_verdict(tmp_path: Path) -> None:
    """One answer of the leader and one of the other: p moves across 0.05, and nothing is clearly directional."""
    first, other = only(100), only(100, range(6))
    read = [*first[:99], 0.0]
    contestants = [Planted(label="a", planted=first, second=read), Planted(label="b", planted=other, second=other)]
    summary = summary_of(write_run(tmp_path, contestants, 100))
    assert claims(summary)[0].kind == "leads"
    assert told(summary)["readings"].facts == {"read_twice": 200, "differ": 1, "by_contestant": {"a": 1}}


# --- cost and speed ---------------------------------------------------------------------------------


def equals(count: int, a: dict, b: dict) -> list[Planted]:
    """Two that are equally good."""
    return [Planted(label="a", planted=only(count), **a), Planted(label="b", planted=only(count), **b)]


def scattered(seed: int, count: int, size: float = 1.0) -> list[float]:
    return list(size * np.random.default_rng(seed).lognormal(0, 0.4, count))


def test_times_under_different_loads_are_not_compared(tmp_path: Path) -> None:
    """A server with four slots that is sent 80 requests at once looks slow; --timing tells."""
    slow, fast = {"seconds": scattered(1, 80, 0.6), "in_flight": 1}, {"seconds": scattered(2, 80, 6.0), "in_flight": 80}
    summary = summary_of(write_run(tmp_path, equals(80, slow, fast), 80))
    claim = told(summary)["speed"]
    assert claim.facts["least"] is None
    assert claim.sentence == (
        "Nothing can be said about speed: answers were asked for several at a time (requests in flight: a 1 and b 80)."
        " Measure them one at a time with --timing."
    )


def test_times_taken_one_at_a_time_are_preferred(tmp_path: Path) -> None:
    """The same server by itself: 0.3 s against 0.6 s."""
    slow = {"seconds": scattered(1, 80, 0.6), "in_flight": 1, "seconds_alone": scattered(3, 30, 0.6)}
    fast = {"seconds": scattered(2, 80, 6.0), "in_flight": 80, "seconds_alone": scattered(4, 30, 0.3)}
    summary = summary_of(write_run(tmp_path, equals(80, slow, fast), 80))
    claim = told(summary)["speed"]
    assert claim.facts["least"] == "b"
    assert "b is the fastest (median 0.29 s, one at a time)" in claim.sentence
    assert claim.facts["nearest"]["samples"] == 30
    assert summary.contestants[1].latency is not None
    assert summary.contestants[1].latency.alone_p50_s == pytest.approx(0.3, rel=0.3)


def test_times_without_a_known_load_are_not_compared(tmp_path: Path) -> None:
    unknown = {"seconds": scattered(1, 40), "in_flight": None}
    assert "a unknown and b unknown" in told(summary_of(write_run(tmp_path, equals(40, unknown, unknown), 40)))["speed"].sentence


def test_no_difference_is_said_to_be_none_shown(tmp_path: Path) -> None:
    a, b = ({"seconds": scattered(seed, 60), "cost_usd": scattered(seed + 9, 60, 2.6e-6)} for seed in (1, 2))
    found = told(summary_of(write_run(tmp_path, equals(60, a, b), 60)))
    assert found["speed"].sentence.startswith("No difference in speed is shown between a and b (a factor of 1.")
    assert found["cost"].sentence.startswith("No difference in cost is shown between a and b (a factor of 1.")


def test_prices_are_told_by_the_thousand(tmp_path: Path) -> None:
    """In the sentence, the page, Markdown and the data; nowhere by powers of ten."""
    summary = summary_of(write_run(tmp_path, equals(50, {"cost_usd": 2.6e-6}, {"cost_usd": 5.2e-6}), 50))
    claim = told(summary)["cost"]
    assert claim.facts["usd_per_1000_answers"] == pytest.approx({"a": 0.0026, "b": 0.0052})
    assert claim.sentence == (
        "Among the best, a is the cheapest ($0.0026 per 1,000 answers); b, the next, costs 2.00 times as much (95 % interval"
        " 2.00 to 2.00; p < 0.001)."
    )
    with StoreReader(tmp_path) as reader:
        page = str(overview(reader, summary)["table"])
    assert "'$0.0026'" in page
    assert "e-0" not in markdown_report(summary) + "".join(c.sentence for c in claims(summary))


@pytest.mark.parametrize(
    ("usd", "words"),
    [(0.0, "$0.00"), (2.6e-6, "$0.0000026"), (0.0026, "$0.0026"), (0.5, "$0.50"), (3.4, "$3.40"), (1250.4, "$1,250")],
)
def test_dollars_are_readable(usd: float, words: str) -> None:
    assert dollars(usd) == words
    assert per_thousand_words(usd) == f"{words} per 1,000 answers"


# --- what more would take ---------------------------------------------------------------------------


def test_a_tie_says_what_more_would_take_as_a_range(tmp_path: Path) -> None:
    contestants = [
        Planted(label="a", planted=only(100, range(10))),
        Planted(label="b", planted=only(100, range(60, 74))),
    ]
    claim = claims(summary_of(write_run(tmp_path, contestants, 100)))[0]
    few, many = claim.facts["samples_needed"]
    assert claim.kind == "tie"
    assert 100 < few < many
    assert "To separate a from b would take from 1,100 to about 2,400 samples if this difference is real" in claim.sentence
    assert claim.sentence.endswith("if it is smaller, more, perhaps for ever.")


def test_runs_of_groups_and_repeats_are_told_alike(tmp_path: Path) -> None:
    """Forecasts of scores that are not right or wrong are ranges too."""
    rng = np.random.default_rng(4)
    contestants = [Planted(label=label, planted=list((rng.random(120) < 0.6).astype(float))) for label in "ab"]
    trials = Trials(samples(40, groups=[f"g{i // 4}" for i in range(40)]))
    pair = summary_of(write_run(tmp_path, contestants, trials, repeats=3)).comparisons[0]
    assert pair.method in ("exact", "drawn")
    assert pair.samples_needed is None or pair.samples_needed[0] < pair.samples_needed[1]
