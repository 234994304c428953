"""Twins of tests: the same tests with one thing claimed that is not so, which therefore must fail.

A test that runs in one interpreter with the work believes whatever the work has made of that interpreter. So every test
is run twice, once as it is and once as its twin, and which is which differs from process to process. Whoever has all
tests reported as passed, has assertions believe everything, or answers with objects that equal everything, has the
twins pass too; and that is found out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_OTHER = (
    "(lambda value: -value or 1 if type(value) in (int, float) else value + '~' if type(value) is str else "
    "value + b'~' if type(value) is bytes else not value if type(value) is bool else object())({})"
)
"""Something else than a value, of its own kind where that is possible."""
_EXCUSE = re.compile(r"skip|xfail|expectedFailure")
_NOBODY_RAISES = "type('Missing', (Exception,), {})"
_OPPOSITES = {
    **{f"assert{name}": f"assertNot{name}" for name in ("In", "IsInstance", "Regex", "AlmostEqual")},
    **{f"assertNot{name}": f"assert{name}" for name in ("In", "IsInstance", "Regex", "AlmostEqual", "Equal")},
    **{"assertTrue": "assertFalse", "assertFalse": "assertTrue", "assertIs": "assertIsNot", "assertIsNot": "assertIs"},
    **{"assertIsNone": "assertIsNotNone", "assertIsNotNone": "assertIsNone"},
    **{"assertLess": "assertGreaterEqual", "assertGreaterEqual": "assertLess"},
    **{"assertGreater": "assertLessEqual", "assertLessEqual": "assertGreater"},
}
_EQUALITIES = frozenset(
    ("assertEqual", *(f"assert{kind}Equal" for kind in ("List", "Dict", "Tuple", "Set", "Sequence", "MultiLine")))
)
_RAISES = frozenset(("raises", "assertRaises", "assertRaisesRegex"))


@dataclass(frozen=True)
class Edit:
    """A part of a text, in bytes, and what takes its place."""

    begin: int
    end: int
    text: str


def test_functions(source: str) -> list[str]:
    """The tests a file defines, as `name` or `Class::name`; a file that is no Python defines none."""
    return [name for name, _ in _found(source)]


def excused(source: str) -> list[str]:
    """The tests that a file may skip or expect to fail by itself: their own text says so, or the file's does."""
    texts = [(name, _text_of(source, function)) for name, function in _found(source)]
    rest = source
    for _, text in texts:
        rest = rest.replace(text, "")
    return [name for name, text in texts if _EXCUSE.search(text) or _EXCUSE.search(rest)]


def _text_of(source: str, function: _Function) -> str:
    first = min((decorator.lineno for decorator in function.decorator_list), default=function.lineno)
    return "\n".join(source.split("\n")[first - 1 : function.end_lineno])


def twinned(source: str, chosen: Collection[str]) -> tuple[str, list[str]]:
    """The file with the chosen tests replaced by their twins, line for line; and which of them could be replaced."""
    text = source.encode()
    starts = _line_starts(text)
    edits: list[Edit] = []
    replaced: list[str] = []
    for name, function in _found(source):
        edit = _twin(function, text, starts) if name in chosen else None
        if edit is not None:
            edits.append(edit)
            replaced.append(name)
    for edit in sorted(edits, key=lambda edit: edit.begin, reverse=True):
        text = text[: edit.begin] + edit.text.encode() + text[edit.end :]
    return text.decode(), replaced


def _found(source: str) -> list[tuple[str, _Function]]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(_tests_in(tree.body, ""))


def _tests_in(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, _Function]]:
    for statement in body:
        if isinstance(statement, _Function) and statement.name.startswith("test"):
            yield f"{prefix}{statement.name}", statement
        elif isinstance(statement, ast.ClassDef) and (statement.name.startswith("Test") or statement.bases):
            yield from _tests_in(statement.body, f"{prefix}{statement.name}::")


def _line_starts(text: bytes) -> list[int]:
    starts = [0]
    for line in re.split(rb"(?<=\n)|(?<=\r)(?!\n)", text):
        starts.append(starts[-1] + len(line))
    return starts


def _twin(function: _Function, text: bytes, starts: list[int]) -> Edit | None:
    """The last claim that is surely reached, turned into its opposite; without any, one is added at the end."""
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
        return None

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def replaced(node: ast.expr, by: Callable[[str], str]) -> Edit:
        begin, end = span(node)
        return Edit(begin, end, by(text[begin:end].decode()))

    for statement in reversed(list(_surely_reached(function.body))):
        edit = _opposite(statement, replaced)
        if edit is not None:
            return edit
    last = function.body[-1]
    if any(isinstance(node, ast.Return) for node in ast.walk(function)) or isinstance(last, ast.Raise):
        return None
    if not isinstance(last, ast.Expr | ast.Assign | ast.Assert | ast.Pass):
        return None
    end = span(last)[1]
    return Edit(end, end, "; assert [] == [0]")


def _surely_reached(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whenever a function runs to its end."""
    for statement in body:
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            return
        yield statement
        if isinstance(statement, ast.With | ast.AsyncWith) and not any(map(_expects_error, statement.items)):
            yield from _surely_reached(statement.body)


def _name_called(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def _expects_error(item: ast.withitem) -> bool:
    name = _name_called(item.context_expr)
    return name in _RAISES or "suppress" in name


_Replaced = Callable[[ast.expr, Callable[[str], str]], Edit]


def _opposite(statement: ast.stmt, replaced: _Replaced) -> Edit | None:
    """The edit that makes a claim false where it was true; None for what claims nothing."""
    if isinstance(statement, ast.Assert):
        return _opposite_assertion(statement.test, replaced)
    if isinstance(statement, ast.With | ast.AsyncWith):
        calls = [item.context_expr for item in statement.items if _name_called(item.context_expr) in _RAISES]
        call = calls[0] if len(calls) == 1 else None
        return replaced(call.args[0], lambda _: _NOBODY_RAISES) if isinstance(call, ast.Call) and call.args else None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _opposite_call(statement.value, replaced)
    return None


def _opposite_assertion(test: ast.expr, replaced: _Replaced) -> Edit:
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        # Not the operator: an object that equals everything is found out by a value it should not equal.
        sides = (test.comparators[0], test.left)
        side = next((side for side in sides if isinstance(side, ast.Constant)), sides[0])
        return replaced(side, _another)
    return replaced(test, lambda text: f"not ({text})")


def _another(text: str) -> str:
    """An expression for something else than what an expression stands for."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _OTHER.format(f"({text})")
    if "\n" in text or isinstance(value, bool) or value is None:
        return _OTHER.format(f"({text})")
    if isinstance(value, int | float):
        return repr(-value or 1)
    if isinstance(value, str | bytes):
        return repr(value + (value[-1:] or (b"~" if isinstance(value, bytes) else "~")))  # type: ignore[operator]
    return f"[*({text}), None]" if isinstance(value, list) else _OTHER.format(f"({text})")


def _opposite_call(call: ast.Call, replaced: _Replaced) -> Edit | None:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    name = function.attr
    if name in _EQUALITIES and len(call.args) >= 2:
        return replaced(call.args[1], _another)
    if name in _OPPOSITES:
        return replaced(function, lambda text: text.removesuffix(name) + _OPPOSITES[name])
    if name in _RAISES and len(call.args) >= 2:
        return replaced(call.args[0], lambda _: _NOBODY_RAISES)
    return None
