"""Inputs that parsers should never meet, and will: pieces of each language in any order, and good files gone wrong."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from functools import cache

import msgspec
import yaml
from hypothesis import strategies as st
from wire.making import Format, bent, hostile, lines, replies, requests

from tiebreak.config import BatchSettings, _File, _Model
from tiebreak.runfile import RunFile

_TEXT = st.text(max_size=12)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | _TEXT
    | st.sampled_from(["openai", "gpt-4", "A", "Paris", "$HOME", "${X}", "match", "regex", "1/2", "user", "../x", "=1+1"])
)


def _trees(keys: tuple[str, ...]) -> st.SearchStrategy[object]:
    """Data whose keys are mostly those that a reader looks for."""
    key = st.sampled_from(keys) | _TEXT
    return st.recursive(
        _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(key, inner, max_size=6), max_leaves=15
    )


@st.composite
def _bent(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Something good, with a few bytes missing or changed."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
    return bytes(data)


def _pieces(*pieces: str) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces) | _TEXT, max_size=30).map(lambda found: "".join(found).encode("utf-8", "replace"))


def wire(form: Format) -> st.SearchStrategy[bytes]:
    """Garbage, good streams gone wrong, and good bodies with bytes missing or changed."""
    good_replies = replies(form).map(lambda reply: msgspec.json.encode(form.module.encode_reply(reply)))
    good_requests = requests(form).map(lambda request: msgspec.json.encode(form.module.encode(request)))
    return hostile | bent(form) | _bent(good_replies) | _bent(good_requests)


events = st.binary(max_size=200) | lines | _pieces("data:", "data: x", "\n", "\r", "\r\n", "\ufeff", "event: a", ":", "\n\n")

_YAML = _pieces(
    *("a: ", "b: ", "- ", "\n", "\n  ", "\n    ", "&a ", "*a", "{", "}", "[", "]", ", ", "? ", ": ", "<<: ", "| ", "> ", "#"),
    *("!!int ", "!!binary ", "!!set ", "!!omap ", "!!timestamp ", "!!python/object/apply:os.system ", "!x ", "---\n", "...\n"),
    *("0x", "0b2", "0o9", "08", "1_", ".nan", "-.inf", "1e999", "2024-13-45", "12:99:99", "~", "=", "'", '"', "\\x", "\t", "\0"),
    *("%YAML 1.3\n", "%TAG ! x\n", "\ufeff", "\x85", "\u2028", "\ud800"),
)


def _yaml_of(keys: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    written = _trees(keys).map(lambda data: yaml.safe_dump(data, allow_unicode=True).encode("utf-8", "replace"))
    mapping = st.dictionaries(st.sampled_from(keys), _trees(keys), max_size=4)
    return _YAML | _bent(written) | _bent(mapping.map(lambda data: yaml.safe_dump(data).encode()))


yaml_text = st.binary(max_size=60) | _yaml_of(("a", "b"))
config = _yaml_of((*_File.__struct_fields__, *_Model.__struct_fields__, *BatchSettings.__struct_fields__))
run_file = _yaml_of(RunFile.__struct_fields__)

_FRONT = ("id", "title", "tags", "agent", "verifier", "limits", "protect", "expect", "needs", "timeout_sec", "memory_mb", "pids")
task = _pieces(
    *("---\n", "\n", "# Do\n", "Do it.\n", "## Workspace\n", "## Verify\n", "## Solution\n", "## Cheat\n", "```", "````", "~~~"),
    *("bash\n", "python file=a.py\n", "text file=../x mode=755\n", "file='a\n", "> ", "- ", "    ", "<div>\n", "|", "\t", "\r\n"),
    *("id: x\n", "tags: [a]\n", "limits:\n", "  pids: -1\n", "agent: {timeout_sec: .nan}\n", "needs: x\n"),
) | st.tuples(_yaml_of(_FRONT), _pieces("\n## Verify\n```bash\ntrue\n```\n", "Do it.\n")).map(
    lambda found: b"---\n" + found[0] + b"\n---\n" + found[1]
)

_COLUMNS = (
    *("id", "input", "prompt", "question", "target", "answer", "choices", "options", "category", "group", "scorer", "system"),
    *(
        "A",
        "B",
        "choice0",
        "vars",
        "__expected",
        "evaluation_method",
        "expected_keywords",
        "rejected_keywords",
        "role",
        "content",
    ),
    *("answerKey", "label", "schema", "rubric", "human", "keywords_required", "messages"),
)
_row = st.dictionaries(st.sampled_from(_COLUMNS), _trees(_COLUMNS), max_size=5)
_likely_row = st.fixed_dictionaries({"input": _TEXT | _trees(_COLUMNS), "target": _TEXT | _trees(_COLUMNS)}, optional={
    name: _trees(_COLUMNS) for name in ("id", "choices", "scorer", "category", "vars", "__expected", "evaluation_method")
})  # fmt: skip


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


_rows = st.lists(_row | _likely_row, max_size=4)
_jsonl = _rows.map(lambda rows: b"\n".join(map(_json, rows)))
jsonl = st.binary(max_size=80) | _bent(_jsonl) | _jsonl
json_file = st.binary(max_size=80) | _bent(_rows.map(_json)) | _bent(_trees(_COLUMNS).map(_json))
csv = st.binary(max_size=80) | _bent(
    _pieces(
        *(
            "input",
            "target",
            "choices",
            ",",
            ";",
            "\t",
            "|",
            '"',
            '""',
            "\n",
            "\r",
            "\r\n",
            "\0",
            "\ufeff",
            "é",
            "Paris",
            "A",
            "=",
        ),
        *("input,target\n", "question;answer\n", "id,input,target,choices\n", '"a\nb",', "[1, 2]", "a|b"),
    )
)
packed = _bent(_jsonl.map(lambda data: gzip.compress(data, mtime=0)))


@cache
def _workbook() -> dict[str, bytes]:
    """The parts of a small workbook."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    for row in (["input", "target", "choices"], ["2 + 2?", 4, "3|4"], ["The capital of France?", "Paris", None]):
        book.active.append(row)
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@st.composite
def _workbook_with_a_bent_part(draw: st.DrawFn) -> bytes:
    parts = dict(_workbook())
    name = draw(st.sampled_from(sorted(parts)))
    parts[name] = draw(_bent(st.just(parts[name])) | st.binary(max_size=30))
    if draw(st.booleans()):
        del parts[draw(st.sampled_from(sorted(parts)))]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in parts.items():
            archive.writestr(zipfile.ZipInfo(part), data)
    return file.getvalue()


excel = st.binary(max_size=80) | _workbook_with_a_bent_part() | _bent(_workbook_with_a_bent_part())

answer = st.text(st.characters(exclude_categories=("Cs",)), max_size=80).map(str.encode) | _pieces(
    *(
        "A",
        "B",
        "(C)",
        "answer",
        " is ",
        ":",
        "not ",
        "Paris",
        "7",
        "1/0",
        "-",
        "<think>",
        "</think>",
        "**",
        "\n",
        "(",
        ".",
        ", ",
    ),
    *(
        "\\boxed{",
        "}",
        "\\frac{",
        "{,}",
        "$",
        "%",
        "1e9",
        "1,000",
        "####",
        "The answer is ",
        " or ",
        "I don't know",
        "^",
        "\\",
        "`",
    ),
    *(
        "```json\n",
        "{",
        '"',
        "[",
        "\x1e",
        "million",
        "twenty",
        "½",
        "٣",
        "²",
        "日",
        "\u0301",
        "wait, ",
        "no, ",
        "Infinity",
        "nan",
    ),
)
