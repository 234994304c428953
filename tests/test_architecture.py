"""Who may import whom, and what nobody may do."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import benchmark

HOME = Path(benchmark.__file__).parent
FRONT = frozenset({"core", "config", "registry", "pipeline", "store", "report", "viewer", "isolation", "prices", "sandbox"})
MAY_IMPORT = {
    "core": frozenset(),
    "stats": frozenset(),
    **dict.fromkeys(("wire", "sandbox", "agents", "datasets", "scorers", "store"), frozenset({"core"})),
    **dict.fromkeys(("providers", "gateway"), frozenset({"core", "wire"})),
    "registry": frozenset({"core"}),
    "checked_yaml": frozenset({"core"}),
    "config": frozenset({"core", "registry", "checked_yaml"}),
    "engine": frozenset({"core", "registry", "gateway", "sandbox"}),
    "report": frozenset({"core", "store", "stats"}),
    "pipeline": frozenset({"core", "engine", "store", "report"}),
    "viewer": frozenset({"core", "store", "report", "stats"}),
    "isolation": frozenset({"core"}),
    "prices": frozenset({"core"}),
    **dict.fromkeys(("cli", "multi_runner"), FRONT),
    **dict.fromkeys(("__main__", "batch_runner"), FRONT | {"cli"}),
}
SHARED_BY_LEAVES = {
    "agents": {"installed"},
    "providers": {"http", "openai", "transport"},
    "datasets": {"glance", "indexed", "records", "files", "hub", "task_folders", "task_markdown"},
}
"""Within a room of plugins, what the others build on; openai is the dialect of every compatible server."""
SOURCES = sorted(p for p in HOME.rglob("*.py") if not {"results", "tasks"} & set(p.relative_to(HOME).parts))
IDS = [str(path.relative_to(HOME)) for path in SOURCES]


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
        if parts[0] == "benchmark" and len(parts) > 1 and parts[1] not in ("__version__", "*"):
            yield parts[1]


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(p) != "__init__"], ids=lambda p: str(p.relative_to(HOME)))
def test_rooms_import_only_what_they_may(path):
    """The table of who may import whom; a room that is not in it has no business here."""
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is not in the table"
    assert set(rooms_imported(path)) - MAY_IMPORT[room] - {room} == set()


@pytest.mark.parametrize("room", ["agents", "datasets", "providers", "scorers"])
def test_leaves_of_one_kind_do_not_import_each_other(room):
    """Each plugin can be read, and removed, alone."""
    shared = SHARED_BY_LEAVES.get(room, set())
    for path in (p for p in SOURCES if room_of(p) == room):
        siblings = {name.split(".")[2] for name in imports_of(path) if name.startswith(f"benchmark.{room}.")}
        assert siblings - shared == set(), path.name


FORBIDDEN_CALLS = {"eval", "exec", "yaml.load", "time.time", "os.system", "os.popen"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve"}


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_nothing_dangerous_is_used(path):
    """No code from data, no shell, no clock that jumps."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in FORBIDDEN_CALLS, f"line {node.lineno}"
            shell = [
                k for k in node.keywords if k.arg == "shell" and not (isinstance(k.value, ast.Constant) and not k.value.value)
            ]
            assert not shell, f"line {node.lineno}: a shell"
    assert {name.split(".")[0] for name in imports_of(path)} & FORBIDDEN_MODULES == set()


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(p) != "cli"], ids=lambda p: str(p.relative_to(HOME)))
def test_only_the_command_line_prints(path):
    """Everything else returns or logs."""
    calls = (n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call))
    assert [n.lineno for n in calls if ast.unparse(n.func) == "print"] == []


def loaded_after(statement):
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME.parent, capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("statement", ["import benchmark", "import benchmark.registry"])
def test_importing_is_cheap(statement):
    """Heavy libraries come when they are used."""
    assert loaded_after(statement) & {"aiohttp", "pydantic", "numpy", "rich", "yaml", "click", "asyncio", "sqlite3"} == set()


def test_the_registry_names_things_that_exist():
    """Every name in the table can be loaded."""
    from benchmark.registry import PLUGINS, plugin

    for kind, table in PLUGINS.items():
        for name in table:
            assert callable(plugin(kind, name))
