"""Judges are a party of their own: whatever becomes of them, answers are kept and contestants are asked once."""

import contextlib
import json
import sqlite3

import pytest
from support.command import read_csv, run
from support.server import FakeServer, Fault

ROWS = [{"id": f"s{i}", "input": f"Write line {i}.", "target": f"line {i}"} for i in range(12)]
CONFIG = """
models:
  - {name: asked, provider: openai, model: asked}
  - {name: referee, provider: anthropic, model: referee, price: {input: 10, output: 100}, settings: {max_tokens: 64}}
  - {name: umpire, provider: google, model: umpire, price: {input: 1, output: 10}, settings: {max_tokens: 64}}
"""
GRADE = '{"reason": "fine", "grade": 8}'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "models_config.yaml").write_text(CONFIG)
    return tmp_path


def says(verdict=GRADE):
    """A server whose contestants answer, and whose judges give a verdict."""
    return lambda prompt: (verdict(prompt) if callable(verdict) else verdict) if "Rubric:" in prompt else "It is a line."


def judged(folder, server, *arguments, code=0, judges=("referee",)):
    named = [word for judge in judges for word in ("--judge", judge)]
    line = ("run", "--model", "asked", "--dataset", "rows.jsonl", "--scorer", "judge", *named, "--output", "r", "--yes")
    done = run(*line, *arguments, cwd=folder, **server.environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def again(folder, server, *arguments, code=0):
    done = run(*arguments, cwd=folder, **server.environment())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def asked_of(server, model="asked"):
    return [asked for asked in server.ledger if asked.model == model]


def rows(folder, query):
    with contextlib.closing(sqlite3.connect(folder / "r" / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


def report(folder):
    return json.loads((folder / "r" / "comparison_report.json").read_text())


def dies_after(count):
    """The judge answers so often, and then never again."""
    seen = []

    def fault(asked, number):
        if asked.model != "referee":
            return None
        seen.append(asked)
        return Fault(status=401) if len(seen) > count else None

    return fault


def test_a_judge_that_dies_leaves_every_answer_kept_and_is_made_up_for_on_resume(folder):
    """Contestants are asked once: not by the resumed run, not even by its preflight."""
    with FakeServer(says(), fault=dies_after(5)) as server:
        judged(folder, server, "--max-connections", "1", code=2)
        assert len(asked_of(server)) == len(ROWS)
        assert rows(folder, "SELECT count(*) FROM trials WHERE text = 'It is a line.'") == [(12,)]
        assert rows(folder, "SELECT count(*), sum(score IS NULL) FROM trials WHERE unjudged = 'answered'") == [(7, 7)]
        server.fault = lambda asked, number: None
        server.tried.clear()
        again(folder, server, "run", "--resume", "r")
        assert len(asked_of(server)) == len(ROWS)
        assert {tried.model for tried in server.tried} == {"referee"}
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.8"}
    assert rows(folder, "SELECT count(*), count(unjudged), count(failure_kind) FROM trials") == [(12, 0, 0)]


def test_score_with_the_same_judge_judges_what_is_missing(folder):
    with FakeServer(says(), fault=dies_after(5)) as server:
        judged(folder, server, "--max-connections", "1", code=2)
        server.fault = lambda asked, number: None
        before = len(asked_of(server, "referee"))
        done = again(folder, server, "score", "r", "--judge", "referee")
        assert "7 answers judged by referee; contestants were asked nothing." in done.stdout
        assert len(asked_of(server, "referee")) - before == 7
        assert len(asked_of(server)) == len(ROWS)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.8"}


def test_another_judge_judges_everything_and_the_first_ones_dollars_stay(folder):
    """A run is never scored half by one judge and half by another."""
    with FakeServer(says()) as server:
        judged(folder, server)
        server.answer = says('{"reason": "no", "grade": 2}')
        again(folder, server, "score", "r", "--judge", "umpire")
        assert len(asked_of(server)) == len(asked_of(server, "umpire")) == len(ROWS)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.2"}
    judges = {judge["label"]: judge for judge in report(folder)["judges"]}
    assert judges["referee"]["cost_usd"] > 0
    assert judges["referee"]["verdicts"] == 0
    assert judges["umpire"]["verdicts"] == len(ROWS)


def test_a_run_without_a_judge_can_be_judged_later(folder):
    with FakeServer(says()) as server:
        again(folder, server, "run", "--model", "asked", "--dataset", "rows.jsonl", "--output", "r")
        again(folder, server, "score", "r", "--judge", "referee")
        assert len(asked_of(server)) == len(asked_of(server, "referee")) == len(ROWS)
        again(folder, server, "run", "--resume", "r")
        assert len(server.ledger) == 2 * len(ROWS)
    (kept,) = {tuple(sorted(json.loads(scores))) for (scores,) in rows(folder, "SELECT scores FROM trials")}
    assert kept == ("judge", "match")
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.8"}


def test_a_judge_that_is_busy_slow_and_wordy_still_judges(folder):
    """429 at first, slow, and with words, a fence and thoughts around its JSON; what it said is kept whole."""
    seen = []

    def busy(asked, number):
        seen.extend([asked] if asked.model == "referee" else [])
        early = asked.model == "referee" and len(seen) <= 4
        return Fault(status=429, headers={"Retry-After": "0.1"}) if early else None

    said = f"<think>Hm.</think>Here is my verdict:\n```json\n{GRADE}\n```\nI hope that helps."
    with FakeServer(says(said), fault=busy, latency_s=0.05) as server:
        judged(folder, server)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.8"}
    assert {text for (text,) in rows(folder, "SELECT reply_text FROM judgements")} == {said}
    (judge,) = report(folder)["judges"]
    assert judge["verdicts"] == len(ROWS)
    assert judge["calls"] == len(ROWS) + 4


def test_a_judge_is_asked_by_schema_and_without_one_where_its_server_refuses_them(folder):
    def no_schemas(asked, number):
        return Fault(status=400) if asked.model == "referee" and "output_config" in asked.body else None

    with FakeServer(says(), fault=no_schemas) as server:
        judged(folder, server, "--max-connections", "1")
        asked = asked_of(server, "referee")
    assert [("output_config" in one.body) for one in asked] == [True] + [False] * len(ROWS)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.8"}


def test_the_budget_covers_the_judge_and_a_judge_it_stops_loses_no_answer(folder):
    """Contestants here cost nothing known to be spent; the judge's dollars reach the cap."""
    (folder / "models_config.yaml").write_text(CONFIG.replace("model: asked}", "model: asked, price: {input: 0, output: 0}}"))
    with FakeServer(says()) as server:
        judged(folder, server, "--max-connections", "1", "--max-cost", "0.011", code=2)
        assert len(asked_of(server)) == len(ROWS)
        verdicts = len(asked_of(server, "referee"))
        assert 0 < verdicts < len(ROWS)
        (judge,) = report(folder)["judges"]
        assert 0 < judge["cost_usd"] <= 0.011
        done = again(folder, server, "score", "r", "--judge", "referee", "--max-cost", "0.011", code=2)
        assert "not judged yet" in done.stdout
        assert len(asked_of(server, "referee")) == verdicts
        again(folder, server, "score", "r", "--judge", "referee", "--max-cost", "5")
        assert len(asked_of(server, "referee")) == len(ROWS)
        assert len(asked_of(server)) == len(ROWS)


def test_an_unpriced_judge_cannot_be_capped(folder):
    (folder / "models_config.yaml").write_text(CONFIG.replace("price: {input: 10, output: 100}, ", ""))
    with FakeServer(says()) as server:
        line = ("run", "--model", "asked", "--dataset", "rows.jsonl", "--scorer", "judge", "--judge", "referee")
        done = again(folder, server, *line, "--max-cost", "1", code=1)
    assert "needs the price of" in done.stderr
    assert "'referee'" in done.stderr


def test_a_rule_that_ranks_is_not_held_up_by_a_judge(folder):
    """The judge beside it is made up for later."""
    with FakeServer(says(), fault=dies_after(5)) as server:
        line = ("run", "--model", "asked", "--dataset", "rows.jsonl", "--scorer", "match", "--scorer", "judge")
        again(folder, server, *line, "--judge", "referee", "--output", "r", "--yes", "--max-connections", "1", code=2)
        assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.0"}
        assert rows(folder, "SELECT count(*) FROM trials WHERE unjudged IS NOT NULL") == [(7,)]
        server.fault = lambda asked, number: None
        again(folder, server, "run", "--resume", "r")
        assert len(asked_of(server)) == len(ROWS)
    scores = [json.loads(scores) for (scores,) in rows(folder, "SELECT scores FROM trials")]
    assert {(one["match"]["value"], one["judge"]["value"]) for one in scores} == {(0.0, 0.8)}


def test_several_judges_agree_on_a_mean_and_only_the_missing_one_is_asked_again(folder):
    def verdict(prompt):
        return json.dumps({"reason": "r", "grade": 9})

    with FakeServer(says(verdict), fault=dies_after(5)) as server:
        judged(folder, server, "--max-connections", "1", code=2, judges=("referee", "umpire"))
        assert len(asked_of(server, "umpire")) == len(ROWS)
        server.fault = lambda asked, number: None
        server.answer = says('{"reason": "r", "grade": 5}')
        again(folder, server, "run", "--resume", "r")
        assert len(asked_of(server, "umpire")) == len(ROWS)
        assert len(asked_of(server)) == len(ROWS)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.9", "0.7"}


def test_the_judge_is_in_the_estimate(folder):
    with FakeServer(says()) as server:
        done = judged(folder, server, judges=("referee", "umpire"))
    assert "judge referee $" in done.stdout
    assert "judge umpire $" in done.stdout
