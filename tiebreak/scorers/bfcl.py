"""Whether a call is right by the rules of the Berkeley function-calling leaderboard, as its own checker applies them.

Every expected argument is a list of accepted values, in which "" says that it may be left out. A value must have the type that
the function's description gives, or that of the first accepted value. Texts are compared without case and some punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

OPTIONAL = ""
_LOOSE = re.compile(r"[ ,./\-_*^]")
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}

Accepted = Sequence[Any]


def wrong_argument(given: Mapping[str, Any], accepted: Mapping[str, Accepted], schema: Mapping[str, Any]) -> str:
    """The first argument that is not as it should be; empty where all are."""
    described = schema.get("properties") or {name: {} for name in accepted}
    for name in schema.get("required") or ():
        if name not in given:
            return str(name)
    for name, value in given.items():
        if name not in described or name not in accepted or not _is_accepted(value, accepted[name], described[name]):
            return name
    return next((name for name, values in accepted.items() if name not in given and OPTIONAL not in values), "")


def _is_accepted(value: Any, accepted: Accepted, described: Mapping[str, Any]) -> bool:
    usual = _type_of_first(accepted)
    kind: Any = _TYPES.get(str(described.get("type")), usual or str)
    inner = _TYPES.get(str((described.get("items") or {}).get("type")), str) if kind is list else None
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is kind and inner and not _has_items(value, accepted, inner):
        return False
    if type(value) is not kind or usual not in (None, kind):
        # Of another type than described: right where the first accepted value has it too.
        return type(value) in (kind, usual) and value in accepted
    if kind is dict:
        return _is_accepted_object(value, accepted)
    if kind is list and inner is dict:
        return any(_are_accepted_objects(value, one) for one in accepted if isinstance(one, list))
    return _folded(value) in [_folded(one) for one in accepted if not (kind is list and one == OPTIONAL)]


def _type_of_first(accepted: Accepted) -> type | None:
    return next((type(one) for one in accepted if one != OPTIONAL), None)


def _has_items(value: Sequence[Any], accepted: Accepted, inner: type) -> bool:
    """Whether the items have the type described, or that of the items of some accepted list."""
    return any(not isinstance(one, list) or all(type(own) in (inner, _type_of_first(one)) for own in value) for one in accepted)


def _is_accepted_object(value: Mapping[str, Any], accepted: Accepted) -> bool:
    return any(_fits(value, one) for one in accepted if isinstance(one, Mapping))


def _are_accepted_objects(value: Sequence[Any], accepted: Sequence[Any]) -> bool:
    pairs = zip(value, accepted, strict=False)
    return len(value) == len(accepted) and all(isinstance(own, Mapping) and _fits(own, one) for own, one in pairs)


def _fits(value: Mapping[str, Any], accepted: Any) -> bool:
    """Whether every member is one of those accepted for it; what stands deeper must be equal."""
    if not isinstance(accepted, Mapping) or not value.keys() <= accepted.keys():
        return False
    listed = {name: own if isinstance(own, list) else [own] for name, own in accepted.items()}
    return all(
        _folded_text(value[name]) in map(_folded_text, own) if name in value else OPTIONAL in own for name, own in listed.items()
    )


def _folded(value: Any) -> Any:
    return [_folded_text(one) for one in value] if isinstance(value, list) else _folded_text(value)


def _folded_text(value: Any) -> Any:
    return _LOOSE.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value
