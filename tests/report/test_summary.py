"""A run in numbers: who entered, what each outcome counts as, who is compared with whom."""

from __future__ import annotations

import csv
import io
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.made import Planted, Trials, samples, summary_of, write_run

from tiebreak.core.events import ContestantState
from tiebreak.pipeline import write_reports
from tiebreak.report.caveats import caveats
from tiebreak.report.gates import exit_code
from tiebreak.report.summary import ContestantSummary, Summary
from tiebreak.report.verdict import KINDS, Claim, claims, verdict
from tiebreak.stats.intervals import wilson


def by_label(summary: Summary, label: str) -> ContestantSummary:
    """One of the contestants."""
    return next(contestant for contestant in summary.contestants if contestant.label == label)


def test_outcomes_add_up_and_a_failure_is_no_zero(tmp_path: Path) -> None:
    """Right, wrong, refused, empty, filtered and failed by kind; the score with failures left out, and counted wrong."""
    planted = [1.0, 1.0, 0.0, "refused", "empty", "filtered", "timeout", "timeout", "overloaded", 1.0]
    model = summary_of(write_run(tmp_path, [Planted(label="a", planted=planted)], 10)).contestants[0]

    assert (model.right, model.wrong, model.no_answer) == (3, 1, 3)
    assert (model.refused, model.empty, model.filtered, model.cut_off) == (1, 1, 1, 0)
    assert model.failures == {"overloaded": 1, "timeout": 2}
    assert (model.asked, model.answered, model.failed, model.not_asked) == (10, 7, 3, 0)
    assert model.score == pytest.approx(3 / 7)
    assert (model.low, model.high) == pytest.approx(wilson(3 / 7, 7))
    assert model.score_failures_wrong == pytest.approx(3 / 10)


def test_repeats_are_averaged_within_a_sample_first(tmp_path: Path) -> None:
    """A sample whose repeat failed counts as much as one with both; pass@k and pass^k come along."""
    contestant = Planted(label="a", planted=[1.0, 0.0, 1.0, 0.0, "timeout", 1.0])
    model = summary_of(write_run(tmp_path, [contestant], 3, repeats=2)).contestants[0]

    assert model.score == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert model.samples == 3
    assert model.score_failures_wrong == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert model.pass_at == {1: pytest.approx((0.5 + 0 + 1) / 3), 2: pytest.approx((1 + 1) / 2)}
    assert model.pass_all[2] == pytest.approx((0 + 1) / 2)
    assert model.interval_method == "wilson, effective n"


def test_grouped_samples_make_intervals_wider(tmp_path: Path) -> None:
    """The same answers with and without groups that stand or fall together."""
    planted = [1.0] * 30 + [0.0] * 30
    groups = [f"g{i // 10}" for i in range(60)]
    alone = summary_of(write_run(tmp_path / "a", [Planted(label="a", planted=planted)], 60)).contestants[0]
    grouped = Trials(samples(60, groups=groups))
    together = summary_of(write_run(tmp_path / "b", [Planted(label="a", planted=planted)], grouped)).contestants[0]

    assert together.score == alone.score
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_an_entrant_is_a_model_with_an_agent(tmp_path: Path) -> None:
    """With several agents each pair stands for itself, and doing nothing and the solution are reference lines."""
    contestants = [
        Planted(label="m", agent="builtin", planted=[1.0, 1.0, 0.0]),
        Planted(label="m", agent="aider", planted=[1.0, 0.0, 0.0]),
        Planted(label="m", agent="nothing", planted=[0.0, 0.0, 0.0]),
        Planted(label="m", agent="solution", planted=[1.0, 1.0, 1.0]),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 3))

    assert [m.label for m in summary.ranked] == ["m · builtin", "m · aider"]
    assert {m.label for m in summary.references} == {"m · nothing", "m · solution"}
    assert [{c.first, c.second} for c in summary.comparisons] == [{"m · builtin", "m · aider"}]
    assert all(m.finished and m.planned == 3 for m in summary.contestants)


def test_references_are_in_no_test_no_tier_and_no_front(tmp_path: Path) -> None:
    """Even a baseline that beats everyone."""
    contestants = [
        Planted(label="a", planted=[1.0] * 15 + [0.0] * 15, cost_usd=0.5),
        Planted(label="b", planted=[1.0] * 10 + [0.0] * 20, cost_usd=0.4),
        Planted(label="baseline", planted=[1.0] * 30, cost_usd=0.0, seconds=0.001, reference=True),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 30))
    named = [*summary.cost_front, *summary.latency_front, *(label for tier in summary.tiers for label in tier)]

    assert "baseline" not in named
    assert len(summary.comparisons) == 1
    assert by_label(summary, "baseline").tier is None
    assert [c.kind for c in claims(summary)][-1] == "not_above_reference"


def test_two_of_four_against_none_of_four_is_not_called_above(tmp_path: Path) -> None:
    """The baseline was measured on the same few samples: its score is as uncertain."""
    for count, kind in ((4, "not_above_reference"), (40, "above_reference")):
        contestants = [
            Planted(label="a", planted=[1.0, 0.0] * (count // 2)),
            Planted(label="baseline", planted=[0.0] * count, reference=True),
        ]
        summary = summary_of(write_run(tmp_path / str(count), contestants, count))
        assert [c.kind for c in claims(summary)][-1] == kind


def test_tiers_and_possible_ranks(tmp_path: Path) -> None:
    """Two at the top that differ by luck, one clearly behind, and one clearly last."""
    rng = np.random.default_rng(1)
    skills = {"a": 0.86, "b": 0.84, "c": 0.5, "d": 0.1}
    contestants = [Planted(label=k, planted=list((rng.random(300) < v).astype(float))) for k, v in skills.items()]
    summary = summary_of(write_run(tmp_path, contestants, 300))

    assert [set(tier) for tier in summary.tiers] == [{"a", "b"}, {"c"}, {"d"}]
    assert {m.label: (m.tier, m.ranks) for m in summary.contestants} == {
        "a": (1, (1, 2)),
        "b": (1, (1, 2)),
        "c": (2, (3, 3)),
        "d": (3, (4, 4)),
    }
    pair = summary.comparison("b", "a")
    assert pair is not None
    assert not pair.separated
    assert pair.low < 0 < pair.high
    assert pair.samples_needed is None or pair.samples < pair.samples_needed[0] < pair.samples_needed[1]
    assert 0.02 < pair.smallest_difference < 0.3
    assert len(summary.comparisons) == 6
    assert all(c.p <= c.p_corrected for c in summary.comparisons)


def test_a_model_whose_hard_samples_failed_gains_nothing_by_it(tmp_path: Path) -> None:
    """Its score is higher; what it would be on all samples is not."""
    hard = ["timeout"] * 20
    contestants = [
        Planted(label="lucky", planted=[1.0] * 28 + [0.0] * 12 + hard),
        Planted(label="steady", planted=[1.0] * 30 + [0.0] * 10 + [0.0] * 20),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 60))

    assert by_label(summary, "lucky").score > by_label(summary, "steady").score
    assert [m.label for m in summary.ranked] == ["steady", "lucky"]
    assert summary.common_samples == 40
    assert by_label(summary, "steady").adjusted_score == pytest.approx(30 / 60)
    assert by_label(summary, "lucky").adjusted_score == pytest.approx(30 / 60 - 2 / 40)
    assert "40 of 60 samples were answered by all that are ranked; each pair is compared on the samples both answered" in caveats(
        summary
    )


def test_a_model_that_did_not_get_through_is_compared_but_not_ranked(tmp_path: Path) -> None:
    """It stands below the line, with a caveat, and the claim says so."""
    contestants = [
        Planted(label="a", planted=[1.0] * 20),
        Planted(label="b", planted=[0.0] * 20),
        Planted(label="cut", planted=[1.0] * 5, state=ContestantState.INTERRUPTED),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 20))

    assert [m.label for m in summary.unfinished] == ["cut"]
    assert all("cut" not in tier for tier in summary.tiers)
    assert {"a", "cut"} in [{c.first, c.second} for c in summary.comparisons]
    left = next(c for c in claims(summary) if c.kind == "left_out")
    assert left.facts["unranked"]["cut"]["answered"] == 5
    assert "Not ranked: cut (5 of 20 answered)." in left.sentence
    assert exit_code(summary) == 2


def test_unequal_settings_and_few_samples_carry_a_caveat(tmp_path: Path) -> None:
    contestants = [
        Planted(label="a", planted=[1.0] * 5, settings={"temperature": 0, "stop": ["x"]}),
        Planted(label="b", planted=[1.0] * 5, settings={"temperature": 1}),
    ]
    found = caveats(summary_of(write_run(tmp_path, contestants, 5)))
    assert found == [
        "the models were asked with different settings",
        "5 samples are an anecdote: hardly any difference could be shown",
    ]


def test_answers_that_were_stopped_carry_a_caveat(tmp_path: Path) -> None:
    """They count as wrong, whoever set the limit."""
    contestants = [
        Planted(label="a", planted=[1.0] * 30),
        Planted(label="b", planted=["cut_off"] * 3 + ["exhausted"] + [1.0] * 26, settings={"max_tokens": 4096}),
    ]
    found = caveats(summary_of(write_run(tmp_path, contestants, 30)))
    assert "of the answers of b, 3 cut off at 4,096 tokens and 1 out of context count as wrong" in found


def test_fronts_hold_what_nothing_beats(tmp_path: Path) -> None:
    """Cheap and good, dear and better; not dear and worse; a model of unknown price is on no cost front."""
    contestants = [
        Planted(label="cheap", planted=[1.0] * 10 + [0.0] * 10, cost_usd=0.001, seconds=1.0),
        Planted(label="dear", planted=[1.0] * 15 + [0.0] * 5, cost_usd=0.01, seconds=2.0),
        Planted(label="bad", planted=[1.0] * 5 + [0.0] * 15, cost_usd=0.02, seconds=0.1),
        Planted(label="unpriced", planted=[1.0] * 16 + [0.0] * 4, cost_usd=None, seconds=3.0),
    ]
    summary = summary_of(write_run(tmp_path, contestants, 20))
    assert summary.cost_front == ("cheap", "dear")
    assert summary.latency_front == ("bad", "cheap", "dear", "unpriced")
    assert by_label(summary, "unpriced").cost_usd is None


@pytest.mark.parametrize(("score", "kind", "word"), [(1.0, "ceiling", "above 95%"), (0.0, "floor", "below 5%")])
def test_samples_too_easy_or_too_hard_are_named(tmp_path: Path, score: float, kind: str, word: str) -> None:
    contestants = [Planted(label=label, planted=[score] * 30) for label in "abcd"]
    contestants.append(Planted(label="e", planted=[0.0, 1.0] * 15))
    found = next(c for c in claims(summary_of(write_run(tmp_path, contestants, 30))) if c.kind == kind)
    assert (found.facts["count"], found.facts["of"]) == (4, 5)
    assert f"4 of 5 are {word}: this set cannot rank them" in found.sentence


def test_every_number_in_a_sentence_is_one_of_its_facts(tmp_path: Path) -> None:
    """A tie says how large a difference would have been seen, and how many samples the found one would take."""
    rng = np.random.default_rng(3)
    contestants = [Planted(label=k, planted=list((rng.random(100) < v).astype(float))) for k, v in {"a": 0.72, "b": 0.66}.items()]
    summary = summary_of(write_run(tmp_path, contestants, 100))
    tie = claims(summary)[0]
    pair = summary.comparison("a", "b")

    assert tie.kind == "tie"
    assert pair is not None
    assert {tie.facts["first"], tie.facts["second"]} == {"a", "b"}
    assert tie.facts["samples_needed"] == pair.samples_needed
    assert f"{100 * pair.smallest_difference:.1f} points" in tie.sentence
    assert f"p = {pair.p_corrected:.3f}" in tie.sentence


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path) -> None:
    """No answers at all, only references, or one model alone."""
    failed = summary_of(write_run(tmp_path / "1", [Planted(label="a", planted=["timeout"] * 3)], 3))
    assert verdict(failed)[0] == "Nothing can be said: no model has a result."
    only = summary_of(write_run(tmp_path / "2", [Planted(label="r", planted=[1.0] * 3, reference=True)], 3))
    assert verdict(only) == ["Only baselines and controls were run: there is nobody to rank."]
    one = summary_of(write_run(tmp_path / "3", [Planted(label="a", planted=[1.0, 0.0] * 5)], 10))
    assert verdict(one) == ["a scores 0.50 on 10 samples (95 % interval 0.24 to 0.76)."]


def test_every_kind_of_claim_can_be_told() -> None:
    """Kinds are documented where the report's schema is."""
    told = Path(__file__).resolve().parents[2] / "docs" / "report.md"
    text = told.read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in KINDS)
    with pytest.raises(KeyError):
        _ = Claim("rumour", {}).sentence


def test_ten_models_on_a_thousand_samples_are_summed_up_quickly(tmp_path: Path) -> None:
    """Half a second on a quiet machine; the bound leaves room for a busy one."""
    rng = np.random.default_rng(5)
    contestants = [Planted(label=f"m{i}", planted=list((rng.random(1000) < 0.5 + i / 30).astype(float))) for i in range(10)]
    folder = write_run(tmp_path, contestants, 1000)
    summary_of(folder)
    started = time.process_time()
    summary_of(folder)
    assert time.process_time() - started < 2.0


def test_no_cell_of_the_csv_starts_a_formula(tmp_path: Path) -> None:
    """Whatever a model is called."""
    folder = write_run(tmp_path / "r", [Planted(label="=1+1", planted=[1.0, 0.0])], 2)
    write_reports(folder, csv_path=folder / "t.csv")
    rows = list(csv.reader(io.StringIO((folder / "t.csv").read_text())))
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)
    assert rows[1][0] == "'=1+1"


def test_a_lead_is_as_fragile_as_its_weakest_comparison(tmp_path: Path) -> None:
    """The least clear difference need not be the one that the fewest answers overturn."""
    count = 100
    a = [1.0] * 60 + [0.0] * 40
    b = [0.0] * 40 + [1.0] * 20 + [1.0] * 17 + [0.0] * 23
    c = [0.0] * 10 + [1.0] * 50 + [0.0] * 40
    contestants = [Planted(label=label, planted=scores) for label, scores in zip("abc", (a, b, c), strict=True)]
    summary = summary_of(write_run(tmp_path, contestants, count))
    to_b, to_c = (summary.comparison("a", label) for label in "bc")
    assert to_b and to_c and summary.leader == "a"
    assert to_b.p_corrected > to_c.p_corrected
    assert to_b.changes_to_overturn and to_c.changes_to_overturn and to_b.changes_to_overturn > to_c.changes_to_overturn
    (said,) = [claim for claim in claims(summary) if claim.kind == "fragile"]
    assert said.facts["changes"] == to_c.changes_to_overturn

    # As in a race, where pairs are tested in a way that has no such number.
    other = tuple(replace(pair, changes_to_overturn=None) if pair is to_c else pair for pair in summary.comparisons)
    unknown = replace(summary, comparisons=other)
    assert [claim.kind for claim in claims(unknown) if claim.kind == "fragile"] == []
