"""From flags to models: every name checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tiebreak.config import Config
from tiebreak.core.embedded import is_ready
from tiebreak.core.errors import BenchmarkError, ModelError, UsageError
from tiebreak.core.model import ModelRef
from tiebreak.registry import (
    DEFAULT_MODELS,
    Catalog,
    check_key,
    did_you_mean,
    loadable,
    provider_class,
    spelled_provider,
)
from tiebreak.spec.flags import ModelFlags, split_models

EMBEDDED = "llama_cpp/smollm2-135m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What became of one typed name."""

    typed: str
    ref: ModelRef | None = None
    problem: str = ""


def needs_detection(flags: ModelFlags) -> bool:
    """Whether Ollama must be asked what it has: not when every name says its provider."""
    given = {ref.label for ref in flags.refs}
    typed = [name for name in (*flags.model, *split_models(flags.models or "")) if name not in given]
    plain = all(spelled_provider(name) not in ("", "ollama") for name in typed)
    return flags.all_models or flags.category is not None or not plain


def check_models(flags: ModelFlags, config: Config, catalog: Catalog, *, keys: bool = True) -> list[Check]:
    """Every model the flags name, resolved or with the reason why not; without `keys`, none need be set."""
    typed = dict.fromkeys(_typed(flags, config, catalog))
    given = {ref.label: partial(replace, ref) for ref in flags.refs}
    return [_check(name, given.get(name) or partial(catalog.resolve, name), keys=keys) for name in typed]


def with_settings(model: ModelRef, settings: Mapping[str, Any]) -> ModelRef:
    """The model with the command line's settings; what its own variant says stands."""
    if model.reference:
        return model
    asked = {name: value for name, value in settings.items() if value is not None and name not in model.variant}
    if "seed" in provider_class(model.provider).unsupported:
        asked.pop("seed", None)  # It still seeds the order of choices.
    return replace(model, settings={**model.settings, **asked})


def runnable_models(config: Config, catalog: Catalog) -> list[str]:
    """What --all-models means: Ollama's models, configured ones whose key is set; else the embedded model."""
    found = [f"ollama/{tag}" for tag in catalog.detected]
    configured = [(name, ref) for name, ref in config.models.items() if ref.provider != "ollama"]
    found += [name for name, ref in configured if not ref.key_variable or os.environ.get(ref.key_variable)]
    return found or ([EMBEDDED] if is_ready() else [])


def how_to_get_models(config: Config) -> str:
    """What to do when no model can run."""
    variables = sorted({v for p in loadable("providers") for v in provider_class(p).key_variables})
    place = config.path or "models_config.yaml"
    return (
        f"start Ollama and see `ollama list`, add a model to {place}, "
        f"or set a key: {', '.join(variables)}; the embedded model needs neither: --model {EMBEDDED}"
    )


def _typed(flags: ModelFlags, config: Config, catalog: Catalog) -> list[str]:
    typed = [*flags.model, *split_models(flags.models or "")]
    if flags.provider:
        typed.append(_default_of(flags.provider, catalog))
    if flags.category:
        typed += _in_category(flags.category, config, catalog)
    if flags.all_models:
        typed += runnable_models(config, catalog)
    if not typed and flags.all_models:
        raise ModelError(f"no model can run here: {how_to_get_models(config)}")
    if not typed:
        raise ModelError(f"no model was named: {_what_to_name(config, catalog)}")
    return typed


def _what_to_name(config: Config, catalog: Catalog) -> str:
    """The flag to add, with a model that can run here; else how to get one."""
    able = runnable_models(config, catalog)
    if not able:
        return how_to_get_models(config)
    others = " (--all-models takes every one that can run here)" if len(able) > 1 else ""
    return f"add --model {able[0]}, which can run here, or another{others}"


def _default_of(provider: str, catalog: Catalog) -> str:
    if provider == "ollama" and catalog.detected:
        return f"ollama/{next(iter(catalog.detected))}"
    if provider not in DEFAULT_MODELS:
        known = f"{did_you_mean(provider, DEFAULT_MODELS)}; there are {', '.join(DEFAULT_MODELS)}"
        raise UsageError(f"there is no provider {provider!r} with a default model{known}")
    return f"{provider}/{DEFAULT_MODELS[provider]}"


def _in_category(name: str, config: Config, catalog: Catalog) -> list[str]:
    """The category's models that can run here; the others are left out."""
    if name not in config.categories:
        known = ", ".join(config.categories) or "none"
        raise UsageError(f"there is no category {name!r}{did_you_mean(name, config.categories)}; there are {known}")
    members = config.categories[name]
    able = [member for member in members if _can_run(member, catalog)]
    if not able:
        raise ModelError(f"no model of the category {name!r} ({', '.join(members)}) can run here: {how_to_get_models(config)}")
    return able


def _can_run(name: str, catalog: Catalog) -> bool:
    ref = _check(name, partial(catalog.resolve, name)).ref
    return ref is not None and (ref.provider != "ollama" or ref.name in catalog.detected)


def _check(typed: str, resolve: Callable[[], ModelRef], *, keys: bool = True) -> Check:
    try:
        ref = resolve()
        if keys:
            check_key(ref)
    except BenchmarkError as error:
        return Check(typed=typed, problem=str(error))
    return Check(typed=typed, ref=ref)


def problems(checks: Sequence[Check]) -> list[Check]:
    """The names that cannot be used."""
    return [check for check in checks if check.ref is None]
