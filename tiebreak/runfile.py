"""A run as a file: the same words as the command line's flags, and who competes, by factor or written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from tiebreak.checked_yaml import CheckedYaml, read_yaml
from tiebreak.contestants import Entry, entry_of, prompt_of
from tiebreak.core.contestant import PLAIN, Contestant, Prompting
from tiebreak.core.errors import ConfigError
from tiebreak.core.files import atomic_writer
from tiebreak.core.record import Record
from tiebreak.core.run import Pace, Protocol, RunSpec, TaskRules
from tiebreak.registry import did_you_mean

_Texts = tuple[str, ...] | str
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
"""Also of dollars: more than nothing, and a number."""


class RunFile(Record, frozen=True, kw_only=True):
    """What a run file may say; every key but those of the contestants is named like its flag."""

    # who competes
    models: _Texts = ()
    prompts: dict[str, dict[str, Any] | str | None] = msgspec.field(default_factory=dict)
    settings: tuple[dict[str, Any], ...] = ()
    agents: _Texts = ()
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    # what is asked, and how it is judged
    dataset: str | None = None
    tasks: _Texts = ()
    data: str | None = None
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    sample_id: _Texts = ()
    sample_category: _Texts = ()
    shots: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    likelihood: bool = False
    scorers: _Texts = ()
    judge: _Texts = ()
    limit: _Count | None = None
    repeats: _Count | None = None
    seed: int | None = None
    choose_on: Literal["half"] | None = None
    until: str | None = None
    # settings of every model
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    max_tokens: _Count | None = None
    reasoning_effort: str | None = None
    # coding tasks
    follow_ups: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_model_calls: _Count | None = None
    task_timeout: _Seconds | None = None
    ask_permissions: Literal["allow", "deny", "person"] | None = None
    # pace
    max_workers: _Count | None = None
    max_connections: _Count | None = None
    rpm: _Count | None = None
    tpm: _Count | None = None
    timeout: _Seconds | None = None
    request_timeout: _Seconds | None = None
    max_cost: _Seconds | None = None
    max_total_tokens: _Count | None = None
    max_time: _Seconds | None = None
    stream: bool = False
    batch: bool = False

    def flags(self, folder: Path) -> dict[str, Any]:
        """What it says in the words of the command line; paths are meant from the file's own folder."""
        plain = {name: getattr(self, name) for name in _SAME}
        return plain | {
            "model": _listed(self.models),
            "agent": _listed(self.agents),
            "scorer": _listed(self.scorers),
            "judge": _listed(self.judge),
            "sample_id": _listed(self.sample_id),
            "sample_category": _listed(self.sample_category),
            "task": tuple(str(folder / task) for task in _listed(self.tasks)),
            "dataset": _beside(self.dataset, folder),
            "data": folder / self.data if self.data else None,
            "field": tuple(f"{theirs}={ours}" for theirs, ours in self.fields.items()),
        }

    def named_prompts(self, folder: Path) -> list[Prompting]:
        """The prompts that compete."""
        return [prompt_of(name, given, folder) for name, given in self.prompts.items()]

    def entries(self, path: Path) -> list[Entry]:
        """The contestants that are written out."""
        return [entry_of(entry, f"{path}: include.{place}", path.parent) for place, entry in enumerate(self.include)]


_SAME = (
    *("shots", "likelihood", "limit", "repeats", "seed", "choose_on", "until"),
    *("temperature", "max_tokens", "reasoning_effort", "follow_ups", "max_model_calls", "task_timeout", "ask_permissions"),
    *("max_workers", "max_connections", "rpm", "tpm"),
    *("timeout", "request_timeout", "max_cost", "max_total_tokens", "max_time", "stream", "batch"),
)
"""Keys that are flags of the same name."""


def read_run_file(path: Path) -> RunFile:
    """Read a run file; a key it does not know, and a value of the wrong kind, are named with their line."""
    if not path.is_file():
        raise ConfigError(f"there is no run file {path}")
    file = read_yaml(path)
    if not isinstance(file.data, dict):
        raise ConfigError(f"{path}, line 1: a run file has keys with values, as in `dataset: truthfulness`")
    whole = file.part(RunFile, {key: value for key, value in file.data.items() if value is not None})
    file.settle()
    assert whole is not None
    _refuse_unknown(file, whole)
    return whole


def _refuse_unknown(file: CheckedYaml, whole: RunFile) -> None:
    known = whole.__struct_fields__
    for key in file.data:
        if key not in known:
            raise ConfigError(
                f"{file.path}, line {file.line((key,))}: the key {key!r} is not known{did_you_mean(str(key), known)}"
            )


def _listed(given: _Texts) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def _beside(dataset: str | None, folder: Path) -> str | None:
    """A dataset by name, or the file of that name beside the run file."""
    beside = folder / Path(dataset).expanduser() if dataset else None
    return str(beside) if beside is not None and beside.exists() else dataset


# --- writing ----------------------------------------------------------------------------------------


def write_run_file(spec: RunSpec, path: Path) -> None:
    """A run as a file that makes the same one again."""
    text = yaml.safe_dump(run_file_data(spec), sort_keys=False, allow_unicode=True, width=120)
    with atomic_writer(path) as file:
        file.write(text.encode())


def run_file_data(spec: RunSpec) -> dict[str, Any]:
    """What a run file says of a run: only what is not as usual, and every contestant written out."""
    prompts = {c.prompting.name: c.prompting for c in spec.contestants if c.prompting.name}
    data = {
        "dataset": None if spec.protocol.dataset.startswith("tasks:") else spec.protocol.dataset,
        "tasks": spec.protocol.dataset.removeprefix("tasks:").split(":") if spec.protocol.dataset.startswith("tasks:") else None,
        **_protocol_data(spec.protocol),
        **_common_settings(spec.contestants),
        **_pace_data(spec.pace),
        "prompts": {name: _prompt_data(prompting) for name, prompting in prompts.items()},
        "include": [_contestant_data(contestant) for contestant in spec.contestants],
    }
    return {key: value for key, value in data.items() if value not in (None, "", [], {}, False)}


def _protocol_data(protocol: Protocol) -> dict[str, Any]:
    source, rules, usual = protocol.source, protocol.tasks, TaskRules()
    return {
        "data": source.path,
        "fields": dict(source.fields),
        "sample_id": list(source.ids),
        "sample_category": list(source.categories),
        "shots": source.shots,
        "likelihood": source.likelihood,
        "scorers": list(protocol.chosen_scorers),
        "judge": [judge.label for judge in protocol.judges],
        "limit": protocol.limit,
        "repeats": None if protocol.repeats == 1 else protocol.repeats,
        "seed": protocol.seed or None,
        "choose_on": protocol.choose_on,
        "until": protocol.until,
        "task_timeout": rules.timeout_s if rules.timeout_asked or rules.timeout_s != usual.timeout_s else None,
        "max_model_calls": (
            rules.max_model_calls if rules.calls_asked or rules.max_model_calls != usual.max_model_calls else None
        ),
        "follow_ups": None if rules.follow_ups == usual.follow_ups else rules.follow_ups,
        "ask_permissions": rules.ask_permissions,
    }


def _common_settings(contestants: Sequence[Contestant]) -> dict[str, Any]:
    """Settings that every model is asked with, whichever way they came about."""
    asked = [contestant.model for contestant in contestants if not contestant.reference]
    common = {}
    for name in ("temperature", "max_tokens", "reasoning_effort"):
        values = {model.settings.get(name) for model in asked if name not in model.variant}
        if len(values) == 1 and None not in values:
            common[name] = values.pop()
    for name in ("rpm", "tpm"):
        limits = {getattr(model.limits, name) for model in asked}
        common |= {name: limits.pop()} if len(limits) == 1 and None not in limits else {}
    return common


def _pace_data(pace: Pace) -> dict[str, Any]:
    names = {
        "max_workers": "max_workers",
        "max_connections": "max_connections",
        "timeout": "timeout_s",
        "request_timeout": "request_timeout_s",
        "max_cost": "max_cost_usd",
        "max_total_tokens": "max_total_tokens",
        "max_time": "max_time_s",
        "stream": "stream",
        "batch": "batch",
    }
    usual = Pace()
    return {key: getattr(pace, name) for key, name in names.items() if getattr(pace, name) != getattr(usual, name)}


def _prompt_data(prompting: Prompting) -> dict[str, Any]:
    words = {**prompting.words, "stop": list(prompting.stop)}
    return {name: value for name, value in words.items() if value}


def _contestant_data(contestant: Contestant) -> dict[str, Any]:
    model, prompting = contestant.model, contestant.prompting
    named: Mapping[str, Any] = {"prompt": prompting.name} if prompting.name else _prompt_data(prompting)
    data = {
        "label": contestant.label,
        "model": model.family or model.label,
        **(named if prompting != PLAIN else {}),
        "settings": dict(model.variant),
        "agent": contestant.agent.label,
    }
    return {key: value for key, value in data.items() if value}
