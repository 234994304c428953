"""Answers that must be JSON of a certain shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from tiebreak.core.errors import UsageError
from tiebreak.core.extras import optional
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Outcome, Output, Score
from tiebreak.scorers.answers import shown
from tiebreak.scorers.patterns import compiled

_FENCED = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)

_KINDS = {"additionalProperties": "extra keys", "unevaluatedProperties": "extra keys", "required": "missing keys"}


class JsonSchema:
    """Right when the answer is JSON that follows the schema: of a file (`json_schema:FILE`), of the sample, or any JSON.

    Where a row with `response_schema` has a target too, the values must also be the target's.
    """

    version: ClassVar[int] = 3

    def __init__(self, path: str = "") -> None:
        self._schema = _read(Path(path).expanduser()) if path else None

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Parse the answer, or what is fenced in it, and check its shape."""
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because="cut off by the length limit")
        found, data = _json_in(answer_text(output.text).strip())
        if not found:
            return Score.of(False, answer=shown(output.text), because="invalid JSON")
        schema = self._schema if self._schema is not None else sample.metadata.get("schema", {})
        wrong = _misfit(data, schema)
        if not wrong and "expected_json" in sample.metadata:
            wrong = _wrong_value(data, sample.metadata["expected_json"], "$")
        return Score.of(not wrong, answer=json.dumps(data)[:200], because=wrong or "follows the schema")


def _json_in(text: str) -> tuple[bool, Any]:
    for candidate in (text, *(fenced[1] for fenced in _FENCED.finditer(text))):
        try:
            return True, json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return False, None


def _misfit(data: Any, schema: Any) -> str:
    """Where the data does not follow the schema, with the kind of mistake first: extra keys, missing keys, wrong values."""
    return _fault(data, schema, lambda error: _KINDS.get(str(error.validator), "wrong value") + " at ")


def _wrong_value(data: Any, expected: Any, path: str) -> str:
    """The first place where a value is not the expected one, or nothing."""
    if isinstance(data, dict) and isinstance(expected, dict):
        if extra := [name for name in data if name not in expected]:
            return f"extra keys at {path}: {', '.join(map(repr, extra))}"[:300]
        if missing := [name for name in expected if name not in data]:
            return f"missing keys at {path}: {', '.join(map(repr, missing))}"[:300]
        return next(filter(None, (_wrong_value(data[name], expected[name], f"{path}.{name}") for name in expected)), "")
    if isinstance(data, list) and isinstance(expected, list) and len(data) == len(expected):
        pairs = enumerate(zip(data, expected, strict=True))
        return next(filter(None, (_wrong_value(one, other, f"{path}[{place}]") for place, (one, other) in pairs)), "")
    # In JSON, true is not 1.
    same = data == expected and isinstance(data, bool) == isinstance(expected, bool)
    return "" if same else f"wrong value at {path}: {json.dumps(data)[:100]}, expected {json.dumps(expected)[:100]}"


def fault(data: Any, schema: Any) -> str:
    """Where the data does not follow the schema, or nothing."""
    return _fault(data, schema, lambda error: "")


def _fault(data: Any, schema: Any, kind_of: Callable[[Any], str]) -> str:
    library = optional("jsonschema", extra="scorers", needed_by="json_schema")
    try:
        validator = library.validators.validator_for(schema)
        validator.check_schema(schema)
        bounded = library.validators.extend(validator, {"pattern": _pattern, "patternProperties": _pattern_properties})
        error = library.exceptions.best_match(bounded(schema).iter_errors(data))
    except library.SchemaError as wrong:
        raise UsageError(f"the JSON schema itself is wrong: {wrong.message}") from None
    except RecursionError:
        return "nested too deeply"
    return f"{kind_of(error)}{error.json_path}: {error.message}"[:300] if error else ""


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `pattern`, in bounded time."""
    if validator.is_type(instance, "string") and not compiled(pattern).search(instance):
        library = optional("jsonschema", extra="scorers", needed_by="json_schema")
        yield library.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword `patternProperties`, in bounded time."""
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for name in filter(compiled(pattern).search, instance):
                yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no JSON schema can be read from it: {error}") from None
