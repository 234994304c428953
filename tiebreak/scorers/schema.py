"""Answers that must be JSON of a certain shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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


class JsonSchema:
    """Right when the answer is JSON that follows the schema: of a file (`json_schema:FILE`), of the sample, or any JSON."""

    version: ClassVar[int] = 2

    def __init__(self, path: str = "") -> None:
        self._schema = _read(Path(path).expanduser()) if path else None

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Parse the answer, or what is fenced in it, and check its shape."""
        if output.outcome is Outcome.CUT_OFF:
            return Score.of(False, answer=None, because="cut off by the length limit")
        found, data = _json_in(answer_text(output.text).strip())
        if not found:
            return Score.of(False, answer=shown(output.text), because="no JSON")
        schema = self._schema if self._schema is not None else sample.metadata.get("schema", {})
        wrong = fault(data, schema)
        return Score.of(not wrong, answer=json.dumps(data)[:200], because=wrong or "follows the schema")


def _json_in(text: str) -> tuple[bool, Any]:
    for candidate in (text, *(fenced[1] for fenced in _FENCED.finditer(text))):
        try:
            return True, json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return False, None


def fault(data: Any, schema: Any) -> str:
    """Where the data does not follow the schema, or nothing."""
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
    return f"{error.json_path}: {error.message}"[:300] if error else ""


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
