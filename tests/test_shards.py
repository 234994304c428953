"""A run cut into shards and merged again: the same results, nothing twice, nothing lost, and what does not belong refused."""

import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.command import ROOT, clean_environment, read_csv, run

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import UsageError
from tiebreak.core.model import Limits, ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec, Shard
from tiebreak.core.sample import Sample
from tiebreak.spec.shard import shard_of
from tiebreak.store.schema import MIGRATIONS

OF_TIME = re.compile(
    r"(_s|_at|_seconds|_time|per_second|^run|^run_id|^command|timestamp|latency|^seconds|speed)$|latency|_ms|time"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a dataset, the whole run of it and its eight shards."""
    folder = tmp_path_factory.mktemp("shards")
    rows = [
        {"id": f"q{i}", "input": f"Question {i}?", "choices": ["red", "green", "blue"], "target": "red", "group": f"g{i // 3}"}
        for i in range(240)
    ]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = asked(folder, "whole")
    assert done.returncode == 0, done.stderr
    for number in range(1, 9):
        done = asked(folder, f"part{number}", "--shard", f"{number}/8")
        assert done.returncode == 0, done.stderr
        assert f"Shard {number}/8:" in done.stdout
        assert "tie" not in done.stdout
    return folder


def asked(folder, output, *more):
    models = ("--model", "baseline/random", "--model", "baseline/always-first", "--model", "baseline/constant")
    return run("run", *models, "--dataset", "q.jsonl", "--output", output, *more, cwd=folder)


def merged(folder, into, *parts):
    return run("merge", into, *parts, cwd=folder)


def trials(folder):
    """The rows of the CSV without what no two runs have alike."""
    rows = read_csv(folder / "trials.csv")
    timed = [name for name in rows[0] if name.endswith("_s") or name in ("finished_at", "in_flight", "run_id")]
    return [{name: value for name, value in row.items() if name not in timed} for row in rows]


def figures(folder):
    """The report without times and the run's own name."""
    return without_times(json.loads((folder / "comparison_report.json").read_text()))


def without_times(data):
    if isinstance(data, dict):
        return {name: without_times(value) for name, value in data.items() if not OF_TIME.search(name)}
    return [without_times(one) for one in data] if isinstance(data, list) else data


def test_eight_shards_merged_equal_one_run(place):
    done = merged(place, "all", *(f"part{number}" for number in range(8, 0, -1)))
    assert done.returncode == 0, done.stderr
    by_trial = lambda row: (row["contestant"], row["sample"])  # noqa: E731
    assert sorted(trials(place / "all"), key=by_trial) == sorted(trials(place / "whole"), key=by_trial)
    assert figures(place / "all") == figures(place / "whole")


def test_what_a_missing_shard_leaves_out_is_named_and_can_be_asked(place):
    done = merged(place, "most", *(f"part{number}" for number in range(1, 8)))
    assert done.returncode == 2
    assert "Missing: shard 8." in done.stdout
    again = run("run", "--resume", "most", cwd=place)
    assert again.returncode == 0, again.stderr
    assert figures(place / "most") == figures(place / "whole")


def test_groups_stay_whole_and_every_sample_falls_into_one_shard():
    samples = [Sample(id=str(i), messages=(), group=f"g{i // 3}" if i % 2 else "") for i in range(300)]
    held = [[s.id for s in samples if Shard(number=n, of=7).holds(s)] for n in range(1, 8)]
    assert sorted(itertools.chain.from_iterable(held)) == sorted(s.id for s in samples)
    of_group = {}
    for number, ids in enumerate(held):
        for identity in ids:
            if samples[int(identity)].group:
                of_group.setdefault(samples[int(identity)].group, set()).add(number)
    assert all(len(numbers) == 1 for numbers in of_group.values())
    assert min(map(len, held)) > 20


def test_parts_that_do_not_belong_together_are_refused(place):
    assert asked(place, "other", "--shard", "1/8", "--seed", "5").returncode == 0
    assert asked(place, "three", "--shard", "1/3").returncode == 0
    cases = [
        (("part1", "part1"), "is named twice"),
        (("part1", "other"), "another seed than part1"),
        (("part1", "three"), "three is shard 1/3"),
        (("part1", "whole"), "is a shard and the other a whole run"),
        (("part1", "nowhere"), "there is no run 'nowhere'"),
        (("whole", "all2"), "both asked baseline/random"),
    ]
    shutil.copytree(place / "whole", place / "all2")
    shutil.copytree(place / "part1", place / "copy1")
    cases.append((("part1", "copy1"), "are both shard 1/8"))
    for parts, told in cases:
        done = merged(place, "refused", *parts)
        assert done.returncode == 1, parts
        assert told in done.stderr
        assert not (place / "refused" / "run.sqlite").exists()


def test_damaged_part_is_refused(place):
    shutil.copytree(place / "part2", place / "broken")
    data = bytearray((place / "broken" / "run.sqlite").read_bytes())
    data[8192:16384] = b"\xff" * 8192
    (place / "broken" / "run.sqlite").write_bytes(data)
    done = merged(place, "refused", "part1", "broken")
    assert done.returncode == 1
    assert "damaged" in done.stderr


def test_a_shard_shows_no_verdict_and_its_report_says_why(place):
    done = run("report", "part1", cwd=place)
    assert "this is shard 1/8 of a run" in " ".join(done.stdout.split())
    with sqlite3.connect(place / "part1" / "run.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM looks").fetchone() == (0,)


def test_a_shard_is_resumed_as_the_shard_it_is(place):
    again = run("run", "--resume", "part3", cwd=place)
    assert again.returncode == 0, again.stderr
    other = run("run", "--resume", "part3", "--shard", "4/8", cwd=place)
    assert other.returncode == 1
    assert "part3 is shard 3/8" in other.stderr


@pytest.mark.parametrize(
    ("typed", "environment", "shard"),
    [
        ("3/8", {}, (3, 8)),
        ("auto/8", {"JOB_COMPLETION_INDEX": "0"}, (1, 8)),
        ("auto/8", {"SLURM_ARRAY_TASK_ID": "8", "SLURM_ARRAY_TASK_MIN": "1"}, (8, 8)),
        ("auto", {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "4"}, (1, 4)),
    ],
)
def test_scheduler_says_which_shard(typed, environment, shard):
    found = shard_of(typed, environment)
    assert (found.number, found.of) == shard


@pytest.mark.parametrize(
    ("typed", "environment", "told"),
    [
        ("0/8", {}, "counted from 1"),
        ("9/8", {}, "this is shard 9 of 8"),
        ("eight", {}, "should read like 3/8"),
        ("auto/8", {}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set"),
        ("auto", {"SLURM_ARRAY_TASK_ID": "1"}, "SLURM_ARRAY_TASK_COUNT is not set"),
        ("auto/8", {"JOB_COMPLETION_INDEX": "x"}, "which is no number"),
    ],
)
def test_shard_that_makes_no_sense_is_refused(typed, environment, told):
    with pytest.raises(UsageError, match=told):
        shard_of(typed, environment)


def scripts(kind):
    """The code blocks of one kind in the documentation."""
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / "shards.md").read_text(), re.DOTALL)


@pytest.fixture
def data(tmp_path):
    """A folder with the dataset of the examples, and a path on which `tiebreak` is this one."""
    rows = [{"id": str(i), "input": f"{i}?", "choices": ["a", "b"], "target": "a"} for i in range(40)]
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tiebreak"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tiebreak "$@"\n')
    program.chmod(0o755)
    return tmp_path


def done_by(command, data, **variables):
    path = f"{data / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=data, env=clean_environment(PATH=path, **variables), capture_output=True, text=True, timeout=120
    )


def test_slurm_example_runs_as_printed(data):
    (script,) = scripts("bash")
    (data / "job.sh").write_text(script)
    for task in range(1, 5):
        slurm = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "4"}
        done = done_by(["bash", "job.sh"], data, **slurm)
        assert done.returncode == 0, done.stderr
    done = done_by(["sh", "-c", "tiebreak merge result parts/*"], data)
    assert done.returncode == 0, done.stderr
    assert "40 samples are planned" in done.stdout


def test_kubernetes_example_runs_as_printed(data):
    job = yaml.safe_load(scripts("yaml")[0])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert job["spec"]["completions"] == 4
    for index in range(4):
        done = done_by([*container["command"], *container["args"]], data, JOB_COMPLETION_INDEX=str(index))
        assert done.returncode == 0, done.stderr
    assert done_by(["sh", "-c", "tiebreak merge result parts/*"], data).returncode == 0


def test_whole_runs_of_other_contestants_become_one(place):
    one = run("run", "--model", "baseline/random", "--dataset", "q.jsonl", "--output", "monday", cwd=place)
    two = run("run", "--model", "baseline/constant", "--dataset", "q.jsonl", "--output", "friday", cwd=place)
    assert (one.returncode, two.returncode) == (0, 0)
    assert merged(place, "both", "monday", "friday").returncode == 0
    report = json.loads((place / "both" / "comparison_report.json").read_text())
    assert [contestant["label"] for contestant in report["contestants"]] == ["baseline/random", "baseline/constant"]
    assert len(trials(place / "both")) == 480


def test_two_runs_are_compared_as_one_and_nothing_is_kept(place, monkeypatch):
    """The comparison that `merge` makes, with who was asked on which day; not of the same contestant twice."""
    for name, model in (("mo", "baseline/random"), ("fr", "baseline/constant")):
        assert run("run", "--model", model, "--dataset", "q.jsonl", "--output", name, cwd=place).returncode == 0
    with sqlite3.connect(place / "mo" / "run.sqlite") as connection:
        connection.execute("UPDATE run SET info = json_set(info, '$.created_at', '2026-01-05T10:00:00Z')")
    connection.close()
    before = sorted(path.name for path in place.iterdir())

    said = run("compare", "mo", "fr", "--as-one", cwd=place)
    data = json.loads(run("compare", "mo", "fr", "--as-one", "--json", cwd=place).stdout)
    twice = run("compare", "mo", "mo", "--as-one", cwd=place)

    assert said.returncode == 0, said.stderr
    assert "Asked on different days: baseline/random on 2026-01-05, baseline/constant on 20" in " ".join(said.stdout.split())
    assert {one["label"] for one in data["contestants"]} == {"baseline/random", "baseline/constant"}
    assert data["asked_on"]["baseline/random"] == "2026-01-05"
    assert twice.returncode == 1 and "named twice" in twice.stderr
    assert sorted(path.name for path in place.iterdir()) == before


def test_caps_and_rates_are_shared_among_the_shards():
    spec = RunSpec(
        protocol=Protocol(dataset="q"),
        contestants=(
            Contestant(
                label="m", model=replace(ModelRef(provider="openai", name="m", label="m"), limits=Limits(rpm=60, tpm=None))
            ),
        ),
        pace=Pace(max_cost_usd=10.0, max_total_tokens=1000),
        results_dir=Path(),
        shard=Shard(number=1, of=8),
    )
    share = spec.share()
    assert (share.pace.max_cost_usd, share.pace.max_total_tokens) == (1.25, 125)
    assert share.contestants[0].model.limits == Limits(rpm=7, tpm=None)
    assert share.contestants[0].digest == spec.contestants[0].digest


def test_every_table_of_a_store_is_merged():
    """One that is added later must be thought of here: what it holds, or why it is left out."""
    told = (ROOT / "tiebreak" / "store" / "merge.py").read_text()
    tables = re.findall(r"CREATE TABLE (\w+)", "".join(MIGRATIONS))
    made_anew = {"run", "contestants", "figures", "facts", "joined_votes"}
    assert [table for table in tables if f"INTO {table} " not in told and table not in made_anew] == []


def test_same_model_under_two_names_is_not_merged_twice(place):
    (place / "names.yaml").write_text("models:\n  mini: {provider: baseline, name: random}\n")
    one = run("run", "--model", "baseline/random", "--dataset", "q.jsonl", "--limit", "12", "--output", "one", cwd=place)
    two = run("run", "--model", "baseline/random", "--dataset", "q.jsonl", "--limit", "12", "--output", "two", cwd=place)
    assert (one.returncode, two.returncode) == (0, 0)
    with sqlite3.connect(place / "two" / "run.sqlite") as connection:
        connection.execute("UPDATE contestants SET label = 'mini'")
        connection.execute('UPDATE run SET info = replace(info, \'"label":"baseline/random"\', \'"label":"mini"\')')
    done = merged(place, "twice", "one", "two")
    assert done.returncode == 1
    assert "one and two both asked" in done.stderr
    assert not list((place / "twice").glob("run.sqlite*"))


def test_merging_into_a_part_is_refused(place):
    done = merged(place, "part1/inside", "part1", "part2")
    assert done.returncode == 1
    assert "part1/inside lies in part1" in done.stderr
