"""Before and after: what was fixed, what was broken, and is it more than luck?"""

from __future__ import annotations

from support.packages import need_packages

need_packages("statsmodels")

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from statsmodels.stats.contingency_tables import mcnemar
from support.made import Planted, Trials, samples, write_run

from tiebreak.core.errors import ProtocolMismatch, UsageError
from tiebreak.core.run import TaskRules
from tiebreak.report.baseline import Baseline, read_baseline
from tiebreak.report.changes import changes, check_held_against, check_protocols

RIGHT_40 = [1.0] * 40 + [0.0] * 20


def made(folder: Path, planted: list[float | str], *, label: str = "m", **protocol: Any) -> Baseline:
    write_run(folder, [Planted(label=label, planted=planted)], len(planted), run_id=folder.name, **protocol)
    return read_baseline(str(folder), folder.parent)


def test_fixed_and_broken_samples_are_counted_and_tested(tmp_path: Path) -> None:
    """Twelve broken and two fixed: McNemar's exact test, as statsmodels has it."""
    after = [0.0] * 12 + [1.0] * 28 + [1.0] * 2 + [0.0] * 18
    (change,) = changes(made(tmp_path / "before", list(RIGHT_40)), made(tmp_path / "after", after))

    assert (len(change.fixed), len(change.broken)) == (2, 12)
    assert change.broken[0] == "s00000"
    assert (change.before, change.after) == (pytest.approx(40 / 60), pytest.approx(30 / 60))
    assert change.p == pytest.approx(mcnemar([[0, 2], [12, 0]], exact=True).pvalue, rel=1e-9)
    assert change.worse
    assert not change.better
    assert "m is worse than before: -16.7 points" in change.sentence


def test_luck_is_not_a_drop_and_the_smallest_drop_is_named(tmp_path: Path) -> None:
    """One broken sample of sixty shows nothing."""
    after = [0.0] + [1.0] * 39 + [0.0] * 20
    (change,) = changes(made(tmp_path / "before", list(RIGHT_40)), made(tmp_path / "after", after))

    assert not change.worse
    assert change.p == 1.0
    assert 0.01 < change.smallest_difference < 0.2
    assert f"A change of {100 * change.smallest_difference:.1f} points would have been seen." in change.sentence


def test_only_samples_answered_in_both_are_compared(tmp_path: Path) -> None:
    """A failure breaks nothing."""
    after: list[float | str] = ["timeout"] * 10 + [1.0] * 30 + [0.0] * 20
    (change,) = changes(made(tmp_path / "before", list(RIGHT_40)), made(tmp_path / "after", after))
    assert (change.samples, change.broken, change.fixed) == (50, (), ())


def test_groups_are_reassigned_together(tmp_path: Path) -> None:
    """Ten broken samples of one passage are one accident."""
    trials = Trials(samples(40, groups=[f"g{i // 10}" for i in range(40)]))
    write_run(tmp_path / "1", [Planted(label="m", planted=[1.0] * 40)], trials)
    write_run(tmp_path / "2", [Planted(label="m", planted=[0.0] * 10 + [1.0] * 30)], trials)
    (change,) = changes(read_baseline(str(tmp_path / "1"), tmp_path), read_baseline(str(tmp_path / "2"), tmp_path))
    assert change.p == 1.0
    assert len(change.broken) == 10


@pytest.mark.parametrize(
    "part", [{"dataset_digest": "11"}, {"tasks": TaskRules(follow_ups=7)}, {"scorers": ("choice/1",)}, {"seed": 5}]
)
def test_runs_made_otherwise_are_not_compared_unless_forced(part: dict[str, Any], tmp_path: Path) -> None:
    """The message says in what they differ; with --force the difference is handed back to be shown."""
    one, other = made(tmp_path / "one", [1.0]), made(tmp_path / "other", [1.0], **part)
    with pytest.raises(ProtocolMismatch, match="--force"):
        check_protocols(one, other)
    assert len(check_protocols(one, other, force=True)) == 1
    with pytest.raises(ProtocolMismatch, match="Make a new baseline"):
        check_held_against(one, other.protocol, [Planted(label="m", planted=[]).contestant])


def test_a_longer_run_may_be_compared_with_a_shorter_one(tmp_path: Path) -> None:
    """Limits are nested: the common samples are the same ones."""
    one, other = made(tmp_path / "one", [1.0], limit=1), made(tmp_path / "other", [1.0, 0.0], limit=2)
    assert check_protocols(one, other) == []
    assert changes(one, other)[0].samples == 1


def test_single_models_are_held_against_each_other_whatever_their_names(tmp_path: Path) -> None:
    """An upgrade changes the name."""
    one, other = made(tmp_path / "one", [1.0, 0.0], label="v1"), made(tmp_path / "other", [1.0, 1.0], label="v2")
    (change,) = changes(one, other)
    assert (change.was, change.label, change.fixed) == ("v1", "v2", ("s00001",))


def test_runs_without_a_common_model_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "1", [Planted(label=label, planted=[1.0]) for label in "ab"], 1, run_id="1")
    with pytest.raises(UsageError, match="no model in common"):
        changes(read_baseline(str(tmp_path / "1"), tmp_path), made(tmp_path / "2", [1.0], label="c"))
    two = read_baseline(str(tmp_path / "1"), tmp_path)
    with pytest.raises(UsageError, match="no model in common"):
        check_held_against(two, two.protocol, [Planted(label="c", planted=[]).contestant])


def test_a_gate_on_equal_models_rarely_fails(tmp_path: Path) -> None:
    """By simulation: of 300 repeats of the same skill at most 5 % are called worse."""
    rng = np.random.default_rng(9)
    base = made(tmp_path / "base", [1.0])
    entry = base.contestants["m"]
    wrongly = 0
    for _ in range(300):
        before, after = ((rng.random(80) < 0.8).astype(float) for _ in range(2))
        one, other = (
            replace(base, contestants={"m": replace(entry, scores={str(i): float(v) for i, v in enumerate(scores)})})
            for scores in (before, after)
        )
        wrongly += changes(one, other)[0].worse
    assert wrongly <= 15
