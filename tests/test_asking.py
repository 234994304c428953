"""How questions are put and judged, from the command line to the result."""

import json

import pytest
from support.command import only_run, read_csv, run
from support.server import FakeServer, Fault

ROWS = [{"frage": f"What is {i} + {i}?", "loesung": str(2 * i), "nr": i} for i in range(1, 9)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    answers = [{"when": f"What is {i} + {i}?", "text": f"The answer is {2 * i}"} for i in range(1, 9)]
    (tmp_path / "right.json").write_text(json.dumps({"answers": answers}))
    return tmp_path


FIELDS = ("--field", "frage=input", "--field", "loesung=target", "--field", "nr=id")


def asked(folder, *arguments, code=0, **environment):
    line = ("run", "--model", "scripted/right.json", "--dataset", "exam.jsonl", *FIELDS, *arguments)
    done = run(*line, cwd=folder, **environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_columns_are_named_by_flags_or_a_file(folder):
    asked(folder)
    assert {row["score"] for row in read_csv(only_run(folder) / "trials.csv")} == {"1.0"}
    (folder / "map.yaml").write_text("frage: input\nloesung: target\n")
    done = run("run", "--model", "scripted/right.json", "--dataset", "exam.jsonl", "--map", "map.yaml", "--dry-run", cwd=folder)
    assert "8 samples" in done.stdout
    done = run("run", "--model", "scripted/right.json", "--dataset", "exam.jsonl", "--field", "frage", cwd=folder)
    assert done.returncode == 1
    assert "write COLUMN=FIELD" in done.stderr


def test_system_template_shots_and_stops_are_said(folder):
    """Two of the eight are shown as worked examples, and are not asked."""
    asked(folder, "--system", "Be brief.", "--template", "Now: {question}", "--shots", "2", "--stop", "8")
    rows = read_csv(only_run(folder) / "trials.csv")
    assert len(rows) == 6
    prompt = rows[0]["prompt"]
    assert prompt.startswith("[system] Be brief.")
    assert prompt.count("[user] Now: What is") == 3
    assert prompt.count("[assistant] ") == 2
    assert not any("8" in row["text"] for row in rows)


def test_a_resumed_run_asks_as_before(folder):
    """The run remembers its template, shots and fields."""
    asked(folder, "--template", "Now: {question}", "--shots", "2", "--limit", "3", "--output", "out")
    done = run("run", "--resume", "out", "--limit", "6", cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = read_csv(folder / "out" / "trials.csv")
    assert len(rows) == 6
    assert all(row["prompt"].count("Now: ") == 3 for row in rows)


def test_a_template_longer_than_any_file_name_is_a_template(folder):
    asked(folder, "--template", "\n".join(["Example: one and one is two."] * 60) + "\n{question}")
    assert all(row["prompt"].startswith("Example:") for row in read_csv(only_run(folder) / "trials.csv"))


def test_a_template_without_a_place_for_the_question_is_refused(folder):
    assert "needs {question}" in asked(folder, "--template", "Go!", code=1).stderr


def test_reasoning_first_ends_in_a_stated_answer(folder):
    asked(folder, "--cot")
    row = read_csv(only_run(folder) / "trials.csv")[0]
    assert "Think step by step" in row["prompt"]
    assert row["score"] == "1.0"


def test_several_scorers_judge_and_the_first_ranks(folder):
    asked(folder, "--scorer", "exact", "--scorer", "numeric")
    assert {row["score"] for row in read_csv(only_run(folder) / "trials.csv")} == {"0.0"}
    report = json.loads((only_run(folder) / "comparison_report.json").read_text())
    assert [name.partition("/")[0] for name in report["protocol"]["scorers"]] == ["exact", "numeric"]


def test_a_judge_grades_and_is_looked_at_itself(folder):
    """By its own verdicts; its agreement with people and its taste for length are printed."""
    (folder / "judge.json").write_text(json.dumps({"answers": [], "default": '{"reason": "fine", "grade": 8}'}))
    rows = [{**row, "human": 1} for row in ROWS]
    (folder / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = asked(folder, "--scorer", "judge", "--judge", "scripted/judge.json")
    assert "Judged by scripted/judge.json" in done.stdout
    assert "agrees with people on 8 of 8" in done.stdout
    assert {row["score"] for row in read_csv(only_run(folder) / "trials.csv")} == {"0.8"}


def test_a_judge_that_is_down_leaves_answers_unjudged(folder):
    (folder / "judge.json").write_text(json.dumps({"answers": [{"error": "auth", "text": "no"}]}))
    done = asked(folder, "--scorer", "judge", "--judge", "scripted/judge.json", code=1)
    rows = read_csv(only_run(folder) / "trials.csv")
    assert {row["failure_kind"] for row in rows} == {"unjudged"}
    assert {row["score"] for row in rows} == {""}
    assert all(row["text"] for row in rows)
    assert "judge" in done.stdout


@pytest.mark.parametrize("shown", [(), ("--json",)])
def test_a_judge_that_is_told_to_wait_is_waited_for(folder, shown):
    """Its waits belong to no contestant, and end no run."""

    def busy_at_first(asked, number):
        return Fault(status=429, headers={"Retry-After": "0.2"}) if number <= 3 else None

    with FakeServer(lambda prompt: '{"reason": "fine", "grade": 10}', fault=busy_at_first) as server:
        asked(folder, "--scorer", "judge", "--judge", "openai/judge", *shown, **server.environment())
    assert {row["score"] for row in read_csv(only_run(folder) / "trials.csv")} == {"1.0"}


@pytest.mark.parametrize("scorer", ["pydoc:pipepager", "os:system", "module_beside:judge", "no.such.module:f"])
def test_a_row_names_no_code(folder, scorer):
    """A dataset's rows choose among the registered scorers; what they call code is not even imported."""
    (folder / "module_beside.py").write_text("open('imported', 'w').close()\ndef judge(sample, text): return True\n")
    (folder / "exam.jsonl").write_text(json.dumps({**ROWS[0], "scorer": scorer}) + "\n")
    for more in ((), ("--dry-run",)):
        done = asked(folder, *more, code=1, PYTHONPATH=str(folder))
        assert f"names the scorer '{scorer}'" in done.stderr
        assert "--scorer" in done.stderr
    assert not (folder / "imported").exists()
    if scorer == "module_beside:judge":
        (folder / "exam.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
        asked(folder, "--scorer", scorer, PYTHONPATH=str(folder))
        assert (folder / "imported").exists()


def test_a_house_does_not_judge_its_own(folder):
    """By whichever of its doors a model is reached."""
    for judge, judged in (("openai/gpt-5-codex", "openai/gpt-5"), ("openai-responses/gpt-5", "openai/gpt-5")):
        line = ("--model", judged, "--judge", judge, "--dataset", "exam.jsonl", *FIELDS, "--scorer", "judge")
        done = run("run", *line, cwd=folder, OPENAI_API_KEY="k")
        assert done.returncode == 1
        assert "would judge itself" in done.stderr or "a model of the same provider" in done.stderr


def test_a_contestant_does_not_judge_itself(folder):
    done = asked(folder, "--scorer", "judge", "--judge", "scripted/right.json", code=1)
    assert "would judge itself" in done.stderr
    assert "name one with --judge" in asked(folder, "--scorer", "judge", code=1).stderr


def test_likelihood_needs_a_model_that_can_tell(folder):
    assert "cannot tell how likely a text is" in asked(folder, "--likelihood", code=1).stderr
    done = run("run", "--models", "baseline/random", "--dataset", "truthfulness", "--likelihood", "--limit", "200", cwd=folder)
    assert done.returncode == 0, done.stderr
    scores = [float(row["score"]) for row in read_csv(only_run(folder) / "trials.csv")]
    assert 0.15 < sum(scores) / len(scores) < 0.35


def test_the_protocol_and_the_year_are_said(folder):
    (folder / "gsm").mkdir()
    (folder / "gsm" / "test.jsonl").write_text('{"question": "1+1?", "answer": "#### 2"}\n')
    arguments = ("run", "--model", "baseline/constant", "--dataset", "gsm8k", "--data", "gsm", "--shots", "0")
    done = run(*arguments, cwd=folder)
    assert "Protocol: lm-eval gsm8k 3.0, 0-shot" in done.stdout
    assert "Public since 2021" in done.stdout


def ids_of(folder):
    return sorted(row["sample"] for row in read_csv(only_run(folder) / "trials.csv"))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--sample-id", "3"), ["3"]),
        (("--sample-id", "3, 5", "--sample-id", "7"), ["3", "5", "7"]),
        (("--sample-id", "[1-3]"), ["1", "2", "3"]),
        (("--sample-id", "?", "--sample-category", "even"), ["2", "4", "6", "8"]),
        (("--sample-category", "e*", "--sample-id", "2,3"), ["2"]),
        (("--sample-id", "@ids.txt"), ["1", "8"]),
        (("--sample-id", "q[1]"), ["q[1]"]),
    ],
)
def test_only_the_samples_asked_for_are_asked(folder, flags, expected):
    rows = [{**row, "category": "odd" if row["nr"] % 2 else "even"} for row in ROWS]
    rows.append({"nr": "q[1]", "frage": "What is 1 + 1?", "loesung": "2", "category": "named"})
    (folder / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "ids.txt").write_text("8\n\n1\n")
    asked(folder, *flags)
    assert ids_of(folder) == expected


def test_a_chosen_few_are_resumed_and_shown_as_such(folder):
    asked(folder, "--sample-id", "1,2,3", "--limit", "1", "--output", "out")
    assert run("run", "--resume", "out", "--limit", "8", cwd=folder).returncode == 0
    rows = read_csv(folder / "out" / "trials.csv")
    assert sorted(row["sample"] for row in rows) == ["1", "2", "3"]
    assert "1, 2, 3" in (folder / "out" / "comparison_report.html").read_text()
    protocol = json.loads((folder / "out" / "comparison_report.json").read_text())["protocol"]
    assert protocol["source"]["ids"] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--sample-id", "1,99"), "--sample-id 99 fits no sample of the dataset; there are '"),
        (("--sample-category", "history"), "--sample-category history fits no sample of the dataset; its samples have none"),
        (("--sample-id", "@none.txt"), "--sample-id @none.txt: cannot be read: No such file"),
    ],
)
def test_a_sample_nobody_has_is_a_slip(folder, flags, said):
    assert said in asked(folder, *flags, code=1).stderr


@pytest.mark.parametrize(
    "flags", [("--sample-id", "3"), ("--template", "Other: {question}"), ("--scorer", "exact"), ("--shots", "1")]
)
def test_a_run_goes_on_as_it_was_begun(folder, flags):
    """What would have to be ignored is refused; the same words again are not."""
    begun = ("--template", "Now: {question}", "--sample-id", "1,2")
    asked(folder, *begun, "--output", "out")
    same = run("run", "--resume", "out", *FIELDS, *begun, cwd=folder)
    assert same.returncode == 0, same.stderr
    refused = run("run", "--resume", "out", *flags, cwd=folder)
    assert (refused.returncode, f"leave out {flags[0]}, or start a new run" in refused.stderr) == (1, True), refused.stderr
