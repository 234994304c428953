"""A megabyte of anything is read or refused within a second, by every loader and by the YAML reader."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tiebreak.config import load_config
from tiebreak.core.errors import BenchmarkError
from tiebreak.core.plain_yaml import load_plain
from tiebreak.datasets.files import load
from tiebreak.datasets.task_markdown import read_markdown
from tiebreak.runfile import read_run_file

SIZE = 1_000_000
SECONDS = 1.0


def filled(piece: str, before: str = "", after: str = "") -> str:
    """A megabyte of one piece."""
    return before + piece * ((SIZE - len(before) - len(after)) // len(piece)) + after


def counted(piece: str, before: str = "", after: str = "") -> str:
    """The same with a number in each piece, so that no two are alike."""
    length = len(piece.format(100_000))
    return before + "".join(piece.format(n) for n in range(SIZE // length)) + after


YAML = {
    "list": filled("- a\n"),
    "mapping": counted("k{}: 1\n"),
    "mapping of one key": filled("a: 1\n"),
    "flow list": filled("a,", "[", "]"),
    "open lists": filled("["),
    "open mappings": filled("{a: "),
    "deeper and deeper": "".join(f"{' ' * n}a:\n" for n in range(1400)),
    "anchors": counted("- &a{} x\n"),
    "aliases": filled("- *a\n", "- &a [x]\n"),
    "aliases of mappings": filled("- *a\n", "- &a {x: 1, y: 2}\n"),
    "one scalar": filled("a"),
    "quotes": filled("'"),
    "quoted": filled('\\"', '"', '"'),
    "block": filled("  a\n", "a: |\n"),
    "folded": filled("  a\n\n", "a: >\n"),
    "colons": filled(":"),
    "questions": filled("? "),
    "dashes": filled("- "),
    "tags": filled("- !!int 1\n"),
    "digits": filled("1", "a: "),
    "comments": filled("#\n"),
    "spaces": filled(" "),
    "documents": filled("---\n"),
    "merges": filled("  <<: *a\n", "a: &a {x: 1}\nb:\n"),
    "a key of a kilobyte and more": "? " + filled("a") + "\n: 1",
}
ROWS = {
    "q.jsonl": {
        "rows": counted('{{"input": "a", "target": "b", "id": {}}}\n'),
        "rows without": filled("{}\n"),
        "one line": filled("a", '{"input": "', '", "target": "b"}'),
        "one target": filled("a", '{"input": "b", "target": "', '"}'),
        "many targets": filled('"a", ', '{"input": "b", "target": [', '"a"]}'),
        "many choices": counted('"c{}", ', '{"input": "b", "target": "A", "choices": [', '"a"]}'),
        "nested": filled("["),
        "nested input": filled('{"input":'),
        "columns": counted('"k{}": 1, ', "{", '"input": "a", "target": "b"}'),
        "rows of other columns": counted('{{"k{}": 1, "input": "a", "target": "b"}}\n'),
        "escapes": filled("\\u0000", '{"input": "', '", "target": "b"}'),
        "new lines": filled("\n"),
        "messages": filled(
            '{"role": "user", "content": "a"}, ', '{"input": [', '{"role": "user", "content": "a"}], "target": "b"}'
        ),
        "digits": filled("1", '{"input": "a", "target": ', "}"),
        "assertions": filled("contains:", '{"question": "a", "__expected": "', '"}'),
        "the same id": filled('{"input": "a", "target": "b", "id": 1}\n'),
    },
    "q.csv": {
        "rows": counted("{},a,b\n", "id,input,target\n"),
        "columns": counted("k{},"),
        "the same columns": filled("a,"),
        "quotes": filled('"'),
        "pairs of quotes": filled('""', 'input,target\n"', '",b\n'),
        "delimiters": filled(",;|\t"),
        "an open field": filled("a\n", 'input,target\n"'),
        "carriage returns": filled("\r"),
        "empty rows": filled(",\n", "input,target\n"),
        "nulls": filled("\0"),
        "one field": filled("a", "input,target\n", ",b\n"),
    },
    "q.json": {
        "rows": counted('{{"input": "a", "target": "b", "id": {}}},', "[", '{"input": "a", "target": "b"}]'),
        "nested": filled("["),
        "lists": counted('"k{}": [], ', "{", '"a": 1}'),
        "numbers": filled("1,", "[", "1]"),
    },
}
TASKS = {
    "fences": filled("```\n"),
    "fences of every length": "".join("`" * (3 + n % 500) + "\n" for n in range(4000)),
    "quotes": filled(">"),
    "quoted lines": filled("> a\n"),
    "lists": filled("- a\n"),
    "lists in lists": "".join(f"{'  ' * (n % 700)}- a\n" for n in range(1400)),
    "dashes": filled("- "),
    "headings": filled("## Verify\n"),
    "blocks": filled("```\na\n```\n", "Do it.\n## Verify\n"),
    "files": counted("```text file=f{}\na\n```\n", "Do it.\n## Workspace\n", "## Verify\n```\ntrue\n```\n"),
    "one block": filled("a\n", "Do it.\n## Verify\n```bash\n", "```\n"),
    "a block full of fences": filled("``\n", "Do it.\n## Verify\n```bash\n", "```\n"),
    "front matter": "---\n" + filled("a: b\n") + "\n---\nDo it.",
    "an open front matter": filled("a: b\n", "---\n"),
    "links": filled("[a]: b\n"),
    "brackets": filled("["),
    "pipes": filled("a|b\n-|-\n"),
    "underlines": filled("a\n=\n"),
    "attributes": filled("a=b ", "Do it.\n## Verify\n```bash ", "\na\n```\n"),
    "quotes in attributes": filled("'", "Do it.\n## Verify\n```bash ", "\na\n```\n"),
    "tabs": filled("\t"),
    "stars": filled("*"),
    "new lines": filled("\n"),
}
FLAT = [(name, kind, text) for name, texts in ROWS.items() for kind, text in texts.items()]


def took(read: Callable[[], object]) -> float:
    """Seconds of this process; once more where a busy machine may have made them longer."""
    first = _took_once(read)
    return first if first < SECONDS else min(first, _took_once(read))


def _took_once(read: Callable[[], object]) -> float:
    began = time.process_time()
    with contextlib.suppress(BenchmarkError, ValueError, yaml.YAMLError):
        read()
    return time.process_time() - began


def rows(path: Path) -> None:
    dataset = load(str(path), known=tuple)
    for position in range(0, len(dataset), max(1, len(dataset) // 1000)):
        dataset[position]


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.yaml").write_text(text)
    assert took(lambda: load_plain(text)) < SECONDS
    assert took(lambda: load_config(tmp_path / "f.yaml")) < SECONDS
    assert took(lambda: read_run_file(tmp_path / "f.yaml")) < SECONDS


@pytest.mark.parametrize(("name", "text"), [row[::2] for row in FLAT], ids=[f"{name} {kind}" for name, kind, _ in FLAT])
def test_rows(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, newline="")
    assert took(lambda: rows(tmp_path / name)) < SECONDS


@pytest.mark.parametrize("text", TASKS.values(), ids=TASKS)
def test_tasks(text: str) -> None:
    assert took(lambda: read_markdown(text)) < SECONDS
