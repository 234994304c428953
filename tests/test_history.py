"""`tiebreak history`: the runs of one contestant, and from which on it is another one."""

import json
import shutil

import pytest
from support.command import run
from support.server import FakeServer

ROWS = [{"id": f"q{i}", "input": f"Question {i}?", "target": "yes"} for i in range(80)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Six runs of one name; before the fifth the server puts another model behind it."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    worse = False

    def answer(prompt):
        number = int(prompt.split()[1].rstrip("?"))
        return "no" if number % 4 == 0 or (worse and number % 3 == 0) else "yes"

    with FakeServer(answer) as server:
        for number in range(6):
            worse = number >= 4
            done = run(
                *("run", "--model", "gpt-4o-mini", "--dataset", "q.jsonl", "--output", f"runs/r{number}", "--yes"),
                cwd=folder,
                **server.environment(),
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_swapped_model_is_found_at_once(place):
    done = run("history", "gpt-4o-mini", "--results", "runs", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "Since r4: its score fell by 25.0 points (0.75 → 0.50); shown at once." in said
    assert [word for word in said.split() if word in {f"r{n}" for n in range(6)}][:6] == [f"r{n}" for n in range(6)]


def test_alarm_of_the_last_run_fails_a_build(place, tmp_path):
    for number in range(5):
        shutil.copytree(place / "runs" / f"r{number}", tmp_path / "runs" / f"r{number}")
    done = run("history", "openai/gpt-4o-mini", "--results", "runs", "--json", cwd=tmp_path)
    assert done.returncode == 3
    (history,) = json.loads(done.stdout)["histories"]
    (change,) = history["changes"]
    assert (change["since"], change["shown"], change["in_score"], change["runs"]) == ("r4", "r4", True, 1)


def test_quiet_history_one_run_and_nobody(place, tmp_path):
    for number in range(3):
        shutil.copytree(place / "runs" / f"r{number}", tmp_path / "runs" / f"r{number}")
    quiet = run("history", "gpt-4o-mini", "--results", "runs", cwd=tmp_path)
    assert quiet.returncode == 0
    assert "No change is shown by these 3 runs." in quiet.stdout
    shutil.rmtree(tmp_path / "runs" / "r0")
    (tmp_path / "runs" / "r1" / "run.sqlite").write_bytes(b"no database at all")
    single = run("history", "gpt-4o-mini", "--results", "runs", cwd=tmp_path)
    assert "One run is no history" in single.stdout
    assert "left out: r1" in single.stdout + single.stderr
    nobody = run("history", "gpt-5", "--results", "runs", cwd=tmp_path)
    assert nobody.returncode == 1
    assert "has answers of 'gpt-5'" in nobody.stderr


def test_the_same_answers_count_once(tmp_path):
    """Shards and the run they became, a copy, and answers of a cache are no further runs."""
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    line = ("run", "--model", "gpt-4o-mini", "--dataset", "q.jsonl", "--yes")
    with FakeServer(lambda prompt: "yes") as server:
        for name, more in (
            ("p1", ("--shard", "1/2")),
            ("p2", ("--shard", "2/2")),
            ("a", ("--cache", "kept")),
            ("b", ("--cache", "kept")),
        ):
            done = run(*line, *more, "--output", f"runs/{name}", cwd=tmp_path, **server.environment())
            assert done.returncode == 0, done.stdout + done.stderr
    assert run("merge", "runs/whole", "runs/p1", "runs/p2", cwd=tmp_path).returncode == 0
    shutil.copytree(tmp_path / "runs" / "a", tmp_path / "runs" / "copy")
    done = run("history", "gpt-4o-mini", "--results", "runs", "--json", cwd=tmp_path)
    (history,) = json.loads(done.stdout)["histories"]
    assert [entry["run"] for entry in history["runs"]] == ["whole", "a"]
