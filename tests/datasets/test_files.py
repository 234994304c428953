"""A user's own file, in the forms people have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.errors import DatasetError
from tiebreak.datasets.files import load, to_sample

KEYWORD_ROW = {"id": "q1", "prompt": "Capital of France?", "evaluation_method": "keyword_match", "expected_keywords": ["Paris"]}
CHOICE_ROW = {"id": "q2", "input": "Pick", "target": "b", "choices": ["a", "b"]}


@pytest.fixture
def written(tmp_path):
    """A function that writes a file and loads it as a dataset."""

    def _written(text, name="data.jsonl"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return load(str(path), known=lambda: ("truthfulness", "warmup"))

    return _written


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_keyword_rows_are_read(written):
    """{id, prompt, evaluation_method, expected_keywords} is scored by keywords."""
    dataset = written(lines(KEYWORD_ROW))
    sample = dataset[0]
    assert (sample.id, sample.prompt, sample.scorers) == ("q1", "Capital of France?", ("keywords",))
    assert sample.keywords.accept == ("Paris",)
    assert dataset.scorers == ("keywords",)


@pytest.mark.parametrize("target", ["b", "B", 1, "1", " B "])
def test_choice_rows_are_read(written, target):
    """The target may be the choice's text, its letter or its index."""
    sample = written(lines({**CHOICE_ROW, "target": target}))[0]
    assert (sample.target, sample.choices, sample.scorers) == ("b", ("a", "b"), ("choice",))


def test_a_choice_that_looks_like_a_letter_is_the_choice(written):
    """The text of a choice goes before its letter."""
    assert written(lines({**CHOICE_ROW, "choices": ["b", "a"], "target": "b"}))[0].target == "b"


@pytest.mark.parametrize(
    ("target", "scorer", "targets"),
    [
        ("Paris", "match", ("Paris",)),
        (42, "numeric", ("42",)),
        ("1,000", "numeric", ("1,000",)),
        (["NYC", "New York"], "match", ("NYC", "New York")),
    ],
)
def test_free_text_rows_get_the_scorer_that_suits(written, target, scorer, targets):
    """Numbers are compared as numbers, texts as texts."""
    sample = written(lines({"input": "?", "target": target}))[0]
    assert (sample.scorers, sample.targets, sample.id) == ((scorer,), targets, "1")


def test_a_csv_file_may_hold_line_breaks_in_quotes(written):
    """Quoted newlines, commas and quotes are part of a field; each row is found at its place."""
    text = 'id,input,target,choices\nq1,"Line one\nline ""two"", really",b,a|b\n\nq2,Plain,"[x",\nq3,"a\r\nb",Grüße,\n'
    dataset = written(text, "data.csv")
    assert [dataset[i].id for i in (2, 1, 0)] == ["q3", "q2", "q1"]
    assert dataset[0].prompt == 'Line one\nline "two", really'
    assert dataset[0].choices == ("a", "b")
    assert dataset[1].target == "[x"
    assert dataset[2].target == "Grüße"


def test_a_csv_file_from_a_spreadsheet_is_read(written):
    """A byte order mark and a JSON list in a cell are nothing unusual."""
    dataset = written('\ufeffid,question,answer,choices\nq1,Pick,b,"[""a"", ""b""]"\n', "data.csv")
    assert (dataset[0].id, dataset[0].target) == ("q1", "b")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (lines(KEYWORD_ROW, CHOICE_ROW) + "{broken\n", ["line 3", "JSON"]),
        (lines(KEYWORD_ROW) + "\n" + lines(["a list"]), ["line 3", "object"]),
        (lines(KEYWORD_ROW, CHOICE_ROW, KEYWORD_ROW), ["'q1'", "lines 1 and 3"]),
        ("", ["empty"]),
        ("\n \n", ["empty"]),
        (lines({"target": "x"}), ["line 1", "'input'", "missing"]),
        (lines({"input": "?"}), ["line 1", "'target'", "missing"]),
        (lines({"input": ""}), ["line 1", "'input'"]),
        (lines({"input": ["?"], "target": "x"}), ["line 1", "'input'"]),
        (lines({**CHOICE_ROW, "target": "c"}), ["line 1", "'target'", "'c'"]),
        (lines({**CHOICE_ROW, "target": "²"}), ["line 1", "'target'", "'²'"]),
        (lines({**CHOICE_ROW, "target": 2}), ["line 1", "'target'"]),
        (lines({**CHOICE_ROW, "choices": ["a"]}), ["line 1", "'choices'"]),
        (lines({**CHOICE_ROW, "choices": ["b", "b"]}), ["line 1", "'choices'", "twice"]),
        (lines({**KEYWORD_ROW, "evaluation_method": "magic"}), ["line 1", "'evaluation_method'", "'magic'"]),
        (lines({**KEYWORD_ROW, "expected_keywords": []}), ["line 1", "'expected_keywords'"]),
        (lines({**KEYWORD_ROW, "expected_keywords": None}), ["line 1", "'expected_keywords'"]),
        (lines({**KEYWORD_ROW, "rejected_keywords": 5}), ["line 1", "'rejected_keywords'"]),
        ('{"input": "\xff' + "[" * 10, ["line 1"]),
        ("[" * 100_000, ["line 1"]),
    ],
)
def test_what_is_wrong_is_named_with_its_place(written, text, parts):
    """File, line and field: enough to go and mend it."""
    with pytest.raises(DatasetError) as caught:
        written(text)
    for part in ["data.jsonl", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("id,input,target\nq1,What?\n", ["line 2", "2 fields", "3"]),
        ('id,input,target\nq1,"What?\n', ["line 2", "CSV"]),
        ("id,input,target\nq1,a,x\nq1,b,y\n", ["'q1'", "lines 2 and 3"]),
        ("id,input,target\n", ["empty"]),
        ("", ["empty"]),
        ("id,input,target\nq1,,x\n", ["line 2", "'input'", "empty"]),
    ],
)
def test_what_is_wrong_in_a_csv_file_is_named_too(written, text, parts):
    """The same care for tables."""
    with pytest.raises(DatasetError) as caught:
        written(text, "data.csv")
    for part in ["data.csv", *parts]:
        assert part in str(caught.value)


def test_an_unknown_name_suggests_a_known_one():
    """A typing error is met with a hint."""
    with pytest.raises(DatasetError, match="did you mean 'truthfulness'"):
        load("truthfullness", known=lambda: ("truthfulness", "warmup"))


def test_other_kinds_of_file_are_refused(written):
    """The message says which kinds there are."""
    with pytest.raises(DatasetError, match=r"\.jsonl"):
        written("x", "data.docx")


def test_the_digest_is_of_the_content(written):
    """Another name changes nothing, another letter everything."""
    one, same = written(lines(KEYWORD_ROW), "a.jsonl"), written(lines(KEYWORD_ROW), "b.jsonl")
    other = written(lines({**KEYWORD_ROW, "prompt": "Capital of Italy?"}), "c.jsonl")
    assert one.digest == same.digest != other.digest


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x, max_size=4), max_leaves=6
)
FIELDS = ["id", "input", "prompt", "target", "choices", "expected_keywords", "rejected_keywords", "evaluation_method", "scorer"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_row_is_a_sample_or_a_value_error(row):
    """No row, however odd, surfaces as a trace."""
    try:
        sample = to_sample(row, 1)
    except ValueError as error:
        assert str(error)
    else:
        assert sample.prompt and sample.scorers
