"""Rows of public sets with images, tools and dialogues, in our words."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

COLUMNS = frozenset({"function", "ground_truth", "conversations", "question_type"})
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
"""BFCL's names of types, which are Python's, and JSON schema's."""
_IRRELEVANT = re.compile(r"irrelevance")
_HUMAN, _MODEL = ("human", "user"), ("gpt", "assistant", "chatgpt", "model")


def in_our_words(row: Row) -> Row:
    """The row, or what it says in our columns where it is of a layout that is known."""
    if "function" in row and "question" in row:
        return _from_bfcl(row)
    if "conversations" in row:
        return _from_sharegpt(row)
    if "question_type" in row and isinstance(row.get("options"), str):
        return _from_mmmu(row)
    return row


def _from_bfcl(row: Row) -> Row:
    """Functions as tools; of the answers every value is a list of accepted ones, in which "" says: may be left out."""
    functions = row["function"] if isinstance(row["function"], list) else [row["function"]]
    rest = {name: value for name, value in row.items() if name not in ("function", "question", "ground_truth")}
    turns = row["question"]
    messages = turns[0] if isinstance(turns, list) and turns and isinstance(turns[0], list) else turns
    if isinstance(turns, list) and len(turns) > 1 and isinstance(turns[0], list):
        raise ValueError("field 'question' has several turns, and of BFCL only the sets of one turn are known")
    return {
        "scorer": "tool_calls:bfcl",
        **rest,
        "input": messages,
        "tools": [_tool(function) for function in functions],
        "expected_calls": _calls(row),
    }


def _tool(function: Any) -> Any:
    if not isinstance(function, dict):
        return function
    parameters = _schema(function.get("parameters") or {})
    return {**function, "name": _name(str(function.get("name", ""))), "parameters": parameters}


def _schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    typed = {"type": _TYPES.get(kind, kind)} if isinstance(kind, str) else {}
    return {name: _schema(inner) for name, inner in schema.items()} | typed


def _calls(row: Row) -> list[Any]:
    given = row.get("ground_truth")
    if given is None:
        if _IRRELEVANT.search(str(row.get("id", ""))):
            return []
        raise ValueError("field 'ground_truth' is missing: put BFCL's possible answers into the rows")
    if not isinstance(given, list) or not all(isinstance(call, dict) and len(call) == 1 for call in given):
        raise ValueError("field 'ground_truth' must list calls, each by the function's name")
    return [
        {"name": _name(name), "arguments": {argument: _accepted(values) for argument, values in arguments.items()}}
        for call in given
        for name, arguments in call.items()
    ]


def _accepted(values: Any) -> list[Any]:
    listed = values if isinstance(values, list) else [values]
    return [*listed, None] if "" in listed else listed


def _name(name: str) -> str:
    return name.replace(".", "_")


def _from_sharegpt(row: Row) -> Row:
    """What the human says, turn by turn; what the model said last is the target, where the row names none."""
    said = row["conversations"]
    if not isinstance(said, list) or not all(isinstance(turn, dict) and isinstance(turn.get("value"), str) for turn in said):
        raise ValueError("field 'conversations' must list turns of 'from' and 'value'")
    rest = {name: value for name, value in row.items() if name != "conversations"}
    told = [turn["value"] for turn in said if turn.get("from") == "system"]
    turns = [turn["value"] for turn in said if turn.get("from") in _HUMAN]
    answers = [turn["value"] for turn in said if turn.get("from") in _MODEL]
    made = {"turns": turns} | ({"system": told[0]} if told else {}) | ({"target": answers[-1]} if answers else {})
    return made | rest


def _from_mmmu(row: Row) -> Row:
    """Its choices are a list as Python writes it, an empty one for free answers."""
    try:
        options = ast.literal_eval(row["options"])
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return row
    rest = {name: value for name, value in row.items() if name != "options"}
    return {**rest, "options": options} if options else rest
