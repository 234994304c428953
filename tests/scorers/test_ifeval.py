"""The checks of IFEval count what the reference's patterns count, in linear time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.scorers.ifeval import KINDS, placeholders, titles

SIGNS = st.text(st.sampled_from("[]<>*- \n\tap.s1"))
HOSTILE = ["[" * 300_000, "<" * 300_000, "\n" * 300_000, " " * 300_000, "*" * 300_000, "<<a" * 100_000]


@given(SIGNS)
def test_placeholders_and_titles_are_what_the_references_patterns_find(text):
    assert placeholders(text) == len(re.findall(r"\[.*?\]", text))
    assert list(titles(text)) == re.findall(r"<<[^\n]+>>", text)


@given(SIGNS)
def test_bullets_and_postscripts_are_what_the_references_patterns_find(text):
    bullets = len(re.findall(r"^\s*\*[^\*].*$", text, re.MULTILINE)) + len(re.findall(r"^\s*-.*$", text, re.MULTILINE))
    assert KINDS["detectable_format:number_bullet_lists"](text, num_bullets=bullets)
    found = re.search(r"\s*p\.\s?s\..*$", text.lower(), re.MULTILINE) is not None
    assert KINDS["detectable_content:postscript"](text, postscript_marker="P.S.") == found


@given(SIGNS)
def test_sections_are_what_the_reference_splits(text):
    sections = len(re.split(r"\s?a\s?\d+\s?", text)) - 1
    check = KINDS["detectable_format:multiple_sections"]
    assert check(text, section_spliter="a", num_sections=sections)
    assert not check(text, section_spliter="a", num_sections=sections + 1)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:3]))
def test_signs_without_end_are_checked_quickly(text):
    started = time.process_time()
    placeholders(text)
    list(titles(text))
    KINDS["detectable_format:number_bullet_lists"](text, num_bullets=1)
    KINDS["detectable_content:postscript"](text, postscript_marker="P.S.")
    KINDS["detectable_format:number_highlighted_sections"](text, num_highlights=1)
    assert time.process_time() - started < 1
