"""YAML that others wrote, in files that may come from anywhere: read in time and memory that its length bounds."""

from __future__ import annotations

import re
from typing import Any

import yaml

LARGEST_CHARACTERS = 1 << 20
_DEEPEST = 50
_MOST_EVENTS = 50_000
"""Values, and beginnings and ends of lists and mappings; reading so many takes a few tenths of a second."""
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)|[-+]?[0-9][0-9_]*\.[0-9_]*[eE]\+0*[1-9][0-9]{2,}")
"""Numbers as YAML reads them that are none, or larger than anything that can be counted."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where PyYAML was built with its C library."""

_BAD_VALUES = (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError)
"""What PyYAML lets through of values it cannot make: `!!int x`, `!!int` of nothing, the 45th of a month."""


def load_plain(text: str) -> Any:
    """The data in a text; yaml.YAMLError where it cannot be read, or means more than it says."""
    _scan(text, aliases=False)
    loader = _LOADER(text)
    try:
        return loader.get_single_data()
    except _BAD_VALUES as error:
        raise yaml.YAMLError(f"a value is not what its tag or its form says: {error}") from None
    finally:
        loader.dispose()


def compose_plain(text: str) -> yaml.Node | None:
    """The nodes of a text, with the line of each. Aliases are read: whoever walks the nodes counts them."""
    _scan(text, aliases=True)
    node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    return node


def scalar(node: yaml.Node) -> Any:
    """The value of a node that holds no others; yaml.MarkedYAMLError where its tag is unknown or does not fit."""
    try:
        return yaml.SafeLoader("").construct_object(node)
    except _BAD_VALUES as error:
        problem = f"{node.value!r} is not what its tag or its form says: {error}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None


def _scan(text: str, *, aliases: bool) -> None:
    """Refuse what is too long, nested too deeply, or repeats itself by aliases, before anything is made of it."""
    if len(text) > LARGEST_CHARACTERS:
        raise yaml.YAMLError(f"longer than {LARGEST_CHARACTERS:,} characters")
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_LOADER)):
        if count > _MOST_EVENTS:
            raise _error(f"more than {_MOST_EVENTS:,} values", event)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _error(f"nested more than {_DEEPEST} deep", event)
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _ENDLESS.fullmatch(event.value):
            raise _error(f"{event.value} is no number that means anything here; in quotes it is a text", event)
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise _error("aliases (*name) are not read here", event)


def _error(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
