"""From flags to the run they describe: a new one, or one that goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from tiebreak.config import Config, results_root
from tiebreak.contestants import LineUp
from tiebreak.core.contestant import AgentRef, Contestant
from tiebreak.core.errors import DatasetError, ModelError, UsageError
from tiebreak.core.model import Limits, ModelRef
from tiebreak.core.run import ALL, IN_MEMORY, Pace, Protocol, RunSpec, Shard, TaskRules, resumed
from tiebreak.prices import with_price
from tiebreak.registry import (
    check_key,
    check_settings,
    is_known,
    loadable,
    make_agent,
    make_strategy,
    provider_class,
    spelled_tasks,
)
from tiebreak.report.caveats import unequal_settings
from tiebreak.spec.flags import Flags, ModelFlags
from tiebreak.spec.model_choice import Check, check_models, needs_detection, problems, with_settings
from tiebreak.spec.shard import shard_of
from tiebreak.store.folder import find_run
from tiebreak.store.reader import StoreReader

_DEFAULT_DATASET = "truthfulness"
_MOST_CONTESTANTS = 200


class Notes(Interface):
    """Where is told what was noticed on the way."""

    def line(self, text: str = "", *, style: str = "") -> None:
        """Tell something worth knowing."""

    def warn(self, text: str) -> None:
        """Tell something that should be changed."""

    def checks(self, checks: Sequence[Check]) -> None:
        """Tell what became of every model that was named."""


class UnusableModels(ModelError):
    """Models were named that cannot be used. Nothing has been sent."""

    def __init__(self, checks: Sequence[Check], available: Sequence[str], disabled: str) -> None:
        self.names = ", ".join(check.typed for check in problems(checks))
        self.available = available
        self.disabled = disabled
        """Which models the configuration names and disables, in words."""
        super().__init__("; ".join(f"cannot use {check.typed}: {check.problem}" for check in problems(checks)))


def spec_of(flags: Flags, config: Config, notes: Notes, *, command: str) -> RunSpec:
    """The run the flags describe; `command` starts it again."""
    spec = _resumed(flags, config, notes) if flags.resume else _new(flags, config, notes, command)
    _refuse_silent_agents(spec)
    _tell_of_race(spec, notes)
    return spec


def _tell_of_race(spec: RunSpec, notes: Notes) -> None:
    """What a strategy made of what was asked for, where that is not the same: a share of the contestants is a whole number."""
    racing = [contestant.label for contestant in spec.contestants if not contestant.reference]
    if spec.protocol.races and len(racing) > 1:
        note = getattr(make_strategy(spec.protocol.until, racing, 1), "note", "")
        if note:
            notes.line(f"Note: {note}.", style="yellow")


def _new(flags: Flags, config: Config, notes: Notes, command: str) -> RunSpec:
    unnamed = _names_no_dataset(flags)
    dataset = _DEFAULT_DATASET if unnamed else _dataset_of(flags)
    contestants = _contestants(flags, config, notes)
    if len(contestants) > _MOST_CONTESTANTS:
        raise UsageError(
            f"{len(contestants):,} contestants are named, and each is compared with all others: a run takes {_MOST_CONTESTANTS}"
        )
    if unnamed and not flags.quiet:
        notes.line(f"No dataset was named: {dataset} is asked. --dataset names another.")
    if flags.likelihood:
        _check_likelihood([contestant.model for contestant in contestants])
    protocol = Protocol(
        dataset=dataset,
        source=flags.source,
        chosen_scorers=flags.scorer,
        limit=flags.limit,
        repeats=flags.repeats or 1,
        seed=flags.seed or 0,
        tasks=flags.task_rules(TaskRules()),
        choose_on=flags.choose_on or "",
        until="" if flags.race in (None, ALL) else str(flags.race),
    )
    spec = RunSpec(
        protocol=protocol,
        contestants=contestants,
        pace=flags.pace(Pace(), config.batch),
        results_dir=Path(),
        command=command,
        detach=flags.detach,
        shard=shard_of(flags.shard, os.environ) if flags.shard else None,
    )
    return _with_judges(spec, flags, config)


def _contestants(flags: Flags, config: Config, notes: Notes, going_on: Sequence[Contestant] = ()) -> tuple[Contestant, ...]:
    """Everyone the flags and the run file name.

    What a run that goes on is not told, it takes from its contestants so far.
    """
    entries, models = flags.written_out, _models(flags, config, notes, going_on)
    written = checked_models(replace(flags, **_only([entry.model for entry in entries])), config, notes) if entries else ()
    by_name = {model.label: model for model in _limited(written, flags)}
    named_prompts, named_agents = bool(flags.prompt or flags.prompts), bool(flags.agent or flags.likelihood)
    prompts = {contestant.prompting.name: contestant.prompting for contestant in going_on}
    for prompt in flags.competing_prompts if named_prompts else ():
        if prompts.get(prompt.name, prompt) != prompt:
            raise UsageError(f"the run has a prompt {prompt.name!r} with other words: give the new one a name of its own")
    agents = {contestant.agent.label: contestant.agent for contestant in going_on}
    contestants = LineUp(
        models=_limited(models, flags),
        prompts=flags.competing_prompts if named_prompts or not going_on else list(prompts.values()),
        settings=flags.variants,
        agents=flags.agents if named_agents or not going_on else list(agents.values()),
        exclude=flags.exclude,
        include=[(entry, by_name[entry.model]) for entry in entries],
    ).contestants()
    for contestant in contestants:
        check_settings(contestant.model)
    return contestants


def _models(flags: Flags, config: Config, notes: Notes, going_on: Sequence[Contestant]) -> Sequence[ModelRef]:
    """The models that are crossed with prompts and agents."""
    if flags.names_models or not (flags.written_out or going_on):
        return checked_models(flags, config, notes)
    crossed = () if flags.written_out else going_on
    return list({contestant.model.digest: contestant.model for contestant in crossed}.values())


def _only(models: Sequence[str]) -> dict[str, Any]:
    """Flags that name these models and no others."""
    return {"model": tuple(models), "models": None, "all_models": False, "category": None, "provider": None}


def _resumed(flags: Flags, config: Config, notes: Notes) -> RunSpec:
    """The stored run, with what may differ the second time taken from the flags."""
    folder = find_run(flags.resume or "", results_root())
    with StoreReader(folder) as reader:
        info = reader.info
    if info.protocol.imported:
        raise UsageError(
            f"{info.run_id} was imported: its questions cannot be asked on here, only scored again: tiebreak score {info.run_id}"
        )
    flags.refuse_other_than(info.protocol, [contestant.prompting for contestant in info.contestants])
    spec = resumed(info, folder)
    if flags.shard and shard_of(flags.shard, os.environ) != spec.shard:
        raise UsageError(f"--shard {flags.shard}: {info.run_id} is {_which(spec.shard)}; resume it without --shard")
    contestants = _joined(spec, flags, config, notes) if flags.names_contestants else spec.contestants
    protocol = replace(
        spec.protocol,
        dataset=_dataset_of(flags) if flags.dataset or flags.task else spec.protocol.dataset,
        limit=flags.limit or spec.protocol.limit,
        choose_on=flags.choose_on or spec.protocol.choose_on,
        until=_until(flags, spec.protocol),
        tasks=flags.task_rules(spec.protocol.tasks),
    )
    return replace(
        spec,
        protocol=protocol,
        contestants=tuple(replace(c, model=_limited([c.model], flags)[0]) for c in contestants),
        pace=flags.pace(spec.pace, config.batch),
        retry_failed=flags.retry_failed,
        detach=flags.detach,
    )


def _until(flags: Flags, protocol: Protocol) -> str:
    """Who raced once has looked early, whatever comes after."""
    if flags.race == ALL and not protocol.until:
        return ""
    return flags.race or protocol.until


def _which(shard: Shard | None) -> str:
    return "a whole run" if shard is None else f"shard {shard.words}"


def _joined(spec: RunSpec, flags: Flags, config: Config, notes: Notes) -> Sequence[Contestant]:
    """The stored contestants as they were, at today's prices and limits, then those that are new."""
    stored = spec.contestants
    named = _contestants(flags, config, notes, going_on=stored)
    # The same set-up under another name is the same contestant.
    named = tuple(_told_apart(contestant, stored) for contestant in named)
    now = {contestant.label: contestant for contestant in named}
    known = [_repriced(contestant, now.get(contestant.label, contestant)) for contestant in stored]
    taken = {contestant.label for contestant in stored} | {contestant.digest for contestant in stored}
    return known + [contestant for contestant in named if not taken & {contestant.label, contestant.digest}]


def _told_apart(contestant: Contestant, stored: Sequence[Contestant]) -> Contestant:
    """A contestant whose name is another's already is called by its prompt too."""
    prompt = contestant.prompting.name
    taken = any(c.label == contestant.label and c.digest != contestant.digest and c.prompting.name != prompt for c in stored)
    return replace(contestant, label=f"{contestant.label} · {prompt}") if taken and prompt else contestant


def _repriced(stored: Contestant, now: Contestant) -> Contestant:
    model = stored.model
    if now.digest != stored.digest:
        return now  # The store refuses it, and says why.
    return replace(stored, model=replace(model, price=now.model.price or model.price, limits=now.model.limits))


def _limited(models: Sequence[ModelRef], flags: Flags) -> list[ModelRef]:
    return [
        replace(model, limits=Limits(rpm=flags.rpm or model.limits.rpm, tpm=flags.tpm or model.limits.tpm)) for model in models
    ]


def checked_models(flags: ModelFlags, config: Config, notes: Notes) -> tuple[ModelRef, ...]:
    """Every named model, checked; UnusableModels when one cannot be used. Nothing has been sent by then."""
    for warning in config.warnings:
        notes.warn(warning)
    if flags.provider:
        notes.warn("--provider is deprecated; name a model with --model")
    catalog = config.catalog(detect=needs_detection(flags))
    checks = check_models(flags, config, catalog, keys=flags.replay is None and flags.on is None)
    if not flags.quiet or problems(checks):
        notes.checks([replace(c, ref=with_settings(c.ref, flags.settings)) if c.ref else c for c in checks])
    if problems(checks):
        disabled = f"Disabled in {config.path}: {', '.join(config.disabled)}" if config.disabled else ""
        raise UnusableModels(checks, catalog.names(), disabled)
    refs = tuple(with_price(with_settings(check.ref, flags.settings)) for check in checks if check.ref)
    for ref in refs:
        check_settings(ref)
    if unequal_settings(refs):
        notes.line("Note: the models are asked with different settings, as shown above.", style="yellow")
    return refs


def _names_no_dataset(flags: Flags) -> bool:
    """Whether a command line does not say what is asked; a run file must say it all."""
    return flags.door == "run" and flags.file is None and not (flags.dataset or flags.task)


def _dataset_of(flags: Flags) -> str:
    """What is asked; a file is remembered by its full path, so that the run can be resumed from anywhere."""
    if flags.task and flags.dataset:
        raise UsageError("name a dataset or tasks, not both; a folder that holds both is named with --dataset")
    if flags.task:
        return spelled_tasks(flags.task, data=flags.data is not None)
    if flags.dataset == IN_MEMORY:
        return IN_MEMORY
    if not flags.dataset:
        if flags.door == "batch":
            raise UsageError("no task was named: name a file, a folder of tasks or a pattern with --task")
        raise DatasetError("no dataset was named: --dataset truthfulness, or your own file")
    path = Path(flags.dataset).expanduser()
    return str(path.resolve()) if path.exists() and not is_known("datasets", flags.dataset) else flags.dataset


def _refuse_silent_agents(spec: RunSpec) -> None:
    """With --ask-permissions, agents that cannot ask would act without: that is refused before anything begins."""
    if not spec.protocol.tasks.ask_permissions:
        return
    silent = [c.agent.name for c in spec.contestants if not make_agent(c.agent).speaks_acp]
    if silent:
        able = [name for name in loadable("agents") if make_agent(AgentRef(name=name)).speaks_acp]
        raise UsageError(f"--ask-permissions: {', '.join(silent)} cannot ask for permission; {', '.join(able)} can")


def _check_likelihood(models: Sequence[ModelRef]) -> None:
    """Raise when a model cannot say how likely a text is."""
    unable = [model.label for model in models if not provider_class(model.provider).tells_likelihood]
    if unable:
        raise UsageError(
            f"--likelihood: {', '.join(unable)} cannot tell how likely a text is; without it the letter is asked for"
        )


def _with_judges(spec: RunSpec, flags: Flags, config: Config) -> RunSpec:
    """The run with the models that judge it."""
    judges = chosen_judges(flags.judge, config, () if flags.force else spec.models, keys=flags.on is None)
    return replace(spec, protocol=replace(spec.protocol, judges=judges)) if judges else spec


def chosen_judges(names: Sequence[str], config: Config, judged: Sequence[ModelRef], *, keys: bool = True) -> tuple[ModelRef, ...]:
    """The models of these names as judges; one with a stake in the models it judges is refused.

    Without `keys`, none need be set here.
    """
    catalog = config.catalog(detect=False)
    judges = {judge.digest: judge for judge in (with_price(catalog.resolve(name)) for name in names)}
    if len(judges) < len(names):
        raise UsageError("the same judge is named twice; several judges are several models")
    for judge in judges.values():
        if keys:
            check_key(judge)
        for model in judged:
            if not model.reference:
                _refuse_partial(judge, model)
    return tuple(judges.values())


def _refuse_partial(judge: ModelRef, model: ModelRef) -> None:
    if model.digest == judge.digest or (model.name, model.house) == (judge.name, judge.house):
        raise UsageError(f"{judge.label} would judge itself; name another judge, or say --force")
    if model.house == judge.house and not model.local and judge.provider not in ("openai-api", "scripted"):
        raise UsageError(
            f"{judge.label} would judge {model.label}, a model of the same provider; judges favour their own. "
            "Name a judge of another provider, or say --force"
        )
