"""Who may import whom, and what nobody may do."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiebreak

HOME = Path(tiebreak.__file__).parent
DOCUMENT = HOME.parent / "docs" / "architecture.md"


def _table() -> dict[str, set[str]]:
    """Who may import whom, as docs/architecture.md has it: rooms in the first column, what they may import in the last."""
    rows = re.findall(r"^\| (`.*?) \| .* \| (.*?) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    words = {room: set(re.findall(r"\w+", allowed)) for rooms, allowed in rows for room in re.findall(r"`(\w+)`", rooms)}
    return {room: set() if "nothing" in allowed else allowed for room, allowed in words.items()}


MAY_IMPORT = _table()
SHARED_BY_LEAVES = {
    "agents": {"installed", "replies", "conversation", "functions"},
    "providers": {"http", "openai", "anthropic", "transport", "batches", "batches_openai", "batches_anthropic", "batches_google"},
    "scorers": {
        "answers",
        "bfcl",
        "denial",
        "given_names",
        "judge",
        "listing",
        "numbers",
        "own_functions",
        "patterns",
        "polar",
        "rivals",
        "rubric",
        "schema",
        "second",
        "wording",
        "words",
    },
    "datasets": {
        "content",
        "dice",
        "exchanges",
        "fresh_dialogue",
        "fresh_tools",
        "layouts",
        "promptfoo",
        "profile",
        "indexed",
        "tasks",
        "records",
        "files",
        "hub",
        "suites",
        "task_environment",
        "task_folders",
        "task_markdown",
        "repository",
    },
}
"""Within a room of plugins, what the others build on; openai is the dialect of every compatible server."""
SOURCES = sorted(p for p in HOME.rglob("*.py") if not {"results", "tasks"} & set(p.relative_to(HOME).parts))


def room_of(path):
    first = path.relative_to(HOME).parts[0]
    return first.removesuffix(".py")


def imports_of(path):
    """Every module of ours that a file names in an import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(path):
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "tiebreak" and len(parts) > 1 and parts[1] not in ("__version__", "*"):
            yield parts[1]


def test_rooms_import_only_what_they_may():
    """The table of the documentation; a room that is not in it has no business here, and neither has one that is gone."""
    rooms = {room_of(path) for path in SOURCES} - {"__init__"}
    assert rooms == set(MAY_IMPORT)
    wrong = {
        str(path.relative_to(HOME)): extra
        for path in SOURCES
        if room_of(path) != "__init__" and (extra := set(rooms_imported(path)) - MAY_IMPORT[room_of(path)] - {room_of(path)})
    }
    assert wrong == {}


@pytest.mark.parametrize("room", ["agents", "datasets", "providers", "scorers"])
def test_leaves_of_one_kind_do_not_import_each_other(room):
    """Each plugin can be read, and removed, alone."""
    shared = SHARED_BY_LEAVES.get(room, set())
    for path in (p for p in SOURCES if room_of(p) == room):
        siblings = {name.split(".")[2] for name in imports_of(path) if name.startswith(f"tiebreak.{room}.")}
        assert siblings - shared == set(), path.name


FORBIDDEN_CALLS = {"eval", "exec", "yaml.load", "time.time", "os.system", "os.popen"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve"}


def test_nothing_dangerous_is_used():
    """No code from data, no shell, no clock that jumps."""
    assert [f"{path}: {found}" for path in SOURCES for found in dangers_in(path)] == []


def dangers_in(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) in FORBIDDEN_CALLS:
                yield f"line {node.lineno}: {ast.unparse(node.func)}"
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                    yield f"line {node.lineno}: a shell"
    yield from {name.split(".")[0] for name in imports_of(path)} & FORBIDDEN_MODULES


def test_only_the_command_line_prints():
    """Everything else returns or logs."""
    for path in (p for p in SOURCES if room_of(p) != "cli"):
        calls = (n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call))
        assert [n.lineno for n in calls if ast.unparse(n.func) == "print"] == [], path


def test_one_thing_has_one_word():
    """What competes is a contestant, in the code as in the reports."""
    for path in SOURCES:
        words = set(re.findall(r"[a-z]+", path.read_text(encoding="utf-8").lower()))
        assert not words & {"lane", "lanes", "entrant", "entrants", "competitor"}, path


def loaded_after(statement):
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    # Not measured for coverage: that loads modules of its own.
    environment = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=HOME.parent, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["tiebreak", "tiebreak.registry", "benchmark", "run_benchmarks"])
def test_importing_is_cheap(module):
    """Heavy libraries come when they are used."""
    heavy = {"aiohttp", "pydantic", "numpy", "rich", "yaml", "click", "asyncio", "sqlite3"}
    assert loaded_after(f"import {module}") & heavy == set()


def test_the_registry_names_things_that_exist():
    """Every name in the table can be loaded."""
    from tiebreak.registry import PLUGINS, plugin

    for kind, table in PLUGINS.items():
        for name in table:
            assert callable(plugin(kind, name))
