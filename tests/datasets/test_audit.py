"""What an audit sees, and what it costs."""

import json
import subprocess
import sys

import pytest
from support.command import run

from tiebreak.datasets import profile
from tiebreak.registry import audit_dataset, load_dataset


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


@pytest.mark.parametrize("choices", [0, 1, 19, 20, 40])
@pytest.mark.parametrize("free_text", [0, 1, 19, 20, 40])
def test_a_dataset_of_both_kinds_is_looked_over_as_two(tmp_path, free_text, choices):
    rows = [{"id": f"c{i}", "input": f"Pick {i}", "choices": ["aa", "bb", "cc", "dd"], "target": i % 4} for i in range(choices)]
    rows += [{"id": f"f{i}", "input": f"Say {i}", "target": "yes"} for i in range(free_text)]
    if not rows:
        return
    found = audit_dataset(written(tmp_path / "q.jsonl", rows))
    assert ("chance" in found.guessers) == (choices > 0)
    assert ("majority" in {finding.kind for finding in found.findings}) == (free_text >= 20)
    if free_text:
        assert found.guessers["always the commonest answer"] == 1.0


def test_the_command_says_what_it_found_and_how_many(tmp_path):
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*free(30), {**free(1)[0], "id": "again"}]))
    done = run("audit", "q.jsonl", cwd=tmp_path)
    assert done.returncode == 3
    assert "31 samples" in done.stdout
    assert "1 question stands there twice (0 = again)" in done.stdout + done.stderr
    assert run("audit", "warmup", cwd=tmp_path).returncode == 0
    assert run("audit", "nothing.jsonl", cwd=tmp_path).returncode == 1


def test_fifty_thousand_samples_are_looked_over_in_little_time_and_memory(tmp_path):
    """A file is read once: what an audit needs is noticed while it is loaded."""
    with (tmp_path / "q.jsonl").open("w") as file:
        for i in range(50_000):
            file.write(json.dumps({"id": i, "input": f"Question {i}? " + "x" * 100, "target": f"a{i}"}) + "\n")
    code = """
import resource, sys, time
from tiebreak.datasets import profile
from tiebreak.registry import audit_dataset, load_dataset
memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
audit_dataset(load_dataset("warmup"))
before = memory()
dataset = load_dataset(sys.argv[1])
began = time.process_time()
assert not audit_dataset(dataset).findings
print(time.process_time() - began, memory() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "q.jsonl")], capture_output=True, text=True, check=True, timeout=120
    )
    seconds, kilobytes = map(float, done.stdout.split())
    assert seconds / 50_000 < 5e-6
    assert kilobytes < 12_000


class Unnoticed:
    """A dataset that took notice of nothing while it was loaded."""

    profile = None

    def __init__(self, inner):
        self._inner = inner

    def __len__(self):
        return len(self._inner)

    def __getitem__(self, position):
        return self._inner[position]


def test_what_is_noticed_while_loading_is_what_a_second_look_finds(tmp_path):
    rows = [*free(30), {"id": "x", "input": "Question 3? It is answer 3.", "target": "answer 3"}]
    rows += [{"id": f"c{i}", "input": f"Pick {i}", "choices": ["aa", "b", "c"][: 2 + i % 2], "target": 0} for i in range(25)]
    dataset = written(tmp_path / "q.jsonl", rows)
    assert audit_dataset(dataset) == audit_dataset(Unnoticed(dataset))
    assert kinds(dataset) == {"length"}


def test_shares_are_of_all_answers_however_many_different_ones_there_are(tmp_path, monkeypatch):
    """More answers than are told apart: one in twenty standing in its question is still one in twenty."""
    monkeypatch.setattr(profile, "_MOST_ANSWERS", 10)
    rows = [{**row, "input": f"{row['input']} It is {row['target']}."} if i % 20 == 0 else row for i, row in enumerate(free(400))]
    rows += [{**row, "id": f"same {row['id']}", "input": f"Again {row['input']}", "target": "answer 1"} for row in free(100)]
    found = audit_dataset(written(tmp_path / "q.jsonl", rows))
    assert found.findings == ()
    assert found.guessers == {"always the commonest answer": pytest.approx(101 / 500)}
