"""Checks of an agent: what it declares, and that it brings back the model's answer or its failure."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

from tiebreak.core.errors import ProviderError
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.plugin_checks.context import ScriptedContext, Unscripted
from tiebreak.plugin_checks.findings import (
    Finding,
    check_attributes,
    check_methods,
    flag,
    named,
    passed,
    run_within,
    short,
    text,
    unproven,
    words,
    wrong,
)
from tiebreak.registry import agent_ref, make_agent

_DEADLINE_S = 20.0
_SAMPLE = Sample(id="scripted", messages=(user("What is 6 × 7?"),), targets=("42",), choices=("42", "7"))


def check(name: str) -> Iterator[Finding]:
    """Everything about an agent, by its name with or without options."""
    agent: Any = make_agent(agent_ref(name))
    yield passed("it can be made")
    flags = (flag("control"), flag("uses_gateway"), flag("speaks_acp"))
    attributes = (words("works_on", ("question", "task")), *flags, text("program"), text("install"), text("permissions"))
    declared = [*check_attributes(agent, attributes), *check_methods(agent, {"run": ("sample", "context")})]
    yield from declared
    if any(finding.is_wrong for finding in declared):
        return
    if agent.program and not shutil.which(agent.program):
        yield unproven(f"its program {agent.program!r} is not installed{f': {agent.install}' if agent.install else ''}")
    if "question" in agent.works_on:
        yield from _check_answers(agent)
    if "task" in agent.works_on:
        yield unproven("on coding tasks it is proven only in a run: tiebreak batch --agent")


def _check_answers(agent: Any) -> Iterator[Finding]:
    for what, answer in {"an answer": "42", "an empty answer": ""}.items():
        context = ScriptedContext(answer)
        try:
            output = run_within(_DEADLINE_S, lambda context=context: agent.run(_SAMPLE, context))  # type: ignore[misc]
        except Unscripted as error:
            yield unproven(f"on questions it is proven only in a run: {error}")
            return
        except Exception as error:
            yield wrong(f"{what} of the model: run raised {named(error)}")
            continue
        yield _judged(what, output, context.asked)
    yield _check_failure(agent)


def _judged(what: str, output: object, asked: int) -> Finding:
    if not isinstance(output, Output):
        return wrong(f"{what} of the model: run should return an Output; it returned {short(output)}")
    if not isinstance(output.text, str):
        return wrong(f"{what} of the model: the text of an Output should be a string; it is {short(output.text)}")
    calls = f"{asked} call{'' if asked == 1 else 's'}"
    return passed(f"{what} of the model becomes an Output ({calls} to the model)")


def _check_failure(agent: Any) -> Finding:
    """An agent that answers in the place of a model that failed would have the failure counted as a wrong answer."""
    context = ScriptedContext(None)
    try:
        output = run_within(_DEADLINE_S, lambda: agent.run(_SAMPLE, context))
    except ProviderError:
        return passed("a model that cannot be reached is a failure, not an answer")
    except Exception as error:
        return wrong(f"a model that cannot be reached: run should let the ProviderError pass; it raised {named(error)}")
    if not context.asked:
        return unproven("it never asked the model: how it takes a failure is not proven")
    return wrong(f"a model that cannot be reached: run should let the ProviderError pass; it returned {short(output)}")
