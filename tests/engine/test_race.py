"""Races: whoever is shown to be worse is asked no further, by evidence in the order of the plan, however answers come."""

import asyncio
import json
import random
import re
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from support import planted
from support.command import read_csv, run

from tiebreak.core.contestant import Contestant
from tiebreak.core.events import ContestantFinished, ContestantState, TrialFinished
from tiebreak.core.model import ModelRef, Price
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.engine.race import AHEAD, Observed
from tiebreak.engine.stop import Stop
from tiebreak.pipeline import make_plan, run_benchmark, run_plan
from tiebreak.registry import make_strategy
from tiebreak.report.verdict import claims
from tiebreak.stats.decision import decide
from tiebreak.stats.race import Leader, Tiers
from tiebreak.stats.schedule import Schedule

LABELS = ("a", "b", "c")
SAMPLES = 600


@pytest.fixture
def world(tmp_path):
    """Three models with planted answers: a is far ahead, b and c are equal."""
    rng = np.random.default_rng(11)
    right = rng.random((3, SAMPLES)) < np.array([[0.85], [0.6], [0.6]])
    rows = [{"id": f"s{i:04}", "input": f"Question {i}", "target": "yes"} for i in range(SAMPLES)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def answer(model, question):
        return "yes" if right[LABELS.index(model), int(question.removeprefix("Question "))] else "no"

    planted.answers["says"] = answer
    yield tmp_path, right
    del planted.answers["says"]


def spec_for(folder, until="leader", name="run", **protocol):
    models = [ModelRef(provider=planted.PROVIDER, name=label, label=label) for label in LABELS]
    return RunSpec(
        protocol=Protocol(dataset=str(folder / "q.jsonl"), until=until, **protocol),
        contestants=tuple(Contestant(label=model.label, model=model) for model in models),
        pace=Pace(max_connections=8),
        results_dir=folder / name,
    )


def raced(table, strategy=Leader):
    """The pure race over a table: after how many samples each contestant left, and why."""
    race, left = strategy(LABELS, table.shape[1]), {}
    for column in table.T:
        scores = {label: float(value) for label, value in zip(LABELS, column, strict=True) if label not in race.decided()}
        if not scores:
            break
        race.observe(Observed("", scores, scores))
        for label in race.decided():
            left.setdefault(label, next(iter(left.values()), 0) * 0 + race._rows)
    return left, dict(race.decided())


def in_plan_order(folder, right):
    plan = make_plan(spec_for(folder))
    return right[:, list(plan.order)].astype(float)


def ends_of(summary):
    return {c.label: (c.state, c.message) for c in summary.contestants}


def test_losers_leave_early_and_everything_is_as_the_pure_race_says(world):
    folder, right = world
    left, decided = raced(in_plan_order(folder, right))
    summary = asyncio.run(run_benchmark(spec_for(folder)))
    assert set(decided) == set(LABELS), "the planted gap should be found early"
    assert ends_of(summary) == {label: (ContestantState.DECIDED, reason) for label, reason in decided.items()}
    assert summary.leader == "a"
    for contestant in summary.contestants:
        # What was in flight, or ahead of the others, when the decision fell.
        assert left[contestant.label] <= contestant.asked <= left[contestant.label] + AHEAD + 8
    assert all(contestant.rankable and contestant.finished for contestant in summary.contestants)
    assert next(claim.kind for claim in claims(summary)) == "leads"


def test_verdict_says_what_was_not_asked(world):
    folder, _ = world
    summary = asyncio.run(run_benchmark(spec_for(folder)))
    asked = sum(contestant.asked for contestant in summary.contestants)
    (saved,) = [claim for claim in claims(summary) if claim.kind == "raced"]
    assert saved.facts["asked"] == asked < saved.facts["planned"] == 3 * SAMPLES
    assert "was not needed" in saved.sentence


def test_order_in_which_answers_come_does_not_matter(world, monkeypatch):
    """Right answers are quick and wrong ones slow: decisions are the same."""
    folder, _right = world
    expected = ends_of(asyncio.run(run_benchmark(spec_for(folder))))
    says = planted.answers["says"]
    shaken = random.Random(3)

    async def slowly(model, question):
        answer = says(model, question)
        await asyncio.sleep(0.0 if answer == "yes" else shaken.random() * 0.01)
        return answer

    planted.answers["says"] = slowly
    assert ends_of(asyncio.run(run_benchmark(spec_for(folder, name="slow")))) == expected


def test_stopped_anywhere_and_resumed_the_decisions_are_the_same(world):
    folder, _ = world
    expected = ends_of(asyncio.run(run_benchmark(spec_for(folder))))
    for number, after in enumerate((1, 30, 77, 150, 260)):
        spec = spec_for(folder, name=f"stopped{number}")
        asyncio.run(stopped(spec, after))
        assert ends_of(asyncio.run(run_benchmark(spec))) == expected


async def stopped(spec, after):
    stop, seen = Stop(), 0

    def watch(event):
        nonlocal seen
        seen += isinstance(event, TrialFinished)
        if seen == after:
            stop.ask()

    await run_plan(make_plan(spec), watch=watch, stop=stop)


def test_finished_race_resumes_to_nothing_and_until_all_goes_on(world):
    folder, _ = world
    asyncio.run(run_benchmark(spec_for(folder)))
    events = []
    asyncio.run(run_plan(make_plan(spec_for(folder)), watch=events.append))
    assert not [event for event in events if isinstance(event, TrialFinished)]
    summary = asyncio.run(run_benchmark(spec_for(folder, until="all")))
    assert all(c.asked == SAMPLES and c.state == ContestantState.FINISHED for c in summary.contestants)
    assert summary.leader == "a"


def test_one_that_fails_for_good_does_not_hold_up_the_others(world):
    folder, _right = world
    says = planted.answers["says"]
    planted.answers["says"] = lambda model, question: "failed" if model == "b" else says(model, question)
    events = []
    summary = asyncio.run(run_plan(make_plan(spec_for(folder)), watch=events.append))
    ends = {event.contestant: event.state for event in events if isinstance(event, ContestantFinished)}
    assert ends["b"] == ContestantState.FAILED
    assert {ends["a"], ends["c"]} == {ContestantState.DECIDED}
    assert summary.comparisons


def test_repeats_of_a_sample_are_one_observation(world):
    folder, _ = world
    summary = asyncio.run(run_benchmark(spec_for(folder, repeats=3)))
    assert summary.leader == "a"
    assert all(contestant.asked % 3 == 0 or contestant.asked > 60 for contestant in summary.contestants)


def test_tiers_go_on_until_every_place_is_known():
    rng = np.random.default_rng(5)
    table = (rng.random((3, 2000)) < np.array([[0.9], [0.7], [0.5]])).astype(float)
    left, decided = raced(table, Tiers)
    assert set(decided) == set(LABELS)
    done = [left[label] for label in LABELS]
    cut = np.where(np.arange(2000) < np.array(done)[:, None], table, np.nan)
    assert decide(cut, done=done, planned=2000, schedule=Schedule(raced=True)).tiers == ((0,), (1,), (2,))


@pytest.mark.parametrize(("share", "places"), [("34%", 1), ("67%", 2)])
def test_best_share_goes_on_until_it_is_known_who_belongs_to_it(share, places):
    rng = np.random.default_rng(5)
    table = (rng.random((3, 2000)) < np.array([[0.9], [0.7], [0.5]])).astype(float)
    _, decided = raced(table, lambda labels, planned: make_strategy(share, labels, planned))
    among = [label for label, reason in decided.items() if "shown to be among the best" in reason]
    assert sorted(among) == list(LABELS[:places])
    assert set(decided) == set(LABELS)


@pytest.mark.parametrize("share", ["0%", "100%", "many%", "nan%"])
def test_share_that_is_none_is_refused(tmp_path, share):
    (tmp_path / "q.jsonl").write_text('{"input": "?", "target": "x"}\n')
    (tmp_path / "says.py").write_text(SAYS)
    done = run("run", "--models", "./says.py:Says/a,./says.py:Says/b", "--dataset", "q.jsonl", "--until", share, cwd=tmp_path)
    assert done.returncode == 1
    assert f"--until {share}: a share of the contestants is" in done.stderr
    assert "Traceback" not in done.stderr


def test_dry_run_says_what_a_race_is_expected_to_ask(tmp_path):
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"id": str(i), "input": f"{i}?", "target": "x"}) + "\n" for i in range(900))
    )
    (tmp_path / "says.py").write_text(SAYS)
    line = ("run", "--models", "./says.py:Says/a,./says.py:Says/b", "--dataset", "q.jsonl", "--dry-run")
    done = run(*line, "--until", "leader", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shares = [int(found) for found in re.findall(r"points ahead of the other: about (\d+)% of the trials", done.stdout)]
    assert len(shares) == 4
    assert shares == sorted(shares, reverse=True)
    assert shares[0] >= 90
    assert shares[-1] <= 20
    assert "ahead" not in run(*line, cwd=tmp_path).stdout


def test_equals_are_asked_everything_and_false_leaders_are_rare():
    false = 0
    for seed in range(60):
        table = (np.random.default_rng(seed).random((3, 300)) < 0.6).astype(float)
        false += bool(raced(table)[1])
    assert false <= 3


def test_strategy_of_ones_own_in_a_few_lines(tmp_path):
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            class FirstToTen:
                def __init__(self, contestants, planned):
                    self.right = dict.fromkeys(contestants, 0)

                def observe(self, row):
                    for label, score in row.scores.items():
                        self.right[label] += score or 0

                def decided(self):
                    return {label: "ten right" for label, right in self.right.items() if right >= 10}
            """
        )
    )
    (tmp_path / "answers.yaml").write_text("")
    rows = [{"id": str(i), "input": f"{i}?", "target": "ten"} for i in range(200)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "says.py").write_text(SAYS)
    done = run(
        *("run", "--model", "./says.py:Says/ten", "--model", "./says.py:Says/never", "--dataset", "q.jsonl", "--output", "out"),
        *("--until", "./mine.py:FirstToTen"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {}
    for row in read_csv(tmp_path / "out" / "trials.csv"):
        counts[row["contestant"]] = counts.get(row["contestant"], 0) + 1
    ten, never = sorted(counts.values())
    assert 10 <= ten <= 10 + AHEAD + 64
    assert never == 200
    assert "ten right" in " ".join(done.stdout.split())


SAYS = """
from tiebreak.core.message import Reply

class Says:
    name = "says"
    key_variables = url_variables = ()
    local = False

    def __init__(self, endpoint): ...
    async def open(self, model): ...
    async def close(self): ...
    async def list_models(self): return ["ten"]
    async def generate(self, request, listener=None):
        return Reply(text=request.model)
"""


def test_unknown_strategy_is_named(tmp_path):
    (tmp_path / "q.jsonl").write_text('{"input": "?", "target": "x"}\n')
    done = run("run", "--model", "baseline/random", "--dataset", "q.jsonl", "--until", "leadr", cwd=tmp_path)
    assert done.returncode == 1
    assert "'leadr'; did you mean 'leader'?" in done.stderr


def test_page_terminal_and_files_of_a_race(world):
    """Everything that is made of a run can be made of one that was decided early, and looking at it costs nothing."""
    folder, _ = world
    asyncio.run(run_benchmark(spec_for(folder)))
    page = run("report", "run", cwd=folder)
    assert page.returncode == 0, page.stderr
    said = " ".join(page.stdout.split())
    assert "stopped after" in said
    assert "looked into" not in said
    assert said.count("shown to be worse than a") == 2
    report = json.loads((folder / "run" / "comparison_report.json").read_text())
    assert report["looks"] == 0


def priced(spec, prices):
    """The same contestants, with prices per million tokens; an answer has one token in and one out."""
    contestants = [
        replace(c, model=replace(c.model, price=Price(input_usd=prices[c.label], output_usd=prices[c.label])))
        for c in spec.contestants
    ]
    return replace(spec, contestants=tuple(contestants))


def test_cheapest_that_is_good_enough_ends_the_race(world):
    """b and c are equal and a is far ahead: of those within two points of the best, a is the cheapest."""
    folder, _ = world
    spec = priced(spec_for(folder, until="cheapest:2"), {"a": 8.0, "b": 2.0, "c": 1.0})
    summary = asyncio.run(run_benchmark(spec))
    assert summary.good_enough is not None
    assert summary.good_enough.label == "a"
    assert summary.good_enough.cheaper == ("b", "c")
    assert sum(contestant.asked for contestant in summary.contestants) < 2 * SAMPLES
    (said,) = [claim.sentence for claim in claims(summary) if claim.kind == "good_enough"]
    assert said.startswith("a is the cheapest that is shown to be within 2.0 points of the best, at $0.016 per 1,000 answers")


def test_race_for_the_cheapest_needs_prices(tmp_path):
    (tmp_path / "q.jsonl").write_text('{"input": "?", "target": "x"}\n')
    (tmp_path / "says.py").write_text(SAYS)
    models = ("--model", "./says.py:Says/ten", "--model", "./says.py:Says/two")
    line = ("run", *models, "--dataset", "q.jsonl", "--until", "cheapest", "--margin", "5")
    done = run(*line, cwd=tmp_path)
    assert done.returncode == 1
    assert "no price is known of ./says.py:Says/ten" in done.stderr
    alone = run("run", "--model", "./says.py:Says/ten", "--dataset", "q.jsonl", "--margin", "5", cwd=tmp_path)
    assert "--margin 5 goes with --until cheapest" in alone.stderr


def test_one_that_is_done_early_stays_in_the_race(tmp_path):
    """Else the slower one would be left alone, and asked no further, though nothing is decided."""
    (tmp_path / "says.py").write_text(SAYS.replace("return Reply(text=request.model)", SLOWLY))
    rows = [{"id": str(i), "input": f"{i}?", "target": "x"} for i in range(60)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = ("run", "--model", "./says.py:Says/slow", "--model", "./says.py:Says/quick", "--dataset", "q.jsonl", "--output", "out")
    done = run(*line, "--until", "leader", "--max-connections", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_csv(tmp_path / "out" / "trials.csv")) == 120
    assert "left in the race" not in done.stdout


SLOWLY = """import asyncio
        await asyncio.sleep(0.02 if request.model == "slow" else 0)
        return Reply(text="x" if int(request.messages[-1].text[:-1]) % 2 else "y")"""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--model", "./says.py:Says/ten", "--until", "leader"), "a race needs two contestants"),
        (("--model", "./says.py:Says/ten", "--model", "baseline/random", "--until", "tiers"), "a race needs two contestants"),
        (("--models", "./says.py:Says/a,./says.py:Says/b", "--until", "leader", "--shard", "1/2"), "cannot decide a race"),
        (("--models", "./says.py:Says/a,./says.py:Says/b", "--until", "leader", "--choose-on", "half"), "both choose the best"),
        (("--models", "./says.py:Says/a,./says.py:Says/b", "--until", "cheapest", "--margin", "nan"), "'--margin': 'nan'"),
        (("--models", "./says.py:Says/a,./says.py:Says/b", "--until", "./says.py:nothing"), "says.py has no 'nothing'"),
    ],
)
def test_race_that_makes_no_sense_is_refused_before_anything_is_made(tmp_path, more, told):
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"id": str(i), "input": "?", "target": "x"}) + "\n" for i in range(9)))
    (tmp_path / "says.py").write_text(SAYS)
    done = run("run", *more, "--dataset", "q.jsonl", "--output", "out", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "run.sqlite").exists()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def observe(self, row): raise ValueError('boom')\n    def decided(self): return {}", "raised ValueError: boom"),
        ("def observe(self, row): ...\n    def decided(self): return None", "decided() returned None"),
        ("def observe(self, row): raise SystemExit(3)\n    def decided(self): return {}", "raised SystemExit: 3"),
    ],
)
def test_fault_of_a_strategy_is_told_in_a_sentence(tmp_path, body, told):
    (tmp_path / "mine.py").write_text(f"class Mine:\n    def __init__(self, contestants, planned): ...\n    {body}\n")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"id": str(i), "input": "?", "target": "x"}) + "\n" for i in range(9)))
    (tmp_path / "says.py").write_text(SAYS)
    line = ("run", "--models", "./says.py:Says/a,./says.py:Says/b", "--dataset", "q.jsonl", "--output", "out")
    done = run(*line, "--until", "./mine.py:Mine", cwd=tmp_path)
    assert f"the strategy ./mine.py:Mine {told}".replace("Mine decided", "Mine: decided") in " ".join(
        (done.stdout + done.stderr).split()
    )
    assert "Traceback" not in done.stdout + done.stderr
    again = run("run", "--resume", "out", "--until", "all", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
