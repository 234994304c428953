"""Logs of other tools, imported and judged anew as a user would do it."""

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import _SHARED_DATA as DATA
from support.command import only_run, read_csv, run

TASK = "samples_pick_2026-11-16T05-28-25.127564.jsonl"
PICKED = [
    # Choices, the log-probabilities lm-eval's dummy model gave them, the right one, acc and acc_norm as lm-eval recorded them.
    (("four", "five hundred and fifty", "a hat"), (-0.2604923103919594, -0.8050278270130223, -0.5486993038355893), 0, 1.0, 0.0),
    (("very blue indeed", "green"), (-0.014041700164018955, -0.7197046864039541), 1, 0.0, 0.0),
]


def inspect_log(
    path: Path, rows: list[dict[str, Any]], *, task: str = "capitals", model: str = "openai/m", version: int = 2
) -> Path:
    """A log as Inspect writes it, with what is read of it."""
    head = {"version": version, "eval": {"task": task, "model": model, "created": "2026-01-01T00:00:00+00:00"}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(head))
        for row in rows:
            archive.writestr(f"samples/{row['id']}_epoch_1.json", json.dumps({"epoch": 1, "target": "", **row}))
    return path


def said(
    identity: str, question: str, answer: str, *, value: str | None = "I", stop: str = "stop", **more: Any
) -> dict[str, Any]:
    """One sample of such a log, with a score by `match` unless there is none."""
    output = {"completion": answer, "choices": [{"stop_reason": stop}]}
    scores = {} if value is None else {"scores": {"match": {"value": value, "answer": answer}}}
    return {"id": identity, "input": question, "output": output, **scores, **more}


def capitals(**more: Any) -> list[dict[str, Any]]:
    return [
        said("fr", "Capital of France?", "I think it is Paris", target="Paris", **more),
        said("it", "Capital of Italy?", "Rome", target=["Rome", "Roma"], **more),
        said("ch", "Capital of Switzerland?", "Zurich", target="Bern", **more),
    ]


def imported(folder: Path, *logs: Path) -> Path:
    """A run made of logs."""
    done = run("import", *map(str, logs), cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_run(folder)


def scored(folder: Path, made: Path, scorer: str) -> dict[str, Any]:
    """What the report says of the only model after judging it anew."""
    done = run("score", str(made), "--scorer", scorer, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "nothing was asked" in done.stdout
    model: dict[str, Any] = json.loads((made / "comparison_report.json").read_text())["contestants"][0]
    return model


def test_imported_answers_are_judged_by_a_scorer_of_ours_and_the_old_scores_stay(tmp_path):
    """Inspect's own `match` and ours have one name and are kept apart."""
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", capitals()))
    assert json.loads((made / "comparison_report.json").read_text())["contestants"][0]["score"] == 0

    model = scored(tmp_path, made, "match")
    assert (model["right"], model["wrong"]) == (2, 1)
    assert model["by_scorer"] == pytest.approx({"match": 2 / 3, "inspect:match": 0.0})
    assert scored(tmp_path, made, "exact")["by_scorer"] == pytest.approx({"exact": 1 / 3, "match": 2 / 3, "inspect:match": 0})
    report = json.loads((made / "comparison_report.json").read_text())
    assert report["protocol"]["scorers"] == ["exact/1"]
    assert "exact ranks; the others are shown beside it" in (made / "comparison_report.html").read_text()


def test_any_of_several_targets_is_right(tmp_path):
    rows = [said("it", "Capital of Italy?", "Roma", target=["Rome", "Roma"])]
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", rows))
    assert scored(tmp_path, made, "exact")["right"] == 1


def test_letters_of_choices_are_understood(tmp_path):
    """The log says A; the answer may say the letter or the words."""
    choices = ["Bern", "Zurich"]
    answers = ("ANSWER: A", "It is Bern.", "B", "ANSWER: B")
    rows = [said(str(n), f"Which {n}?", text, target="A", choices=choices) for n, text in enumerate(answers)]
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", rows))
    assert scored(tmp_path, made, "choice")["right"] == 2


def test_answers_without_a_score_and_cut_off_ones_are_judged_as_what_they_are(tmp_path):
    """An unscored answer becomes one that counts; one the length limit ended is not right; an error stays a failure."""
    rows = [
        said("fr", "Capital of France?", "Paris", value=None, target="Paris"),
        said("it", "Capital of Italy?", "Rome", value="C", target="Rome", stop="max_tokens"),
        said("ch", "Capital of Switzerland?", "", value=None, target="Bern", error={"message": "the server was down"}),
    ]
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", rows))
    before = json.loads((made / "comparison_report.json").read_text())["contestants"][0]
    assert (before["right"], before["failed"]) == (1, {"transient": 1, "unchecked": 1})

    after = scored(tmp_path, made, "match")
    assert (after["right"], after["no_answer"], after["failed"]) == (1, 1, {"transient": 1})
    assert {row["sample"]: row["outcome"] for row in read_csv(made / "trials.csv")} == {
        "fr": "answered",
        "it": "cut_off",
        "ch": "failed",
    }


def test_several_models_are_judged_together(tmp_path):
    one = inspect_log(tmp_path / "a.eval", capitals())
    rows = [{**row, "output": {"completion": "Bern"}} for row in capitals()]
    two = inspect_log(tmp_path / "b.eval", rows, model="openai/n")
    made = imported(tmp_path, one, two)
    done = run("score", str(made), "--scorer", "match", cwd=tmp_path)
    assert "6 answers judged by the scorer match" in done.stdout
    report = json.loads((made / "comparison_report.json").read_text())
    assert {m["model"]: m["right"] for m in report["contestants"]} == {"openai/m": 2, "openai/n": 1}


def test_a_function_of_the_users_judges_imported_answers(tmp_path):
    (tmp_path / "mine.py").write_text("def short(sample, text):\n    return len(text) < 10 and bool(sample.target)\n")
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", capitals()))
    done = run("score", str(made), "--scorer", "mine:short", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads((made / "comparison_report.json").read_text())["contestants"][0]["right"] == 2


def picked_log(folder: Path) -> Path:
    """lm-eval's samples of a multiple-choice task, as version 0.4.13 writes them."""
    lines = []
    for number, (choices, logprobs, right, acc, acc_norm) in enumerate(PICKED):
        replies = [[str(logprob), "False"] for logprob in logprobs]
        arguments = {f"gen_args_{i}": {"arg_0": "Which?", "arg_1": f" {choice}"} for i, choice in enumerate(choices)}
        row = {"doc_id": number, "doc": {"query": "Which?", "n": number}, "target": str(right), "arguments": arguments}
        row |= {"resps": [[reply] for reply in replies], "filtered_resps": replies, "filter": "none"}
        lines.append(json.dumps({**row, "metrics": ["acc", "acc_norm"], "acc": acc, "acc_norm": acc_norm}))
    path = folder / TASK
    path.write_text("\n".join(lines))
    return path


def test_weighed_choices_are_judged_as_lm_eval_judged_them(tmp_path):
    """By the sum and per character: the figures lm-eval recorded."""
    made = imported(tmp_path, picked_log(tmp_path))
    by_sum = scored(tmp_path, made, "likelihood")
    assert by_sum["by_scorer"]["likelihood"] == by_sum["by_scorer"]["lm-eval:acc"] == 0.5
    by_length = scored(tmp_path, made, "likelihood:norm")["by_scorer"]
    assert by_length["likelihood:norm"] == by_length["lm-eval:acc_norm"] == 0.0


@pytest.mark.needs("data")
def test_817_real_answers_are_judged_as_lm_eval_judged_them(tmp_path):
    """TruthfulQA's generation: our BLEU accuracy of every single answer is the one lm-eval wrote down."""
    made = imported(tmp_path, DATA / "logs" / "lm-eval")
    model = scored(tmp_path, made, "truthful:bleu_acc")
    assert (
        model["by_scorer"]["truthful:bleu_acc"]
        == pytest.approx(model["by_scorer"]["lm-eval:bleu_acc"])
        == pytest.approx(368 / 817)
    )
    with sqlite3.connect(made / "run.sqlite") as connection:
        kept = [json.loads(row[0]) for row in connection.execute("SELECT scores FROM trials")]
    assert sum(scores["truthful:bleu_acc"]["value"] != scores["lm-eval:bleu_acc"]["value"] for scores in kept) == 0


@pytest.mark.needs("data")
def test_a_real_log_without_scores_gets_them(tmp_path):
    log = next((DATA / "logs" / "inspect").glob("*popularity*.eval"))
    model = scored(tmp_path, imported(tmp_path, log), "match")
    assert (model["right"], model["wrong"], model["failed"]) == (8, 2, {})


@pytest.mark.parametrize(
    ("scorer", "words"),
    [
        (None, "was imported, without the scorers of the tool that made it: name one with --scorer"),
        ("choice", "judges by choices, and the sample 'ch' has none"),
        ("code", "judges by tests, and the sample 'ch' has none"),
        ("truthful", "judges by false answers, and the sample 'ch' has none"),
        ("likelihood", "judges by likelihoods, and these are answers in words"),
        ("judge", "asks a model: name one with --judge"),
        ("check", "needs the workspace, which is gone"),
        ("nemeric", "there is no scorer 'nemeric'; did you mean 'numeric'?"),
        ("regex:(", "is no regular expression"),
    ],
)
def test_a_scorer_that_cannot_judge_a_log_says_so_and_changes_nothing(tmp_path, scorer, words):
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", capitals()[::-1]))
    before = (made / "comparison_report.json").read_bytes()
    done = run("score", str(made), *(["--scorer", scorer] if scorer else []), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 2)
    assert words in done.stderr
    assert run("report", str(made), cwd=tmp_path).returncode == 0
    assert (made / "comparison_report.json").read_bytes() == before


def test_a_scorer_of_words_does_not_judge_weighed_choices(tmp_path):
    made = imported(tmp_path, picked_log(tmp_path))
    done = run("score", str(made), "--scorer", "match", cwd=tmp_path)
    assert done.returncode == 1
    assert "judges words, and here choices were weighed" in done.stderr


def test_an_imported_run_cannot_be_resumed(tmp_path):
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", capitals()))
    done = run("run", "--resume", str(made), cwd=tmp_path)
    assert done.returncode == 1
    assert "was imported: its questions cannot be asked on here" in done.stderr


def _cut(folder: Path) -> list[Path]:
    whole = inspect_log(folder / "a.eval", capitals()).read_bytes()
    (folder / "a.eval").write_bytes(whole[: len(whole) // 2])
    return [folder / "a.eval"]


def _cut_lines(folder: Path) -> list[Path]:
    path = picked_log(folder)
    path.write_bytes(path.read_bytes()[:-100])
    return [path]


def _no_log(folder: Path) -> list[Path]:
    with zipfile.ZipFile(folder / "a.eval", "w") as archive:
        archive.writestr("hello.txt", "hello")
    return [folder / "a.eval"]


def _empty(folder: Path) -> list[Path]:
    (folder / TASK).touch()
    return [folder / TASK]


def _damaged(folder: Path) -> list[Path]:
    path = inspect_log(folder / "a.eval", capitals())
    path.write_bytes(path.read_bytes().replace(b"Zurich", b"Geneva"))
    return [path]


def _others(folder: Path, rows: list[dict[str, Any]]) -> list[Path]:
    return [inspect_log(folder / "a.eval", capitals()), inspect_log(folder / "b.eval", rows, model="openai/n")]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_cut, "damaged, cut short, or no log at all"),
        (_cut_lines, "line 2 is broken or cut short"),
        (_no_log, "it has no '_journal/start.json'"),
        (_empty, "the log has no samples in it"),
        (_damaged, "damaged, cut short, or no log at all"),
        (lambda folder: [inspect_log(folder / "a.eval", [])], "the log has no samples in it"),
        (lambda folder: [inspect_log(folder / "a.eval", [{"id": 1, "scores": {"m": 3}}])], "not what such a log holds"),
        (
            lambda folder: [inspect_log(folder / "a.eval", capitals(), version=3)],
            "a log of format 3, newer than what is known here",
        ),
        (lambda folder: [folder / "nowhere.eval"], "there is no file"),
        (lambda folder: [inspect_log(folder / "a.eval", capitals())] * 2, "is named twice"),
        (lambda folder: _others(folder, [said("de", "Capital of Germany?", "Bonn")]), "have no sample in common"),
        (lambda folder: _others(folder, [said("fr", "Who is France?", "Anatole")]), "ask different things as sample 'fr'"),
        (
            lambda folder: _others(folder, [{**capitals()[0], "scores": {"includes": {"value": "C"}}}]),
            "were scored by different rules (inspect:match and inspect:includes)",
        ),
    ],
)
def test_what_cannot_be_imported_is_told_in_a_sentence_and_no_run_is_made(tmp_path, make, words):
    good = inspect_log(tmp_path / "good.eval", capitals(), task="another")
    done = run("import", str(good), *map(str, make(tmp_path)), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 2), done.stderr
    assert words in done.stderr
    assert not (tmp_path / "benchmark").exists()


def test_imported_answers_are_judged_by_a_model(tmp_path):
    """Nobody but the judge is asked; the scores of the other tool stay beside its own."""
    made = imported(tmp_path, inspect_log(tmp_path / "a.eval", capitals(scores={"match": {"value": "C"}})))
    (tmp_path / "judge.json").write_text(json.dumps({"answers": [], "default": '{"reason": "so", "grade": 6}'}))
    done = run("score", str(made), "--judge", "scripted/judge.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 answers judged by scripted/judge.json; contestants were asked nothing." in done.stdout
    assert {row["score"] for row in read_csv(made / "trials.csv")} == {"0.6"}
    (model,) = json.loads((made / "comparison_report.json").read_text())["contestants"]
    assert set(model["by_scorer"]) == {"judge", "inspect:match"}
