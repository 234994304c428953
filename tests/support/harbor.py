"""Ten tasks in Harbor's layout, with Dockerfiles of the usual kinds, and what each of them must come to."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path

_REWARD = """\
if {test}; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""


@dataclass(frozen=True)
class HarborTask:
    """One task: its image, its test, its solution."""

    dockerfile: str
    test: str
    """A command of the shell that succeeds when the work is done."""
    solve: str
    files: dict[str, str] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    simple: bool = False
    """It can be done without a container engine as well."""


TASKS: dict[str, HarborTask] = {
    "copy": HarborTask(
        "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY data.txt /app/data.txt\n",
        '[ "$(cat /app/sum.txt)" = 6 ]',
        "awk '{s += $1} END {print s}' /app/data.txt > /app/sum.txt",
        files={"data.txt": "1\n2\n3\n"},
        simple=True,
    ),
    "python": HarborTask(
        "FROM python:3.11-slim\nWORKDIR /app\nENV GREETING=hello\nCOPY . .\n",
        "python3 /tests/check.py",
        "printf 'import os\\nprint(os.environ[\"GREETING\"].upper())\\n' > greet.py",
        files={"greet.py": "print('?')\n"},
        tests={
            "check.py": "import subprocess\n"
            "assert subprocess.run(['python3', 'greet.py'], capture_output=True, text=True).stdout == 'HELLO\\n'\n"
        },
        simple=True,
    ),
    "mkdir": HarborTask(
        "FROM debian:bookworm-slim\nRUN mkdir -p /app/out\nWORKDIR /app\n",
        "[ -f /app/out/done ]",
        "touch /app/out/done",
        simple=True,
    ),
    "run": HarborTask(
        "FROM debian:bookworm-slim\nWORKDIR /app\nRUN seq 1 100 > numbers.txt && gzip numbers.txt\n",
        '[ "$(cat /app/count.txt)" = 100 ]',
        "gzip -dc numbers.txt | wc -l | tr -d ' ' > count.txt",
        simple=True,
    ),
    "apt": HarborTask(
        "FROM debian:bookworm-slim\nRUN apt-get update && apt-get install -y --no-install-recommends gzip bash "
        "&& rm -rf /var/lib/apt/lists/*\nWORKDIR /app\nCOPY log.txt .\n",
        "gzip -t /app/log.txt.gz",
        "gzip log.txt",
        files={"log.txt": "line\n" * 50},
        simple=True,
    ),
    "pip": HarborTask(
        "FROM python:3.11-slim\nRUN pip install --no-cache-dir --break-system-packages iniconfig==2.0.0\nWORKDIR /app\n"
        "COPY app.ini .\n",
        '[ "$(python3 /app/read.py)" = 8 ]',
        'printf \'import iniconfig\\nprint(iniconfig.IniConfig("app.ini")["a"]["b"])\\n\' > read.py',
        files={"app.ini": "[a]\nb = 8\n"},
        simple=True,
    ),
    "elsewhere": HarborTask(
        "FROM debian:bookworm-slim\nRUN mkdir -p /srv/site\nCOPY index.html /srv/site/\nWORKDIR /work\n",
        "grep -q '<h1>' /srv/site/index.html",
        "sed -i 's/Title/<h1>Title<\\/h1>/' /srv/site/index.html",
        files={"index.html": "Title\n"},
    ),
    "etc": HarborTask(
        "FROM debian:bookworm-slim\nRUN echo 'port = 80' > /etc/service.conf\nWORKDIR /app\n",
        "grep -qx 'port = 8080' /etc/service.conf",
        "sed -i 's/80/8080/' /etc/service.conf",
    ),
    "root": HarborTask(
        "FROM debian:bookworm-slim\nRUN useradd -m worker || true\nWORKDIR /root/job\nRUN touch todo\n",
        '[ "$(id -u)" = 0 ] && [ ! -e /root/job/todo ]',
        "rm todo",
    ),
    "stages": HarborTask(
        "FROM debian:bookworm-slim AS made\nRUN echo 42 > /answer\nFROM debian:bookworm-slim\n"
        "COPY --from=made /answer /opt/answer\nWORKDIR /app\n",
        "cmp /opt/answer /app/answer",
        "cp /opt/answer answer",
    ),
}


def write_harbor(folder: Path, task: HarborTask) -> Path:
    """Write a task's folder."""
    files = {
        "task.toml": 'version = "1.0"\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n',
        "instruction.md": "Do what has to be done.\n",
        "environment/Dockerfile": task.dockerfile,
        "tests/test.sh": "#!/bin/bash\n" + _REWARD.format(test=task.test),
        "solution/solve.sh": f"#!/bin/bash\nset -e\n{task.solve}\n",
        **{f"environment/{name}": text for name, text in task.files.items()},
        **{f"tests/{name}": text for name, text in task.tests.items()},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    return folder
