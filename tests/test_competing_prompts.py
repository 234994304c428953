"""Prompts, settings and agents compete: from the command line, from a run file, and held against an earlier run."""

from __future__ import annotations

import contextlib
import json
import shlex
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command import ROOT, clean_environment, only_run, read_csv, run

COUNT = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty questions; model a is better than b, and both are better when told to be terse."""
    rows = [{"id": f"q{i:02}", "input": f"Q{i:02}?", "target": "yes", "group": f"g{i // 3}"} for i in range(COUNT)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for model, plain, terse in (("a", 35, 55), ("b", 20, 45)):
        answers = [{"when": f"Terse: Q{i:02}?", "text": "yes" if i < terse else "no"} for i in range(COUNT)]
        answers += [{"when": f"Q{i:02}?", "text": "yes" if i < plain else "no"} for i in range(COUNT)]
        (tmp_path / f"{model}.json").write_text(json.dumps({"answers": answers}))
    (tmp_path / "terse.txt").write_text("Terse: {question}\n")
    (tmp_path / "d.csv").write_text("question,answer\nWhat?,that\n")
    return tmp_path


BOTH = ("--models", "scripted/a.json,scripted/b.json", "--dataset", "d.jsonl")
PROMPTS = ("--prompt", "plain=", "--prompt", "terse=terse.txt")


def report(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "comparison_report.json").read_text())
    return data


def test_prompts_compete_and_their_effect_is_told(folder: Path) -> None:
    """Every model with every prompt, baselines once; the effect of the prompt over all models, of the model over all prompts."""
    line = ("--models", "scripted/a.json,scripted/b.json,baseline/constant", "--dataset", "d.jsonl")
    done = run(*line, *PROMPTS, "--output", "r", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    data = report(folder / "r")
    labels = [c["label"] for c in data["contestants"]]
    assert labels == [*(f"scripted/{m}.json · {p}" for m in "ab" for p in ("plain", "terse")), "baseline/constant"]
    assert {c["label"]: c["score"] for c in data["contestants"]}["scripted/a.json · terse"] == pytest.approx(55 / 60)
    effects = {factor["name"]: factor["effects"][0] for factor in data["factors"]}
    assert set(effects) == {"model", "prompt"}
    assert (effects["prompt"]["first"], effects["prompt"]["difference"]) == ("terse", pytest.approx((20 + 25) / 2 / 60))
    assert (effects["model"]["first"], effects["model"]["cells"]) == ("scripted/a.json", 2)
    assert effects["prompt"]["separated"]
    assert "Effect of the prompt: terse is better than plain by 37.5 points" in done.stdout
    page = (folder / "r" / "comparison_report.html").read_text()
    assert "Effect of the prompt" in page
    assert {row["prompt_name"] for row in read_csv(folder / "r" / "trials.csv")} == {"plain", "terse"}


def test_the_last_of_two_templates_does_not_win_silently(folder: Path) -> None:
    done = run(*BOTH, "--template", "Now: {question}", "--prompt", "terse=terse.txt", cwd=folder)
    assert done.returncode == 1
    assert "--template and the prompt 'terse' both set the template" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--prompt", "terse"), "write NAME=FILE or NAME=TEXT"),
        (("--prompt", "a=x", "--prompt", "a=y"), "two prompts are called 'a'"),
        (("--prompt", "a=x", "--prompt", "b=x"), "are the same model with the same settings and the same words"),
        (("--contestant", "odd: scripted/a.json, nonsense"), "write LABEL: MODEL, key=value"),
        (("--contestant", "odd: scripted/a.json, temperatur=1"), "did you mean 'temperature'"),
        (("--contestant", "odd: scripted/a.json, prompt=none"), "there is no prompt 'none'"),
        (("--contestant", "scripted/a.json"), "is named twice"),
        (("--contestant", "odd: openai/nope:x, temperature=0"), "OPENAI_API_KEY"),
        (
            ("--contestant", "v: scripted/a.json, prompt=p, template=x {question}", "--prompt", "p=s"),
            "a prompt by name, or template",
        ),
        (("--contestant", "v: scripted/a.json, temperature=abc"), "temperature='abc' is not a value it can have"),
        (("--contestant", "v: scripted/a.json, max_tokens=-4"), "max_tokens=-4 is not a value"),
        (("--contestant", "v: scripted/a.json, cot=maybe"), "cot is true or false"),
        (("--contestant", "v: scripted/a.json, temperature=0, temperature=1"), "temperature is said twice"),
        (("--contestant", 'v: scripted/a.json, template="Hi {question}'), "the quotes around template are not closed"),
        (("--prompt", "a=no/such/file.txt"), "there is no such file"),
        (("--prompt", "a=./"), "there is no such file"),
        (("--system", "nofile.md"), "there is no such file"),
        (("--prompt", "a\x1b[31m=x y"), "that can be printed"),
        (("--changed", "prompt"), "--changed goes with --baseline"),
        (("--output", "d.csv"), "is not written over"),
        (("--dry-run", "--save", "d.csv"), "the file is there already"),
        (("--save", "x.yaml"), "--save goes with --dry-run"),
        (("nothing.yaml",), "there is no run file nothing.yaml"),
    ],
)
def test_mistakes_are_named_before_anything_is_asked(folder: Path, flags: tuple[str, ...], said: str) -> None:
    done = run(*BOTH, *flags, cwd=folder) if flags != ("nothing.yaml",) else run("run", *flags, cwd=folder)
    assert done.returncode == 1
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not (folder / "benchmark").exists()


def test_contestants_are_written_out(folder: Path) -> None:
    """With a label or without, words in quotes, settings as they are."""
    line = ("--dataset", "d.jsonl", "--limit", "6", "--output", "r")
    first = 'terse: scripted/a.json, template="Terse: {question}", temperature=0'
    done = run(*line, "--contestant", first, "--contestant", "scripted/b.json, effort=low, max_tokens=9", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = report(folder / "r")["contestants"]
    assert (one["label"], one["model"], one["settings"]) == ("terse", "scripted/a.json@temperature=0", {"temperature": 0})
    assert one["prompting"]["template"] == "Terse: {question}"
    assert (two["label"], two["settings"]) == (
        "scripted/b.json@reasoning_effort=low,max_tokens=9",
        {"reasoning_effort": "low", "max_tokens": 9},
    )


RUN_FILE = """\
dataset: d.jsonl
models: [scripted/a.json, scripted/b.json]
prompts:
  plain:
  terse: {template: terse.txt}
settings:
  - {temperature: 0}
  - {temperature: 1}
exclude:
  - {model: scripted/b.json, prompt: terse, settings: temperature=1}
include:
  - {label: odd, model: scripted/a.json, system: Be odd., max_tokens: 7}
repeats: 2
limit: 30
"""


def test_a_run_file_says_it_all_and_what_is_saved_says_the_same(folder: Path) -> None:
    """Factors crossed, one combination excluded, one contestant included; --dry-run --save writes a file that repeats it."""
    (folder / "sub").mkdir()
    for name in ("d.jsonl", "terse.txt"):
        (folder / name).rename(folder / "sub" / name)
    (folder / "sub" / "compare.yaml").write_text(RUN_FILE)
    dry = run("run", "sub/compare.yaml", "--dry-run", "--save", "saved.yaml", cwd=folder)
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert "8 contestants × 30 samples × 2 repeats = 480 trials" in dry.stdout
    ids = []
    for file, output in (("sub/compare.yaml", "one"), ("saved.yaml", "two")):
        done = run("run", file, "--output", output, "--quiet", cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        data = report(folder / output)
        ids.append([(c["label"], c["factors"], c["settings"], c["score"]) for c in data["contestants"]])
    assert ids[0] == ids[1]
    labels = [entry[0] for entry in ids[0]]
    assert len(labels) == 8
    assert "scripted/b.json@temperature=1 · terse" not in labels
    assert "odd" in labels
    assert yaml.safe_load((folder / "saved.yaml").read_text())["prompts"]["terse"] == {"template": "Terse: {question}"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dataset: d.jsonl\nmodel: x\n", "line 2: the key 'model' is not known; did you mean 'models'?"),
        ("dataset: d.jsonl\nlimit: many\n", "line 2: limit: expected a whole number"),
        ("- a\n", "a run file has keys with values"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nexclude: [{colour: red}]\n", "there is no factor 'colour'"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nexclude: [{model: z}]\n", "no contestant has model: z"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nprompts: {p: {sytem: x}}\n", "did you mean 'system'?"),
        ("dataset: d.jsonl\ninclude: [{label: x}]\n", "a contestant needs a model"),
        ("a: [\n", "not readable as YAML"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nexclude: [{model: scripted/a.json}]\n", "nobody is left to compare"),
        ("prompts: &a\n  x: *a\n", "an anchor that refers to itself"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nprompts: {a: {stop: 3}}\n", "stop is one or a list of them"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nprompts: {'': x y}\n", "needs a name"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nprompts: {a: {template: 5}}\n", "system and template are texts"),
        ("dataset: d.jsonl\ninclude: [{model: scripted/b.json, settings: [1]}]\n", "settings are names with values"),
        ("dataset: d.jsonl\ninclude: [{model: [scripted/b.json]}]\n", "a contestant needs a model, by its name"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nsettings: [{foo: 1}]\n", "there is no setting 'foo'"),
        *[
            (f"dataset: d.jsonl\nmodels: [scripted/a.json]\n{wrong}\n", f"line 3: {wrong.partition(':')[0]}")
            for wrong in (
                *("limit: 0", "limit: -3", "repeats: 0", "shots: -1", "max_connections: -5", "tpm: -1", "choose_on: third"),
                *("temperature: -1", "max_tokens: -1", "timeout: 0", "timeout: 1e10", "max_workers: 0"),
                *("max_cost: -1", "follow_ups: -1", "request_timeout: -1", "ask_permissions: perhaps"),
            )
        ],
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\ntimeout: .nan\n", "line 3: not readable as YAML: .nan is no number"),
        ("dataset: d.jsonl\nmodels: [scripted/a.json]\nmax_time: .inf\n", "line 3: not readable as YAML: .inf is no number"),
        ("", "no dataset was named"),
    ],
)
def test_a_run_file_with_a_mistake_is_explained(folder: Path, text: str, said: str) -> None:
    (folder / "bad.yaml").write_text(text)
    done = run("run", "bad.yaml", cwd=folder)
    assert done.returncode == 1
    assert said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_comes_before_the_run_file(folder: Path) -> None:
    (folder / "c.yaml").write_text("dataset: d.jsonl\nmodels: [scripted/a.json]\nlimit: 30\n")
    done = run("run", "c.yaml", "--limit", "5", "--model", "scripted/b.json", "--dry-run", cwd=folder)
    assert "1 model × 5 samples" in done.stdout


def test_the_best_of_many_is_tested_where_it_was_not_chosen(folder: Path) -> None:
    """Halves of whole groups; the first sentence and its numbers are of the testing half alone."""
    done = run(*BOTH, *PROMPTS, "--choose-on", "half", "--output", "r", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    data = report(folder / "r")
    chosen, first = data["chosen"], data["claims"][0]
    assert first["kind"] == "chosen"
    assert (chosen["label"], chosen["chosen_from"]) == ("scripted/a.json · terse", 4)
    assert chosen["chosen_on"] + chosen["samples"] == COUNT
    rows = {r["sample"]: float(r["score"]) for r in data["results"] if r["contestant"] == chosen["label"]}
    total = chosen["score"] * chosen["samples"] + chosen["score_where_chosen"] * chosen["chosen_on"]
    assert total == pytest.approx(sum(rows.values()))
    assert first["sentence"] in " ".join(done.stdout.split())
    resumed = run("run", "--resume", "r", "--json", cwd=folder)
    assert json.loads(resumed.stdout.splitlines()[-1])["chosen"] == chosen


def test_another_prompt_or_model_can_be_the_change_under_test(folder: Path) -> None:
    """compare and --baseline refuse another prompt, unless that is what is tested; then it is the same paired test."""
    a = ("--model", "scripted/a.json", "--dataset", "d.jsonl", "--quiet")
    assert run(*a, "--output", "plain", cwd=folder).returncode == 0
    assert run(*a, "--template", "Terse: {question}", "--output", "terse", cwd=folder).returncode == 0
    refused = run("compare", "plain", "terse", cwd=folder)
    assert refused.returncode == 1
    assert "say --changed prompt" in refused.stderr
    told = json.loads(run("compare", "plain", "terse", "--changed", "prompt", "--json", cwd=folder).stdout)
    (change,) = told["changes"]
    assert (len(change["fixed"]), len(change["broken"]), told["protocol_differences"]) == (20, 0, [])
    assert change["p_corrected"] < 0.01

    b = ("--model", "scripted/b.json", "--dataset", "d.jsonl", "--quiet")
    gate = run(*b, "--baseline", "plain", "--changed", "model", "--output", "b", cwd=folder)
    assert gate.returncode == 3, gate.stdout + gate.stderr
    assert "scripted/b.json, held against scripted/a.json, is worse than before" in gate.stdout
    other = run(*b, "--template", "Terse: {question}", "--baseline", "plain", "--changed", "model", "--output", "bt", cwd=folder)
    assert other.returncode == 1
    assert "no model in common that are alike in all but the model" in other.stderr


def test_prompts_are_matched_by_what_is_alike_in_all_else(folder: Path) -> None:
    """Two models, another prompt for both: each model is held against itself."""
    assert run(*BOTH, "--prompt", "plain=", "--quiet", "--output", "before", cwd=folder).returncode == 0
    assert run(*BOTH, "--prompt", "terse=terse.txt", "--quiet", "--output", "after", cwd=folder).returncode == 0
    told = json.loads(run("compare", "before", "after", "--changed", "prompt", "--json", cwd=folder).stdout)
    assert [(change["was"], change["label"]) for change in told["changes"]] == [
        ("scripted/a.json", "scripted/a.json"),
        ("scripted/b.json", "scripted/b.json"),
    ]


def test_a_run_of_prompts_is_resumed_as_it_was_begun(folder: Path) -> None:
    """Prompts and pace are in the store: nothing need be said again, and a new model joins with every prompt."""
    line = ("--model", "scripted/a.json", "--dataset", "d.jsonl", "--limit", "6", "--max-connections", "2", "--parallel")
    assert run(*line, *PROMPTS, "--output", "r", "--max-total-tokens", "100000", cwd=folder).returncode == 0
    done = run("run", "--resume", "r", "--limit", "12", "--model", "scripted/b.json", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    data = report(folder / "r")
    assert [(c["label"], c["planned"]) for c in data["contestants"]] == [
        (f"scripted/{model}.json · {prompt}", 12) for model in "ab" for prompt in ("plain", "terse")
    ]
    assert (data["pace"]["max_connections"], data["pace"]["max_workers"], data["pace"]["max_total_tokens"]) == (2, 4, 100000)
    more = run("run", "--resume", "r", "--prompt", "plain=", "--prompt", "new=New: {question}", cwd=folder)
    assert more.returncode == 0, more.stdout + more.stderr
    labels = [c["label"] for c in report(folder / "r")["contestants"]]
    assert labels[4:] == ["scripted/a.json · new", "scripted/b.json · new"]
    for flags, said in (
        (("--prompt", "terse=Croak {question}"), "has a prompt 'terse' with other words"),
        (("--temperature", "1"), "leave out --temperature"),
        (("--output", "elsewhere"), "leave out --output"),
    ):
        refused = run("run", "--resume", "r", *flags, cwd=folder)
        assert refused.returncode == 1, refused.stdout
        assert said in refused.stderr
    done = run("run", "--resume", "r", "--max-time", "0.0001", cwd=folder)
    assert done.returncode == 0, done.stdout
    told = run("run", "--resume", "r", "--template", "Other: {question}", cwd=folder)
    assert told.returncode == 1
    assert "a run goes on as it was begun: leave out --template" in told.stderr


def test_the_line_that_repeats_a_run_runs(folder: Path) -> None:
    """Copied as it is, it makes the same run again, in a folder of its own."""
    assert run(*BOTH, *PROMPTS, "--limit", "4", "--output", "r", "--quiet", cwd=folder).returncode == 0
    command = report(folder / "r")["command"]
    assert "--output" not in command
    path = f"{ROOT / '.venv' / 'bin'}:{clean_environment()['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=clean_environment(PATH=path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stderr)
    again, before = ([c["score"] for c in report(where)["contestants"]] for where in (only_run(folder), folder / "r"))
    assert again == before
    assert shlex.split(command)


def test_prompts_that_change_nothing_are_refused(folder: Path) -> None:
    """A public set puts its questions in words of its own: a template has no effect, and that is said beforehand."""
    (folder / "test.jsonl").write_text('{"question": "1+1?", "answer": "#### 2"}\n')
    line = ("--model", "scripted/a.json", "--dataset", "gsm8k", "--data", "test.jsonl", "--shots", "0")
    done = run(*line, "--prompt", "plain=", "--prompt", "terse=terse.txt", cwd=folder)
    assert done.returncode == 1
    assert "would be asked the same" in done.stderr
    fine = run(*line, "--prompt", "plain=", "--prompt", "brief=Be brief.", "--dry-run", cwd=folder)
    assert fine.returncode == 0, fine.stderr


@pytest.mark.needs("bubblewrap")
def test_a_saved_batch_is_a_batch_of_the_same_contestants(folder: Path) -> None:
    """Who is written out is not joined by every model that could run here."""
    (folder / "task.md").write_text("Write x.\n\n## Verify\n\n```bash\ntest -f x\n```\n")
    line = (
        "batch",
        "--task",
        "task.md",
        "--contestant",
        "one: scripted/a.json, temperature=0",
        "--dry-run",
        "--save",
        "saved.yaml",
    )
    done = run(*line, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "1 contestant × 1 task × 1 repeat = 1 attempt" in done.stdout
    again = run("batch", "saved.yaml", "--dry-run", cwd=folder)
    assert "1 contestant × 1 task × 1 repeat = 1 attempt" in again.stdout, again.stderr


def test_only_what_is_alike_is_compared_and_who_is_left_out_is_named(folder: Path) -> None:
    """--changed holds the rest equal, also with one contestant on each side; settings count; nobody vanishes silently."""
    plain = ("--dataset", "d.jsonl", "--quiet")
    assert run(*plain, "--models", "scripted/a.json,scripted/b.json", "--output", "two", cwd=folder).returncode == 0
    assert run(*plain, "--model", "scripted/a.json", "--output", "one", cwd=folder).returncode == 0
    warm = ("--model", "scripted/b.json", "--temperature", "1")
    for changed in ("agent", "prompt", "settings"):
        refused = run(*plain, *warm, "--baseline", "one", "--changed", changed, "--output", f"x{changed}", cwd=folder)
        assert refused.returncode == 1
        assert "no model in common" in refused.stderr
    other = run(*plain, "--model", "scripted/a.json", "--temperature", "1", "--baseline", "one", "--output", "warm", cwd=folder)
    assert other.returncode == 1
    assert "was made with other settings" in other.stderr
    (folder / "c.json").write_text((folder / "b.json").read_text())
    gated = run(*plain, "--models", "scripted/a.json,scripted/c.json", "--baseline", "two", "--output", "g", cwd=folder)
    assert gated.returncode == 0
    assert "scripted/b.json is in two only, and was compared with nobody." in gated.stdout
    assert "scripted/c.json has no counterpart in two" in gated.stdout


def test_a_contestant_is_known_by_what_it_is(folder: Path) -> None:
    """A label that grew because a second prompt competes is no other contestant."""
    a = ("--model", "scripted/a.json", "--dataset", "d.jsonl", "--quiet")
    assert run(*a, *PROMPTS[:2], "--output", "o", cwd=folder).returncode == 0
    done = run(*a, *PROMPTS, "--baseline", "o", "--output", "n", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "scripted/a.json · plain, held against scripted/a.json, has not been shown to change" in done.stdout


def test_a_baseline_that_says_nothing_is_refused(folder: Path) -> None:
    """No sample in common, or scores that are none."""
    assert run("--model", "scripted/a.json", "--dataset", "d.jsonl", "--quiet", "--output", "o", cwd=folder).returncode == 0
    assert run("export", "o", "--to", "baseline", "--output", "b.json", cwd=folder).returncode == 0
    data = json.loads((folder / "b.json").read_text())
    for scores, said in (({"zz": 1.0}, "have no sample in common"), ({"q00": 7.0}, "must be from 0 to 1")):
        data["contestants"]["scripted/a.json"]["scores"] = scores
        (folder / "edited.json").write_text(json.dumps(data))
        done = run("compare", "edited.json", "o", cwd=folder)
        assert done.returncode == 1
        assert said in done.stderr
    assert "is not written over" in run("export", "o", "--to", "baseline", "--output", "d.csv", cwd=folder).stderr


def test_settings_nobody_named_are_no_part_of_another_factor_s_effect(folder: Path) -> None:
    """A model that joined with another temperature shares no combination: no effect of the model is told."""
    line = ("--dataset", "d.jsonl", *PROMPTS, "--quiet", "--output", "r", "--temperature", "0")
    assert run("--model", "scripted/a.json", *line, cwd=folder).returncode == 0
    assert run("run", "--resume", "r", "--model", "scripted/b.json", "--temperature", "1", cwd=folder).returncode == 0
    assert [factor["name"] for factor in report(folder / "r")["factors"]] == ["prompt"]


def test_a_half_that_cannot_be_is_said(folder: Path) -> None:
    done = run("--model", "scripted/a.json", "--dataset", "d.jsonl", "--choose-on", "half", "--output", "r", cwd=folder)
    assert done.returncode == 0
    assert any("nothing was chosen on one half" in caveat for caveat in report(folder / "r")["caveats"])


def test_the_same_words_written_out_twice_are_one_prompt(folder: Path) -> None:
    """So that the effect of the model over both prompts is told."""
    flags = []
    for model in "ab":
        for name, template in (("plain", "{question}"), ("terse", "Terse: {question}")):
            flags += ["--contestant", f'{model}-{name}: scripted/{model}.json, template="{template}"']
    done = run("--dataset", "d.jsonl", *flags, "--quiet", "--output", "r", cwd=folder)
    assert done.returncode == 0, done.stderr
    data = report(folder / "r")
    assert [c["factors"]["prompt"] for c in data["contestants"]] == ["a-plain", "a-terse"] * 2
    assert {factor["name"]: factor["effects"][0]["cells"] for factor in data["factors"]} == {"model": 2, "prompt": 2}


def test_a_store_that_says_nothing_of_its_run_is_explained(folder: Path) -> None:
    assert run("--model", "scripted/a.json", "--dataset", "d.jsonl", "--quiet", "--output", "r", cwd=folder).returncode == 0
    with contextlib.closing(sqlite3.connect(folder / "r" / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE run SET info = '{}'")
    for command in (("run", "--resume", "r"), ("report", "r")):
        done = run(*command, cwd=folder)
        assert done.returncode == 1
        assert "what the store says of its run cannot be read" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_terminal_without_our_characters_shows_others(folder: Path) -> None:
    line = ("--model", "scripted/a.json", "--dataset", "d.jsonl", "--limit", "2", "--output", "r")
    done = run(*line, cwd=folder, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("? scripted/a.json")
