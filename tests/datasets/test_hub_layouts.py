"""Public sets in the layout the hub has them in, as far as no copy of them is at hand: a few rows of the same shape."""

from support.packages import need_packages

need_packages("pyarrow")

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command import read_csv, run

from tiebreak.core.errors import DatasetError
from tiebreak.core.run import Source
from tiebreak.registry import audit_dataset, load_dataset

ARC = [
    {
        "id": "Mercury_1",
        "question": "Which of these is a star?",
        "choices": {"text": ["the Moon", "the Sun", "the Earth", "Mars"], "label": ["A", "B", "C", "D"]},
        "answerKey": "B",
    },
    {
        # Some exams number their choices, and some have three or five of them.
        "id": "NYSED_2",
        "question": "What do plants take in?",
        "choices": {"text": ["carbon dioxide", "smoke", "sand"], "label": ["1", "2", "3"]},
        "answerKey": "1",
    },
    {
        "id": "Mercury_3",
        "question": "Water freezes at",
        "choices": {"text": ["0 °C", "10 °C", "20 °C", "30 °C", "40 °C"], "label": ["A", "B", "C", "D", "E"]},
        "answerKey": "A",
    },
]
HELLASWAG = {
    "ind": 24,
    "activity_label": "Roof shingle removal",
    "ctx_a": "A man is sitting on a roof.",
    "ctx_b": "he",
    "ctx": "A man is sitting on a roof. he",
    "endings": ["is using wrap [step] to wrap skis.", "is ripping tiles off.", "is holding a cube.", "pulls [title] up roofing."],
    "source_id": "activitynet~v_-JhWjGDPHMY",
    "split": "val",
    "label": "3",
}


@pytest.fixture
def arc(tmp_path):
    """The hub's folder of ARC, a Parquet file for each split."""
    folder = tmp_path / "arc" / "ARC-Challenge"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(ARC), folder / "test-00000-of-00001.parquet")
    pq.write_table(pa.Table.from_pylist(ARC[::-1]), folder / "train-00000-of-00001.parquet")
    return folder


def test_arc_by_likelihood_is_put_as_lm_eval_puts_it(arc):
    """The question as a text to be gone on with, the choices as they stand, per character; letters and numbers are keys."""
    dataset = load_dataset("arc:challenge", Source(path=str(arc), likelihood=True))
    assert [dataset[i].id for i in range(len(dataset))] == ["Mercury_1", "NYSED_2", "Mercury_3"]
    first, second, third = (dataset[i] for i in range(3))
    assert first.prompt == "Question: Which of these is a star?\nAnswer:"
    assert first.scorers == ("likelihood:norm", "likelihood")
    assert first.metadata == {"raw": True}
    assert [sample.target for sample in (first, second, third)] == ["the Sun", "carbon dioxide", "0 °C"]
    assert [len(sample.choices) for sample in (first, second, third)] == [4, 3, 5]
    assert dataset.form == "lm-eval arc 1.0, 0-shot, per character"


def test_arcs_worked_examples_are_the_first_of_its_train_split(arc):
    dataset = load_dataset("arc:challenge", Source(path=str(arc), likelihood=True, shots=2))
    shown = "Question: Water freezes at\nAnswer: 0 °C\n\nQuestion: What do plants take in?\nAnswer: carbon dioxide\n\n"
    assert dataset[0].prompt == f"{shown}Question: Which of these is a star?\nAnswer:"


def test_a_copy_of_the_whole_of_arc_has_its_two_parts_apart(arc):
    easy = arc.parent / "ARC-Easy"
    easy.mkdir()
    pq.write_table(pa.Table.from_pylist(ARC[:1]), easy / "test-00000-of-00001.parquet")
    sizes = [len(load_dataset(name, Source(path=str(arc.parent)))) for name in ("arc:easy", "arc:challenge")]
    assert sizes == [1, 3]


def test_arc_asks_for_the_letter_where_likelihoods_cannot_be_told(arc):
    sample = load_dataset("arc", Source(path=str(arc)))[0]
    assert (sample.prompt, sample.scorers, sample.fixed) == ("Which of these is a star?", ("choice",), False)


def test_a_row_of_arc_that_cannot_be_read_is_named(arc):
    path = arc / "test-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist([{**ARC[0], "answerKey": "E"}]), path)
    with pytest.raises(DatasetError, match="'answerKey' is 'E', which is no label of a choice"):
        load_dataset("arc", Source(path=str(arc)))


def test_arc_runs_by_likelihood_from_question_to_report(arc, tmp_path):
    """Both figures are in the report; a baseline weighs what no model needs to be loaded for."""
    flags = ("--model", "baseline/always-first", "--dataset", "arc", "--data", str(arc), "--likelihood", "--output", "r")
    done = run("run", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = json.loads((tmp_path / "r" / "comparison_report.json").read_text())["contestants"][0]
    assert set(model["by_scorer"]) == {"likelihood:norm", "likelihood"}
    assert model["by_scorer"]["likelihood"] == pytest.approx(2 / 3)
    assert {row["cached"] for row in read_csv(tmp_path / "r" / "trials.csv")} == {"0"}


def test_the_hubs_rows_of_hellaswag_and_its_text_form_make_the_same_text(tmp_path):
    """What was left of WikiHow is taken out, and the begun sentence has its capital in both."""
    rows, text = tmp_path / "val.jsonl", tmp_path / "val.txt"
    rows.write_text(json.dumps(HELLASWAG) + "\n")
    lines = ["Roof shingle removal: A man is sitting on a roof. he", HELLASWAG["label"], *HELLASWAG["endings"]]
    text.write_text("\n".join(lines) + "\n")
    hub, plain = (load_dataset("hellaswag", Source(path=str(path), likelihood=True))[0] for path in (rows, text))
    assert hub.prompt == plain.prompt == "Roof shingle removal: A man is sitting on a roof. He"
    assert hub.choices == plain.choices
    assert hub.choices[0] == "is using wrap to wrap skis."
    assert hub.target == "pulls. up roofing."


def test_choices_that_are_weighed_have_no_place_to_leak_by(tmp_path):
    """TruthfulQA lists the true answer first; who weighs each by itself does not see that."""
    rows = [{"question": f"Which {i}?", "mc1_targets": {"choices": ["aa", "bb"], "labels": [1, 0]}} for i in range(30)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = load_dataset("truthfulqa:mc1", Source(path=str(path), likelihood=True))
    assert audit_dataset(dataset).findings == ()
    assert dataset.form.endswith("not comparable with lm-eval's figures")
    (tmp_path / "preamble.txt").write_text("\n\n".join(f"Q: {i}?\nA: {i}." for i in range(6)))
    dataset = load_dataset("truthfulqa:mc1", Source(path=str(path), likelihood=True))
    assert dataset.form == "lm-eval truthfulqa_mc1, 6 questions before it"
