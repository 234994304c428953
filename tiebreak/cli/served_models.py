"""What models the servers of providers say they have now."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tiebreak.core.errors import BenchmarkError
from tiebreak.core.protocols import Endpoint
from tiebreak.core.redact import Redactor
from tiebreak.registry import make_ref, provider_class

_DEADLINE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one provider's server answered, or why it did not."""

    url: str = ""
    models: tuple[str, ...] = ()
    problem: str = ""


def missing_key(provider: str) -> str:
    """What to set before a provider can be asked; nothing when it can."""
    variables = provider_class(provider).key_variables
    if provider_class(provider).local or not variables or any(os.environ.get(name) for name in variables):
        return ""
    return f"set {' or '.join(variables)}"


def served_models(providers: Iterable[str], deadline_s: float = _DEADLINE_S) -> Mapping[str, Served]:
    """The models of each provider, all asked at once.

    Each in a thread of its own, which is left behind at the deadline: a plugin may wait without letting others go on.
    """
    answers = {name: Served(problem="it did not answer in time") for name in providers}
    threads = [threading.Thread(target=_note, args=(name, answers), daemon=True) for name in answers]
    for thread in threads:
        thread.start()
    end = time.monotonic() + deadline_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(answers)


def _note(provider: str, answers: dict[str, Served]) -> None:
    answers[provider] = _ask(provider)


def _ask(provider: str) -> Served:
    key, url = "", ""
    try:
        model = make_ref(provider, "any")
        key = os.environ.get(model.key_variable, "") if model.key_variable else ""
        url = model.base_url or str(getattr(provider_class(provider), "default_url", ""))
        models = asyncio.run(_list_models(provider, Endpoint(base_url=model.base_url, api_key=key, max_connections=1)))
    except BenchmarkError as error:
        return Served(url=url, problem=Redactor((key,))(str(error)))
    except Exception as error:  # A plugin's own: one line, whatever it is.
        return Served(url=url, problem=Redactor((key,))(f"{type(error).__name__}: {error}"))
    return Served(url=url, models=tuple(models))


async def _list_models(provider: str, endpoint: Endpoint) -> list[str]:
    server: Any = provider_class(provider)(endpoint)
    try:
        return [str(name) for name in await server.list_models()]
    finally:
        await server.close()
