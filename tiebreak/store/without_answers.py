"""A store seen without what was asked and answered: for reports that are published.

Views hide the tables of a connection. Whatever is then read, by whatever query, has no text of a question or an answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

_KEPT: Mapping[str, frozenset[str]] = {
    "samples": frozenset({"asked", "sample", "category", "grouped"}),
    "trials": frozenset({"id", "asked", "sample", "category", "outcome", "failure_kind", "finished_at", "unjudged"}),
    "ends": frozenset({"state", "at"}),
    "work": frozenset({"id", "finished_at"}),
    "judgements": frozenset({"trial", "scorer", "judge", "failure_kind", "at", "grades"}),
    "preferences": frozenset({"sample", "first", "second", "scorer", "judge", "failure_kind", "at"}),
}
"""Texts that stay: ids, names and kinds. A column that is added later is hidden until it is named here; numbers all stay."""
_HIDDEN_TABLES = ("blobs", "exchanges", "figures")
"""Nothing of these is left; figures are worked out anew, from what is."""
_EMPTY = {("samples", "choices"): "[]", ("samples", "metadata"): "{}", ("samples", "media"): "[]", ("work", "transcript"): "[]"}
_SCORES = "(SELECT json_group_object(key, json_object('value', json_extract(value, '$.value'))) FROM json_each(scores))"
_TEST = "json_object('id', '', 'status', json_extract(value, '$.status'), 'group', coalesce(json_extract(value, '$.group'), ''))"
_WORK = (
    "json_replace(work, '$.changes.diff', '', '$.check_output', '', '$.hosts', json('[]'), '$.changes.files',"
    " json((SELECT json_group_array('') FROM json_each(work, '$.changes.files'))),"
    f" '$.tests', json((SELECT json_group_array({_TEST}) FROM json_each(work, '$.tests'))))"
)
"""Files and tests are only counted: an agent may have chosen their names."""
_REWRITTEN = {("trials", "scores"): f"iif(scores IS NULL, NULL, {_SCORES})", ("work", "work"): _WORK}


def hide_answers(connection: sqlite3.Connection) -> None:
    """Have a connection find no text of a question, an answer or a judge."""
    for table in (*_KEPT, *_HIDDEN_TABLES):
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
        shown = ", ".join(f"{_shown(table, name, kind)} AS {name}" for name, kind in columns)
        nothing = " WHERE 0" if table in _HIDDEN_TABLES else ""
        connection.execute(f"CREATE TEMP VIEW {table} AS SELECT rowid AS rowid, {shown} FROM main.{table}{nothing}")


def _shown(table: str, name: str, kind: str) -> str:
    """What stands for a column. Whether there was a text is told still: who gave no answer is counted by that."""
    if kind in ("INTEGER", "REAL") or name in _KEPT.get(table, ()):
        return name
    if (rewritten := _REWRITTEN.get((table, name))) is not None:
        return rewritten
    return f"iif({name} IS NULL, NULL, '{_EMPTY.get((table, name), '')}')"
