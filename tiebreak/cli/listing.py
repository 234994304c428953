"""`tiebreak list`: what there is to name."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tiebreak.cli.console import Console
from tiebreak.cli.served_models import Served, missing_key, served_models
from tiebreak.config import Config, load_config, results_root
from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.model import house_of
from tiebreak.core.protocols import Agent
from tiebreak.registry import (
    SHIPPED,
    Catalog,
    added_names,
    broken_plugins,
    configured_agents,
    is_task_set,
    load_dataset,
    loadable,
    make_agent,
    plugin,
    provider_class,
    refused_plugins,
    use_agents,
)
from tiebreak.report.summary import summarise_contestants
from tiebreak.store.folder import DATABASE, find_run, run_label, set_run_label
from tiebreak.store.reader import StoreReader

_Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def show_list(what: str, config: Path | None, results: Path | None = None) -> int:
    """List what can be named: models, datasets, scorers, providers, agents, exporters or runs."""
    listed: dict[str, Callable[[], _Rows]] = {
        "models": lambda: _models(load_config(config)),
        "datasets": _datasets,
        "scorers": _scorers,
        "providers": _providers,
        "agents": lambda: _agents(load_config(config)),
        "exporters": _exporters,
        "runs": lambda: _runs(results or results_root()),
    }
    headings, rows = listed[what]()
    console = Console()
    console.table(headings, rows)
    if not rows:
        console.line(f"No {what} yet.")
    if what != "runs":
        _warn_of_plugins(console, "providers" if what == "models" else what)
    return 0


def _warn_of_plugins(console: Console, kind: str) -> None:
    """Say in a line each which plugins of a kind are not in the list, and why."""
    for (broken_kind, _), problem in broken_plugins().items():
        if broken_kind == kind:
            console.warn(problem)
    for problem in refused_plugins(kind):
        console.warn(problem)


def _models(config: Config) -> _Rows:
    catalog = config.catalog(detect=True)
    rows = [_model_row(name, catalog) for name in catalog.names()]
    rows += _served_rows()
    rows += [(f"baseline/{name}", "baseline", "a floor to compare with") for name in SHIPPED["baseline"]]
    rows += [(name, "", f"disabled in {config.path}") for name in config.disabled]
    return ("Model", "Provider", "Can it run here?"), rows


def _served_rows() -> list[tuple[str, ...]]:
    """Models whose names only their servers know: of those on this machine and of plugins as they say now, of others any."""
    added = added_names("providers")
    unlisted = [name for name in loadable("providers") if name in added or _has_unlisted_models(name)]
    asked = [name for name in unlisted if (name in added or provider_class(name).local) and not missing_key(name)]
    served = served_models(asked)
    rows: list[tuple[str, ...]] = []
    for name in unlisted:
        if name not in served or not served[name].models:
            rows.append((f"{name}/NAME", name, missing_key(name) or (_why_not(name, served[name]) if name in served else "yes")))
        else:
            rows += [(f"{name}/{model}", name, "yes") for model in served[name].models]
    return rows


def _why_not(provider: str, served: Served) -> str:
    if provider_class(provider).local and served.url and served.problem:
        return f"not up at {served.url}"
    return served.problem or "its server names no models"


def _has_unlisted_models(provider: str) -> bool:
    """Whether it is a server by an address, and none of those whose models the catalog has."""
    return bool(provider_class(provider).url_variables) and house_of(provider) not in (*SHIPPED, "ollama")


def _model_row(name: str, catalog: Catalog) -> tuple[str, ...]:
    try:
        ref = catalog.resolve(name)
    except BenchmarkError as error:
        return name, "", str(error)
    if ref.key_variable and not os.environ.get(ref.key_variable):
        return name, ref.provider, f"set {ref.key_variable}"
    return name, ref.provider, "yes"


def _datasets() -> _Rows:
    rows: list[tuple[str, ...]] = []
    for name in loadable("datasets"):
        factory = plugin("datasets", name)
        if "source" in inspect.signature(factory).parameters:
            source = "From --data PATH." if is_task_set(name) else "From --data PATH or the hub."
            rows.append((name, "", "", f"{_first_line(factory)} {source}"))
            continue
        try:
            dataset = load_dataset(name)
        except BenchmarkError as error:
            rows.append((name, "", "", str(error)))
            continue
        rows.append((name, f"{len(dataset):,}", ", ".join(dataset.scorers), dataset.about))
    rows.append(("FILE or FOLDER", "", "", "your own: rows of input, target and, for multiple choice, choices"))
    rows.append(("hf:owner/name", "", "", "any dataset of the hub with such rows; --field names its columns"))
    return ("Dataset", "Samples", "Scored by", "What it is"), rows


def _scorers() -> _Rows:
    return ("Scorer", "What it does"), [(name, _first_line(plugin("scorers", name))) for name in loadable("scorers")]


def _exporters() -> _Rows:
    return ("Exporter", "What it writes"), [(name, _first_line(plugin("exporters", name))) for name in loadable("exporters")]


def _providers() -> _Rows:
    rows: list[tuple[str, ...]] = []
    for name in loadable("providers"):
        served_by = provider_class(name)
        variables = " or ".join(served_by.key_variables) or "none"
        if served_by.local and served_by.key_variables:
            variables += ", if it wants one"
        rows.append((name, variables, " or ".join(served_by.url_variables), _first_line(served_by)))
    return ("Provider", "Key", "Address", "What it is"), rows


def _agents(config: Config) -> _Rows:
    use_agents(config.agents)
    rows: list[tuple[str, ...]] = []
    for name in loadable("agents"):
        if place := configured_agents().get(name, {}).get("place"):
            rows.append((name, "", "", "", f"the class {place}; loaded when it is chosen"))
            continue
        agent = make_agent(AgentRef(name=name))
        works_on = " and ".join(f"{kind}s" for kind in sorted(agent.works_on))
        rows.append((name, works_on, installed(agent), agent.permissions, _first_line(type(agent))))
    return ("Agent", "Works on", "Can it run here?", "Permissions", "What it is"), rows


def installed(agent: Agent) -> str:
    """Whether an agent's program is there; else the line that installs it."""
    return "yes" if not agent.program or shutil.which(agent.program) else f"install: {agent.install}"


def _runs(root: Path) -> _Rows:
    rows: list[tuple[str, ...]] = []
    for path in sorted(root.glob(f"*/{DATABASE}"), reverse=True):
        try:
            with StoreReader(path.parent) as reader:
                contestants, dataset = summarise_contestants(reader), reader.info.protocol.dataset
        except BenchmarkError as error:
            rows.append((path.parent.name, "", "", "", str(error)))
            continue
        done, planned = sum(c.asked for c in contestants), sum(c.planned for c in contestants)
        rows.append(
            (path.parent.name, run_label(path.parent), dataset, f"{done}/{planned}", ", ".join(c.label for c in contestants))
        )
    return ("Run", "Label", "Dataset", "Done", "Contestants"), rows


def label_run(run: str, text: str, results: Path | None = None) -> int:
    """Give a run a label, or take it away."""
    folder = find_run(run, results or results_root())
    set_run_label(folder, text)
    Console().line(f"{folder.name} is called {run_label(folder)!r}." if text.split() else f"{folder.name} has no label.")
    return 0


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]
