"""What an audit sees, and what it costs."""

import json
import subprocess
import sys

import pytest
from support.command import run

from benchmark.registry import audit_dataset, load_dataset


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_dataset(str(path))


def free(count, **more):
    return [{"id": str(i), "input": f"Question {i}?", "target": f"answer {i}", **more} for i in range(count)]


def kinds(dataset):
    return {finding.kind for finding in audit_dataset(dataset).findings}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([*free(30), {"id": "x", "input": "Question 3?", "target": "other"}], "duplicates"),
        ([{**row, "input": f"{row['input']} It is {row['target']}."} for row in free(30)], "answer in the question"),
        ([{**row, "target": "yes"} for row in free(30)], "majority"),
        ([*free(30, category="a"), {"id": "x", "input": "?", "target": "b", "category": "b"}], "categories"),
        (
            [{"id": str(i), "input": f"Pick {i}", "choices": ["a much longer text", "b", "c"], "target": 0} for i in range(30)],
            "length",
        ),
    ],
)
def test_each_fault_is_found(tmp_path, rows, kind):
    assert kinds(written(tmp_path / "q.jsonl", rows)) == {kind}


def test_a_sound_dataset_has_no_findings(tmp_path):
    assert kinds(written(tmp_path / "q.jsonl", free(50))) == set()
    assert kinds(load_dataset("truthfulness")) == set()
    assert kinds(load_dataset("fresh:5")) == set()


def test_guessers_score_what_guessing_would(tmp_path):
    rows = [{"id": str(i), "input": f"Pick {i}", "choices": ["aa", "bb", "cc", "dd"], "target": i % 4} for i in range(40)]
    guessers = audit_dataset(written(tmp_path / "q.jsonl", rows)).guessers
    assert guessers == {"chance": 0.25, "always the same place in the file": 0.25, "always the longest": 0.0}


def test_the_command_says_what_it_found_and_how_many(tmp_path):
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*free(30), {**free(1)[0], "id": "again"}]))
    done = run("audit", "q.jsonl", cwd=tmp_path)
    assert done.returncode == 3
    assert "31 samples" in done.stdout
    assert "1 question stands there twice (0 = again)" in done.stdout + done.stderr
    assert run("audit", "warmup", cwd=tmp_path).returncode == 0
    assert run("audit", "nothing.jsonl", cwd=tmp_path).returncode == 1


def test_fifty_thousand_samples_are_looked_over_in_little_time_and_memory(tmp_path):
    with (tmp_path / "q.jsonl").open("w") as file:
        for i in range(50_000):
            file.write(json.dumps({"id": i, "input": f"Question {i}? " + "x" * 100, "target": f"a{i}"}) + "\n")
    code = """
import resource, sys, time
from benchmark.registry import audit_dataset, load_dataset
memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
audit_dataset(load_dataset("warmup"))
dataset = load_dataset(sys.argv[1])
before, began = memory(), time.process_time()
for i in range(len(dataset)):
    dataset[i]
read, began = time.process_time() - began, time.process_time()
assert not audit_dataset(dataset).findings
print(time.process_time() - began - read, memory() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "q.jsonl")], capture_output=True, text=True, check=True, timeout=120
    )
    seconds, kilobytes = map(float, done.stdout.split())
    assert seconds / 50_000 < 30e-6
    assert kilobytes < 12_000
