"""The forms in which people have their questions."""

import bz2
import csv
import gzip
import io
import json
import subprocess
import sys

import pytest
from support.packages import need_packages

from tiebreak.core.errors import DatasetError
from tiebreak.core.run import Source
from tiebreak.datasets.files import load, to_sample
from tiebreak.registry import load_dataset

ROWS = [{"id": f"q{i}", "input": f"What is {i} + 1?", "target": str(i + 1), "category": "sum"} for i in range(2500)]


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows):
    need_packages("pyarrow")
    import pyarrow
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink, row_group_size=900)
    return sink.getvalue()


def as_jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


WRITTEN = {
    "q.jsonl": as_jsonl,
    "q.json": lambda rows: json.dumps(rows).encode(),
    "q2.json": lambda rows: json.dumps({"canary": "x", "examples": rows}).encode(),
    "q.csv": as_csv,
    "q.parquet": as_parquet,
    "q.jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    "q.csv.bz2": lambda rows: bz2.compress(as_csv(rows)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_rows_in_any_file_are_the_same_samples(tmp_path, name):
    """By position, in any order, again and again."""
    (tmp_path / name).write_bytes(WRITTEN[name](ROWS))
    dataset = load(str(tmp_path / name), known=tuple)
    assert len(dataset) == len(ROWS)
    for position in (0, 2499, 1000, 999, 899, 900, 17, 0):
        sample = dataset[position]
        assert (sample.id, sample.prompt, sample.targets) == (
            ROWS[position]["id"],
            ROWS[position]["input"],
            (ROWS[position]["target"],),
        )


def test_a_folder_is_its_test_split_or_all_of_its_files(tmp_path):
    (tmp_path / "b.jsonl").write_bytes(as_jsonl(ROWS[:3]))
    (tmp_path / "a.csv").write_bytes(as_csv(ROWS[3:5]))
    (tmp_path / "readme.txt").write_text("not rows")
    assert [load(str(tmp_path), known=tuple)[i].id for i in range(5)] == ["q3", "q4", "q0", "q1", "q2"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test-00000-of-00001.parquet").write_bytes(as_parquet(ROWS[7:9]))
    (tmp_path / "data" / "train-00000-of-00001.parquet").write_bytes(as_parquet(ROWS[10:12]))
    assert [load(str(tmp_path), known=tuple)[i].id for i in range(2)] == ["q7", "q8"]


def test_a_folder_without_rows_says_so(tmp_path):
    with pytest.raises(DatasetError, match=r"holds no file that ends in \.jsonl"):
        load(str(tmp_path), known=tuple)


def test_an_id_used_in_two_files_is_named_with_both_places(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(as_jsonl(ROWS[:2]))
    with pytest.raises(DatasetError, match=r"the id 'q[01]' is used twice"):
        load(str(tmp_path), known=tuple)


@pytest.mark.parametrize(
    ("row", "prompt", "targets", "choices", "scorer"),
    [
        # OpenAI evals
        ({"input": [{"role": "user", "content": "Hi?"}], "ideal": "Yes"}, "Hi?", ("Yes",), (), "match"),
        (
            {"input": [{"role": "system", "content": "Short."}, {"role": "user", "content": "2+2"}], "ideal": ["4", "four"]},
            "[system] Short.\n\n[user] 2+2",
            ("4", "four"),
            (),
            "match",
        ),
        # promptfoo, as JSON and as a row of CSV
        ({"vars": {"question": "Capital?"}, "__expected": "contains: Paris"}, "Capital?", (), (), "assert"),
        ({"topic": "bees", "__expected": "regex:^B"}, "bees", (), (), "assert"),
        ({"topic": "bees", "__expected": "Buzz"}, "bees", (), (), "assert"),
        ({"topic": "bees", "__expected": "is-json"}, "bees", (), (), "assert"),
        # EvalScope
        ({"query": "Who?", "response": "Me"}, "Who?", ("Me",), (), "match"),
        ({"question": "Pick", "A": "x", "B": "y", "answer": "B"}, "Pick", ("y",), ("x", "y"), "choice"),
        # the hub's usual sets
        ({"question": "Pick", "choice0": "x", "choice1": "y", "answer": 1}, "Pick", ("y",), ("x", "y"), "choice"),
        (
            {"question": "Pick", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "A"},
            "Pick",
            ("x",),
            ("x", "y"),
            "choice",
        ),
        # ours
        ({"system": "Be brief.", "input": "Why?", "target": "So"}, "[system] Be brief.\n\n[user] Why?", ("So",), (), "match"),
    ],
)
def test_rows_of_the_usual_forms_are_understood(row, prompt, targets, choices, scorer):
    sample = to_sample(row, 1)
    assert (sample.prompt, sample.targets, sample.choices, sample.scorers) == (prompt, targets, choices, (scorer,))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"input": [{"role": "robot", "content": "x"}], "ideal": "y"}, "must list messages of role"),
        ({"input": [], "ideal": "y"}, "not empty"),
        ({"topic": "bees", "__expected": "similar(0.8):x"}, "'similar' is not understood"),
        ({"topic": "bees", "__expected": "javascript: output.length"}, "known are assert-set, "),
        ({"a": "1", "b": "2", "__expected": "x"}, "field 'input' is missing; the row has 'a', 'b'"),
    ],
)
def test_rows_that_cannot_be_understood_name_the_field(row, complaint):
    if complaint is None:
        assert to_sample(row, 1).scorers == ("exact",)
        return
    with pytest.raises(ValueError, match=complaint):
        to_sample(row, 1)


def test_columns_are_named_by_the_user(tmp_path):
    """`--field q=input --field gold=target`; what is missing is named with file, line and field."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"q": "1+1?", "gold": 2}\n{"q": "2+2?", "gold": 4}\n')
    source = Source(fields={"q": "input", "gold": "target"})
    assert [load_dataset(str(path), source)[i].targets for i in range(2)] == [("2",), ("4",)]
    path.write_text('{"q": "1+1?", "gold": 2}\n{"gold": 4}\n')
    with pytest.raises(DatasetError, match=r"q\.jsonl, line 2: field 'q' is missing"):
        load_dataset(str(path), source)
    with pytest.raises(DatasetError, match="there is no field 'answr'"):
        load_dataset(str(path), Source(fields={"q": "answr"}))


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv", "q.parquet", "q.json"])
def test_a_bad_row_is_named_by_file_place_and_field(tmp_path, name):
    rows = [{"id": "1", "input": "a", "target": "b"}, {"id": "2", "input": "", "target": "c"}]
    (tmp_path / name).write_bytes(WRITTEN[name](rows))
    place = {"q.jsonl": "line 2", "q.csv": "line 3", "q.parquet": "row 2", "q.json": "record 2"}[name]
    with pytest.raises(DatasetError, match=rf"{name}, {place}: the column 'input' is empty"):
        load(str(tmp_path / name), known=tuple)


def test_fifty_thousand_rows_take_little_memory(tmp_path):
    """Where each row begins is all that is kept of it: some twenty bytes."""
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        for i in range(50_000):
            file.write(json.dumps({"id": i, "input": f"Say {i}. " + "x" * 200, "target": "y"}) + "\n")
    code = (
        "import sys, resource; from tiebreak.registry import load_dataset; from tiebreak.engine.plan import sample_order;"
        "load_dataset('warmup'); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "d = load_dataset(sys.argv[1]); o = sample_order(d); assert len(o) == 50_000;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 12_000  # kilobytes; the rows themselves are 12 MB


BROKEN = {
    "q.csv": b"\r\x00",
    "q.jsonl.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x02\x03\x03" + bytes(9),
    "q.jsonl.bz2": b"BZh91AY&SY" + bytes(9),
    "q.xlsx": b"PK",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_its_name(tmp_path, name):
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(DatasetError, match=name):
        load(str(tmp_path / name), known=tuple)


def test_a_workbook_without_its_sheet_is_empty(tmp_path):
    """The list of sheets names one that the file does not hold."""
    import zipfile

    from openpyxl import Workbook

    Workbook().save(tmp_path / "whole.xlsx")
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole, zipfile.ZipFile(tmp_path / "q.xlsx", "w") as cut:
        for name in whole.namelist():
            if "sheet1" not in name:
                cut.writestr(name, whole.read(name))
    with pytest.raises(DatasetError, match=r"q\.xlsx: the dataset is empty"):
        load(str(tmp_path / "q.xlsx"), known=tuple)
