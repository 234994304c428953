"""BFCL's own checker and data, out of its package: an oracle for calls of tools that was written elsewhere."""

from __future__ import annotations

import copy
import importlib
import json
import os
import random
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("BFCL_PACKAGE", ".bfcl/package"))
"""The unpacked wheel of bfcl-eval."""
SETS = (
    *("simple_python", "multiple", "parallel", "parallel_multiple"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
)
Call = dict[str, dict[str, Any]]


def checker() -> Any:
    """`ast_checker`, for a model that writes `_` in the names of functions where BFCL has a dot."""
    if "bfcl_eval.constants.model_config" not in sys.modules:
        sys.path.append(str(FOLDER))
        # The table of BFCL's models imports the client of each of them; the checker asks it one thing.
        config = types.ModuleType("bfcl_eval.constants.model_config")
        config.MODEL_CONFIG_MAPPING = {"any": types.SimpleNamespace(underscore_to_dot=True)}  # type: ignore[attr-defined]
        sys.modules["bfcl_eval.constants.model_config"] = config
    found = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker
    python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON

    def valid(row: Mapping[str, Any], calls: list[Call], category: str) -> bool:
        if not calls:
            return False
        return bool(found(row["function"], copy.deepcopy(calls), row["ground_truth"], python, category, "any")["valid"])

    return valid


def rows(category: str) -> Iterator[dict[str, Any]]:
    """The rows of a set, with their answers."""
    read = [FOLDER / "bfcl_eval" / "data" / part / f"BFCL_v4_{category}.json" for part in ("", "possible_answer")]
    questions, answers = ([json.loads(line) for line in path.read_text().splitlines()] for path in read)
    truths = {answer["id"]: answer["ground_truth"] for answer in answers}
    yield from ({**row, "ground_truth": truths[row["id"]]} for row in questions)


def right_calls(row: Mapping[str, Any], chance: random.Random) -> list[Call]:
    """Calls that are right by the row: of every argument one accepted value, or none where it may be left out."""
    calls = []
    for truth in row["ground_truth"]:
        ((name, arguments),) = truth.items()
        made = {}
        for argument, accepted in arguments.items():
            values = [value for value in accepted if value != ""]
            if values and ("" not in accepted or chance.random() < 0.5):
                made[argument] = _plain(chance.choice(values), chance)
        calls.append({name.replace(".", "_"): made})
    return calls


def _plain(value: Any, chance: random.Random) -> Any:
    """A value as a model writes it: inside an object BFCL lists accepted values too."""
    if isinstance(value, dict):
        made = {}
        for name, accepted in value.items():
            values = [own for own in accepted if own != ""] if isinstance(accepted, list) else [accepted]
            if values and not (isinstance(accepted, list) and "" in accepted and chance.random() < 0.5):
                made[name] = _plain(chance.choice(values), chance)
        return made
    return [_plain(own, chance) for own in value] if isinstance(value, list) else value


def perturbed(calls: list[Call], chance: random.Random) -> tuple[str, list[Call]]:
    """The calls with one thing changed, and what that is."""
    made = copy.deepcopy(calls)
    place = chance.randrange(len(made))
    ((name, arguments),) = made[place].items()
    kind = chance.choice(KINDS)
    if kind == "other name":
        made[place] = {f"{name}_x": arguments}
    elif kind == "left out":
        del made[place]
    elif kind == "twice":
        made.insert(chance.randrange(len(made) + 1), copy.deepcopy(made[place]))
    elif kind == "other order":
        chance.shuffle(made)
    elif kind == "one more argument":
        arguments["not_asked_for"] = 1
    elif arguments:
        argument = chance.choice(sorted(arguments))
        if kind == "without an argument":
            del arguments[argument]
        else:
            arguments[argument] = _changed(arguments[argument], kind, chance)
    return kind, made


KINDS = (
    *("other name", "left out", "twice", "other order", "one more argument", "without an argument"),
    *("other value", "other spelling", "other type"),
)


def _changed(value: Any, kind: str, chance: random.Random) -> Any:
    if isinstance(value, list):
        return _changed_list(value, kind, chance)
    if isinstance(value, dict):
        return _changed_object(value, kind, chance)
    if kind == "other type":
        return _of_other_type(value, chance)
    if isinstance(value, bool):
        return not value if kind == "other value" else value
    if isinstance(value, int | float):
        return value + 1 if kind == "other value" else value
    if kind == "other value" or value is None:
        return f"{value} indeed"
    return chance.choice(
        [value.upper(), value.lower(), value.replace(", ", ","), f" {value} ", value.replace(" ", "-"), f"{value}."]
    )


def _of_other_type(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return chance.choice([str(value), int(value)])
    if isinstance(value, int):
        return chance.choice([float(value), str(value)])
    if isinstance(value, float):
        return str(value) if not value.is_integer() else chance.choice([int(value), str(value)])
    return chance.choice([[value], None, 1])


def _changed_list(value: list[Any], kind: str, chance: random.Random) -> Any:
    if not value or chance.random() < 0.3:
        return [*value, *value[:1]] if kind == "other value" else value[::-1] if kind == "other spelling" else str(value)
    place = chance.randrange(len(value))
    return [*value[:place], _changed(value[place], kind, chance), *value[place + 1 :]]


def _changed_object(value: dict[str, Any], kind: str, chance: random.Random) -> Any:
    if not value:
        return {"more": 1}
    name = chance.choice(sorted(value))
    if chance.random() < 0.3:
        return {own: value[own] for own in value if own != name} if kind == "other value" else {**value, "more": 1}
    return {**value, name: _changed(value[name], kind, chance)}
