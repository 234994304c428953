"""Every coding task is proven: doing nothing fails it, its solution passes, and cheats gain nothing."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from support.command import ROOT, run

from tiebreak.datasets.tasks import load, spelled

TASKS = ROOT / "benchmark" / "tasks"
pytestmark = pytest.mark.needs("bubblewrap", "node")


def test_there_are_six_tasks_to_a_level_and_the_documented_ones_among_them() -> None:
    dataset = load(spelled([TASKS]))

    assert dataset.skipped == ()
    assert Counter(sample.category for sample in dataset) == {"smoke": 6, "easy": 6, "medium": 6, "hard": 6}
    assert {"smoke/add_comment", "easy/fix_typo", "medium/add_validation", "hard/refactor_metrics"} <= {s.id for s in dataset}
    assert all(sample.task and sample.task.check and sample.task.solution for sample in dataset)


@pytest.mark.parametrize("level", ["smoke", "easy", "medium", "hard"])
def test_all_tasks_of_a_level_are_sound(level: str, tmp_path: Path) -> None:
    done = run("check-tasks", str(TASKS / level), cwd=tmp_path, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 tasks proven, 0 not" in done.stdout


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")


def exercise(home: Path, name: str, stub: str, example: str, test: str) -> None:
    files = {"solution": [f"{name}.py"], "test": [f"{name}_test.py"], "example": [".meta/example.py"]}
    write(home / ".meta" / "config.json", json.dumps({"blurb": name, "files": files}))
    write(home / ".docs" / "instructions.md", f"# Instructions\n\nWrite {name}.\n")
    write(home / f"{name}.py", stub)
    write(home / ".meta" / "example.py", example)
    write(home / f"{name}_test.py", test)


def test_exercises_in_exercisms_layout_import_and_pass_both_controls(tmp_path: Path) -> None:
    exercise(
        tmp_path / "set" / "leap",
        "leap",
        "def leap_year(year):\n    pass\n",
        "def leap_year(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
        """
        import unittest

        from leap import leap_year


        class LeapTest(unittest.TestCase):
            def test_years(self):
                self.assertEqual([leap_year(y) for y in (1900, 2000, 2023, 2024)], [False, True, False, True])
        """,
    )
    exercise(
        tmp_path / "set" / "rotate",
        "rotate",
        "def rotate(text, key):\n    pass\n",
        "def rotate(text, key):\n    return ''.join(chr((ord(c) - 97 + key) % 26 + 97) if c.islower() else c for c in text)\n",
        """
        import unittest

        from rotate import rotate


        class RotateTest(unittest.TestCase):
            def test_text(self):
                self.assertEqual(rotate("the quick fox", 13), "gur dhvpx sbk")
        """,
    )
    exercise(
        tmp_path / "set" / "account",
        "account",
        "class Account:\n    pass\n",
        "class Account:\n    balance = 0\n\n    def deposit(self, n):\n        if n <= 0:\n            raise ValueError(n)\n"
        "        self.balance += n\n",
        """
        import unittest

        from account import Account


        class AccountTest(unittest.TestCase):
            def test_deposit(self):
                account = Account()
                account.deposit(5)
                self.assertEqual(account.balance, 5)
                with self.assertRaises(ValueError):
                    account.deposit(0)
        """,
    )
    done = run("check-tasks", str(tmp_path / "set"), cwd=tmp_path, timeout=120)

    assert done.returncode == 0 and "3 tasks proven, 0 not" in done.stdout, done.stdout + done.stderr


def test_a_harbor_folder_imports_and_passes_both_controls(tmp_path: Path) -> None:
    home = tmp_path / "set" / "count-words"
    write(home / "task.toml", 'version = "1.4"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 30.0\n')
    write(home / "instruction.md", "Write the number of words in /app/data/words.txt to /app/count.txt.\n")
    write(home / "environment" / "Dockerfile", "FROM debian:12\nWORKDIR /app\nENV UNIT=words\nCOPY data /app/data\n")
    write(home / "environment" / "data" / "words.txt", "one two three\nfour\n")
    write(
        home / "tests" / "test.sh",
        """
        #!/bin/bash
        if [ "$(cat /app/count.txt)" = "$(cat /tests/expected.txt)" ] && [ "$UNIT" = words ]; then
            echo 1 > /logs/verifier/reward.txt
        else
            echo 0 > /logs/verifier/reward.txt
        fi
        """,
    )
    write(home / "tests" / "expected.txt", "4\n")
    write(home / "solution" / "solve.sh", "wc -w < /app/data/words.txt > /app/count.txt\n")

    done = run("check-tasks", str(tmp_path / "set"), cwd=tmp_path, timeout=120)

    assert done.returncode == 0 and "1 task proven, 0 not" in done.stdout, done.stdout + done.stderr


def test_a_task_that_can_be_cheated_is_found(tmp_path: Path) -> None:
    write(
        tmp_path / "weak.md",
        """
        Make answer() in work.py return 42.

        ## Workspace

        ```python file=work.py
        def answer():
            return 41
        ```

        ## Verify

        ```bash
        python3 -c 'import work; assert work.answer() == 42'
        ```

        ## Solution

        ```bash
        sed -i s/41/42/ work.py
        ```
        """,
    )
    done = run("check-tasks", "weak.md", cwd=tmp_path, timeout=120)

    assert done.returncode == 2 and "a cheat passes: early exit" in done.stdout


def test_a_line_of_a_check_that_cannot_fail_is_found(tmp_path: Path) -> None:
    write(
        tmp_path / "weak.md",
        """
        Write 42 to answer.txt, without a line break in between.

        ## Verify

        ```bash
        ! grep -q 41 answer.txt
        grep -q 42 answer.txt
        ```

        ## Solution

        ```bash
        echo 42 > answer.txt
        ```
        """,
    )
    done = run("check-tasks", "weak.md", cwd=tmp_path, timeout=120)

    assert done.returncode == 2 and "cannot fail: ! grep -q 41 answer.txt" in done.stdout, done.stdout + done.stderr
