"""Rows of public sets, as their files have them."""

from __future__ import annotations

import pytest
from support.media import png

from tiebreak.core.message import ImagePart
from tiebreak.datasets.files import read_columns, to_sample

BFCL = {
    "id": "simple_0",
    "question": [[{"role": "user", "content": "The area of a triangle with base 10 and height 5?"}]],
    "function": [
        {
            "name": "geometry.area",
            "description": "Area of a triangle.",
            "parameters": {
                "type": "dict",
                "properties": {"base": {"type": "integer"}, "ratio": {"type": "float"}, "at": {"type": "tuple"}},
                "required": ["base"],
            },
        }
    ],
    "ground_truth": [{"geometry.area": {"base": [10], "unit": ["units", ""]}}],
}


def test_bfcl_becomes_tools_and_expected_calls():
    """Types are JSON schema's, names have no dots, and "" says that an argument may be left out."""
    sample = to_sample(BFCL, 1)
    assert sample.exchange is not None
    tool = sample.exchange.tools[0]
    assert (tool.name, tool.parameters["type"]) == ("geometry_area", "object")
    assert [tool.parameters["properties"][name]["type"] for name in ("ratio", "at")] == ["number", "array"]
    assert sample.metadata["expected_calls"] == [
        {"name": "geometry_area", "arguments": {"base": [10], "unit": ["units", "", None]}}
    ]
    assert sample.scorers == ("tool_calls:bfcl",)
    assert sample.messages[0].text.startswith("The area")


def test_bfcl_without_its_answers_is_refused_but_for_irrelevance():
    """Where no function fits, no call is right."""
    row = {name: value for name, value in BFCL.items() if name != "ground_truth"}
    with pytest.raises(ValueError, match="'ground_truth' is missing"):
        to_sample(row, 1)
    assert to_sample(row | {"id": "irrelevance_3"}, 1).metadata["expected_calls"] == []
    assert to_sample(row | {"id": "irrelevance_3"}, 1).target == "no call"


def test_mmmu_has_its_images_in_place_and_its_choices():
    """The choices are a list as Python writes it; an empty one is a free answer."""
    row = {
        "id": "validation_Art_1",
        "question": "Who painted <image 1>?",
        "options": "['Monet', \"Vermeer's pupil\"]",
        "answer": "B",
        "question_type": "multiple-choice",
        "image_1": {"bytes": png(), "path": "1.png"},
        "image_2": None,
    }
    sample = to_sample(row, 1)
    assert sample.target == "Vermeer's pupil"
    assert [type(part) is ImagePart for part in sample.messages[-1].parts] == [False, True, False]
    free = to_sample(row | {"options": "[]", "answer": "Monet", "question_type": "open"}, 1)
    assert (free.choices, free.target) == ((), "Monet")


def test_sharegpt_is_a_conversation():
    """The contestant answers every turn; what was said last is the target."""
    said = [("system", "Be brief."), ("human", "Hi."), ("gpt", "Hello."), ("human", "Capital of France?"), ("gpt", "Paris")]
    sample = to_sample({"id": "x", "conversations": [{"from": who, "value": text} for who, text in said]}, 1)
    assert [message.role for message in sample.messages] == ["system", "user"]
    assert sample.exchange is not None
    assert [turn.text for turn in sample.exchange.turns] == ["Capital of France?"]
    assert sample.target == "Paris"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"conversations": "x"}, "must list turns of 'from' and 'value'"),
        (BFCL | {"question": [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]]}, "several turns"),
        (BFCL | {"ground_truth": ["f()"]}, "must list calls"),
    ],
)
def test_what_does_not_fit_its_layout_is_refused(row, words):
    """With a sentence that names the field."""
    with pytest.raises(ValueError, match=words):
        to_sample(row, 1)


def test_the_columns_of_a_layout_are_read():
    """They are not named as left out."""
    assert all(map(read_columns({}), (*BFCL, "conversations", "image_3")))
