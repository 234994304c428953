"""`tiebreak doctor`: what works here, what does not, and the line that fixes it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tiebreak
from tiebreak import __version__
from tiebreak.cli.console import Console, counted
from tiebreak.cli.invocation import invoked_as
from tiebreak.cli.served_models import served_models
from tiebreak.config import detect_ollama, load_config, results_root
from tiebreak.core import embedded
from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.extras import installing
from tiebreak.registry import (
    PLUGINS,
    added_names,
    broken_plugins,
    loadable,
    make_agent,
    provider_class,
    refused_plugins,
    singular,
)
from tiebreak.store.folder import check_writable

_NEEDED = ("click", "httptools", "msgspec", "PyYAML", "rich")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: fine, missing but not needed, or wrong."""

    mark: str
    what: str
    fix: str = ""


def show_findings() -> int:
    """Say what is installed, which keys are set, whether Ollama is up, what is missing and how to fix it."""
    console = Console()
    findings = list(examine())
    for finding in findings:
        console.line(f"{finding.mark} {finding.what}", style="red" if finding.mark == "✗" else "")
        if finding.fix:
            console.line(f"    {finding.fix}", style="dim")
    return 1 if any(finding.mark == "✗" for finding in findings) else 0


def examine() -> Iterator[Finding]:
    """Everything worth knowing, the basics first."""
    yield Finding("✓", f"tiebreak {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    yield from _foreign_package()
    yield from _packages()
    yield _embedded()
    yield from _keys()
    yield _ollama()
    yield from _servers()
    yield from _plugins()
    yield _sandbox()
    yield _agents()
    yield _configuration()
    yield _results()


def _foreign_package() -> Iterator[Finding]:
    """Another package of our import name, in the working folder or installed, would be imported instead of us."""
    ours = Path(tiebreak.__file__).resolve().parent
    for entry in sys.path:
        folder = (Path(entry or ".") / "tiebreak").resolve()
        if folder != ours and (folder / "__init__.py").is_file():
            yield Finding("✗", f"another package named tiebreak is in the way: {folder}", "remove it, or run from another folder")


def _packages() -> Iterator[Finding]:
    for name in _NEEDED:
        try:
            yield Finding("✓", f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding("✗", f"{name} is not installed", f"pip install {name}")
    if importlib.util.find_spec("uvloop") is None:
        yield Finding("–", "uvloop is not installed; requests are slower without it", "pip install uvloop")


def _embedded() -> Finding:
    if embedded.is_ready():
        return Finding("✓", "embedded model llama_cpp/smollm2-135m")
    if importlib.util.find_spec(embedded.RUNTIME) is None:
        return Finding("–", "the embedded model cannot run here yet", installing("demo"))
    return Finding("–", "the embedded model's weights are not here yet", f"{invoked_as()} demo")


def _keys() -> Iterator[Finding]:
    sharing: dict[tuple[str, ...], list[str]] = {}
    for name in loadable("providers"):
        if not provider_class(name).local:
            sharing.setdefault(provider_class(name).key_variables, []).append(name)
    for variables, providers in sharing.items():
        found = next((v for v in variables if os.environ.get(v)), None)
        if found:
            yield Finding("✓", f"{', '.join(providers)}: {found} is set")
        elif variables:
            yield Finding("–", f"{', '.join(providers)}: no key", f"export {variables[0]}=…  (or put it into a .env file here)")


def _ollama() -> Finding:
    models = detect_ollama()
    if models:
        return Finding("✓", f"Ollama is up with {len(models)} models: {', '.join(list(models)[:8])}")
    return Finding("–", "Ollama is not up, or has no models", "ollama serve, then ollama pull llama3.2; elsewhere: OLLAMA_HOST")


def _servers() -> Iterator[Finding]:
    """Servers on this machine that models can be asked of by name, besides Ollama."""
    local = [name for name in loadable("providers") if provider_class(name).local and provider_class(name).url_variables]
    served = served_models(name for name in local if name != "ollama")
    for name, found in served.items():
        if not found.problem:
            models = ", ".join(found.models[:8]) or "none"
            yield Finding("✓", f"{name} is up at {found.url} with {counted(len(found.models), 'model')}: {models}")
    down = [name for name, found in served.items() if found.problem]
    if down:
        variables = ", ".join(provider_class(name).url_variables[0] for name in down)
        places = ", ".join(f"{name} ({served[name].url})" for name in down)
        yield Finding("–", f"not up: {places}", f"start the server; at another address: {variables}")


def _plugins() -> Iterator[Finding]:
    """Plugins of other packages: what they add, and which cannot be used."""
    broken = broken_plugins()
    added = [f"{singular(kind)} {name}" for kind in PLUGINS for name in added_names(kind) if (kind, name) not in broken]
    if added:
        yield Finding("✓", f"plugins: {', '.join(added)}")
    for problem in (*broken.values(), *refused_plugins()):
        yield Finding("✗", problem, "update or uninstall that package")


def _sandbox() -> Finding:
    """How programs of coding tasks and answers are kept apart from this machine."""
    if sys.platform != "linux":
        return Finding("–", "coding tasks need Linux", "use a Linux container, a virtual machine or WSL")
    from tiebreak.sandbox.isolation import detect_isolation, how_to_fix, how_to_limit

    found = asyncio.run(detect_isolation(allow_unsandboxed=True))
    missing = f", without limits on: {', '.join(found.missing)}" if found.missing else ""
    if found.level == "none":
        return Finding("–", "programs cannot be kept apart: coding tasks need --allow-unsandboxed", how_to_fix())
    return Finding("✓", f"sandbox: {found.level}{missing}", how_to_fix() or how_to_limit(found))


def _agents() -> Finding:
    """Coding agents that are programs of their own, and what installs the others."""
    agents = {name: make_agent(AgentRef(name=name)) for name in loadable("agents")}
    programs = {name: agent for name, agent in agents.items() if agent.program}
    there = [name for name, agent in programs.items() if shutil.which(agent.program)]
    missing = [f"{name}: {agent.install}" for name, agent in programs.items() if name not in there]
    said = f"coding agents besides builtin: {', '.join(there) or 'none'}"
    return Finding("✓" if there else "–", said, "; ".join(missing))


def _configuration() -> Finding:
    try:
        config = load_config()
    except BenchmarkError as error:
        return Finding("✗", "the configuration has a mistake", str(error))
    fix = "; ".join(config.warnings)
    return Finding("–" if fix else "✓", f"configuration {config.path}: {len(config.models)} models", fix)


def _results() -> Finding:
    folder = results_root()
    existing = next(parent for parent in (folder, *folder.parents, Path.cwd()) if parent.is_dir())
    try:
        check_writable(existing, 0)
    except BenchmarkError as error:
        return Finding("✗", f"results cannot be kept in {folder}", str(error))
    return Finding("✓", f"results go to {folder}")
