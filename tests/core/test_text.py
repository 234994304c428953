"""Reading answers: clauses, denials and thoughts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.text import answer_text, clauses, says, words


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("<think>B</think>A", "A"),
        ("before <thinking>B</thinking> after", "before  after"),
        ("<THINK>B</THINK>A", "A"),
        ("thought without an opening tag</think>A", "A"),
        ("A <think>never closed B", "A "),
        ("<think>a</think>x<think>b</think>y", "xy"),
        ("<reasoning>B</reasoning>A", "A"),
        ("1 < 2", "1 < 2"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("", ""),
    ],
)
def test_what_was_thought_is_not_the_answer(text, kept):
    """Reasoning written into the text is taken out, closed or not."""
    assert answer_text(text) == kept


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Hello, World!", "hello | world |"),
        ("1,234,567.5 people", "1234567.5 people"),
        ("It’s Zürich", "it zurich"),
        ("**bold** _it_", "bold it"),
        ("50%", "50 %"),
        ("minus -5 and well-known", "minus -5 and well known"),
        ("one. two", "one | two"),
    ],
)
def test_clauses_are_plain_words(text, plain):
    """Accents, mark-up and thousands separators are gone, clause ends stay."""
    assert clauses(text) == plain


@pytest.mark.parametrize(
    ("text", "phrase", "said"),
    [
        ("It is Paris.", "Paris", True),
        ("It is PARIS", "paris", True),
        ("It is not Paris.", "Paris", False),
        ("Paris is a myth.", "Paris", False),
        ("Paris is wrong", "Paris", False),
        ("No, it is Paris", "Paris", True),
        ("not Rome but Paris", "Paris", True),
        ("Comparison", "Paris", False),
        ("not Paris. It is Paris", "Paris", True),
        ("rather than Paris", "Paris", False),
        ("isn’t Paris", "Paris", False),
        ("Zurich", "Zürich", True),
        ("anything", "", False),
        ("anything", "!!!", False),
        ("1000", "1,000", True),
        ("10000", "1000", False),
    ],
)
def test_saying_is_more_than_containing(text, phrase, said):
    """A phrase is said when it stands as whole words and is not denied."""
    assert says(clauses(text), phrase) is said


@given(st.text())
def test_any_text_can_be_read(text):
    """No text makes the readers raise, and reading twice changes nothing."""
    answer_text(text)
    assert says(clauses(text), text) in (True, False)
    assert words(words(text)) == words(text)


@given(st.text(alphabet="abc <>/think", max_size=60))
def test_thoughts_between_tags_never_survive(thought):
    """Whatever stands between the tags is gone."""
    inner = thought.replace("<", "").replace(">", "")
    assert answer_text(f"<think>{inner}</think>A") == "A"


def test_a_run_of_combining_marks_is_read_quickly():
    """A megabyte of accents costs no more than a megabyte of letters."""
    started = time.monotonic()
    assert clauses("a" + "\u0301\u0316" * 500_000) == "a"
    assert time.monotonic() - started < 3
