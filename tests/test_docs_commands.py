"""Every command that the documents show is run as printed, in a folder like a reader's; the models are served here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent_model import AgentModel
from support.batch_server import BatchServer
from support.command import ROOT, clean_environment
from support.server import KEY, FakeServer

PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "cli.md")]
"""cli.md is what `--help` says; its examples stand on the other pages too."""
COMMAND = re.compile(r"^(?:\$ )?((?:tiebreak|python|make|git|pip|uv|export|pre-commit|\.venv/bin/\w+) .*)$")

RUN_ELSEWHERE = {
    r"git clone …": "test_packaging.py::test_the_demo_of_an_installed_wheel_reaches_a_verdict",
    r"make (demo|test|test-all|check|coverage|site|perf)$": "test_suite.py::test_every_target_that_the_documents_name_exists",
    r"uv (run|tool install) ": "test_demo.py::test_uv_runs_it_with_nothing_before",
    r"pip install 'tiebreak\[ray\]'$": "cluster/test_printed_commands.py::test_the_five_commands_of_the_page_work_as_printed",
    r"tiebreak .* --on ray": "cluster/test_printed_commands.py::test_the_five_commands_of_the_page_work_as_printed",
    r"pip install '\.\[demo\]'$": "test_packaging.py::test_the_demo_of_an_installed_wheel_reaches_a_verdict",
    r"tiebreak new-task ": "test_commit_tasks.py::test_a_history_gives_the_commits_that_can_be_proven",
    r"tiebreak batch --task mytasks": "test_commit_tasks.py::test_models_are_run_on_it_and_each_test_is_reported",
    r"tiebreak replay ": "test_replay.py::test_from_every_step_another_model_goes_on_and_the_one_that_decided_is_named",
    r"tiebreak batch .*--sandbox podman": "sandbox/test_images.py::test_tasks_of_harbor_run_in_their_images",
    r"tiebreak demo$": "test_demo.py::test_demo_compares_two_ways_of_asking_and_reaches_a_verdict",
    r"\.venv/bin/python (-m pytest -n 2|tests/update_slow_tests\.py)": "test_suite.py::test_the_slow_list_is_written_from_times",
}
"""Commands that install, or that take the whole machine, and the tests that run them."""
EXIT_CODES = {"--baseline": {0, 3}, "doctor": {0, 1}, "view": {0}, "vote": {0}, "check-plugin provider acme": {0, 1}}
RESUMED = ("run_20261115_203300", "batch_20261115_203300")

QUESTIONS = "".join(json.dumps({"id": f"q{i}", "input": f"What is {i} + 1?", "target": str(i + 1)}) + "\n" for i in range(8))
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
CONFIG = """
models:
  - {name: gpt-4o-mini, provider: openai, price: {input: 0.15, output: 0.60}}
  - {name: gpt-4, provider: openai, price: {input: 30, output: 60}}
  - {name: A, provider: openai, model: a, price: {input: 1, output: 1}}
  - {name: B, provider: openai, model: b, price: {input: 1, output: 1}}
"""
MINE = """
from tiebreak.agents.direct import Direct
from tiebreak.core.message import Reply
from tiebreak.registry import load_dataset


class MyProvider:
    name = "mine"
    key_variables = url_variables = ()

    def __init__(self, endpoint):
        pass

    async def open(self, model):
        pass

    async def close(self):
        pass

    async def list_models(self):
        return ["some-model"]

    async def generate(self, request, listener=None):
        return Reply(text="2")


def right(sample, text):
    return bool(sample.targets) and sample.targets[0] in text


MyAgent = Direct


def questions():
    return load_dataset("warmup")
"""
MMLU = "question,choice0,choice1,choice2,choice3,answer\n"
TASK = (ROOT / "benchmark" / "tasks" / "easy" / "fix_typo.md").read_text(encoding="utf-8")


EXERCISE = {
    ".meta/config.json": '{"files": {"solution": ["one.py"], "test": ["one_test.py"], "example": [".meta/example.py"]}}',
    ".meta/example.py": "ONE = 1\n",
    ".docs/instructions.md": "Set ONE to 1.\n",
    "one.py": "ONE = 0\n",
    "one_test.py": "from one import ONE\n\n\ndef test_one():\n    assert ONE == 1\n",
}
"""Written by hand, in the layout of the public set."""


def shown_on(page: Path) -> list[str]:
    """The command lines of a page, continuations joined and comments cut off."""
    fenced = re.findall(r"^```([^\n`]*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    blocks = [block for language, block in fenced if language.strip() in ("", "bash", "sh")]
    lines = [line.strip() for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return [re.sub(r"\s{2,}#.*$", "", match[1]).strip() for line in lines if (match := COMMAND.match(line))]


def run_here(command: str) -> bool:
    return not any(re.match(pattern, command) for pattern in RUN_ELSEWHERE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a reader would have: questions, prompts, a run file, a plugin, a task, local copies of public sets."""
    compare = re.search(r"```yaml\n(# compare.yaml.*?)```", (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8"), re.DOTALL)
    assert compare
    files = {
        **dict.fromkeys(("questions.jsonl", "my_questions.jsonl", "my.jsonl"), QUESTIONS),
        "exam.jsonl": "".join(f'{{"id": "{i}", "input": "What is {i} + 1?", "target": "{i + 1}"}}\n' for i in range(40)),
        "exam.csv": "frage;loesung\nWas ist 1 + 1?;2\n",
        "prompts/terse.txt": "Answer in one word.",
        "prompts/answer.txt": "Answer with a number.",
        "compare.yaml": compare[1],
        "mine.py": MINE,
        "votes.csv": "sample,contestant,verdict\n" + "".join(f"q{i},gpt-4,pass\n" for i in range(8)),
        "tools.py": 'def weather(city): return "sunny"\n',
        "models_config.yaml": CONFIG,
        "tasks/fix_typo.md": TASK,
        "benchmark/tasks/easy/fix_typo.md": TASK,
        **{f"polyglot-benchmark/python/exercises/practice/one/{name}": text for name, text in EXERCISE.items()},
        "data/gsm8k/test.jsonl": json.dumps({"question": "1+1?", "answer": "#### 2"}) + "\n",
        "data/gsm8k/train.jsonl": (json.dumps({"question": "2+2?", "answer": "4\n#### 4"}) + "\n") * 8,
        "data/mmlu/test/anatomy_test.csv": f"{MMLU}Which bone is the longest?,the femur,the ulna,the stapes,the radius,A\n",
        "data/mmlu/dev/anatomy_dev.csv": MMLU
        + "".join(f"How many of number {i}?,{i},{i + 1},{i + 2},{i + 3},B\n" for i in range(5)),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for place in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "run_benchmarks.py").symlink_to(ROOT / "run_benchmarks.py")
    for program, line in (("tiebreak", "-m tiebreak "), ("python", "")):
        path = tmp_path / "bin" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {line}"$@"\n')
        path.chmod(0o755)
    return tmp_path


def answer(prompt: str) -> str:
    """Right now and then; as a judge, the verdict that was asked for."""
    verdicts = {'"verdict"': '{"verdict": "pass"}', '"grade"': '{"grade": 7}', '"better"': '{"better": 1}'}
    return next((verdict for asked, verdict in verdicts.items() if asked in prompt), "2")


def server_for(page: Path) -> FakeServer | AgentModel:
    """A model for questions, or one that repairs the task by the tools of any agent."""
    if page.name == "tasks.md":
        line = "This is teh demo project. It greets people."
        return AgentModel(old=line, new=line.replace("teh", "the"), root="/workspace/")
    server = BatchServer() if page.name == "batches.md" else FakeServer()
    server.answer, server.ollama_models = answer, ("llama3.2:latest", "llama3:latest")
    return server


@pytest.fixture
def environment(folder: Path, page: Path) -> Iterator[dict[str, str]]:
    """Keys and addresses of every provider the pages name, all of them here."""
    with server_for(page) as server:
        servers = ("VLLM", "LAB", "GROQ", "OPENROUTER", "ACME")
        yield clean_environment(
            **server.environment(),
            **{f"{name}_BASE_URL": f"{server.url}/v1" for name in servers},
            **{f"{name}_API_KEY": KEY for name in servers},
            **{"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "4"},
        ) | {"HOME": str(folder), "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "BROWSER": "/bin/true"}


def serves(command: str) -> bool:
    """Whether a command goes on until it is interrupted."""
    return re.search(r"\b(view|vote)( |$)", command) is not None


def run_line(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code and all that was said."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}" if serves(command) else command],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    said = ""
    if serves(command):
        said = process.stdout.readline()
        assert "http://127.0.0.1:" in said
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    try:
        said += process.communicate(timeout=300)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said += process.communicate()[0]
    return process.returncode, said


def prepare(command: str, folder: Path, environment: dict[str, str]) -> None:
    """The run that a line goes on with, or exports, is made first; functions have a tool they can answer."""
    if "tools.py" in command:
        asked = {"id": "sky", "input": "How is the weather in Bern?", "target": "2", "tools": [WEATHER]}
        (folder / "questions.jsonl").write_text(QUESTIONS + json.dumps(asked) + "\n", encoding="utf-8")
    for name in RESUMED:
        place = folder / "benchmark" / "results" / name
        if name in command and not place.exists():
            what = "run --dataset my_questions.jsonl" if name.startswith("run") else "batch --task tasks"
            code, said = run_line(f"tiebreak {what} --model gpt-4o-mini --temperature 0 --output {place}", folder, environment)
            assert code == 0, said
    if re.search(r" RUN( |$)", command) and not (folder / "RUN").exists():
        models = "--models gpt-4,gpt-4o-mini --scorer judge --judge anthropic/claude-sonnet-4-5"
        code, said = run_line(f"tiebreak run {models} --dataset my.jsonl --output RUN --yes", folder, environment)
        assert code == 0, said


def as_expected(command: str, code: int) -> bool:
    return code in next((codes for words, codes in EXIT_CODES.items() if words in command), {0})


def exported(command: str) -> list[str]:
    return re.findall(r"(\w+)=", command)


PAGES_WITH_COMMANDS = [page for page in PAGES if any(map(run_here, shown_on(page)))]
NEEDS = {
    "agents.md": ("bubblewrap",),
    "datasets.md": ("embedded",),
    "prompts.md": ("embedded",),
    "tasks.md": ("agents", "bubblewrap"),
}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.needs(*NEEDS.get(page.name, ())), id=page.name) for page in PAGES_WITH_COMMANDS],
)
def test_every_command_of_a_page_works_as_printed(page: Path, folder: Path, environment: dict[str, str]) -> None:
    """One after another, as a reader would type them."""
    for command in filter(run_here, shown_on(page)):
        if command.startswith("export "):
            assert [name for name in exported(command) if name not in environment] == []
            continue
        prepare(command, folder, environment)
        code, said = run_line(command, folder, environment)
        assert as_expected(command, code), f"{command}\nexit code {code}\n{said}"
        assert "Traceback" not in said, command


def test_commands_that_are_run_elsewhere_are_run_there() -> None:
    """The tests that are named exist; and every such command is on some page."""
    lines = [line for page in PAGES for line in shown_on(page)]
    for pattern, test in RUN_ELSEWHERE.items():
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), test
        assert any(re.match(pattern, line) for line in lines), pattern
