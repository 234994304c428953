"""Coding tasks are read from Markdown, from folders, and from the folders of Harbor and Exercism."""

import json
import textwrap
from pathlib import Path

import pytest

from tiebreak.core.errors import DatasetError
from tiebreak.datasets.tasks import load, read_task, spelled
from tiebreak.registry import load_dataset

TASK = """\
---
id: easy/fix_typo
title: Fix a typo in the readme
tags: [docs, one-line]
agent: {timeout_sec: 120, max_model_calls: 30}
verifier: {timeout_sec: 30}
limits: {memory_mb: 1024, pids: 99, network: none}
protect: ["src/**"]
expect: {max_files_changed: 1}
---
Fix the typo in README.md: 'teh' must be 'the'.

```text
## Verify is no heading in here
```

## Workspace

````text file=README.md
This is teh demo.

```python
## Solution
```
````

```python file=src/a.py
def f():
    return 1
```

```bash file=run.sh mode=755
echo hi
```

## Verify

```bash
grep -q the README.md
```

```python file=hidden/test_it.py
assert True
```

## Solution

```bash
sed -i s/teh/the/ README.md
```

## Cheat

```bash
echo the > README.md
```
"""

UNCLOSED = """\
---
title: The first fence is never closed
---
Do it.

## Workspace

```text file=a
old

## Verify

```bash
grep -q new a
```
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_markdown_task_has_all_its_parts(tmp_path):
    sample = read_task(write(tmp_path / "easy" / "fix.md", TASK))
    task = sample.task

    assert sample.id == "easy/fix_typo" and sample.category == "easy" and sample.scorers == ("check",)
    assert sample.prompt.startswith("Fix the typo") and "## Verify is no heading in here" in sample.prompt
    assert "grep" not in sample.prompt and "sed -i" not in sample.prompt
    assert [file.path for file in task.files] == ["README.md", "src/a.py", "run.sh"]
    assert task.files[0].content == b"This is teh demo.\n\n```python\n## Solution\n```\n"
    assert task.files[2].executable and not task.files[1].executable
    assert task.check.script == "grep -q the README.md\n"
    assert [file.path for file in task.check.files] == ["hidden/test_it.py"]
    assert task.check.protect == ("src/**",) and task.check.max_files_changed == 1 and task.check.timeout_s == 30
    assert task.limits.timeout_s == 120 and task.limits.max_model_calls == 30
    assert task.limits.memory_mb == 1024 and task.limits.processes == 99
    assert task.solution.script.startswith("sed") and task.cheat.script.startswith("echo")


def test_headings_and_fences_are_those_of_commonmark(tmp_path):
    """Indented by up to three spaces they count; in a list, a quotation or code they are text; HTML hides nothing."""
    text = """\
        Handle this:
        <script>
            ## Verify
        > ## Solution

        - a list

          ```
          ## Workspace
          ```

        Now it begins.

           ## workspace ##

          ```text file="a file.txt"
          indented
            by two
          ```

        ~~~~text file=b
        a form feed \f, ```three``` backticks and
        ~~~
        three tildes
        ~~~~~
    """
    sample = read_task(write(tmp_path / "odd.md", text))

    assert sample.prompt.endswith("begins.") and "## Verify" in sample.prompt and "## Solution" in sample.prompt
    assert [file.path for file in sample.task.files] == ["a file.txt", "b"]
    assert sample.task.files[0].content == b"indented\n  by two\n"
    assert sample.task.files[1].content == b"a form feed \f, ```three``` backticks and\n~~~\nthree tildes\n"


def test_only_what_is_worked_on_and_judged_is_in_a_tasks_identity(tmp_path):
    one = read_task(write(tmp_path / "a.md", TASK))
    other_solution = read_task(write(tmp_path / "b.md", TASK.replace("sed -i s/teh/the/", "perl -pi -e s/teh/the/")))
    other_check = read_task(write(tmp_path / "c.md", TASK.replace("grep -q the", "grep -qw the")))
    other_file = read_task(write(tmp_path / "d.md", TASK.replace("return 1", "return 2")))

    assert one.asked_digest == other_solution.asked_digest
    assert len({one.asked_digest, other_check.asked_digest, other_file.asked_digest}) == 3


def test_prose_alone_is_a_task_without_a_check(tmp_path):
    sample = read_task(write(tmp_path / "smoke" / "add_comment.md", "# Add a comment\n\n## Goal\n\nAdd a comment to main.py.\n"))

    assert sample.task.check is None and sample.id == "smoke/add_comment"
    assert "## Goal" in sample.prompt


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path):
    path = tmp_path / "fix.md"
    path.write_bytes(b"\xef\xbb\xbf" + TASK.replace("\n", "\r\n").encode())

    assert read_task(path).task == read_task(write(tmp_path / "plain.md", TASK)).task


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("---\nid: x\nDo it.\n", "never closed by a line of ---"),
        ("---\nid: [\n---\nDo it.\n", "no YAML"),
        ("---\ncolour: red\n---\nDo it.\n", "unknown field `colour`"),
        ("---\nagent: {timeout_sec: soon}\n---\nDo it.\n", "timeout_sec"),
        ("---\nlimits: {network: public}\n---\nDo it.\n", "the only network a task can have is none"),
        ("## Workspace\n\n```text file=a\n```\n", "there is no prompt"),
        ("Do it.\n\n## Workspace\n\n```text\nno name\n```\n", "line 5: a block of ## Workspace needs a name"),
        ("Do it.\n\n## Workspace\n\n```text file=a\nnever closed\n", "line 5: the block that begins here is never closed"),
        ("Do it.\n\n## Workspace\n\n```text file=a", "line 5: the block that begins here is never closed"),
        (UNCLOSED, "line 8: the block that begins here is never closed: on line 13 another one begins inside it"),
        ("Do it, as in\n\n~~~\nthis\n\n## Verify\n\n```bash\ntrue\n```\n", "line 3: the block that begins here is never closed"),
        ("Do it.\n\n## Cheat\n\n```text file=../a\nx\n```\n", "'../a' does not lie below the workspace"),
        ("Do it.\n\n## Workspace\n\n```text file=../a\nx\n```\n", "'../a' does not lie below the workspace"),
        ("Do it.\n\n## Workspace\n\n```text file=/etc/passwd\nx\n```\n", "does not lie below the workspace"),
        ("Do it.\n\n## Workspace\n\n```text file=.git/hooks/x\nx\n```\n", "does not lie below the workspace"),
    ],
)
def test_a_broken_task_says_what_is_wrong_and_where(tmp_path, text, complaint):
    path = write(tmp_path / "broken.md", text)

    with pytest.raises(DatasetError) as caught:
        read_task(path)

    assert complaint in str(caught.value) and str(path) in str(caught.value)


def test_a_folder_is_a_task_too(tmp_path):
    home = tmp_path / "hard" / "refactor"
    write(home / "task.md", "---\ntitle: Refactor\nneeds: [bash]\n---\nRefactor it.\n")
    write(home / "workspace" / "src" / "a.py", "x = 1\n")
    write(home / "workspace" / "__pycache__" / "a.pyc", "junk")
    write(home / "verify" / "check.sh", "python3 verify_it.py\n")
    write(home / "verify" / "verify_it.py", "assert True\n")
    write(home / "solution" / "src" / "a.py", "x = 2\n")

    sample = read_task(home)

    assert sample.id == "hard/refactor" and sample.category == "hard" and sample.prompt == "Refactor it."
    assert [f.path for f in sample.task.files] == ["src/a.py"]
    assert sample.task.check.script == "python3 verify_it.py\n" and [f.path for f in sample.task.check.files] == ["verify_it.py"]
    assert [f.path for f in sample.task.solution.files] == ["src/a.py"] and sample.task.solution.script == ""


def test_a_folder_whose_front_matter_is_never_closed_says_so(tmp_path):
    write(tmp_path / "refactor" / "task.md", "---\ntitle: Refactor\nRefactor it.\n")

    with pytest.raises(DatasetError, match="never closed by a line of ---"):
        read_task(tmp_path / "refactor")


def harbor(home, *, dockerfile="FROM python:3.12-slim\nWORKDIR /app\nENV MODE=test\nCOPY . /app\n", test="bash /tests/run.sh\n"):
    write(home / "task.toml", "[agent]\ntimeout_sec = 300.0\n[verifier]\ntimeout_sec = 60.0\n[environment]\nmemory_mb = 512\n")
    write(home / "instruction.md", "Write hello to /app/out.txt\n")
    write(home / "environment" / "Dockerfile", dockerfile)
    write(home / "environment" / "in.txt", "hello\n")
    write(home / "tests" / "test.sh", test)
    write(home / "solution" / "solve.sh", "cp /app/in.txt /app/out.txt\n")
    return home


def test_a_harbor_folder_is_read_with_its_image_as_links_and_variables(tmp_path):
    task = read_task(harbor(tmp_path / "hello")).task

    assert [f.path for f in task.files] == ["in.txt"]
    assert ("/app", ".") in task.links
    assert "export MODE=test" in task.check.script and task.check.timeout_s == 60 and task.limits.memory_mb == 512
    assert [f.path for f in task.check.files] == [".harbor-tests/test.sh"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"dockerfile": "FROM ghcr.io/someone/bench:3\n"}, "needs podman or docker"),
        ({"dockerfile": "FROM debian\nRUN apt-get install -y no-such-package\n"}, "installs no-such-package, not installed here"),
        ({"dockerfile": "FROM debian\nCOPY in.txt /srv/in.txt\n"}, "outside its working folder"),
        ({"test": "curl -L example.org | sh\n"}, "uses 'curl'"),
    ],
)
def test_what_needs_a_container_is_skipped_with_its_reason(tmp_path, changed, reason):
    write(tmp_path / "fine.md", TASK)
    harbor(tmp_path / "hello", **changed)

    dataset = load(spelled([tmp_path]))

    assert [sample.id for sample in dataset] == ["easy/fix_typo"]
    assert len(dataset.skipped) == 1 and reason in dataset.skipped[0][1]


def exercise(home, *, language="py", test="import unittest\n"):
    config = {"blurb": "Do it", "files": {"solution": [f"two_fer.{language}"], "test": [f"two_fer_test.{language}"],
                                           "example": [f".meta/example.{language}"]}}  # fmt: skip
    write(home / ".meta" / "config.json", json.dumps(config))
    write(home / ".meta" / f"example.{language}", "def two_fer(): return 2\n")
    write(home / ".docs" / "instructions.md", "# Instructions\n\nReturn two.\n")
    write(home / f"two_fer.{language}", "def two_fer(): pass\n")
    write(home / f"two_fer_test.{language}", test)
    return home


def test_an_exercism_folder_hides_its_tests_and_its_example(tmp_path):
    sample = read_task(exercise(tmp_path / "two-fer"))

    assert [f.path for f in sample.task.files] == ["two_fer.py"]
    assert [f.path for f in sample.task.check.files] == ["two_fer_test.py"]
    assert sample.task.solution.files[0].path == "two_fer.py" and b"return 2" in sample.task.solution.files[0].content
    assert "Return two." in sample.prompt and "two_fer.py" in sample.prompt


JEST = {"jest": "^29.7.0", "babel-jest": "^29.6.4", "@babel/core": "^7.25.2"}
NOT_FOR_TESTS = {"eslint": "^8.49.0", "@exercism/eslint-config-javascript": "^0.6.0", "@types/jest": "^29.5.12"}


def test_an_exercise_in_javascript_is_run_by_jest_with_every_test_switched_on(tmp_path):
    """What its tests need comes from npm, once for all exercises; what its author writes code with does not."""
    samples = []
    for name in ("two-fer", "three-fer"):
        home = exercise(
            tmp_path / name, language="js", test="describe('d', () => { test('a', f); xtest('b', f); xit('c', f); })\n"
        )
        about = {"name": name, "devDependencies": {**JEST, **NOT_FOR_TESTS}}
        write(home / "package.json", json.dumps(about))
        samples.append(read_task(home))

    task = samples[0].task
    assert task.check.script == 'python3 -I "$RUN_SUITE" env CI=true jest --runTestsByPath two_fer_test.js\n'
    assert task.check.files[0].content == b"describe('d', () => { test('a', f); test('b', f); it('c', f); })\n"
    assert "package.json" in task.check.restore
    (package,) = task.environment.npm
    assert json.loads(package.content)["dependencies"] == JEST
    assert samples[1].task.environment == task.environment


@pytest.mark.parametrize("version", ["git+https://example.com/jest.git", "file:../jest", "https://example.com/jest.tgz", "*"])
def test_an_exercise_installs_only_what_a_registry_publishes(tmp_path, version):
    home = exercise(tmp_path / "two-fer", language="js", test="test('a', f)\n")
    write(home / "package.json", json.dumps({"devDependencies": {"jest": version}}))

    with pytest.raises(DatasetError, match="which jest"):
        load(spelled([tmp_path]))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"language": "zig"}, "exercises in .zig cannot be tested here"),
        ({"language": "js", "test": "import {test} from '@jest/globals'\n"}, "which jest"),
    ],
)
def test_an_exercise_without_its_tools_is_skipped_with_its_reason(tmp_path, changed, reason):
    exercise(tmp_path / "two-fer", **changed)

    with pytest.raises(DatasetError, match=reason):
        load(spelled([tmp_path]))


def test_folders_patterns_and_several_paths_are_one_dataset(tmp_path):
    for level in ("smoke", "easy"):
        for name in ("a", "b"):
            write(tmp_path / level / f"{name}.md", f"Do {name}.\n")
    write(tmp_path / "README.md", "Not a task.\n")

    assert {s.id for s in load(spelled([tmp_path]))} == {"smoke/a", "smoke/b", "easy/a", "easy/b"}
    assert {s.id for s in load(spelled([f"{tmp_path}/*/a.md"]))} == {"smoke/a", "easy/a"}
    assert len(load_dataset(spelled([tmp_path / "easy" / "a.md", tmp_path / "smoke"]))) == 3
    assert len(load_dataset(f"tasks:{tmp_path}").categories) == 4


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("nowhere.md", "there is no task"), ("*.txt", "no task matches"), ("empty", "holds no tasks"), ("a.txt", "is no task")],
)
def test_a_path_without_a_task_is_named(tmp_path, path, complaint):
    (tmp_path / "empty").mkdir()
    if path == "a.txt":
        write(tmp_path / path, "x")

    with pytest.raises(DatasetError, match=complaint):
        load(spelled([tmp_path / path]))


def test_two_tasks_of_one_id_are_refused(tmp_path):
    write(tmp_path / "x" / "a.md", TASK)
    write(tmp_path / "y" / "b.md", TASK)

    with pytest.raises(DatasetError, match="another task has the id"):
        load(spelled([tmp_path]))


SECRET = "a secret of this machine"


def linked(place, target):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def our_folder(home):
    write(home / "task.md", "Do it.\n")
    write(home / "verify" / "check.sh", "true\n")


@pytest.mark.parametrize(
    "plant",
    [
        lambda home, outside: linked(home / "workspace", outside),
        lambda home, outside: linked(home / "solution", outside),
        lambda home, outside: linked(home / "verify" / "more" / ".." / ".." / "cheat", outside),
        lambda home, outside: ((home / "verify" / "check.sh").unlink(), linked(home / "verify" / "check.sh", outside / "secret")),
        lambda home, outside: ((home / "task.md").unlink(), linked(home / "task.md", outside / "secret")),
    ],
)
def test_a_task_folder_brings_no_files_of_the_machine(tmp_path, plant):
    """Links that lead out of the folder are refused, wherever they stand."""
    outside, home = tmp_path / "outside", tmp_path / "tasks" / "t"
    write(outside / "secret", SECRET)
    our_folder(home)
    (home / "verify" / "more").mkdir()
    plant(home, outside)
    with pytest.raises(DatasetError, match="leads out of the task's folder"):
        read_task(home)


@pytest.mark.parametrize(
    "copy", ["COPY ../../outside /app", "COPY ../../../outside/secret /app/", "ADD {outside}/secret /app/x", "COPY data /app"]
)
def test_an_image_copies_nothing_from_outside_its_context(tmp_path, copy):
    """Neither by `..`, nor by an absolute path, nor by a link."""
    outside, home = tmp_path / "outside", tmp_path / "tasks" / "t"
    write(outside / "secret", SECRET)
    harbor(home, dockerfile=f"FROM debian:12\nWORKDIR /app\n{copy.format(outside=outside)}\n")
    linked(home / "environment" / "data", outside)
    with pytest.raises(DatasetError, match=r"leads out|is no file"):
        read_task(home)


def test_a_file_behind_a_linked_folder_is_not_taken(tmp_path):
    """A link within the workspace is left out, as is everything behind it."""
    outside, home = tmp_path / "outside", tmp_path / "tasks" / "t"
    write(outside / "secret", SECRET)
    our_folder(home)
    write(home / "workspace" / "a.txt", "a\n")
    linked(home / "workspace" / "more", outside)
    linked(home / "workspace" / "b.txt", outside / "secret")
    assert [file.path for file in read_task(home).task.files] == ["a.txt"]


def test_an_exercise_names_no_files_of_the_machine(tmp_path):
    """Its configuration is data from somebody else."""
    outside, home = tmp_path / "outside", tmp_path / "tasks" / "leap"
    write(outside / "secret", SECRET)
    exercise(home)
    for key, path in (("test", "../../outside/secret"), ("example", str(outside / "secret"))):
        config = json.loads((home / ".meta" / "config.json").read_text())
        config["files"][key] = [path]
        (home / ".meta" / "config.json").write_text(json.dumps(config))
        with pytest.raises(DatasetError, match="leads out"):
            read_task(home)
        exercise(home)


def test_a_folder_of_tasks_lists_none_from_elsewhere(tmp_path):
    """A prompt would tell the model what is in the file."""
    write(tmp_path / "outside" / "secret.md", SECRET)
    write(tmp_path / "tasks" / "a.md", "Do it.\n")
    linked(tmp_path / "tasks" / "b.md", tmp_path / "outside" / "secret.md")
    with pytest.raises(DatasetError, match="leads out"):
        load(spelled([tmp_path / "tasks"]))


def test_folders_that_are_no_part_of_a_task_are_named_with_what_to_do_instead(tmp_path):
    folder = tmp_path / "tasks" / "a"
    our_folder(folder)
    for name in (".git/HEAD", "node_modules/left/index.js", "node_modules/left/node_modules/pad.js", "__pycache__/x.pyc"):
        write(folder / "workspace" / name, "x")

    dataset = load(spelled([tmp_path / "tasks"]))

    assert len(dataset) == 1
    told = {str(Path(path).relative_to(folder)): reason for path, reason in dataset.skipped}
    assert set(told) == {"workspace/.git", "workspace/node_modules"}, "caches are nobody's loss"
    assert "packages: {npm: [package-lock.json]}" in told["workspace/node_modules"]
    assert "one commit" in told["workspace/.git"]
