"""Logs of other tools become runs of ours, with the scores they had."""

import json
import os
import subprocess
import zipfile
from pathlib import Path
from statistics import fmean

import pytest
from conftest import _SHARED_DATA as DATA
from conftest import inspect_python
from support.command import only_run, read_csv, run

from tiebreak.core.errors import UsageError
from tiebreak.core.trial import Outcome
from tiebreak.imports.files import read_log

LOGS = DATA / "logs"

MADE_BY_INSPECT = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, solver

@solver
def stumbles():
    async def solve(state, generate):
        if state.sample_id == "broken":
            raise ValueError("on purpose")
        return state
    return solve

samples = [Sample(id=i, input=f"Say {t}", target=t) for i, t in (("right", "yes"), ("wrong", "no"), ("broken", "x"))]
outputs = [ModelOutput.from_content("mockllm/model", "yes") for _ in range(100)]
for output in outputs:
    output.usage = ModelUsage(input_tokens=2, output_tokens=1, total_tokens=3)
model = get_model("mockllm/model", custom_outputs=outputs)
task = Task(dataset=samples, solver=[stumbles(), generate()], scorer=[match(), includes()], epochs=2, name="yesno")
eval(task, model=model, log_dir=sys.argv[1], log_format="eval", display="none", fail_on_error=False)
"""


@pytest.mark.needs("data")
def test_lm_evals_samples_have_the_means_it_recorded():
    """TruthfulQA's generation of 817 questions: every figure of the results file is the mean of ours."""
    log = read_log(next((LOGS / "lm-eval").glob("samples_*.jsonl")))
    assert len(log.results) == 817
    assert log.task == "truthfulqa-multi_gen_en"
    recorded = {name.partition(",")[0]: value for name, value in log.recorded.items() if "stderr" not in name}
    compared = 0
    for name, value in recorded.items():
        theirs = f"lm-eval:{name}"
        scores = [result.scores[theirs].value for result in log.results if theirs in result.scores]
        if len(scores) == 817:
            assert fmean(scores) == pytest.approx(value, abs=1e-9)
            compared += 1
    assert compared >= 3


@pytest.mark.needs("data")
def test_inspects_logs_have_the_figures_it_recorded():
    for path in (LOGS / "inspect").glob("*.eval"):
        log = read_log(path)
        for name, value in log.recorded.items():
            scorer, _, metric = name.rpartition("/")
            scores = [result.scores[scorer].value for result in log.results if scorer in result.scores]
            if metric in ("accuracy", "mean"):
                assert fmean(scores) == pytest.approx(value)


@pytest.mark.needs("data")
def test_the_command_makes_a_run_that_can_be_reported(tmp_path):
    done = run("import", str(LOGS / "inspect" / "mmlu-summary-choices.eval"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert [row["model"] for row in rows] == ["openai/gpt-4o"]
    report = json.loads((only_run(tmp_path) / "comparison_report.json").read_text())
    assert report["protocol"]["form"].startswith("imported: made by Inspect")


@pytest.mark.needs("inspect")
def test_right_wrong_and_errored_samples_of_several_epochs_and_scorers_are_read(tmp_path):
    """As Inspect itself writes them today."""
    script = tmp_path / "make.py"
    script.write_text(MADE_BY_INSPECT)
    environment = {**os.environ, "INSPECT_LOG_LEVEL": "error", "HOME": str(tmp_path), "HTTPS_PROXY": "http://127.0.0.1:9"}
    command = [inspect_python(), str(script), str(tmp_path / "logs")]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=180)
    log = read_log(next((tmp_path / "logs").glob("*.eval")))
    assert len(log.results) == 6
    assert log.scorers[:2] == ("inspect:match", "inspect:includes")
    by_sample = {}
    for result in log.results:
        by_sample.setdefault(result.trial.sample.id, []).append(result)
    assert {r.trial.repeat for r in by_sample["right"]} == {0, 1}
    assert [r.scores["inspect:match"].value for r in by_sample["right"]] == [1.0, 1.0]
    assert [r.scores["inspect:includes"].value for r in by_sample["wrong"]] == [0.0, 0.0]
    assert {r.outcome for r in by_sample["broken"]} == {Outcome.FAILED}
    assert "on purpose" in by_sample["broken"][0].failure.message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.eval", b"not a zip"),
        ("samples_t_2024-01-01T00.jsonl", b"{}\n"),
        ("samples_t_2024-01-01T00.jsonl", b"nonsense"),
        ("x.txt", b""),
    ],
)
def test_what_is_no_log_is_named(tmp_path, name, content):
    path = Path(tmp_path / name)
    path.write_bytes(content)
    with pytest.raises(UsageError, match=name.partition(".")[0]):
        read_log(path)


def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path):
    head = json.dumps({"version": 2, "eval": {"model": "m", "task": "t"}})
    for name, members in {"one.eval": [200 << 20], "many.eval": [30 << 20] * 20}.items():
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", head)
            for number, size in enumerate(members):
                archive.writestr(f"samples/{number}.json", b" " * size)
        assert (tmp_path / name).stat().st_size < 1 << 20
        with pytest.raises(UsageError, match=r"would unpack to .* MB"):
            read_log(tmp_path / name)
