"""A small git repository with a history worth making tasks of."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

WHO = dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "someone")


def git(folder: Path, *words: str) -> str:
    """Run git there, whatever this machine's user has set up."""
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **WHO}
    return subprocess.run(
        ["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def write(folder: Path, files: dict[str, str | None]) -> None:
    """Write files; None removes one."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.unlink()
        else:
            place.write_text(textwrap.dedent(text).lstrip("\n"))


def commit(folder: Path, message: str, files: dict[str, str | None]) -> str:
    """One commit; gives its name."""
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


ADD = "def add(a, b):\n    return a + b\n"
BOTH = f"{ADD}\n\ndef double(number):\n    return 2 * number\n"
TEST_ADD = "from shop.sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
TEST_BOTH = """\
import random

from shop import sums


def test_add():
    assert sums.add(1, 2) == 3


def test_double():
    assert sums.double(4) == 8


def test_now_and_then():
    assert random.random() < 0.2 and sums.double(1) == 2
"""


def shop(folder: Path) -> dict[str, str]:
    """Commits by what they are: a first one, a feature with tests, words, a refactoring, a bug fix, broken tests."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", ".")
    return {
        "first": commit(
            folder,
            "Begin",
            {
                "src/shop/__init__.py": "",
                "src/shop/sums.py": ADD,
                "tests/test_sums.py": TEST_ADD,
                "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--strict-markers"\n',
            },
        ),
        "feature": commit(
            folder,
            "Double a number\n\nAdd `double` to shop.sums.\n\nSigned-off-by: someone",
            {"src/shop/sums.py": BOTH, "tests/test_sums.py": TEST_BOTH},
        ),
        "words": commit(folder, "Say what it is", {"README.md": "A shop.\n", "tests/test_readme.py": "def test_it(): pass\n"}),
        "untested": commit(folder, "Rename nothing", {"src/shop/sums.py": f"# Sums.\n{BOTH}"}),
        "broken": commit(
            folder,
            "Tests that never pass",
            {
                "src/shop/sums.py": f"# Sums!\n{BOTH}",
                "tests/test_never.py": "import nothing_of_that_name\n\ndef test_never(): pass\n",
            },
        ),
    }
