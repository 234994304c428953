"""`tiebreak list`: what there is to name."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tiebreak.cli.console import Console
from tiebreak.config import Config, load_config, results_root
from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.protocols import Agent
from tiebreak.registry import SHIPPED, Catalog, load_dataset, make_agent, names, plugin, provider_class, use_agents
from tiebreak.report.summary import summarise_contestants
from tiebreak.store.folder import DATABASE
from tiebreak.store.reader import StoreReader

_Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def show_list(what: str, config: Path | None) -> int:
    """List what can be named: models, datasets, scorers, providers, agents or runs."""
    listed: dict[str, Callable[[], _Rows]] = {
        "models": lambda: _models(load_config(config)),
        "datasets": _datasets,
        "scorers": _scorers,
        "providers": _providers,
        "agents": lambda: _agents(load_config(config)),
        "runs": _runs,
    }
    headings, rows = listed[what]()
    console = Console()
    console.table(headings, rows)
    if not rows:
        console.line(f"No {what} yet.")
    return 0


def _models(config: Config) -> _Rows:
    catalog = config.catalog(detect=True)
    rows = [_model_row(name, catalog) for name in catalog.names()]
    rows += [(f"baseline/{name}", "baseline", "a floor to compare with") for name in SHIPPED["baseline"]]
    rows += [(name, "", f"disabled in {config.path}") for name in config.disabled]
    return ("Model", "Provider", "Can it run here?"), rows


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
    for name in names("datasets"):
        factory = plugin("datasets", name)
        if "source" in inspect.signature(factory).parameters:
            rows.append((name, "", "", f"{_first_line(factory)} From --data PATH or the hub."))
            continue
        dataset = load_dataset(name)
        rows.append((name, f"{len(dataset):,}", ", ".join(dataset.scorers), dataset.about))
    rows.append(("FILE or FOLDER", "", "", "your own: rows of input, target and, for multiple choice, choices"))
    rows.append(("hf:owner/name", "", "", "any dataset of the hub with such rows; --field names its columns"))
    return ("Dataset", "Samples", "Scored by", "What it is"), rows


def _scorers() -> _Rows:
    return ("Scorer", "What it does"), [(name, _first_line(plugin("scorers", name))) for name in names("scorers")]


def _providers() -> _Rows:
    rows: list[tuple[str, ...]] = []
    for name in names("providers"):
        served_by = provider_class(name)
        variables = " or ".join(served_by.key_variables) or "none"
        rows.append((name, variables, " or ".join(served_by.url_variables), _first_line(served_by)))
    return ("Provider", "Key", "Address", "What it is"), rows


def _agents(config: Config) -> _Rows:
    use_agents(config.agents)
    rows: list[tuple[str, ...]] = []
    for name in names("agents"):
        agent = make_agent(AgentRef(name=name))
        works_on = " and ".join(f"{kind}s" for kind in sorted(agent.works_on))
        rows.append((name, works_on, installed(agent), agent.permissions, _first_line(type(agent))))
    return ("Agent", "Works on", "Can it run here?", "Permissions", "What it is"), rows


def installed(agent: Agent) -> str:
    """Whether an agent's program is there; else the line that installs it."""
    return "yes" if not agent.program or shutil.which(agent.program) else f"install: {agent.install}"


def _runs() -> _Rows:
    rows: list[tuple[str, ...]] = []
    for path in sorted(results_root().glob(f"*/{DATABASE}"), reverse=True):
        try:
            with StoreReader(path.parent) as reader:
                contestants, dataset = summarise_contestants(reader), reader.info.protocol.dataset
        except BenchmarkError as error:
            rows.append((path.parent.name, "", "", str(error)))
            continue
        done, planned = sum(c.asked for c in contestants), sum(c.planned for c in contestants)
        rows.append((path.parent.name, dataset, f"{done}/{planned}", ", ".join(c.label for c in contestants)))
    return ("Run", "Dataset", "Done", "Contestants"), rows


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]
