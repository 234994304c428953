"""Names and what they stand for: plugins by kind, and models by the names people type.

Plugins are named as strings and imported when first used, so that nothing is paid for what is not used.
Other packages join through entry points of the group `tiebreak.<kind>`; `module:name` and `./file.py:name` work
wherever a person types a name, and never in data.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlsplit

from tiebreak.core.contestant import AgentRef
from tiebreak.core.errors import (
    AmbiguousModel,
    BenchmarkError,
    ConfigError,
    DatasetError,
    MissingKey,
    ModelError,
    UnknownModel,
    UsageError,
)
from tiebreak.core.model import ModelRef, house_of
from tiebreak.core.protocols import Agent, Dataset, Provider, Scorer, Strategy
from tiebreak.core.run import IN_MEMORY, Source
from tiebreak.core.sample import Sample

PLUGINS: Mapping[str, Mapping[str, str]] = {
    "providers": {
        "openai": "tiebreak.providers.openai:OpenAI",
        "openai-responses": "tiebreak.providers.openai:Responses",
        "openai-api": "tiebreak.providers.openai:Compatible",
        "anthropic": "tiebreak.providers.anthropic:Anthropic",
        "google": "tiebreak.providers.google:Google",
        "openrouter": "tiebreak.providers.servers:OpenRouter",
        "groq": "tiebreak.providers.servers:Groq",
        "mistral": "tiebreak.providers.servers:Mistral",
        "deepseek": "tiebreak.providers.servers:DeepSeek",
        "xai": "tiebreak.providers.servers:XAI",
        "together": "tiebreak.providers.servers:Together",
        "fireworks": "tiebreak.providers.servers:Fireworks",
        "ollama": "tiebreak.providers.ollama:Ollama",
        "azure": "tiebreak.providers.azure:Azure",
        "vertex": "tiebreak.providers.vertex:Vertex",
        "bedrock": "tiebreak.providers.bedrock:Bedrock",
        "vllm": "tiebreak.providers.servers:VLLM",
        "lmstudio": "tiebreak.providers.servers:LMStudio",
        "llamacpp-server": "tiebreak.providers.servers:LlamaServer",
        "llama_cpp": "tiebreak.providers.llama_cpp:LlamaCpp",
        "baseline": "tiebreak.providers.baseline:Baseline",
        "scripted": "tiebreak.providers.scripted:Scripted",
    },
    "agents": {
        "direct": "tiebreak.agents.direct:Direct",
        "likelihood": "tiebreak.agents.likelihood:Likelihood",
        "self-consistency": "tiebreak.agents.self_consistency:SelfConsistency",
        "tools": "tiebreak.agents.tool_loop:ToolLoop",
        "builtin": "tiebreak.agents.builtin:Builtin",
        "continue": "tiebreak.agents.continue_cli:ContinueCli",
        "aider": "tiebreak.agents.aider:Aider",
        "mini-swe-agent": "tiebreak.agents.mini_swe:MiniSwe",
        "codex": "tiebreak.agents.codex:Codex",
        "claude-code": "tiebreak.agents.claude_code:ClaudeCode",
        "opencode": "tiebreak.agents.opencode:OpenCode",
        "gemini-cli": "tiebreak.agents.gemini_cli:GeminiCli",
        "qwen-code": "tiebreak.agents.qwen_code:QwenCode",
        "nothing": "tiebreak.agents.controls:Nothing",
        "solution": "tiebreak.agents.controls:Solved",
    },
    "scorers": {
        "choice": "tiebreak.scorers.choice:Choice",
        "match": "tiebreak.scorers.texts:Match",
        "numeric": "tiebreak.scorers.numeric:Numeric",
        "keywords": "tiebreak.scorers.texts:Keywords",
        "exact": "tiebreak.scorers.texts:Exact",
        "includes": "tiebreak.scorers.texts:Includes",
        "regex": "tiebreak.scorers.texts:Regex",
        "f1": "tiebreak.scorers.texts:F1",
        "bleu": "tiebreak.scorers.overlap:Bleu",
        "rouge": "tiebreak.scorers.overlap:Rouge",
        "truthful": "tiebreak.scorers.overlap:Truthful",
        "json_schema": "tiebreak.scorers.schema:JsonSchema",
        "tool_calls": "tiebreak.scorers.tool_calls:ToolCalls",
        "assert": "tiebreak.scorers.assertions:Assertions",
        "assert-judged": "tiebreak.scorers.assertions:JudgedAssertions",
        "ifeval": "tiebreak.scorers.ifeval:IfEval",
        "gsm8k": "tiebreak.scorers.reference:Gsm8k",
        "bbh": "tiebreak.scorers.reference:Bbh",
        "likelihood": "tiebreak.scorers.likelihood:Likelihood",
        "judge": "tiebreak.scorers.judge:Judge",
        "pairwise": "tiebreak.scorers.judge:Pairwise",
        "code": "tiebreak.scorers.code:Code",
        "check": "tiebreak.scorers.checks:Checked",
        "tests": "tiebreak.scorers.checks:PartialCredit",
    },
    "strategies": {
        "leader": "tiebreak.stats.race:Leader",
        "tiers": "tiebreak.stats.race:Tiers",
        "best": "tiebreak.stats.race:Best",
        "cheapest": "tiebreak.stats.margin:Cheapest",
    },
    "exporters": {
        "junit": "tiebreak.report.exports:junit",
        "markdown": "tiebreak.report.exports:markdown",
        "parquet": "tiebreak.report.exports:parquet",
        "baseline": "tiebreak.report.exports:baseline",
    },
    "datasets": {
        "truthfulness": "tiebreak.datasets.shipped:truthfulness",
        "truthfulness:open": "tiebreak.datasets.shipped:truthfulness_open",
        "warmup": "tiebreak.datasets.shipped:warmup",
        "fresh": "tiebreak.datasets.fresh:fresh",
        "truthfulqa": "tiebreak.datasets.public:truthfulqa",
        "mmlu": "tiebreak.datasets.public:mmlu",
        "arc": "tiebreak.datasets.public:arc",
        "hellaswag": "tiebreak.datasets.public:hellaswag",
        "gsm8k": "tiebreak.datasets.public:gsm8k",
        "humaneval": "tiebreak.datasets.public:humaneval",
        "mbpp": "tiebreak.datasets.public:mbpp",
        "ifeval": "tiebreak.datasets.public:ifeval",
        "bbh": "tiebreak.datasets.public:bbh",
        "polyglot": "tiebreak.proven_tasks:polyglot",
        "quixbugs": "tiebreak.proven_tasks:quixbugs",
        "swebench": "tiebreak.proven_tasks:swebench",
    },
}

_PROVEN_TASKS = "tiebreak.proven_tasks"

DEFAULT_MODELS: Mapping[str, str] = {
    "openai": "gpt-4o-mini",
    "openai-responses": "gpt-4o-mini",
    "anthropic": "claude-3-5-haiku-latest",
    "google": "gemini-1.5-flash",
    "llama_cpp": "smollm2-135m",
    "baseline": "random",
}
"""What `--provider NAME` alone runs."""

SHIPPED: Mapping[str, tuple[str, ...]] = {
    "openai": (
        *("gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano", "gpt-4o", "gpt-4o-mini"),
        *("gpt-4-turbo", "gpt-4", "gpt-3.5-turbo", "o1", "o3", "o3-mini", "o4-mini"),
        *("gpt-5-pro", "gpt-5-codex", "o1-pro", "o3-pro"),
    ),
    "anthropic": (
        *("claude-opus-4-1", "claude-opus-4-0", "claude-sonnet-4-5", "claude-sonnet-4-0", "claude-haiku-4-5"),
        *("claude-3-7-sonnet-latest", "claude-3-5-sonnet-latest", "claude-3-5-haiku-latest"),
        *("claude-3-opus-20240229", "claude-3-sonnet-20240229", "claude-3-haiku-20240307"),
    ),
    "google": (
        *("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.0-flash", "gemini-2.0-flash-lite"),
        *("gemini-1.5-pro", "gemini-1.5-flash", "gemini-1.5-flash-8b"),
    ),
    "llama_cpp": ("smollm2-135m",),
    "baseline": ("random", "always-first", "constant"),
}
"""Model names we know. A provider may have others: `provider/name` reaches any of them."""

ALIASES: Mapping[str, str] = {
    "claude-3": "anthropic/claude-3-opus-20240229",
    "claude-3-opus": "anthropic/claude-3-opus-20240229",
    "claude-3-sonnet": "anthropic/claude-3-sonnet-20240229",
    "claude-3-haiku": "anthropic/claude-3-haiku-20240307",
    "claude-3.5-sonnet": "anthropic/claude-3-5-sonnet-latest",
    "claude-3.5-haiku": "anthropic/claude-3-5-haiku-latest",
    "gemini-1.5": "google/gemini-1.5-pro",
    "gemini-pro": "google/gemini-1.5-pro",
    "gpt-4-turbo-preview": "openai/gpt-4-turbo",
}

_RESPONSES_ONLY = re.compile(
    r"""(?:o\d+|gpt-[\d.]+)-pro(?:-\d{4}-\d\d-\d\d)?
    | .*\bcodex\b.*
    | .*-deep-research(?:-\d{4}-\d\d-\d\d)?
    | computer-use-preview.*
    | gpt-.*\b(?:cyber|daybreak|rosalind)\b.*
    """,
    re.VERBOSE,
)
"""Models that OpenAI serves behind its responses and not behind its chat completions."""

SETTINGS = (
    *("temperature", "top_p", "top_k", "min_p", "max_tokens", "stop", "seed", "frequency_penalty", "presence_penalty"),
    *("repeat_penalty", "reasoning_effort", "num_ctx"),
)
"""What can be set; a provider may know less."""

_TYPED = re.compile(r"([^@]*(?:@\d{8}(?=@|$))?)(@?)(.*)", re.DOTALL)
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")


_ONE = {
    "providers": "provider",
    "agents": "agent",
    "scorers": "scorer",
    "strategies": "strategy",
    "exporters": "exporter",
    "datasets": "dataset",
}


# --- plugins ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Installed:
    """What one entry point of another package adds."""

    kind: str
    name: str
    package: str
    load: Callable[[], Any]


@cache
def _entry_points() -> tuple[Installed, ...]:
    """What all packages here add. To look through them takes longer than to start: done once, and only when needed."""
    from importlib.metadata import entry_points

    points = entry_points()
    found = [
        Installed(kind, point.name, point.dist.name if point.dist else point.module, point.load)
        for kind in PLUGINS
        for point in points.select(group=f"tiebreak.{kind}")
    ]
    return tuple(dict.fromkeys(sorted(found, key=lambda one: (one.kind, one.name, one.package))))


@cache
def _joined(kind: str) -> Mapping[str, Installed]:
    """What other packages add to a kind, by name; a name that is taken is not added again."""
    added: dict[str, Installed] = {}
    for one in _entry_points():
        if one.kind == kind and one.name not in PLUGINS[kind]:
            added.setdefault(one.name, one)
    return added


def refused_plugins(only_kind: str = "") -> list[str]:
    """A line for each plugin, of one kind or of all, that is not used because its name is taken."""
    refused = []
    for one in _entry_points():
        kind = _ONE[one.kind]
        if only_kind not in ("", one.kind):
            continue
        if one.name in PLUGINS[one.kind]:
            refused.append(f"the {kind} {one.name!r} of the package {one.package} is not used: the name is a built-in {kind}'s")
        elif (used := _joined(one.kind)[one.name]) is not one:
            refused.append(
                f"the {kind} {one.name!r} of the package {one.package} is not used: {used.package} has one of that name"
            )
    return refused


@cache
def broken_plugins() -> Mapping[tuple[str, str], str]:
    """Plugins of other packages that cannot be loaded, by kind and name, each with a line that says why."""
    broken: dict[tuple[str, str], str] = {}
    for kind in PLUGINS:
        for name in _joined(kind):
            try:
                make_agent(AgentRef(name=name)) if kind == "agents" else plugin(kind, name)
            except UsageError as error:
                broken[kind, name] = str(error)
    return broken


def is_known(kind: str, name: str) -> bool:
    """Whether there is something of that name; a path is nobody's name."""
    return name in PLUGINS[kind] or ("/" not in name and name in names(kind))


def names(kind: str) -> list[str]:
    """Every name of a kind, ours first."""
    ours = [*PLUGINS[kind], *(_configured_agents if kind == "agents" else ())]
    return ours + [name for name in _joined(kind) if name not in ours]


def singular(kind: str) -> str:
    """What one of a kind is called."""
    return _ONE[kind]


def loadable(kind: str) -> list[str]:
    """Every name of a kind that stands for something; `broken_plugins` says why others do not."""
    broken = broken_plugins()
    return [name for name in names(kind) if (kind, name) not in broken]


def added_names(kind: str) -> list[str]:
    """The names that other packages add to a kind."""
    return list(_joined(kind))


def plugin_packages() -> list[str]:
    """The packages that add plugins."""
    return sorted({one.package for one in _entry_points()})


def plugin(kind: str, name: str) -> Any:
    """The class or function a name stands for: a registered one, or code by its place."""
    if name in PLUGINS[kind]:
        return _loaded(kind, name, lambda: _imported(PLUGINS[kind][name]))
    if "/" not in name and name in _joined(kind):
        added = _joined(kind)[name]
        return _loaded(kind, name, added.load, f" of the package {added.package}")
    if names_code(name):
        return _loaded(kind, name, lambda: _own_code(name))
    close = did_you_mean(name, names(kind)) or "."
    raise UsageError(f"there is no {_ONE[kind]} {name!r}{close} There are {', '.join(names(kind))}")


def _loaded(kind: str, name: str, load: Callable[[], Any], origin: str = "") -> Any:
    try:
        return load()
    except BenchmarkError:
        raise
    except (Exception, SystemExit) as error:  # Whatever the code of others does when it is imported.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"the {_ONE[kind]} {name!r}{origin} cannot be loaded: {reason}") from error


# --- your own code, by its place -------------------------------------------------------------------


_OWN_CODE = re.compile(r"(?P<place>[^:@]+\.py|[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)")
"""`./file.py:name`, from the working folder, or `module:name`."""
_OWN_MODEL = re.compile(rf"(?P<provider>{_OWN_CODE.pattern})/(?P<model>.+)")


def spelled_provider(typed: str) -> str:
    """The provider that a model's name spells out: `provider/model`, or code of one's own; else nothing."""
    if own := _OWN_MODEL.fullmatch(typed.partition("@")[0].strip()):
        return own["provider"]
    provider, slash, _ = typed.partition("/")
    return provider if slash and is_known("providers", provider) else ""


def names_code(name: str) -> bool:
    """Whether a name says where code is: `./file.py:name` or `module:name`. Data may not: see `_named_by_data`."""
    return _OWN_CODE.fullmatch(name) is not None


def _imported(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _own_code(name: str) -> Any:
    """What a place in code holds; the working folder is on the path while it is looked up, and no longer."""
    place, _, attribute = name.rpartition(":")
    with _working_folder_on_path():
        module = _file_module(Path(place).expanduser().resolve()) if place.endswith(".py") else importlib.import_module(place)
    if not hasattr(module, attribute):
        raise UsageError(f"{place} has no {attribute!r}{did_you_mean(attribute, vars(module))}")
    return getattr(module, attribute)


@contextlib.contextmanager
def _working_folder_on_path() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


@cache
def _file_module(path: Path) -> ModuleType:
    """A Python file as a module of its own, run once."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    name = f"tiebreak_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be read as Python")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# --- what is made of plugins -----------------------------------------------------------------------


def _declared(found: type, protocol: type, methods: tuple[str, ...] = ()) -> Any:
    """A plugin's class with the protocol's defaults for what it does not say: nobody else need ask whether it does."""
    for name in (*protocol.__annotations__, *methods):
        if name in vars(protocol) and not hasattr(found, name):
            setattr(found, name, vars(protocol)[name])
    return found


def provider_class(name: str) -> type[Provider]:
    """The class that serves a provider's models."""
    found = plugin("providers", name)
    return cast("type[Provider]", _declared(found, Provider, ("dialects", "lacking", "lacks", "likelihood", "required_settings")))


def agent_ref(typed: str) -> AgentRef:
    """The agent a typed name stands for: `name`, or `name@key=value,…` with its options."""
    name, at, options = typed.strip().partition("@")
    ref = AgentRef(name=name, options=parse_settings(options, typed) if at else {})
    return replace(ref, control=make_agent(ref).control)


def make_agent(agent: AgentRef) -> Agent:
    """An agent ready to run: a built-in one, one of another package, or one of the user's configuration."""
    name, options = agent.name, dict(agent.options)
    if name in _configured_agents:
        settings = _configured_agents[name]
        if place := settings.get("place"):
            try:
                return make_agent(AgentRef(name=place, options={**settings["options"], **options}))
            except UsageError as error:
                raise UsageError(f"the agent {name!r} of models_config.yaml: {error}") from None
        command = plugin("agents", "tiebreak.agents.command:CommandAgent")
        return cast(Agent, _declared(command, Agent)(name, **settings))
    found = _declared(plugin("agents", name), Agent)
    unknown = [option for option in options if option not in inspect.signature(found).parameters]
    if unknown:
        raise UsageError(f"the agent {name!r} has no option {unknown[0]!r}")
    for option in found.code_options.intersection(options):
        options[option] = _code_file("agents", name, str(options[option]))
    return cast(Agent, _loaded("agents", name, lambda: found(**options)))


_configured_agents: dict[str, Mapping[str, Any]] = {}


def use_agents(configured: Mapping[str, Mapping[str, Any]]) -> None:
    """Take the agents that models_config.yaml describes. Each command is looked at once, to see that it can be an agent.

    A class is code of the user's own, or of whoever wrote the file: it is loaded only where its agent is chosen.
    """
    for name, settings in configured.items():
        if name in PLUGINS["agents"]:
            raise ConfigError(f"the agent {name!r} of the configuration has the name of a built-in one; rename it")
        _configured_agents[name] = settings
        if not settings.get("place"):
            make_agent(AgentRef(name=name))


def configured_agents() -> dict[str, Mapping[str, Any]]:
    """The agents that models_config.yaml describes."""
    return dict(_configured_agents)


CALLED = "()"
"""How the names of scorers end that are functions of the program itself; no module can be called so."""
_functions: ContextVar[Mapping[str, Any] | None] = ContextVar("functions", default=None)
"""Scorers that a program gave to the run at hand, by name: two runs may each have one of the same name."""


@contextlib.contextmanager
def using_functions(functions: Mapping[str, Any]) -> Iterator[None]:
    """Judge by these functions under their names, in whatever is done and started inside."""
    before = _functions.set(functions)
    try:
        yield
    finally:
        _functions.reset(before)


def _own_scorer(name: str) -> Scorer:
    """A scorer that is an object of this program: a function, or something that scores already."""
    given = (_functions.get() or {}).get(name)
    if given is None:
        function = name.removesuffix(CALLED)
        raise UsageError(
            f"the run is judged by a Python function, {function}, which is not stored with it: give it again, as in "
            f"tiebreak.resume(folder, scorers=[{function}])"
        )
    if hasattr(given, "score"):
        _declared(type(given), Scorer)
        return cast(Scorer, given)
    return cast(Scorer, _declared(plugin("scorers", "tiebreak.scorers.function:Function"), Scorer)(given))


def make_scorer(name: str) -> Scorer:
    """A scorer ready to judge: `name`, `name:option`, or `module:function` for one of the user's own."""
    family, _, option = name.partition(":")
    if name.endswith(CALLED):
        return _own_scorer(name)
    if not option or not is_known("scorers", family):
        found = plugin("scorers", name)
        if inspect.isclass(found):
            return cast(Scorer, _loaded("scorers", name, _declared(found, Scorer)))
        function = plugin("scorers", "tiebreak.scorers.function:Function")
        return cast(Scorer, _declared(function, Scorer)(found))
    found = _declared(plugin("scorers", family), Scorer)
    if not inspect.signature(found).parameters:
        raise UsageError(f"the scorer {family!r} takes nothing behind a colon ({name!r})")
    return cast(Scorer, found(_code_file("scorers", name, option) if found.takes_code and option.endswith(".py") else option))


def _code_file(kind: str, name: str, option: str) -> ModuleType:
    """A file of functions that a plugin may call."""
    with _working_folder_on_path():
        return cast(ModuleType, _loaded(kind, name, lambda: _file_module(Path(option).expanduser().resolve())))


def make_strategy(name: str, contestants: Sequence[str], planned: int) -> Strategy:
    """A strategy ready to race: a registered one, or code by its place; `50%` is short for `best:50%`."""
    family, _, option = (f"best:{name}" if name.endswith("%") else name).partition(":")
    if option and family in PLUGINS["strategies"]:
        try:
            return cast(Strategy, plugin("strategies", family)(contestants, planned, option))
        except (ValueError, TypeError) as error:
            raise UsageError(f"--until {name}: {error}") from None
    if option and is_known("strategies", family):
        found = plugin("strategies", family)
        return cast(Strategy, _loaded("strategies", name, lambda: found(contestants, planned, option)))
    found = plugin("strategies", name)
    return cast(Strategy, _loaded("strategies", name, lambda: found(contestants, planned)))


def export_with(name: str, folder: Path, path: Path, *, answers: bool = True) -> None:
    """Have an exporter write a run into a file: a registered one, or code by its place."""
    exporter = plugin("exporters", name)
    if name in PLUGINS["exporters"]:
        exporter(folder, path, answers=answers)
        return
    if not answers:
        own = ", ".join(PLUGINS["exporters"])
        raise UsageError(f"only {own} can leave the answers out: the exporter {name} reads the run by itself")
    # Written beside, and moved into its place when it is whole: what was there stays until then.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as place:
        made = Path(place) / path.name
        try:
            exporter(folder, made)
        except (BenchmarkError, OSError):
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(f"the exporter {name} raised {type(error).__name__}: {error}") from error
        if not made.is_file():
            raise UsageError(f"the exporter {name} wrote nothing to the file it was given")
        made.replace(path)


def load_dataset(name: str, source: Source | None = None) -> Dataset:
    """A registered dataset by name or `name:variant`, one of the hub (`hf:owner/name`), or a file or folder by path."""
    dataset = _load_dataset(name, source or Source())
    _declared(type(dataset), Dataset)
    return dataset


def sound(dataset: Dataset) -> Dataset:
    """A dataset of the user's own, read once through before anything is asked. The built-in ones see to this themselves."""
    if type(dataset).__module__.startswith("tiebreak."):
        return dataset
    seen: set[str] = set()
    for position in range(len(dataset)):
        if (identity := _sample_of(dataset, position).id) in seen:
            raise DatasetError(f"the dataset {dataset.name!r} uses the id {identity!r} twice; every id must be its own")
        seen.add(identity)
    return dataset


def _sample_of(dataset: Dataset, position: int) -> Sample:
    where = f"sample {position} of the dataset {dataset.name!r}"
    try:
        sample = dataset[position]
    except Exception as error:
        raise DatasetError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(sample, Sample):
        raise DatasetError(f"{where} is a {type(sample).__name__}; it should be a tiebreak Sample")
    return sample


def _load_dataset(name: str, source: Source) -> Dataset:
    if name == IN_MEMORY:
        return _named_by_data(cast(Dataset, _in_memory().load_samples(Path(source.path))))
    if name.startswith("tasks:"):
        return cast(Dataset, importlib.import_module("tiebreak.datasets.tasks").load(name, source))
    family, _, variant = name.partition(":")
    for registered, rest in ((name, ""), (family, variant)):
        if is_known("datasets", registered):
            return _made(plugin("datasets", registered), registered, rest, source)
    if family == "hf":
        hub = importlib.import_module("tiebreak.datasets.hub")
        return _named_by_data(cast(Dataset, hub.load(name, source)))
    if names_code(name) and _is_there(family):
        return _made(plugin("datasets", name), name, "", source)
    own = importlib.import_module(f"tiebreak.datasets.{'mixed' if Path(name).expanduser().is_dir() else 'files'}")
    return _named_by_data(cast(Dataset, own.load(name, known=lambda: names("datasets"), source=source)))


def dataset_of(rows: Any, source: Source) -> Dataset:
    """A dataset of what a program has in memory: samples, rows as dictionaries, or a data frame."""
    dataset = _named_by_data(cast(Dataset, _in_memory().samples_of(rows, source)))
    _declared(type(dataset), Dataset)
    return dataset


def _in_memory() -> Any:
    return importlib.import_module("tiebreak.datasets.in_memory")


def _is_there(place: str) -> bool:
    """Whether there is such a Python file or module; else the name is one of data."""
    if place.endswith(".py"):
        return True
    with _working_folder_on_path():
        return importlib.util.find_spec(place.partition(".")[0]) is not None


def _named_by_data(dataset: Dataset) -> Dataset:
    """The dataset, once every scorer its rows name is a registered one: data never decides which code is imported."""
    for name in dataset.scorers:
        if not (is_known("scorers", name) or is_known("scorers", name.partition(":")[0])):
            raise DatasetError(
                f"{dataset.name}: a row names the scorer {name!r}, which is not a registered one"
                f"{did_you_mean(name, names('scorers'))}; to use code of your own, name it with --scorer"
            )
        if _is_file(name.partition(":")[2]):
            raise DatasetError(f"{dataset.name}: a row's scorer names a file ({name!r}); only you may do that, with --scorer")
    return dataset


def _is_file(option: str) -> bool:
    try:
        return option.endswith(".py") or Path(option).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def _made(factory: Any, name: str, variant: str, source: Source) -> Dataset:
    """The dataset a factory makes, told only what it can be told."""
    takes = inspect.signature(factory).parameters
    if variant and "variant" not in takes:
        raise DatasetError(f"there is no dataset {name + ':' + variant!r}{did_you_mean(f'{name}:{variant}', names('datasets'))}")
    if (source.path or source.fields) and "source" not in takes:
        raise DatasetError(f"the dataset {name!r} is complete as it is: --data and --field are for others")
    told = {"variant": variant, "source": source, "likelihood": source.likelihood}
    used = {key: value for key, value in told.items() if key in takes}
    return cast(Dataset, _loaded("datasets", name, lambda: factory(**used)))


def audit_dataset(dataset: Dataset) -> Any:
    """What a look at every sample of a dataset finds."""
    return importlib.import_module("tiebreak.datasets.audit").audit(dataset)


def is_task_set(name: str) -> bool:
    """Whether a name is that of a public set of coding tasks."""
    return PLUGINS["datasets"].get(name, "").startswith(f"{_PROVEN_TASKS}:")


def proven_tasks(name: str, source: Source, tell: Callable[[str, int, int], None]) -> Dataset:
    """A public set of coding tasks, each tried here; `tell` hears of each trial."""
    dataset = cast(Dataset, importlib.import_module(_PROVEN_TASKS).proven(name, source, tell))
    _declared(type(dataset), Dataset)
    return dataset


def spelled_tasks(paths: Iterable[str], *, data: bool = False) -> str:
    """The dataset name of some task files and folders, or of the one public set that is named."""
    typed = [str(path) for path in paths]
    sets = [name for name in typed if is_task_set(name) and (data or not Path(name).exists())]
    if sets and len(typed) > 1:
        raise UsageError(f"the set {sets[0]!r} is named alone: --task {sets[0]} --data FOLDER")
    if sets:
        return sets[0]
    if data:
        raise UsageError("--data is the copy of a public set: name one of them with --task, or give the folder to --task itself")
    return cast(str, importlib.import_module("tiebreak.datasets.tasks").spelled(typed))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The closest known names as half a sentence, or nothing."""
    folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(repr(folded[c]) for c in close)}?" if close else ""


# --- models ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every model we could name: the shipped ones, the configured ones, what Ollama has now."""

    configured: Mapping[str, ModelRef] = field(default_factory=dict)
    """By the name in models_config.yaml."""
    detected: Mapping[str, str] = field(default_factory=dict)
    """Models of the Ollama server by tag, with the digests of their weights."""

    def names(self) -> list[str]:
        """Every name that can be typed, except reference models' and paths."""
        shipped = [name for provider, known in SHIPPED.items() if provider != "baseline" for name in known]
        ollama = [f"ollama/{tag}" for tag in self.detected]
        return list(dict.fromkeys([*self.configured, *shipped, *ollama]))

    def resolve(self, typed: str) -> ModelRef:
        """The model a typed name stands for: `name`, `provider/name`, either with `@key=value,…`."""
        name, at, variant = _split_settings(typed)
        ref = self._resolve(name.strip())
        settings = parse_settings(variant, typed) if at else {}
        return replace(ref, label=typed, family=name.strip(), variant=settings, settings={**ref.settings, **settings})

    def _resolve(self, name: str) -> ModelRef:
        if name in self.configured:
            return self.configured[name]
        name = ALIASES.get(name, name)
        provider, slash, rest = name.partition("/")
        if slash and is_known("providers", provider):
            return self._spelled_out(provider, rest)
        if own := _OWN_MODEL.fullmatch(name):
            return replace(make_ref(own["provider"], own["model"]), verified=False)
        found = [make_ref(p, name) for p, known in SHIPPED.items() if name in known]
        found += [self._ollama(tag) for tag in self.detected if name in (tag, tag.removesuffix(":latest"))]
        if len(found) > 1:
            spelled = " or ".join(ref.spelled_out for ref in found)
            raise AmbiguousModel(f"{name!r} fits more than one provider: write {spelled}")
        if not found:
            raise UnknownModel(f"no provider has a model {name!r}{did_you_mean(name, self.names())}")
        return found[0]

    def _spelled_out(self, provider: str, name: str) -> ModelRef:
        if not name:
            raise UnknownModel(f"{provider + '/'!r} names no model; write {provider}/NAME")
        if provider == "ollama":
            name = next((tag for tag in self.detected if tag.removesuffix(":latest") == name), name)
            return replace(self._ollama(name), verified=name in self.detected)
        known = SHIPPED.get(house_of(provider), ())
        if provider == "baseline" and name not in known:
            raise UnknownModel(f"there is no baseline {name!r}; there are {', '.join(known)}")
        return replace(make_ref(provider, name), verified=name in known)

    def _ollama(self, tag: str) -> ModelRef:
        """A model of the Ollama server, with the weights the tag stands for now."""
        return replace(make_ref("ollama", tag), weights_digest=self.detected.get(tag, ""))


def make_ref(provider: str, name: str, base_url: str = "") -> ModelRef:
    """A model of a provider, with its key variable and, unless it is given, its address taken from the environment."""
    served_by = provider_class(provider)
    if provider == "openai-api":
        return _compatible_ref(name)
    base_url = base_url or next((os.environ[v] for v in served_by.url_variables if os.environ.get(v)), "")
    refuse_password(base_url)
    return ModelRef(
        provider=_door(provider, name, base_url),
        name=name,
        label=f"{provider}/{name}",
        required=served_by.required_settings(name),
        base_url=base_url,
        key_variable=_key_variable(served_by),
        local=served_by.local,
        reference=served_by.reference,
    )


def _key_variable(served_by: type[Provider]) -> str:
    """The variable the key is in, or should be. A server on this machine may have a key; it need not."""
    found = next((variable for variable in served_by.key_variables if os.environ.get(variable)), "")
    return found or ("" if served_by.local else next(iter(served_by.key_variables), ""))


_SECRET = re.compile(r"(?i)(?:^|&)([^=&]*(?:key|token|secret|password|signature|\bsig\b|credential)[^=&]*)=")


def refuse_password(url: str) -> None:
    """An address is shown and kept with the run: nothing secret may stand in it."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    netloc = parts.netloc
    if parts.scheme not in ("", "http", "https"):
        raise ModelError(f"the address {url!r} is none of a server: it begins with http:// or https://")
    if found := _SECRET.search(parts.query):
        raise ModelError(f"the address of {netloc} holds a {found[1]}; leave it out, and put the key in its variable")
    if "@" in netloc:
        host = netloc.rpartition("@")[2]
        raise ModelError(f"the address of {host} holds a name or a password; leave them out, and put the key in its variable")


def _door(provider: str, name: str, base_url: str) -> str:
    """The provider that reaches a model: at OpenAI's own address some are behind another door than the rest."""
    if provider != "openai" or not _RESPONSES_ONLY.fullmatch(name):
        return provider
    own = cast(Any, provider_class(provider)).default_url
    return "openai-responses" if base_url.rstrip("/") in ("", own) else provider


def _compatible_ref(name: str) -> ModelRef:
    """openai-api/<server>/<model>: the server's name says which variables hold its address and key."""
    server, slash, model = name.partition("/")
    if not (slash and model and _SERVER_NAME.fullmatch(server)):
        raise UnknownModel(f"'openai-api/{name}' should read openai-api/<server>/<model>")
    prefix = server.upper().replace("-", "_")
    url = os.environ.get(f"{prefix}_BASE_URL", "")
    if not url:
        raise ModelError(f"'openai-api/{name}' needs the server's address: set {prefix}_BASE_URL")
    refuse_password(url)
    return ModelRef(
        provider="openai-api",
        name=model,
        label=f"openai-api/{name}",
        base_url=url,
        key_variable=f"{prefix}_API_KEY" if os.environ.get(f"{prefix}_API_KEY") else "",
    )


def check_key(model: ModelRef) -> None:
    """Raise when the model's provider needs a key, or something else, and it is not set. Nothing is sent."""
    if told := provider_class(model.provider).lacking(model.base_url):
        raise MissingKey(told)
    if model.key_variable and not os.environ.get(model.key_variable):
        known = provider_class(model.provider).key_variables or (model.key_variable,)
        variables = " or ".join(known if model.key_variable in known else (model.key_variable,))
        raise MissingKey(f"{model.provider!r} needs an API key: set {variables}, or api_key in models_config.yaml")


def check_settings(model: ModelRef) -> None:
    """Raise when a setting is unknown, or one the model's provider has no word for. Nothing is sent."""
    refused = provider_class(model.provider).unsupported
    for name in model.settings:
        if name not in SETTINGS:
            raise ModelError(f"{model.label}: there is no setting {name!r}{did_you_mean(name, SETTINGS)}")
        if name in refused:
            raise ModelError(f"{model.label}: the provider {model.provider!r} cannot take {name!r}; leave it out")
        check_value(model.label, name, model.settings[name])


_NUMBERS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("temperature", "top_k", "min_p", "repeat_penalty"), (0.0, math.inf)),
    "top_p": (0.0, 1.0),
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "seed"), (-math.inf, math.inf)),
}
_WHOLE = {"max_tokens": 1, "num_ctx": 1}


def check_value(label: str, name: str, value: Any) -> None:
    """Raise when a setting has a value that no model takes."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    low, high = _NUMBERS.get(name, (-math.inf, math.inf))
    wrong = name in _NUMBERS and not (number and low <= value <= high)
    wrong = wrong or (name in _WHOLE and not (number and isinstance(value, int) and value >= _WHOLE[name]))
    if wrong:
        raise ModelError(f"{label}: {name}={value!r} is not a value it can have")


def _split_settings(typed: str) -> tuple[str, str, str]:
    """A name, @, and the settings behind it; a date behind @ is part of the name, as Vertex AI has them."""
    found = _TYPED.fullmatch(typed)
    assert found is not None, "everything matches"
    return found[1], found[2], found[3]


def parse_settings(text: str, typed: str) -> dict[str, Any]:
    """The settings of a variant: `effort=high,temperature=0`."""
    settings: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise UnknownModel(f"{typed!r}: after @ come settings, as in @temperature=0,effort=high")
        name = "reasoning_effort" if key.strip() == "effort" else key.strip()
        if name in settings:
            raise UnknownModel(f"{typed!r}: {name} is given twice")
        settings[name] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def list_models(catalog: Catalog | None = None) -> list[str]:
    """Names of every model that can be typed."""
    return (catalog or Catalog()).names()


def get_provider_for_model(name: str, catalog: Catalog | None = None) -> type[Provider]:
    """The provider class that serves a model; raises UnknownModel or AmbiguousModel."""
    return provider_class((catalog or Catalog()).resolve(name).provider)
