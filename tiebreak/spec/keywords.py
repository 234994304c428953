"""Keyword arguments of the Python functions as flags: what can be asked is the same, only the spelling differs."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from tiebreak.contestants import entry_of, prompt_of
from tiebreak.core.errors import UsageError
from tiebreak.core.model import ModelRef
from tiebreak.core.protocols import Dataset
from tiebreak.core.run import IN_MEMORY
from tiebreak.registry import CALLED, dataset_of, did_you_mean
from tiebreak.spec.flags import Flags, split_models

Texts = str | Sequence[str]


class Options(TypedDict, total=False):
    """What a run may be told besides its models and its dataset."""

    # how questions are put, who works, who judges
    prompts: Mapping[str, str | Mapping[str, Any] | None]
    """Prompts that compete, by name: a text, a file, or system, template, cot and stop."""
    contestants: Sequence[str | Mapping[str, Any]]
    """Contestants that are written out, each by its model and what else is to be said of it."""
    agents: Texts
    system: str
    template: str
    cot: bool
    stop: Texts
    scorers: str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
    """Names, `module:function`, or functions of the sample and the answer's text."""
    judge: Texts
    """The model that judges, or several."""
    force: bool
    # sent to the models
    temperature: float
    max_tokens: int
    reasoning_effort: str
    seed: int
    # which samples, and how they are read
    tasks: str | Path | Sequence[str | Path]
    """Files or folders of coding tasks, instead of a dataset."""
    data: str | Path
    fields: Mapping[str, str]
    encoding: str
    shots: int
    likelihood: bool
    sample_ids: Texts
    sample_categories: Texts
    limit: int
    repeats: int
    choose_on: Literal["half"]
    until: str
    margin: float
    shard: str
    # how fast, and how much
    parallel: bool
    max_workers: int
    max_connections: int
    rpm: int
    tpm: int
    timeout_s: float
    request_timeout_s: float
    max_cost_usd: float
    max_total_tokens: int
    max_time_s: float
    stream: bool
    batch: bool
    """Ask in batches where providers have them: half the price, within a day."""
    detach: bool
    """With batches: come back once all is sent; `tiebreak.resume` collects the answers."""
    poll_s: float
    """Seconds between two looks at a batch."""
    timing: int
    record: str | Path
    replay: str | Path
    cache: str | Path
    # on which machines
    on: Literal["ray"]
    """Run on a Ray cluster."""
    nodes_need: Texts
    per_node: int
    send_keys: bool
    # coding tasks
    task_timeout_s: float
    max_model_calls: int
    follow_ups: int
    allow_unsandboxed: bool
    workspace: str | Path
    """Tasks without files are done on a copy of this folder."""
    sandbox: Literal["podman", "docker"]
    # what becomes of it
    config: str | Path
    results_dir: str | Path
    """The run's own folder, new or empty."""
    resume: str | Path
    retry_failed: bool
    preflight: bool
    strict: bool
    yes: bool


_FLAGS = {
    "agents": "agent",
    "scorers": "scorer",
    "tasks": "task",
    "sample_ids": "sample_id",
    "sample_categories": "sample_category",
    "timeout_s": "timeout",
    "request_timeout_s": "request_timeout",
    "task_timeout_s": "task_timeout",
    "max_cost_usd": "max_cost",
    "max_time_s": "max_time",
    "poll_s": "poll",
    "results_dir": "output",
}
"""Keywords whose flag is called otherwise."""
_KEYWORDS = {flag.replace("_", "-"): keyword for keyword, flag in _FLAGS.items()} | {
    **{"model": "models", "prompt": "prompts", "contestant": "contestants", "field": "fields"},
    **{"no-preflight": "preflight=False", "send-keys": "send_keys=True", "resume": "tiebreak.resume"},
    **{name: f"{name}=True" for name in ("force", "parallel", "strict", "yes", "likelihood", "stream", "batch", "detach")},
}
_TUPLES = ("nodes_need", "agents", "judge", "stop", "tasks", "sample_ids", "sample_categories")
_PATHS = ("data", "record", "replay", "cache", "config", "workspace", "results_dir")
_WHOLE = {
    **dict.fromkeys(("limit", "repeats", "max_workers", "max_connections", "rpm", "tpm", "max_total_tokens"), 1),
    **dict.fromkeys(("max_model_calls", "per_node", "timing"), 1),
    **dict.fromkeys(("shots", "follow_ups"), 0),
}
"""The least each of these may be."""
_AMOUNTS = ("timeout_s", "request_timeout_s", "task_timeout_s", "max_cost_usd", "max_time_s", "poll_s")
_LARGEST = 1e9
_MAY_BE_EMPTY = ("system", "template")
_LISTS = ("models", "contestants", "prompts", "scorers", "judge", "tasks", "sample_ids", "sample_categories")
_WORDS = ("system", "template", "reasoning_effort", "encoding", "until", "shard")
_EXAMPLES = {"prompts": '{"terse": "Answer in one word."}', "fields": '{"frage": "input"}'}
_ELSEWHERE = ("prompts", "contestants", "scorers", "fields", "preflight", "resume")
"""Keywords that become flags in a way of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A run as a program asked for it."""

    flags: Flags
    rows: Any = None
    """What the program has in memory in place of a dataset's name."""
    functions: Mapping[str, Any] = field(default_factory=dict)
    """Its own scorers, by the names they judge under."""
    call: str = ""
    """How it was called."""

    @property
    def dataset(self) -> Dataset | None:
        """The samples the program has in memory, read and checked."""
        return None if self.rows is None else dataset_of(self.rows, self.flags.source)


def asked(function: str, models: Any, dataset: Any, options: Mapping[str, Any]) -> Asked:
    """What was asked, checked as far as that needs no look at models and samples."""
    _check(options)
    _check_kinds({"models": models, **options})
    _refuse_empty({"models": models, "dataset": dataset, **options})
    named = isinstance(dataset, str | Path)
    scorers, functions = _scorers(options.get("scorers"))
    plain = {name: value for name, value in options.items() if name not in _ELSEWHERE and value is not None}
    given = [models] if isinstance(models, str | ModelRef) else list(models or ())
    _refuse_strangers(given)
    flags = Flags(
        model=tuple(name for one in given for name in ([one.label] if isinstance(one, ModelRef) else split_models(one))),
        refs=tuple(ref for ref in given if isinstance(ref, ModelRef)),
        dataset=str(dataset) if named else None if dataset is None else IN_MEMORY,
        prompts=tuple(prompt_of(name, text) for name, text in (options.get("prompts") or {}).items()),
        entries=tuple(entry_of(c, f"contestant {c!r:.60}") for c in _mappings(options.get("contestants"))),
        contestant=tuple(text for text in options.get("contestants") or () if isinstance(text, str)),
        scorer=scorers,
        field=tuple(f"{theirs}={ours}" for theirs, ours in (options.get("fields") or {}).items()),
        no_preflight=options.get("preflight") is False,
        resume=str(options["resume"]) if options.get("resume") else None,
        **{_FLAGS.get(name, name): _as_flag(name, value) for name, value in plain.items()},
    )
    shown = str(dataset) if named else None if dataset is None else ...
    call = spelled_call(function, {"models": given or None, "dataset": shown, **options})
    return Asked(flags=flags, rows=None if named else dataset, functions=functions, call=call)


def in_keywords(message: str) -> str:
    """A message that speaks of flags, in the words of a program."""
    message = re.sub(r"--field (\w+)=(\w+)", r'fields={"\1": "\2"}', message)
    return re.sub(r"--([a-z][a-z-]*[a-z])", lambda m: _KEYWORDS.get(m[1], m[1].replace("-", "_")), message)


def spelled_call(function: str, arguments: Mapping[str, Any]) -> str:
    """A call as a program would write it; what was in memory is left out."""
    words = [f"{name}={_spelled(value)}" for name, value in arguments.items() if value is not None]
    return f"tiebreak.{function}({', '.join(words)})"


def _check(options: Mapping[str, Any]) -> None:
    """Refuse keywords that nobody has, and numbers that mean nothing."""
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}{did_you_mean(name, Options.__annotations__)}")
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if value is None:
            continue
        if name in _WHOLE and not (number and isinstance(value, int) and value >= _WHOLE[name]):
            raise UsageError(f"{name}={value!r}: must be a whole number, {_WHOLE[name]} or more")
        if name in _AMOUNTS and not (number and 0 < value <= _LARGEST):
            raise UsageError(f"{name}={value!r}: must be a number above 0, up to a billion")
        if name == "on" and value != "ray":
            raise UsageError(f"on={value!r}: must be 'ray'")
        if name == "choose_on" and value != "half":
            raise UsageError(f"choose_on={value!r}: must be 'half'")


def _check_kinds(given: Mapping[str, Any]) -> None:
    """Refuse what is of another kind than its keyword takes, before it goes wrong somewhere inside."""
    for name, value in given.items():
        one = isinstance(value, str | Path | ModelRef)
        listed = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes)
        if value is None:
            continue
        if name in ("prompts", "fields") and not isinstance(value, Mapping):
            raise UsageError(f"{name}={value!r:.80}: must be a dictionary, as in {_EXAMPLES[name]}")
        if name in ("models", "contestants", *_TUPLES) and not one and not listed:
            raise UsageError(f"{name}={value!r:.80}: must be a name or a list of them")
        if name in _PATHS and not isinstance(value, str | Path):
            raise UsageError(f"{name}={value!r:.80}: must be a path")
        if name in _WORDS and not isinstance(value, str):
            raise UsageError(f"{name}={value!r:.80}: must be a text")
    for name, prompt in (given.get("prompts") or {}).items():
        if not isinstance(prompt, str | Path | Mapping | None):
            raise UsageError(f"prompts: {name!r} must be a text, a file or a dictionary, not {prompt!r:.80}")


def _refuse_empty(given: Mapping[str, Any]) -> None:
    """An empty text would silently mean what is meant by nothing at all: another dataset, no limit to the samples."""
    for name, value in given.items():
        listed = value if isinstance(value, list | tuple) else (value,)
        if name not in _MAY_BE_EMPTY and any(isinstance(one, str) and not one for one in listed):
            raise UsageError(f"{name} is empty: give it a value, or leave it out")
        # A filter that leaves nothing must not mean everything.
        if isinstance(value, list | tuple | set | frozenset | dict) and not value and name in _LISTS:
            raise UsageError(f"{name} is empty: name something, or leave it out")
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise UsageError(f"{name}={value!r:.80}: not UTF-8: no result could tell of it")


def _refuse_strangers(models: Sequence[Any]) -> None:
    strange = [model for model in models if not isinstance(model, str | ModelRef)]
    if strange:
        raise UsageError(f"models are names or ModelRefs, not {strange[0]!r:.80}")
    labels = [model.label for model in models if isinstance(model, ModelRef)]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"two models are called {twice!r}; give each a label of its own")


def _mappings(contestants: Sequence[Any] | None) -> list[Mapping[str, Any]]:
    return [contestant for contestant in contestants or () if isinstance(contestant, Mapping)]


def _as_flag(name: str, value: Any) -> Any:
    if name in _TUPLES:
        return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))
    return Path(value) if name in _PATHS else value


def _scorers(given: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names scorers judge under, and what the names of a program's own ones stand for."""
    listed = [given] if isinstance(given, str) or callable(given) or hasattr(given, "score") else list(given or ())
    names, functions = [], {}
    for scorer in listed:
        name = scorer if isinstance(scorer, str) else f"{_name_of(scorer)}{CALLED}"
        if name in names:
            raise UsageError(f"two scorers are called {name.removesuffix(CALLED)!r}; give each a name of its own")
        names.append(name)
        if not isinstance(scorer, str):
            functions[name] = scorer() if inspect.isclass(scorer) else scorer
    return tuple(names), functions


def _name_of(scorer: Any) -> str:
    if not (callable(scorer) or hasattr(scorer, "score")):
        raise UsageError(f"a scorer is a name or a function of a sample and an answer, not {scorer!r:.80}")
    return str(getattr(scorer, "__name__", type(scorer).__name__)).strip("<>")


def _spelled(value: Any) -> str:
    if isinstance(value, ModelRef):
        return repr(value.label)
    if value is ...:
        return "..."
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_spelled(part)}" for name, part in value.items()) + "}"
    if isinstance(value, str | int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_spelled, value))}]"
    return _name_of(value) if callable(value) else repr(str(value))
