"""What a check of a plugin found, and what all checks have in common."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: as expected, not proven, or wrong."""

    mark: str
    text: str

    @property
    def is_wrong(self) -> bool:
        """Whether the engine cannot work with it."""
        return self.mark == "✗"


def passed(text: str) -> Finding:
    """As expected."""
    return Finding("✓", text)


def unproven(text: str) -> Finding:
    """Neither right nor wrong: it could not be tried here."""
    return Finding("–", text)


def wrong(text: str) -> Finding:
    """Not what the engine expects."""
    return Finding("✗", text)


@dataclass(frozen=True, slots=True)
class Attribute:
    """What an attribute must be."""

    name: str
    kind: str
    holds: Callable[[Any], bool]


def text(name: str) -> Attribute:
    """A string."""
    return Attribute(name, "a string", lambda value: isinstance(value, str))


def flag(name: str) -> Attribute:
    """True or False."""
    return Attribute(name, "True or False", lambda value: isinstance(value, bool))


def texts(name: str) -> Attribute:
    """A tuple of strings; a string alone is the usual mistake."""
    return Attribute(name, "a tuple of strings", lambda value: isinstance(value, tuple) and _all_text(value))


def words(name: str, known: Sequence[str] = ()) -> Attribute:
    """A frozenset of strings, of known ones where there are such."""

    def holds(value: Any) -> bool:
        return isinstance(value, frozenset) and _all_text(value) and (not known or (bool(value) and value <= set(known)))

    return Attribute(name, f"a frozenset of {' and '.join(known) or 'strings'}", holds)


def _all_text(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def check_attributes(thing: Any, attributes: Sequence[Attribute]) -> Iterator[Finding]:
    """A line for each attribute that is missing or of another type; one line when all are right."""
    problems = []
    for attribute in attributes:
        if not hasattr(thing, attribute.name):
            problems.append(wrong(f"it has no {attribute.name}, which should be {attribute.kind}"))
        elif not attribute.holds(value := getattr(thing, attribute.name)):
            problems.append(wrong(f"{attribute.name} should be {attribute.kind}; it is {short(value)}"))
    yield from problems or [passed(f"attributes: {', '.join(attribute.name for attribute in attributes)}")]


def check_methods(thing: Any, methods: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    """A line for each method that is missing, not async, or does not take the arguments it is given."""
    problems = []
    for name, arguments in methods.items():
        method = getattr(thing, name, None)
        if not callable(method):
            problems.append(wrong(f"it has no method {name}"))
        elif not inspect.iscoroutinefunction(method):
            problems.append(wrong(f"{name} should be declared with async def"))
        elif not _takes(method, arguments if inspect.ismethod(method) else ("self", *arguments)):
            problems.append(wrong(f"{name} should take ({', '.join(arguments)}); it is {name}{inspect.signature(method)}"))
    yield from problems or [passed(f"methods: {', '.join(methods)}")]


def _takes(method: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        return False
    return True


def run_within(seconds: float, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, or raise TimeoutError.

    In a thread of its own, which is left behind at the deadline: code that never awaits cannot be cancelled.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            results.append(asyncio.run(make()))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no result within {seconds:g} s")
    return results[0]


def short(value: Any) -> str:
    """A value in one short line."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}…"


def named(error: BaseException) -> str:
    """An error in one short line, its type first."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__
