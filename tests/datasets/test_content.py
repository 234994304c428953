"""Rows with images, files, tools, schemas and turns, as people write them."""

from __future__ import annotations

import json
import os

import pytest
from support.media import data_url, gif, jpeg, pdf, png

from tiebreak.core.errors import DatasetError
from tiebreak.core.message import FilePart, ImagePart, TextPart
from tiebreak.datasets.content import MediaFolder
from tiebreak.datasets.files import load, to_sample

PDF_URL = data_url(pdf(), "application/pdf")
ASKED = {"input": "What is shown?", "target": "a cat"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set" / "inside").mkdir(parents=True)
    (tmp_path / "set" / "cat.png").write_bytes(png())
    (tmp_path / "set" / "inside" / "cat.jpg").write_bytes(jpeg())
    (tmp_path / "set" / "paper.pdf").write_bytes(pdf())
    (tmp_path / "secret.png").write_bytes(png(colour=7))
    return tmp_path / "set"


def sample(row, folder=None):
    return to_sample(ASKED | row, 1, folder=MediaFolder(folder))


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        ({"image": "cat.png"}, ["image/png"]),
        ({"image": "inside/../cat.png"}, ["image/png"]),
        ({"images": ["cat.png", "inside/cat.jpg"]}, ["image/png", "image/jpeg"]),
        ({"images": '["cat.png", "inside/cat.jpg"]'}, ["image/png", "image/jpeg"]),
        ({"images": "cat.png"}, ["image/png"]),
        ({"file": "paper.pdf"}, ["application/pdf"]),
        ({"image": data_url(gif(), "image/gif")}, ["image/gif"]),
        ({"image": data_url(jpeg(), "image/jpg")}, ["image/jpeg"]),
        ({"image": {"bytes": png(), "path": "a/b.png"}}, ["image/png"]),
        ({"input": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(png())}}]}]}, ["image/png"]),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": data_url(png())}]}]}, ["image/png"]),
        ({"input": [{"role": "user", "content": [{"type": "image", "image": "cat.png"}]}]}, ["image/png"]),
        ({"input": [{"role": "user", "content": [{"type": "document", "document": "paper.pdf"}]}]}, ["application/pdf"]),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "file", "file": {"file_data": data_url(pdf(), "application/pdf")}}]}
                ]
            },
            ["application/pdf"],
        ),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"media_type": "image/png", "data": data_url(png())[22:]}}],
                    }
                ]
            },
            ["image/png"],
        ),
    ],
)
def test_images_and_files_are_taken_as_people_write_them(folder, row, kinds):
    """By column, or as content parts of OpenAI, Anthropic and Inspect."""
    shown = sample(row, folder)
    assert [part.media_type for part in shown.media] == kinds
    assert all(isinstance(part, FilePart) == (part.media_type == "application/pdf") for part in shown.media)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"image": "../secret.png"}, "leads out of the dataset's folder"),
        ({"image": "link.png"}, "leads out of the dataset's folder"),
        ({"image": "linked/secret.png"}, "leads out of the dataset's folder"),
        ({"image": "/etc/passwd"}, "leads out of the dataset's folder"),
        ({"image": "inside"}, "is no file"),
        ({"image": "pipe"}, "is no file"),
        ({"image": "loop"}, "cannot be read beside the dataset"),
        ({"image": "missing.png"}, "cannot be read beside the dataset: No such file"),
        ({"image": "a\0b"}, "must be a path|cannot be read|null"),
        ({"image": "https://example.org/cat.png"}, "is an address, and none is fetched"),
        ({"image": "file:///etc/passwd"}, "is an address, and none is fetched"),
        ({"image": 7}, "must be a path or a data URL, not 7"),
        ({"image": data_url(b"<svg><script>alert(1)</script></svg>", "image/svg+xml")}, "SVG or other markup"),
        ({"image": data_url(jpeg(), "image/png")}, "is called image/png, and its bytes are image/jpeg"),
        ({"image": "data:image/png;base64,!!!"}, "not readable as base64"),
        ({"image": "data:image/png,abc"}, "must be a data URL in base64"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, "must be a path or a data URL"),
        ({"input": [{"role": "user", "content": [{"type": "video", "video": {}}]}]}, "content part must be of type"),
        ({"turns": [{"role": "assistant", "content": "x"}]}, "must list what the user says"),
        ({"tools": [{"description": "x"}]}, "must list tools with name"),
        ({"tools": "not json"}, "not readable as JSON"),
        ({"expected_calls": [{"arguments": {}}]}, "must list calls with name and arguments"),
        ({"tool_results": [{"name": "x"}]}, "must list name, arguments and result or error"),
        ({"response_schema": [1]}, "must be a JSON schema"),
        ({"response_schema": {}, "target": "Paris"}, "the target must be JSON"),
        ({"scorer": "tool_calls"}, "which this row has not got"),
    ],
)
def test_hostile_and_mistaken_rows_are_refused_with_a_sentence(folder, row, words):
    """Nothing outside the folder is read, nothing is fetched, and the field is named."""
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder / "loop")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ValueError, match=words):
        sample(row, folder)


def test_a_link_within_the_folder_is_followed(folder):
    """Where it leads is what counts."""
    (folder / "alias.png").symlink_to("cat.png")
    assert sample({"image": "alias.png"}, folder).media[0].digest == sample({"image": "cat.png"}, folder).media[0].digest


def test_two_pictures_with_the_same_words_are_two_questions(folder):
    """And the same picture from elsewhere is the same question."""
    one, same = sample({"image": "cat.png"}, folder), sample({"image": data_url(png())})
    other = sample({"image": "inside/cat.jpg"}, folder)
    assert one.asked_digest == same.asked_digest
    assert len({one.asked_digest, other.asked_digest, sample({}).asked_digest}) == 3


def test_an_image_stands_where_the_text_names_it(folder):
    """MMMU's layout; an image that is not named comes first, and a place without an image stays text."""
    row = {"input": "Is <image 2> like <image 9>?", "image_1": "cat.png", "image_2": "inside/cat.jpg"}
    parts = sample(row, folder).messages[-1].parts
    kinds = [part.media_type if isinstance(part, ImagePart) else part.text for part in parts]
    assert kinds == ["image/png", "Is ", "image/jpeg", " like ", "<image 9>", "?"]


def test_words_around_a_question_leave_its_images_alone(folder, tmp_path):
    """Choices and templates come around the question."""
    from tiebreak.engine.prompting import present

    shown = present(sample({"image": "cat.png", "choices": ["a cat", "a dog"]}, folder), seed=0, repeat=0)
    last = shown.messages[-1]
    assert [type(part) for part in last.parts] == [ImagePart, TextPart, TextPart]
    assert last.text.startswith("What is shown?")
    assert "A) a " in last.text


def test_cells_of_a_csv_file_are_json(folder):
    """Tools and calls in a spreadsheet; a picture lies beside it."""
    tools, calls = json.dumps([{"name": "f"}]), json.dumps([{"name": "f"}])
    quoted = ",".join('"' + cell.replace('"', '""') + '"' for cell in ("Call f.", "cat.png", tools, calls))
    (folder / "rows.csv").write_text(f"input,image,tools,expected_calls\n{quoted}\n")
    dataset = load(str(folder / "rows.csv"), known=list)
    assert dataset[0].scorers == ("tool_calls",)
    assert dataset[0].target == "f()"
    assert dataset.needs == {"image", "tools"}
    assert dataset.ignored == []


def test_an_unknown_column_is_named_and_a_bad_row_too(folder):
    """Nothing is dropped silently."""
    (folder / "rows.jsonl").write_text(json.dumps(ASKED | {"image": "cat.png", "subtitles": "x.srt"}) + "\n")
    assert load(str(folder / "rows.jsonl"), known=list).ignored == ["subtitles"]
    (folder / "rows.jsonl").write_text(json.dumps(ASKED) + "\n" + json.dumps(ASKED | {"image": "../secret.png"}) + "\n")
    with pytest.raises(DatasetError, match=r"rows.jsonl, line 2: field 'image'"):
        load(str(folder / "rows.jsonl"), known=list)


def test_the_bytes_of_files_are_not_held(folder):
    """Samples name their file; its bytes are read when they are sent."""
    shown = sample({"image": "cat.png"}, folder).media[0]
    assert (shown.data_base64, shown.path) == ("", str((folder / "cat.png").resolve()))


def test_a_conversation_may_have_called_tools_before(folder):
    """As OpenAI writes it."""
    row = {
        "input": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "w", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        ]
    }
    said = sample(row).messages
    assert said[1].tool_calls[0].name == "w"
    assert said[2].tool_call_id == "c1"
