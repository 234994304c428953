"""What is shown while a run goes on."""

from datetime import UTC, datetime

import pytest
from support.specs import trial_of

from tiebreak.cli.progress import Counts, Plain
from tiebreak.core.events import ContestantStarted, NodeChanged, NodeState, TrialFinished
from tiebreak.core.message import Usage, user
from tiebreak.core.model import ModelRef
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Outcome, Output, TrialResult

MODEL = ModelRef(provider="openai", name="m", label="m")
TRIAL = trial_of(Sample(id="s", messages=(user("Hi"),), scorers=()), MODEL)


def finished(cost_usd):
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=cost_usd)
    output = Output(text="x", usage=usage)
    return TrialFinished(
        TrialResult(trial=TRIAL, outcome=Outcome.ANSWERED, output=output, finished_at=datetime(2026, 1, 1, tzinfo=UTC))
    )


@pytest.fixture
def counts():
    """One model with a hundred trials to do."""
    counts = Counts()
    counts.watch(ContestantStarted(contestant="m", position=1, contestants=1, trials=100))
    return counts


def test_the_cost_is_projected_once_five_are_done(counts):
    for _ in range(4):
        counts.watch(finished(0.01))
    assert counts.by_label["m"].projected_usd is None
    counts.watch(finished(0.06))
    assert counts.by_label["m"].projected_usd == pytest.approx(2.0)
    assert counts.by_label["m"].tokens == 75


def test_without_a_price_nothing_is_projected(counts):
    for _ in range(10):
        counts.watch(finished(None))
    assert counts.by_label["m"].projected_usd is None


@pytest.mark.parametrize(("cost", "said"), [(0.01, ", ~$1.00 in all"), (0.001, ", ~$0.1000 in all"), (None, "s left")])
def test_plain_lines_say_what_it_will_cost(cost, said):
    lines = []
    view, now = Plain(lines.append), [0.0]
    view._counts.clock = lambda: now[0]
    view.watch(ContestantStarted(contestant="m", position=1, contestants=1, trials=100))
    for _ in range(6):
        now[0] += 2.0
        view.watch(finished(cost))
    assert lines[-1].endswith(said)


def test_nodes_of_a_cluster_are_counted_and_named(counts):
    said = []
    plain = Plain(said.append)
    for state, message, ready in ((NodeState.READY, "2 CPUs", 3), (NodeState.LOST, "nothing was heard from it for 15 s", 2)):
        event = NodeChanged(node="10.0.0.7", state=state, message=message, ready=ready)
        plain.watch(event)
        counts.watch(event)
    assert said == ["  node 10.0.0.7: 2 CPUs", "  node 10.0.0.7: lost: nothing was heard from it for 15 s"]
    assert counts.sentence(counts.clock()).endswith("on 2 nodes")
