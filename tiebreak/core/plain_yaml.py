"""YAML that others wrote, in files that may come from anywhere: read in time and memory that its length bounds."""

from __future__ import annotations

from typing import Any

import yaml

LARGEST_CHARACTERS = 1 << 20
_DEEPEST = 50
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where PyYAML was built with its C library."""


def load_plain(text: str) -> Any:
    """The data in a text; yaml.YAMLError where it cannot be read, or means more than it says."""
    _scan(text, aliases=False)
    loader = _LOADER(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def compose_plain(text: str) -> yaml.Node | None:
    """The nodes of a text, with the line of each. Aliases are read: whoever walks the nodes counts them."""
    _scan(text, aliases=True)
    node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    return node


def _scan(text: str, *, aliases: bool) -> None:
    """Refuse what is too long, nested too deeply, or repeats itself by aliases, before anything is made of it."""
    if len(text) > LARGEST_CHARACTERS:
        raise yaml.YAMLError(f"longer than {LARGEST_CHARACTERS:,} characters")
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _error(f"nested more than {_DEEPEST} deep", event)
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise _error("aliases (*name) are not read here", event)


def _error(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
