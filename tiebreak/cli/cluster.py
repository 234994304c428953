"""`--on ray`: the flags of a cluster, and what its nodes can do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from tiebreak.cli.console import Console, counted
from tiebreak.engine.workshop import Conditions, Executor, Workshop
from tiebreak.pipeline import Plan
from tiebreak.registry import loadable, provider_class
from tiebreak.spec.flags import Flags


@contextlib.contextmanager
def executor_for(plan: Plan, flags: Flags) -> Iterator[Callable[[Conditions], Executor]]:
    """Who makes the attempts: this process, or for as long as this lasts, the nodes of a cluster."""
    if not flags.on:
        yield Workshop
        return
    from tiebreak.cluster.executor import executor_on, ray_for

    with ray_for(plan.spec, flags) as cluster:
        yield asyncio.run(executor_on(cluster, plan.spec, plan.dataset.kinds, flags, is_own=cluster.is_own))


def show_machines() -> int:
    """A line for every node of the cluster: what it can do, or why nothing is known of it."""
    from tiebreak.cluster.inspection import Question, Wanted, in_words, inspect_machine, unfit
    from tiebreak.cluster.ray import connected
    from tiebreak.cluster.survey import survey

    console = Console()
    variables = dict.fromkeys(v for name in loadable("providers") for v in provider_class(name).key_variables)
    question = Question(keys=tuple(variables))
    with connected() as cluster:
        wanted = Wanted(here=asyncio.run(inspect_machine(question)), question=question)
        seen = asyncio.run(survey(cluster, question))
    wrong = 0
    for one in seen:
        problems = [one.problem] if one.found is None else unfit(one.found, wanted)
        resources = ", ".join(f"{name}:{amount:g}" for name, amount in sorted(one.member.resources.items()) if _is_plain(name))
        can = "" if one.found is None else f" {in_words(one.found)}"
        console.line(f"{'✗' if problems else '✓'} node {one.member.name}:{can}", style="red" if problems else "")
        console.line(f"    resources in Ray: {resources}", style="dim")
        for problem in problems:
            console.line(f"    {problem}")
        wrong += bool(problems)
    whose = "a new cluster on this machine: set RAY_ADDRESS to use another" if cluster.is_own else "the running cluster"
    console.line(f"{counted(len(seen), 'node')} of {whose}; {len(seen) - wrong} can take part in a run.")
    return 1 if wrong or not seen else 0


def _is_plain(resource: str) -> bool:
    """Whether people name a resource; Ray adds some of its own."""
    return "memory" not in resource and ":" not in resource and not resource.startswith("node")
