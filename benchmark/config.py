"""models_config.yaml, the environment and a .env file, checked once and named when wrong."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmark.core.errors import BenchmarkError, ConfigError
from benchmark.core.model import Limits, ModelRef, Price
from benchmark.core.protocols import Endpoint
from benchmark.registry import Catalog, did_you_mean, make_ref, names, plugin, provider_class

FILE_NAME = "models_config.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DETECT_S = 1.0
_DETECTED_FOR_S = 10.0
_detected: dict[str, tuple[float, Mapping[str, str]]] = {}
"""What each Ollama server had when it was last asked: one command asks for many names."""


class _Settings(BaseModel):
    """Settings sent to the model; only those that are written here are sent."""

    model_config = ConfigDict(extra="allow", strict=True)
    temperature: float | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, gt=0)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None


class _Price(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(extra="allow")
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(None, ge=0)


class _Limits(BaseModel):
    """What the account may send to the model in a minute."""

    model_config = ConfigDict(extra="allow", strict=True)
    rpm: int | None = Field(None, gt=0)
    tpm: int | None = Field(None, gt=0)


class _Model(BaseModel):
    """One entry under `models`."""

    model_config = ConfigDict(extra="allow", strict=True)
    name: str = Field(min_length=1)
    provider: str
    model: str = ""
    display_name: str = ""
    enabled: bool = True
    api_key: str = ""
    base_url: str = ""
    context_window: int | None = Field(None, gt=0)
    price: _Price | None = None
    limits: _Limits = _Limits()
    categories: list[str] = []
    settings: _Settings = _Settings()


class BatchSettings(BaseModel):
    """Defaults for running several models."""

    model_config = ConfigDict(extra="allow")
    default_timeout: float | None = Field(None, gt=0)
    max_parallel: int = Field(4, gt=0)
    retry_on_failure: bool = True
    max_retries: int = Field(5, ge=0)
    save_intermediate: bool = True
    show_progress: bool = True
    verbose: bool = False


class _Agent(BaseModel):
    """One entry under `agents`: a coding agent by the command that runs it."""

    model_config = ConfigDict(extra="allow", strict=True)
    command: str = Field(min_length=1)
    follow_up: str = ""
    env: dict[str, str] = {}
    install: str = ""
    min_context: int = Field(4096, gt=0)
    permissions: str = ""


class _File(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="allow")
    agents: dict[str, _Agent] = {}
    models: list[_Model] = []
    categories: dict[str, list[str]] = {}
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
    data, lines = _read_yaml(found)
    try:
        parsed = _File.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explained(found, error, lines)) from None
    warnings = tuple(_unknown_keys(found, parsed, (), lines))
    return _in_our_words(found, parsed, lines, warnings)


def read_mapping(path: Path) -> Mapping[str, str]:
    """A YAML file of names and what they stand for."""
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    data, lines = _read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}, line 1: a mapping is needed, as in `question: input`")
    for key, value in data.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(f"{path}, line {lines.get((key,), 1)}: {key}: a name is needed (it is {value!r})")
    return data


def current_catalog() -> Catalog:
    """Every model that can be named here and now."""
    return load_config().catalog(detect=True)


def results_root() -> Path:
    """Where runs are kept: below the working folder, never inside an installed package."""
    return Path("benchmark") / "results"


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

_Where = tuple[str | int, ...]
_Lines = dict[_Where, int]


def _find(path: Path | None) -> Path | None:
    if path is not None:
        if not path.is_file():
            raise ConfigError(f"there is no configuration file {path}")
        return path
    places = (Path(FILE_NAME), Path("benchmark") / FILE_NAME, Path(__file__).parent / FILE_NAME)
    return next((place for place in places if place.is_file()), None)


def _read_yaml(path: Path) -> tuple[Any, _Lines]:
    """The file's data and the line of every key in it."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}, line {line}: not readable as YAML: {error.problem}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    lines: _Lines = {}
    return (_data(node, (), lines, path) if node is not None else {}), lines


def _data(node: yaml.Node, where: _Where, lines: _Lines, path: Path) -> Any:
    lines[where] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _data(key_node, (*where, "?"), lines, path)
            if key in result:
                raise ConfigError(f"{path}, line {key_node.start_mark.line + 1}: the key {key!r} stands twice")
            result[key] = _data(value_node, (*where, key), lines, path)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_data(item, (*where, i), lines, path) for i, item in enumerate(node.value)]
    return yaml.SafeLoader("").construct_object(node)


def _explained(path: Path, error: ValidationError, lines: _Lines) -> str:
    """The first mistakes with their place, one a line."""
    found = []
    for item in error.errors()[:5]:
        where = tuple(item["loc"])
        known = next((where[:n] for n in range(len(where), -1, -1) if where[:n] in lines), ())
        key = ".".join(map(str, where)) or "the file"
        given = "" if item["type"] == "missing" else f" (it is {item['input']!r})"
        found.append(f"{path}, line {lines.get(known, 1)}: {key}: {item['msg'].lower()}{given}")
    return "\n".join(found)


def _unknown_keys(path: Path, part: BaseModel, where: _Where, lines: _Lines) -> Iterator[str]:
    """A warning for each key that nothing reads; settings pass through and are not among them."""
    if isinstance(part, _Settings):
        return
    known = type(part).model_fields
    for key in part.model_extra or {}:
        line = lines.get((*where, key), 1)
        yield f"{path}, line {line}: the key {key!r} is not known{did_you_mean(key, known)}"
    for name in known:
        value = getattr(part, name)
        if isinstance(value, BaseModel):
            yield from _unknown_keys(path, value, (*where, name), lines)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from _unknown_keys(path, item, (*where, name, i), lines)


def _in_our_words(path: Path, parsed: _File, lines: _Lines, warnings: tuple[str, ...]) -> Config:
    models: dict[str, ModelRef] = {}
    disabled: list[str] = []
    for i, entry in enumerate(parsed.models):
        place = f"{path}, line {lines.get(('models', i, 'name'), 1)}"
        if entry.name in models or entry.name in disabled:
            raise ConfigError(f"{place}: models.{i}.name: {entry.name!r} is used twice; every model needs a name of its own")
        if not entry.enabled:
            disabled.append(entry.name)
            continue
        models[entry.name] = _ref(entry, place)
    categories = {name: tuple(members) for name, members in parsed.categories.items()}
    for model in models.values():
        for name in model.categories:
            categories[name] = tuple(dict.fromkeys((*categories.get(name, ()), model.label)))
    return Config(
        path=path,
        models=models,
        disabled=tuple(disabled),
        categories=categories,
        agents={name: agent.model_dump(include=set(_Agent.model_fields)) for name, agent in parsed.agents.items()},
        batch=parsed.batch_settings,
        warnings=warnings,
    )


def _ref(entry: _Model, place: str) -> ModelRef:
    if entry.provider not in names("providers"):
        hint = did_you_mean(entry.provider, names("providers"))
        raise ConfigError(f"{place}: models.provider: there is no provider {entry.provider!r}{hint}")
    price = entry.price
    base = make_ref(entry.provider, entry.model or entry.name) if entry.provider != "openai-api" else _compatible(entry)
    return replace(
        base,
        label=entry.name,
        display_name=entry.display_name,
        settings=entry.settings.model_dump(exclude_none=True),
        base_url=_expanded(entry.base_url, place) or base.base_url,
        key_variable=_variable(entry.api_key, place) or base.key_variable,
        context_window=entry.context_window,
        price=Price(input_usd=price.input, output_usd=price.output, cached_usd=price.cached) if price else None,
        limits=Limits(rpm=entry.limits.rpm, tpm=entry.limits.tpm),
        categories=tuple(entry.categories),
    )


def _compatible(entry: _Model) -> ModelRef:
    return ModelRef(provider="openai-api", name=entry.model or entry.name, label=entry.name, base_url=entry.base_url)


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
