"""A repository's own history as coding tasks: made by one command, proven, and run by agents who see nothing of the future."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command import run
from support.repositories import BOTH, commit, git, shop

from tiebreak import commit_tasks
from tiebreak.commit_tasks import NoTask, Wishes, limit_for, make_task
from tiebreak.core.errors import DatasetError
from tiebreak.datasets.repository import Commit, Repository
from tiebreak.datasets.tasks import load, spelled
from tiebreak.sandbox import judge
from tiebreak.sandbox.isolation import isolation_at

pytestmark = pytest.mark.needs("bubblewrap")
PYTHON = ("--python", sys.executable)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], str]:
    """The shop, with the tasks of its history below it, and what the command said."""
    home = tmp_path_factory.mktemp("history")
    names = shop(home / "shop")
    done = run("new-task", "--from-history", "--repo", "shop", "--output", "tasks", "--no-cheats", *PYTHON, cwd=home, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return home, names, done.stdout


def only_task(home: Path) -> Path:
    found = [path.parent for path in (home / "tasks").glob("*/task.md")]
    assert len(found) == 1, found
    return found[0]


def test_a_history_gives_the_commits_that_can_be_proven(history: tuple[Path, dict[str, str], str]) -> None:
    """Words and untested changes are no candidates; broken tests and flaky ones decide nothing; no cheat passes."""
    home, names, said = history

    fields = yaml.safe_load((only_task(home) / "task.md").read_text().split("---\n")[1])

    assert fields["fail_to_pass"] == ["tests/test_sums.py::test_double"]
    assert "tests/test_sums.py::test_now_and_then" not in fields["pass_to_pass"]
    assert fields["commit"] == names["first"]
    assert f"✓ {names['feature'][:8]}" in said
    assert f"– {names['broken'][:8]}" in said
    assert names["words"][:8] not in said and names["untested"][:8] not in said


def test_what_is_done_is_told_while_it_is_done(history: tuple[Path, dict[str, str], str]) -> None:
    """Also where nobody looks at a terminal: a line when a commit is tried, and one with what came of it."""
    _, names, said = history

    lines = said.splitlines()

    assert lines[0].startswith("2 commits to be tried, the newest first, until 20 tasks are made.")
    assert "1 others: it changes no code" in lines[0] and "1 others: it changes no tests" in lines[0]
    for name in ("feature", "broken"):
        begun = next(place for place, line in enumerate(lines) if line.startswith(f"· {names[name][:8]}"))
        ended = next(
            place for place, line in enumerate(lines) if line.startswith((f"✓ {names[name][:8]}", f"– {names[name][:8]}"))
        )
        assert begun < ended
        assert "of 2" in lines[begun] and lines[ended].endswith(" s)")
    refused = next(line for line in lines if line.startswith("–"))
    assert "its tests do not pass after it: E   ModuleNotFoundError: No module named 'nothing_of_that_name'" in refused


@pytest.mark.parametrize(("name", "processes"), [("feature", 5), ("broken", 3), ("kept", 1)])
async def test_a_commit_is_tried_with_no_more_processes_than_it_takes(
    name: str, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once before, twice for the twins, twice more after; what cannot make a task is found out sooner."""
    started: list[str] = []
    real = judge._Service._suite_ran

    async def counted(self: judge._Service, request: dict[str, Any], channel: socket.socket) -> dict[str, Any]:
        started.append(request["program"])
        return await real(self, request, channel)

    monkeypatch.setattr(judge._Service, "_suite_ran", counted)
    names = shop(tmp_path / "shop")
    kept = {"src/shop/sums.py": f"# Sums?\n{BOTH}", "tests/test_more.py": "from shop import sums\ndef test_it(): assert sums\n"}
    names["kept"] = commit(tmp_path / "shop", "Test what is there", kept)
    repository = Repository(tmp_path / "shop")
    chosen = next(repository.commits(names[name]))
    trying = make_task(repository, chosen, Wishes(python=sys.executable, timeout_s=60), isolation_at("bubblewrap"))

    if name == "feature":
        assert (await trying).timeout_s == 6 * 60, "its check runs the tests and their twins three times"
    else:
        with pytest.raises(NoTask):
            await trying

    assert len(started) == processes


async def test_a_commit_that_takes_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes of them is told in their order all the same."""
    begun, go_on = list[str](), asyncio.Event()

    async def slow_first(repository: Repository, commit: Commit, *_: object) -> Commit:
        if commit.id == "0":
            await go_on.wait()
        elif commit.id == "4":
            go_on.set()
        return commit

    monkeypatch.setattr(commit_tasks, "make_task", slow_first)
    commits = [Commit(str(number), "", "") for number in range(6)]
    made = commit_tasks.make_tasks(
        Repository(Path()), commits, Wishes(), isolation_at("none"), at_once=2, tell=lambda commit: begun.append(commit.id)
    )

    async with asyncio.timeout(20):
        assert [tried.commit.id async for tried in made] == list("012345")
    assert begun == list("012345")


def test_no_cheat_passes_a_made_task(tmp_path: Path) -> None:
    names = shop(tmp_path / "shop")
    chosen = ("--from-commit", names["feature"], "--repo", "shop", "--output", "tasks")

    done = run("new-task", *chosen, *PYTHON, cwd=tmp_path, timeout=300)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 task proven, 0 not" in done.stdout
    assert "1 task: doing nothing, the solution and 14 attacks on each, 16 attempts" in done.stdout
    assert "· an object equal to everything: tried on all (" in done.stdout
    assert "· solution: tried on all (" in done.stdout


NODE_TEST = """
    const {{ test }} = require('node:test');
    const {{ equal }} = require('node:assert');
    const sums = require('../sums.js');
    test('adds', () => equal(sums.add(1, 2), 3));
    {more}
"""
CARGO = '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n'
LANGUAGES = {
    "node": (
        {"sums.js": "exports.add = (a, b) => a + b\n", "test/sums.test.js": NODE_TEST.format(more="")},
        {
            "sums.js": "exports.add = (a, b) => a + b\nexports.double = a => 2 * a\n",
            "test/sums.test.js": NODE_TEST.format(more="test('doubles', () => equal(sums.double(2), 4));"),
        },
        "test/sums.test.js::doubles",
        "test/sums.test.js::adds",
    ),
    "cargo": (
        {
            "Cargo.toml": CARGO,
            ".gitignore": "target\n",
            "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\npub fn double(a: i32) -> i32 { a }\n",
            "tests/sums.rs": "#[test]\nfn adds() { assert_eq!(sums::add(1, 2), 3) }\n",
        },
        {
            "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\npub fn double(a: i32) -> i32 { 2 * a }\n",
            "tests/sums.rs": (
                "#[test]\nfn adds() { assert_eq!(sums::add(1, 2), 3) }\n"
                "#[test]\nfn doubles() { assert_eq!(sums::double(2), 4) }\n"
            ),
        },
        "tests/sums.rs::doubles",
        "tests/sums.rs::adds",
    ),
}


@pytest.mark.parametrize("language", [pytest.param(name, marks=pytest.mark.needs(name)) for name in LANGUAGES])
def test_a_project_in_another_language_gives_tasks_whose_tests_are_told_one_by_one(language: str, tmp_path: Path) -> None:
    start, change, mended, kept = LANGUAGES[language]
    (tmp_path / "project").mkdir()
    git(tmp_path / "project", "init", "-q", "-b", "main", ".")
    commit(tmp_path / "project", "Begin", dict(start))
    commit(tmp_path / "project", "Double a number", dict(change))

    made = run("new-task", "--from-history", "--repo", "project", "--output", "tasks", cwd=tmp_path, timeout=600)

    assert made.returncode == 0, made.stdout + made.stderr
    task = load(spelled([tmp_path / "tasks"]))[0].task
    assert task is not None and task.check is not None and language in task.needs
    assert (task.check.fail_to_pass, task.check.pass_to_pass) == ((mended,), (kept,))
    assert "1 of 1 tests mended, 1 of 1 tests kept" in made.stdout
    assert "1 task proven, 0 not" in made.stdout


def test_the_limit_of_the_tests_follows_how_long_the_solution_took(history: tuple[Path, dict[str, str], str]) -> None:
    """A machine that is busy is no reason to hold a solution for a wrong one."""
    home, _, _ = history
    task = load(spelled([home / "tasks"]))[0].task

    assert [limit_for(seconds) for seconds in (0.5, 30.0, 600.0)] == [120, 600, 1200]
    assert task is not None and task.check is not None and task.check.timeout_s >= 120


def test_what_is_proven_is_told_as_json(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("Do it.\n\n## Verify\n\n```bash\ntrue\n```\n\n## Solution\n\n```bash\ntrue\n```\n")

    done = run("check-tasks", "bad.md", "--json", "--max-workers", "3", cwd=tmp_path, timeout=120)

    assert done.returncode == 2, done.stderr
    (task,) = json.loads(done.stdout)["tasks"]
    assert (task["id"], task["proven"]) == ("bad", False)
    assert "doing nothing passes" in task["problems"]


def test_the_tests_of_each_check_are_told_as_json(history: tuple[Path, dict[str, str], str], tmp_path: Path) -> None:
    home, _, _ = history

    done = run("check-tasks", str(home / "tasks"), "--json", cwd=tmp_path, timeout=200)

    (task,) = json.loads(done.stdout)["tasks"]
    told = {test["id"]: (test["status"], test["group"]) for test in task["tests"]}
    assert told["tests/test_sums.py::test_double"] == ("passed", "fail_to_pass")
    assert "1 of 1 tests mended" in done.stderr


def test_the_prompt_is_what_the_commit_says_and_nothing_of_its_code(history: tuple[Path, dict[str, str], str]) -> None:
    home, _, _ = history
    sample = load(spelled([home / "tasks"]))[0]

    assert sample.prompt.startswith("Make this change to the project:\n\nDouble a number\n\nAdd `double` to shop.sums.")
    assert "Signed-off-by" not in sample.prompt
    assert sample.task is not None and sample.scorers == ("check", "tests")
    assert {file.path for file in sample.task.files} == {
        "src/shop/__init__.py",
        "src/shop/sums.py",
        "tests/test_sums.py",
        "pyproject.toml",
    }
    assert not any(b"double" in file.content for file in sample.task.files)


SOLVES = f"```shell\n(git remote; git rev-list --all --count) > log.txt\n```\nFILE src/shop/sums.py\n```\n{BOTH}```\nFINISH"
HALF = "FILE src/shop/sums.py\n```\ndef double(number):\n    return 2 * number\n```\nFINISH"
FAKES = "FILE tests/test_sums.py\n```\ndef test_double(): pass\n```\nFINISH"


def test_models_are_run_on_it_and_each_test_is_reported(history: tuple[Path, dict[str, str], str], tmp_path: Path) -> None:
    """One commit, no future, no origin; partial credit; a model that rewrites the tests has changed nothing that counts."""
    home, _, _ = history
    scripts = {"solves": [SOLVES] * 2, "half": [HALF] * 3, "fakes": [FAKES] * 3}
    for name, answers in scripts.items():
        (tmp_path / name).write_text(json.dumps({"answers": answers, "default": "FINISH"}))

    models = ",".join(f"scripted/{name}" for name in scripts)
    done = run(
        *("batch", "--task", str(home / "tasks"), "--models", models, "--output", "out", "--yes"),
        cwd=tmp_path,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    results = {row["model"]: row for row in json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"]}
    solved = results["scripted/solves"]
    assert solved["success"], done.stdout
    assert "+++ b/log.txt\n@@ -0,0 +1 @@\n+1\n" in solved["diff"], "no origin, and one commit in all"
    assert {test["status"] for test in solved["tests"] if test["group"]} == {"passed"}
    assert not results["scripted/half"]["success"]
    assert not results["scripted/fakes"]["success"]
    transcripts = list((tmp_path / "out" / "attempts").glob("*half*/*/transcript.md"))
    assert "0 of 1 tests kept" in transcripts[0].read_text()


def test_a_task_needs_nothing_but_its_folder(history: tuple[Path, dict[str, str], str], tmp_path: Path) -> None:
    """The repository beside the tasks holds the files at the start: no later commit, no origin."""
    home, names, _ = history
    (home / "tasks").rename(tmp_path / "tasks")
    try:
        assert load(spelled([tmp_path / "tasks"]))[0].task is not None
        for later in ("feature", "broken"):
            with pytest.raises(Exception, match="exit status 1"):
                git(tmp_path / "tasks" / "repository.git", "cat-file", "-e", names[later])
    finally:
        (tmp_path / "tasks").rename(home / "tasks")


def test_a_task_shows_no_repository_from_elsewhere(history: tuple[Path, dict[str, str], str], tmp_path: Path) -> None:
    """A task that somebody sends cannot have a model read your other projects."""
    home, _, _ = history
    place = tmp_path / "far" / "task"
    place.mkdir(parents=True)
    text = (only_task(home) / "task.md").read_text().replace("../repository.git", str(home / "shop"))
    (place / "task.md").write_text(text)

    with pytest.raises(DatasetError, match="lies elsewhere"):
        load(spelled([place]))


def test_a_range_makes_one_task(tmp_path: Path) -> None:
    names = shop(tmp_path / "shop")
    git(tmp_path / "shop", "checkout", "-q", "-b", "feature", names["first"])
    commit(tmp_path / "shop", "Triple", {"src/shop/sums.py": "def triple(n): return 3 * n\n"})
    test = "from shop.sums import triple\ndef test_triple(): assert triple(2) == 6\n"
    commit(tmp_path / "shop", "Test it", {"tests/test_triple.py": test})

    done = run(
        *("new-task", "--from-pr", "main..feature", "--repo", "shop", "--output", "tasks", "--no-cheats", *PYTHON),
        cwd=tmp_path,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 test to mend, 0 to keep" in done.stdout
    assert "Triple" in (only_task(tmp_path) / "task.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name commits"),
        (("--from-commit", "nothing"), "there is no commit"),
        (("--from-commit", "--exec=sh"), "is no commit"),
        (("--from-pr", "main"), "is no range"),
        (("--from-commit", "HEAD~4"), "the first commit"),
        (("--from-history", "--repo", "."), "not a git repository"),
        (("--from-commit", "HEAD~2"), "it changes no code"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(arguments: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    shop(tmp_path / "shop")

    done = run("new-task", "--repo", "shop", *arguments, cwd=tmp_path)

    assert done.returncode == 1
    assert complaint in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_prose_is_worked_on_in_a_copy_of_a_folder(tmp_path: Path) -> None:
    """What git ignores stays at home, and so does what the agent does."""
    shop(tmp_path / "shop")
    (tmp_path / "shop" / ".gitignore").write_text("secret.txt\n")
    (tmp_path / "shop" / "secret.txt").write_text("secret")
    (tmp_path / "task.md").write_text("List the files.\n")
    (tmp_path / "looks").write_text(json.dumps({"answers": ["```shell\nls -A > src/list.txt\n```\nFINISH"], "default": "FINISH"}))

    done = run(
        *("batch", "--task", "task.md", "--workspace", "shop", "--models", "scripted/looks", "--output", "out", "--yes"),
        cwd=tmp_path,
    )

    diff = json.loads((tmp_path / "out" / "comparison_report.json").read_text())["results"][0]["diff"]
    assert "+README.md" in diff and "+.git\n" in diff, done.stdout + done.stderr
    assert "secret" not in diff
    assert not (tmp_path / "shop" / "src" / "list.txt").exists()
