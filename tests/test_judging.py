"""Judges are a party of their own: whatever becomes of them, answers are kept and contestants are asked once."""

import contextlib
import json
import sqlite3
import time

import pytest
from support.command import read_csv, run, start
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
        judged(folder, server, "--max-connections", "1", "--max-cost", "0.013", code=2)
        assert len(asked_of(server)) == len(ROWS)
        verdicts = len(asked_of(server, "referee"))
        assert 0 < verdicts < len(ROWS)
        (judge,) = report(folder)["judges"]
        assert 0 < judge["cost_usd"] <= 0.013
        done = again(folder, server, "score", "r", "--judge", "referee", "--max-cost", "0.013", code=2)
        assert "not judged yet" in done.stdout
        # What is set aside depends on the marks, which are drawn anew: one more may just fit.
        assert verdicts <= len(asked_of(server, "referee")) <= verdicts + 1
        assert report(folder)["judges"][0]["cost_usd"] <= 0.013
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


def test_several_judges_are_combined_by_majority_where_they_pass_or_fail(folder):
    """Their agreement is told with its interval."""

    def verdict(prompt):
        return json.dumps({"reason": "r", "verdict": "pass"})

    with FakeServer(says(verdict)) as server:
        line = (
            "run",
            "--model",
            "asked",
            "--dataset",
            "rows.jsonl",
            "--scorer",
            "judge:pass/fail: Is it short?",
            "--output",
            "r",
        )
        again(folder, server, *line, "--judge", "referee", "--judge", "umpire", "--yes")
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"1.0"}
    (agreement,) = report(folder)["judging"]["agreements"]
    assert (agreement["between"], agreement["answers"], agreement["alike"], agreement["alpha"]) == ("judges", 12, 1.0, None)


def test_judges_that_differ_show_it(folder):
    def verdict(prompt):
        return json.dumps({"reason": "r", "verdict": "pass" if verdict.next() else "fail"})

    verdict.next = iter([True, False] * 12).__next__
    with FakeServer(says(verdict)) as server:
        line = (
            "run",
            "--model",
            "asked",
            "--dataset",
            "rows.jsonl",
            "--scorer",
            "judge:pass/fail: Is it short?",
            "--output",
            "r",
        )
        done = again(folder, server, *line, "--judge", "referee", "--judge", "umpire", "--yes", "--max-connections", "1")
    assert "The judges agree on" in done.stdout
    (agreement,) = report(folder)["judging"]["agreements"]
    assert agreement["low"] <= agreement["alpha"] <= agreement["high"]
    assert agreement["alpha"] < 0.5


def test_rows_need_no_target_where_a_question_is_judged(folder):
    """A log of requests, as chat clients send them."""
    log = [{"model": "x", "messages": [{"role": "user", "content": f"Help me with {i}."}]} for i in range(6)]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    criteria = ["{name: helps, question: Does it help?, weight: 3}", "{name: short, question: Is it short?}"]
    (folder / "rubric.yaml").write_text(f"scale: pass/fail\ncriteria: [{', '.join(criteria)}]\n")
    verdict = json.dumps({"reason": "long", "grades": {"helps": "pass", "short": "fail"}})
    with FakeServer(says(verdict)) as server:
        line = ("run", "--model", "asked", "--dataset", "log.jsonl", "--scorer", "judge:rubric.yaml", "--judge", "referee")
        done = again(folder, server, *line, "--yes", "--output", "r")
        refused = again(folder, server, *line[:5], "--scorer", "judge", "--judge", "referee", code=1)
        assert "field 'target' is missing" in refused.stderr
        assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.75"}
        assert "asked by criterion: helps 1.00, short 0.00." in done.stdout
        assert "Reference answer" not in asked_of(server, "referee")[0].prompt
        assert len(asked_of(server)) == len(log)
        (folder / "rubric.yaml").write_text("criteria: [{name: helps, question: Does it help?}]")
        server.answer = says('{"reason": "", "grade": 10}')
        refused = again(folder, server, "run", "--resume", "r", code=1)
        assert "was made with other" in refused.stderr
        again(folder, server, "score", "r", "--scorer", "judge:rubric.yaml")
        assert len(asked_of(server)) == len(log)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"1.0"}


def voted(folder, votes, name="votes.csv"):
    lines = ["sample,contestant,verdict,person", *(f"{sample},asked,{verdict},{person}" for sample, verdict, person in votes)]
    (folder / name).write_text("\n".join(lines) + "\n")


def test_peoples_votes_correct_the_judge(folder):
    """All three are shown: as scored, corrected, and the bias; a second vote replaces the first."""
    verdict = '{"reason": "fine", "grade": 10}'
    with FakeServer(says(verdict)) as server:
        judged(folder, server)
        asked = len(server.ledger)
        assert report(folder)["judging"]["corrected"] == []
        voted(folder, [(f"s{i}", "pass" if i % 3 else "fail", "ann") for i in range(10)])
        done = again(folder, server, "score", "r", "--human", "votes.csv")
        again(folder, server, "score", "r", "--human", "votes.csv")
        assert len(server.ledger) == asked
    assert "judged by" not in done.stdout
    assert "10 votes of ann kept." in done.stdout
    assert "The scores agree with people on 60% of 10 answers" in done.stdout
    judging = report(folder)["judging"]
    (corrected,) = judging["corrected"]
    assert judging["votes"] == corrected["votes"] == 10
    assert corrected["raw"] == 1.0
    assert corrected["score"] == pytest.approx(0.6)
    assert corrected["low"] < 0.6 < corrected["high"]
    assert corrected["bias"] == pytest.approx(0.4)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"1.0"}
    page = (folder / "r" / "comparison_report.html").read_text()
    for words in ("Corrected by people’s votes", "0.60 [", "+0.40 ["):
        assert words in page
    markdown = again(folder, server, "report", "r", "--markdown").stdout
    assert "| asked | 1.00 | 0.60 \\[" in markdown


def test_a_few_votes_correct_nothing_and_say_so(folder):
    with FakeServer(says()) as server:
        judged(folder, server)
        voted(folder, [(f"s{i}", "pass", "ann") for i in range(4)] + [(f"s{i}", "0.5", "bob") for i in range(4)])
        done = again(folder, server, "score", "r", "--human", "votes.csv")
    assert "8 votes of people correct nothing" in done.stdout
    assert report(folder)["judging"]["corrected"] == []
    assert report(folder)["judging"]["people"] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("line", "says_what"),
    [
        ("s1,asked,maybe,ann", "vote 1: the verdict 'maybe' is not understood"),
        ("s99,asked,pass,ann", "vote 1: the run has no answer of asked to the sample 's99'"),
        ("s1,akses,pass,ann", "vote 1: the run has no contestant 'akses'"),
        (",asked,pass,ann", "vote 1: there is no 'sample'"),
    ],
)
def test_votes_that_make_no_sense_are_refused_and_none_is_kept(folder, line, says_what):
    with FakeServer(says()) as server:
        judged(folder, server)
        (folder / "votes.csv").write_text(f"sample,contestant,verdict,person\n{line}\ns2,asked,pass,ann\n")
        done = again(folder, server, "score", "r", "--human", "votes.csv", code=1)
    assert says_what in done.stderr
    assert rows(folder, "SELECT count(*) FROM judgements WHERE scorer LIKE 'human:%'") == [(0,)]


def test_what_a_judge_said_is_in_the_page(folder):
    from tiebreak.pipeline import read_summary
    from tiebreak.report.browse import sample_facts, view_samples
    from tiebreak.store.reader import StoreReader

    said = f"Let me see. {GRADE} So be it."
    with FakeServer(says(said), fault=dies_after(5)) as server:
        judged(folder, server, "--max-connections", "1", code=2)
    summary = read_summary(folder / "r")
    with StoreReader(folder / "r") as reader:
        views = view_samples(reader, summary, list(sample_facts(reader, summary)), 1000)
    answers = [answer for view in views for own in view.answers for answer in own]
    judged_ones = [answer for answer in answers if answer.mark == "wrong"]
    assert [(answer.judges[0].who, answer.judges[0].value, answer.judges[0].said) for answer in judged_ones] == [
        ("referee", 0.8, said)
    ] * 5
    unjudged = [answer for answer in answers if answer.mark == "unjudged"]
    assert {answer.text for answer in unjudged} == {"It is a line."}
    assert all("referee" in answer.judges[0].said and answer.judges[0].value is None for answer in unjudged)
    assert len(unjudged) == 7


@pytest.mark.needs("embedded")
def test_the_embedded_model_judges_without_any_key_and_its_poor_agreement_is_shown(tmp_path):
    """Twenty answers, half of them wrong; whatever it makes of them, the report holds it against people."""
    questions = [{"id": f"s{i}", "input": f"What is {i} + {i}?"} for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    answers = [{"when": f"What is {i} + {i}?", "text": str(2 * i + 7 * (i % 2))} for i in range(20)]
    (tmp_path / "half.json").write_text(json.dumps({"answers": answers}))
    verdicts = [f"s{i},{'fail' if i % 2 else 'pass'},ann" for i in range(20)]
    (tmp_path / "votes.csv").write_text("\n".join(["sample,verdict,person", *verdicts]) + "\n")

    line = ("run", "--model", "scripted/half.json", "--dataset", "rows.jsonl", "--scorer", "judge:pass/fail: Is it right?")
    done = run(*line, "--judge", "llama_cpp/smollm2-135m@max_tokens=48", "--output", "r", cwd=tmp_path, timeout=600)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    voted = run("score", "r", "--human", "votes.csv", cwd=tmp_path)

    (judge,) = report(tmp_path)["judges"]
    assert judge["verdicts"] + sum(judge["failures"].values()) == 20
    assert judge["verdicts"] > 0
    assert judge["local"]
    assert "The scores agree with people on" in voted.stdout
    (agreement,) = report(tmp_path)["judging"]["agreements"]
    assert agreement["between"] == "scorer and people"
    assert agreement["answers"] == judge["verdicts"]
    assert agreement["alpha"] is None or agreement["alpha"] < 0.67


def test_a_judge_whose_key_is_refused_changes_nothing(folder):
    """The scores there are stay: they are not thrown away for a judge that would judge nothing."""
    with FakeServer(says()) as server:
        judged(folder, server)
        server.preflight_fault = lambda asked: Fault(status=401) if asked.model == "umpire" else None
        done = again(folder, server, "score", "r", "--judge", "umpire", code=1)
    assert "Nothing was changed" in done.stdout
    assert rows(folder, "SELECT count(*) FROM trials WHERE score = 0.8") == [(12,)]


def test_judging_says_what_it_will_cost_and_asks_above_a_dollar(folder):
    (folder / "models_config.yaml").write_text(
        CONFIG.replace("price: {input: 1, output: 10}", "price: {input: 1000, output: 10000}")
    )
    with FakeServer(says()) as server:
        judged(folder, server)
        done = again(folder, server, "score", "r", "--judge", "umpire", code=1)
        assert "Expected cost: about $" in done.stdout
        assert "above $1, say --yes" in done.stdout
        assert asked_of(server, "umpire") == []
        again(folder, server, "score", "r", "--judge", "umpire", "--yes")
        assert len(asked_of(server, "umpire")) == len(ROWS)


def test_a_contestant_whose_time_is_over_keeps_the_answers_that_wait_for_a_judge(folder):
    """The judge here takes longer than there is time; what was answered was paid for."""
    with FakeServer(says(), latency_s=4.0) as server:
        judged(folder, server, "--timeout", "6", code=1)
        assert len(asked_of(server)) == len(ROWS)
        assert rows(folder, "SELECT count(*) FROM trials WHERE text = 'It is a line.' AND unjudged = 'answered'") == [(12,)]
        server.latency_s = 0.0
        again(folder, server, "score", "r", "--judge", "referee")
        assert len(asked_of(server)) == len(ROWS)
    assert {row["score"] for row in read_csv(folder / "r" / "trials.csv")} == {"0.8"}


def test_judging_that_is_killed_goes_on_where_it_stopped(folder):
    """Verdicts are on disk as they come, and a half-judged run says what it is."""
    with FakeServer(says()) as server:
        judged(folder, server, "--max-connections", "1")
        server.latency_s = 0.4
        process = start("score", "r", "--judge", "umpire", cwd=folder, **server.environment())
        deadline = time.monotonic() + 60
        counted = "SELECT count(*) FROM judgements WHERE judge = 'umpire'"
        while time.monotonic() < deadline and not 2 <= rows(folder, counted)[0][0] <= 10:
            time.sleep(0.05)
        process.kill()
        process.communicate()
        server.latency_s = 0.0
        verdicts = rows(folder, counted)[0][0]
        assert 2 <= verdicts < len(ROWS)
        before = len(asked_of(server, "umpire"))
        again(folder, server, "score", "r", "--judge", "umpire")
        assert len(asked_of(server, "umpire")) - before == len(ROWS) - verdicts
        assert len(asked_of(server)) == len(ROWS)
    assert rows(folder, "SELECT count(*), count(DISTINCT trial) FROM judgements WHERE judge = 'umpire'") == [(12, 12)]
