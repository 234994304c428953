"""models_config.yaml, the environment and a .env file, checked once and named when wrong."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tiebreak.checked_yaml import CheckedYaml, read_yaml
from tiebreak.core.errors import BenchmarkError, ConfigError
from tiebreak.core.model import Limits, ModelRef, Price
from tiebreak.core.protocols import Endpoint
from tiebreak.core.record import Record
from tiebreak.registry import (
    Catalog,
    did_you_mean,
    is_known,
    make_ref,
    names,
    names_code,
    plugin,
    provider_class,
    refuse_password,
)

FILE_NAME = "models_config.yaml"
_CHECKOUT = Path(__file__).parents[1] / "benchmark"
"""Beside the package in a checkout alone."""
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DETECT_S = 1.0
_DETECTED_FOR_S = 10.0
_detected: dict[str, tuple[float, Mapping[str, str]]] = {}
"""What each Ollama server had when it was last asked: one command asks for many names."""


_Positive = Annotated[int, msgspec.Meta(gt=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Settings(Record, frozen=True, kw_only=True):
    """Settings sent to the model that we know; others are sent as they are written."""

    temperature: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    max_tokens: _Positive | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: int | None = None


class _Price(Record, frozen=True, kw_only=True):
    """Dollars per million tokens."""

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None


class _Limits(Record, frozen=True, kw_only=True):
    """What the account may send to the model in a minute."""

    rpm: _Positive | None = None
    tpm: _Positive | None = None


class _Model(Record, frozen=True, kw_only=True):
    """One entry under `models`."""

    name: _Text
    provider: str
    model: str = ""
    display_name: str = ""
    enabled: bool = True
    api_key: str = ""
    base_url: str = ""
    context_window: _Positive | None = None
    price: _Price | None = None
    limits: _Limits = _Limits()
    categories: tuple[str, ...] = ()
    settings: dict[str, Any] = msgspec.field(default_factory=dict)


class BatchSettings(Record, frozen=True, kw_only=True):
    """Defaults for running several models."""

    default_timeout: _Seconds | None = None
    max_parallel: _Positive = 4
    retry_on_failure: bool = True
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 5
    save_intermediate: bool = True
    show_progress: bool = True
    verbose: bool = False


class _Agent(Record, frozen=True, kw_only=True):
    """One entry under `agents`: a coding agent by the command that runs it."""

    command: _Text
    follow_up: str = ""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    install: str = ""
    min_context: _Positive = 4096
    permissions: str = ""


class _AgentClass(Record, frozen=True, kw_only=True):
    """One entry under `agents`: any agent by its class, with its options."""

    place: _Text = msgspec.field(name="class")
    options: dict[str, Any] = msgspec.field(default_factory=dict)


_AnyAgent = _Agent | _AgentClass


class _File(Record, frozen=True, kw_only=True):
    """The whole file; its models and agents are checked one by one."""

    agents: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    models: list[dict[str, Any]] = msgspec.field(default_factory=list)
    categories: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    batch_settings: BatchSettings = BatchSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the configuration says, in our words."""

    path: Path | None = None
    models: Mapping[str, ModelRef] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Coding agents by name, each by the command that runs it."""
    batch: BatchSettings = field(default_factory=BatchSettings)
    warnings: tuple[str, ...] = ()

    def catalog(self, *, detect: bool) -> Catalog:
        """Every model that can be named; with `detect`, also what Ollama has now."""
        return Catalog(configured=self.models, detected=detect_ollama() if detect else {})


def load_config(path: Path | None = None) -> Config:
    """Read the configuration: the named file, else the working folder's, else the one that comes with us."""
    found = _find(path)
    if found is None:
        return Config()
    file = read_yaml(found)
    whole = file.part(_File, _present(file.data)) or _File()
    models = [_model(file, entry, place) for place, entry in enumerate(whole.models)]
    agents = {name: _agent(file, entry, name) for name, entry in whole.agents.items()}
    file.settle()
    warnings = tuple(_unknown_keys(file, whole, models, agents))
    return _in_our_words(file, whole, [model for model in models if model is not None], agents, warnings)


def _agent(file: CheckedYaml, entry: Mapping[str, Any], name: str) -> _AnyAgent | None:
    if "class" in entry:
        return file.part(_AgentClass, entry, "agents", name)
    return file.part(_Agent, entry, "agents", name)


def read_mapping(path: Path) -> Mapping[str, str]:
    """A YAML file of names and what they stand for."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    file = read_yaml(path)
    if not isinstance(file.data, dict):
        raise ConfigError(f"{path}, line 1: a mapping is needed, as in `question: input`")
    for key, value in file.data.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(f"{path}, line {file.line((key,))}: {key}: a name is needed (it is {value!r})")
    return file.data


def current_catalog() -> Catalog:
    """Every model that can be named here and now."""
    return load_config().catalog(detect=True)


def results_root() -> Path:
    """Where runs are kept, below the working folder: `benchmark/results` for a checkout, `tiebreak_results` elsewhere."""
    return Path("benchmark") / "results" if _CHECKOUT.is_dir() else Path("tiebreak_results")


def shipped(name: str) -> Path:
    """A file or folder that comes with the program: in `benchmark/` of a checkout, inside an installed package."""
    return (_CHECKOUT if _CHECKOUT.is_dir() else Path(__file__).parent) / name


def read_env_file(path: Path = Path(".env")) -> None:
    """Take variables from a .env file; what the environment already has stands."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name.strip()):
            os.environ.setdefault(name.strip(), _unquoted(value.strip()))


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.split(" #", maxsplit=1)[0].rstrip()


def detect_ollama() -> Mapping[str, str]:
    """Models of the Ollama server with the digests of their weights, or none when it is not there."""
    variables = provider_class("ollama").url_variables
    url = next((os.environ[v] for v in variables if os.environ.get(v)), "")
    asked_at, models = _detected.get(url, (-_DETECTED_FOR_S, {}))
    if time.monotonic() - asked_at < _DETECTED_FOR_S:
        return models
    found: dict[str, str] = {}
    # In a thread of its own: the caller may be inside a running event loop.
    thread = threading.Thread(target=lambda: found.update(asyncio.run(_ollama_models(url))), daemon=True)
    thread.start()
    thread.join(_DETECT_S * 2)
    _detected[url] = (time.monotonic(), found)
    return found


async def _ollama_models(url: str) -> Mapping[str, str]:
    provider = plugin("providers", "ollama")(Endpoint(base_url=url, max_connections=1))
    try:
        found: Mapping[str, str] = await asyncio.wait_for(provider.weights(), _DETECT_S)
    except (BenchmarkError, TimeoutError):
        return {}
    else:
        return found
    finally:
        await provider.close()


# --- the file ---------------------------------------------------------------------------------------


def _find(path: Path | None) -> Path | None:
    if path is not None:
        if not path.is_file():
            raise ConfigError(f"there is no configuration file {path}")
        return path
    places = (Path(FILE_NAME), Path("benchmark") / FILE_NAME, shipped(FILE_NAME))
    return next((place for place in places if place.is_file()), None)


def _present(data: Any) -> Any:
    """The data without keys that have nothing behind them: all of a list's entries may be commented out."""
    return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


def _model(file: CheckedYaml, entry: dict[str, Any], place: int) -> _Model | None:
    """An entry, its settings in the types that are sent."""
    model = file.part(_Model, entry, "models", place)
    if model is None or not model.settings:
        return model
    known = file.part(_Settings, model.settings, "models", place, "settings")
    sent = model.settings | (msgspec.structs.asdict(known) if known is not None else {})
    return msgspec.structs.replace(model, settings={name: value for name, value in sent.items() if value is not None})


def _unknown_keys(
    file: CheckedYaml, whole: _File, models: Sequence[_Model | None], agents: Mapping[str, _AnyAgent | None]
) -> Iterator[str]:
    """A warning for each key that nothing reads; settings pass through and are not among them."""
    given = _present(file.data)
    unknown = [
        *file.unknown_keys(whole, given, ()),
        *file.unknown_keys(models, given.get("models", []), ("models",)),
        *(found for name, agent in agents.items() for found in file.unknown_keys(agent, given["agents"][name], ("agents", name))),
    ]
    for key, where, known in unknown:
        yield f"{file.path}, line {file.line(where)}: the key {key!r} is not known{did_you_mean(key, known)}"


def _in_our_words(
    file: CheckedYaml, whole: _File, entries: Sequence[_Model], agents: Mapping[str, _AnyAgent | None], warnings: tuple[str, ...]
) -> Config:
    models: dict[str, ModelRef] = {}
    disabled: list[str] = []
    for i, entry in enumerate(entries):
        place = f"{file.path}, line {file.line(('models', i, 'name'))}"
        if entry.name in models or entry.name in disabled:
            raise ConfigError(f"{place}: models.{i}.name: {entry.name!r} is used twice; every model needs a name of its own")
        if not entry.enabled:
            disabled.append(entry.name)
            continue
        models[entry.name] = _ref(entry, place)
    categories = dict(whole.categories)
    for model in models.values():
        for name in model.categories:
            categories[name] = tuple(dict.fromkeys((*categories.get(name, ()), model.label)))
    return Config(
        path=file.path,
        models=models,
        disabled=tuple(disabled),
        categories=categories,
        agents={name: msgspec.structs.asdict(agent) for name, agent in agents.items() if agent is not None},
        batch=whole.batch_settings,
        warnings=warnings,
    )


def _ref(entry: _Model, place: str) -> ModelRef:
    if not (is_known("providers", entry.provider) or names_code(entry.provider)):
        hint = did_you_mean(entry.provider, names("providers"))
        raise ConfigError(f"{place}: models.provider: there is no provider {entry.provider!r}{hint}")
    url, name = _expanded(entry.base_url, place), entry.model or entry.name
    refuse_password(url)
    is_compatible = entry.provider == "openai-api"
    base = (
        ModelRef(provider=entry.provider, name=name, label=entry.name) if is_compatible else make_ref(entry.provider, name, url)
    )
    return replace(
        base,
        label=entry.name,
        display_name=entry.display_name,
        settings=entry.settings,
        base_url=url or base.base_url,
        key_variable=_variable(entry.api_key, place) or base.key_variable,
        context_window=entry.context_window,
        price=_price(entry.price) if entry.price else None,
        limits=Limits(rpm=entry.limits.rpm, tpm=entry.limits.tpm),
        categories=entry.categories,
    )


def _price(price: _Price) -> Price:
    return Price(input_usd=price.input, output_usd=price.output, cached_usd=price.cached, cache_write_usd=price.cache_write)


def _variable(api_key: str, place: str) -> str:
    """The variable a key is in. A key itself does not belong into a file that is shared."""
    if not api_key:
        return ""
    match = _VARIABLE.fullmatch(api_key.strip())
    if match is None:
        raise ConfigError(f'{place}: models.api_key: name the variable that holds the key, as in "${{OPENAI_API_KEY}}"')
    return match[1]


def _expanded(text: str, place: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ConfigError(f"{place}: models.base_url: the variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)
