"""Logs that belong together become one run, and those that do not are refused, without a terminal or a store."""

from datetime import UTC, datetime

import pytest

from tiebreak.core.errors import UsageError
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Output, Score, TrialResult
from tiebreak.imports.logs import Log, model_ref, trial_of
from tiebreak.imports.runs import events_of, logs_by_task, run_info

MADE = datetime(2026, 1, 1, tzinfo=UTC)


def make_log(path, *, task="capitals", model="openai/m", scorer="inspect:match", question="Of France?"):
    path.touch()
    ref = model_ref(model)
    sample = Sample(id="1", messages=(user(question),), targets=("Paris",), scorers=(scorer,), fixed=True)
    result = TrialResult(
        trial=trial_of(sample, ref),
        outcome=Outcome.ANSWERED,
        output=Output(text="Paris"),
        scores={scorer: Score(value=1.0)},
        finished_at=MADE,
    )
    return Log(
        path=path,
        task=task,
        model=ref,
        made_with="Inspect 1",
        created_at=MADE,
        results=[result],
        questions={"1": question},
    )


async def test_two_logs_of_one_model_are_told_apart(tmp_path):
    """By a number behind the name, in the model, its trials and their identity."""
    tasks = logs_by_task([make_log(tmp_path / "a.eval"), make_log(tmp_path / "b.eval")])
    logs = tasks["capitals"]
    events = [event async for event in events_of(logs)]

    assert [log.model.label for log in logs] == ["openai/m", "openai/m (2)"]
    assert len({event.result.trial.id for event in events[::2]}) == 2
    assert [event.contestant for event in events[1::2]] == ["openai/m", "openai/m (2)"]
    info = run_info("run", "capitals", logs)
    assert (info.planned, info.protocol.scorers, len(info.contestants)) == (1, ("inspect:match",), 2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"question": "Of Spain?"}, "ask different things"), ({"scorer": "inspect:other"}, "scored by different rules")],
)
def test_logs_that_cannot_be_compared_are_refused(tmp_path, change, complaint):
    with pytest.raises(UsageError, match=complaint):
        logs_by_task([make_log(tmp_path / "a.eval"), make_log(tmp_path / "b.eval", **change)])


def test_a_log_named_twice_is_refused_and_other_tasks_are_other_runs(tmp_path):
    log, other = make_log(tmp_path / "a.eval"), make_log(tmp_path / "b.eval", task="rivers", question="Of Spain?")
    assert list(logs_by_task([log, other])) == ["capitals", "rivers"]
    with pytest.raises(UsageError, match="named twice"):
        logs_by_task([log, log])
