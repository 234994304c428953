"""Files as people have them: asked rightly, or refused with row, column and cure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiebreak.core.errors import DatasetError
from tiebreak.core.run import Source
from tiebreak.datasets.files import load

ROWS = (("Où est le café?", "Orléans"), ("What is 2 + 3; or 5?", "5"))
HEADS = ("Question", "Expected")


def read(path: Path, **source: object):
    return load(str(path), known=tuple, source=Source(**source))  # type: ignore[arg-type]


def asked(path: Path, **source: object) -> list[tuple[str, str]]:
    dataset = read(path, **source)
    # Read from the file itself too, not only from what is kept of it.
    dataset._kept.clear()
    return [(dataset[place].prompt, dataset[place].target) for place in range(len(dataset))]


def csv_text(mark: str = ",", heads: tuple[str, ...] = HEADS, end: str = "\n") -> str:
    lines = [mark.join(heads), *(mark.join(f'"{cell}"' for cell in row) for row in ROWS)]
    return end.join(lines) + end


JSONL = "".join(json.dumps({"question": q, "answer": a}, ensure_ascii=False) + "\n" for q, a in ROWS)
FILES: dict[str, tuple[str, bytes]] = {
    "capitals in the header": ("q.csv", csv_text().encode()),
    "other words in the header": ("q.csv", csv_text(heads=("User Question", "Correct Answer")).replace("User ", "").encode()),
    "semicolons": ("q.csv", csv_text(";").encode()),
    "tabs": ("q.tsv", csv_text("\t").encode()),
    "tabs in a .csv": ("q.csv", csv_text("\t").encode()),
    "bars": ("q.csv", csv_text("|").encode()),
    "carriage returns": ("q.csv", csv_text(end="\r\n").encode()),
    "a byte order mark": ("q.csv", csv_text().encode("utf-8-sig")),
    "a byte order mark in JSON lines": ("q.jsonl", JSONL.encode("utf-8-sig")),
    "a byte order mark in JSON": ("q.json", json.dumps([json.loads(line) for line in JSONL.splitlines()]).encode("utf-8-sig")),
    "UTF-16, as Excel saves text": ("q.csv", csv_text("\t").encode("utf-16")),
    "UTF-16 of another order": ("q.csv", b"\xfe\xff" + csv_text().encode("utf-16-be")),
    "empty columns at the end": ("q.csv", csv_text().replace("\n", ",,\n").encode()),
}


@pytest.mark.parametrize("name", FILES)
def test_read_as_meant(tmp_path: Path, name: str) -> None:
    path = tmp_path / FILES[name][0]
    path.write_bytes(FILES[name][1])
    assert asked(path) == list(ROWS)


def test_excel(tmp_path: Path) -> None:
    """Numbers as a person reads them, rows as the sheet counts them."""
    from openpyxl import Workbook

    book = Workbook()
    for row in (HEADS, ROWS[0], (ROWS[1][0], 5.0), (None, None)):
        book.active.append(row)
    book.save(tmp_path / "q.xlsx")
    assert asked(tmp_path / "q.xlsx") == list(ROWS)
    book.active.append(("Lost?", None))
    book.save(tmp_path / "q.xlsx")
    with pytest.raises(DatasetError, match=r"q\.xlsx, row 5: the column 'expected' is empty"):
        read(tmp_path / "q.xlsx")


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [("q.csv", csv_text(), "cp1252"), ("q.jsonl", JSONL, "latin-1"), ("q.csv", csv_text(), "mac_roman")],
)
def test_other_encodings_are_refused_with_the_cure_and_read_when_named(
    tmp_path: Path, name: str, text: str, encoding: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    place = "line 1" if name == "q.jsonl" else "line 2"
    with pytest.raises(DatasetError, match=rf"{name}, {place}: not UTF-8: the byte 0x.*--encoding cp1252"):
        read(path)
    assert asked(path, encoding=encoding) == list(ROWS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("q.csv", b"Question,Expected\nWhy?,\n", "line 2: the column 'expected' is empty in this row"),
        ("q.csv", b"Question,Expected,Question\na,b,c\n", "the header names 'Question' twice"),
        ("q.csv", b"Frage,Antwort\na,b\n", "--field COLUMN=input says which column"),
        ("q.csv", b"question,answer\na,b,c\n", "line 2: 3 fields, but the header names 2"),
        ("q.jsonl", b'{"question": "\xed\xa0\x80", "answer": "x"}\n', "line 1: not UTF-8"),
        ("q.xlsx", b"not a workbook", "not readable as an Excel workbook"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError) as raised:
        read(tmp_path / name)
    assert said in str(raised.value)


def test_an_encoding_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(csv_text())
    with pytest.raises(DatasetError, match="no such encoding; often used are cp1252"):
        read(tmp_path / "q.csv", encoding="windoze")


def test_columns_that_are_not_read_are_named_once(tmp_path: Path) -> None:
    rows = [{"Question": "a?", "answer": "b", "subtitles": "x.srt", "video": []}, {"Question": "c?", "answer": "d", "notes": 1}]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(tmp_path / "q.jsonl").ignored == ["subtitles", "video", "notes"]
    assert read(tmp_path / "q.jsonl", fields={"notes": "category"}).ignored == ["subtitles", "video"]
