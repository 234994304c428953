"""The executor of one run on a cluster: what the run needs of every node, and what cannot be had there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from tiebreak.cluster.inspection import Question, Wanted, inspect_machine, programs_of
from tiebreak.cluster.links import PATIENCE, Cluster, Patience
from tiebreak.cluster.needs import read_needs
from tiebreak.cluster.pool import Pool, Terms
from tiebreak.cluster.ray import RayCluster, connected
from tiebreak.core.errors import UsageError
from tiebreak.core.model import ModelRef
from tiebreak.core.run import RunSpec
from tiebreak.engine.workshop import Conditions, Executor
from tiebreak.registry import CALLED, make_agent, provider_class


class ClusterFlags(Protocol):
    """What was said about the cluster."""

    @property
    def nodes_need(self) -> Sequence[str]:
        """What trials need of their node."""

    @property
    def per_node(self) -> int | None:
        """Trials at once on each node."""

    @property
    def send_keys(self) -> bool:
        """Whether keys are handed over to nodes that have none."""

    @property
    def strict(self) -> bool:
        """Whether a node that cannot take part ends the run before anything is asked."""


@contextlib.contextmanager
def ray_for(spec: RunSpec, flags: ClusterFlags) -> Iterator[RayCluster]:
    """The Ray cluster of a run, for as long as this lasts; refused where the run cannot be on it."""
    refuse_bound_to_here(spec)
    with connected() as cluster:
        if flags.send_keys and not cluster.takes_keys:
            cure = "start it with RAY_AUTH_MODE=token, or set the keys on its nodes"
            raise UsageError(f"--send-keys: this cluster obeys whoever can reach it; {cure}")
        yield cluster


async def executor_on(
    cluster: Cluster,
    spec: RunSpec,
    kinds: frozenset[str],
    flags: ClusterFlags,
    *,
    is_own: bool = False,
    patience: Patience = PATIENCE,
) -> Callable[[Conditions], Executor]:
    """What makes the executor of a run on a cluster; one of our own, on this machine, has this machine's keys."""
    refuse_bound_to_here(spec)
    needs = read_needs(flags.nodes_need)
    needs.refuse_unknown(spec.contestants)
    keys = keys_of((*spec.models, *spec.protocol.judges)) if flags.send_keys or is_own else {}
    terms = Terms(
        wanted=await _wanted(spec, kinds, handed_over=keys),
        needs=needs,
        per_node=flags.per_node,
        keys=keys,
        strict=flags.strict,
        patience=patience,
    )
    return partial(_pool, cluster, terms)


def _pool(cluster: Cluster, terms: Terms, conditions: Conditions) -> Executor:
    return Pool(conditions, cluster, terms)


def refuse_bound_to_here(spec: RunSpec) -> None:
    """What only this process or this machine has cannot be used on others."""
    pace = spec.pace
    for flag, given in {"record": pace.record_dir, "replay": pace.replay_dir, "cache": pace.cache_dir}.items():
        if given:
            raise UsageError(f"--{flag} keeps its files on one machine and cannot be used with --on: leave one of them out")
    if spec.protocol.source.sandbox:
        raise UsageError(f"--sandbox {spec.protocol.source.sandbox}: images are made on this machine alone: leave --on out")
    if pace.batch:
        raise UsageError("--batch has the provider do the work, and needs no cluster: leave --on out")
    for contestant in spec.contestants:
        if own := make_agent(contestant.agent).code_options.intersection(contestant.agent.options):
            raise UsageError(f"{contestant.label}: the file of {min(own)!r} is on this machine alone: leave --on out")
    if pace.timed_samples:
        raise UsageError("--timing asks from this machine alone and cannot be used with --on: leave one of them out")
    if spec.protocol.tasks.ask_permissions == "person":
        raise UsageError("--ask-permissions person: nobody is at the nodes of a cluster; answer allow or deny")
    functions = [name for name in spec.protocol.chosen_scorers if name.endswith(CALLED)]
    if functions:
        name = functions[0].removesuffix(CALLED)
        raise UsageError(f"the function {name} is only in this process: give it as module:{name}, installed on every node")


def keys_of(models: Sequence[ModelRef]) -> dict[str, str]:
    """The keys this process has for some models, by variable."""
    return {m.key_variable: os.environ[m.key_variable] for m in models if m.key_variable and os.environ.get(m.key_variable)}


async def _wanted(spec: RunSpec, kinds: frozenset[str], *, handed_over: dict[str, str]) -> Wanted:
    """What every node must have."""
    models = (*spec.models, *spec.protocol.judges)
    variables = tuple(dict.fromkeys(model.key_variable for model in models if _needs_key(model)))
    question = Question(keys=variables, files=tuple(_code_files(spec)))
    return Wanted(
        here=await inspect_machine(question),
        question=question,
        tasks="task" in kinds,
        allow_unsandboxed=spec.protocol.tasks.allow_unsandboxed,
        agents=programs_of([contestant.agent for contestant in spec.contestants]),
        keys=tuple(name for name in variables if name not in handed_over),
    )


def _needs_key(model: ModelRef) -> bool:
    return bool(model.key_variable) and not model.local and bool(provider_class(model.provider).key_variables)


def _code_files(spec: RunSpec) -> list[str]:
    """Files with code of the user's own that attempts run: agents, providers and scorers by their place."""
    names = [contestant.agent.name for contestant in spec.contestants]
    names += [model.provider for model in (*spec.models, *spec.protocol.judges)]
    names += [part for scorer in spec.protocol.scorers for part in (scorer, scorer.partition(":")[2])]
    files = [name[: name.index(".py") + 3] for name in names if ".py" in name]
    return [file for file in dict.fromkeys(files) if Path(file).expanduser().is_file()]
