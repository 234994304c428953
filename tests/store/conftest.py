"""Runs over a real file, with a scripted model and a real database."""

import json
from datetime import UTC, datetime

import pytest
from support.specs import contestant, spec_of

from tiebreak.core.model import ModelRef
from tiebreak.core.run import Protocol, RetryPolicy, RunInfo
from tiebreak.pipeline import run_benchmark

MODEL = ModelRef(provider="scripted", name="script", label="model")


@pytest.fixture
def info():
    """A function that describes a run."""

    def _info(**changes):
        protocol = {"dataset": "d", "dataset_digest": "00", "scorers": ("match/1",)}
        return RunInfo(
            run_id="run",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            command="tiebreak run",
            protocol=Protocol(**{**protocol, **changes}),
            contestants=(contestant(MODEL),),
            planned=1,
            made_with="a test",
        )

    return _info


@pytest.fixture
def run(tmp_path):
    """A function that runs three questions on a script of answers; the run can be gone on with."""
    dataset, script = tmp_path / "data.jsonl", tmp_path / "script.json"
    folder = tmp_path / "results" / "run_1"

    async def _run(answers, questions=("one", "two", "three"), **options):
        dataset.write_text("".join(json.dumps({"id": q, "input": f"Say {q}", "target": q}) + "\n" for q in questions))
        script.write_text(json.dumps({"answers": answers, "default": "?"}))
        model = ModelRef(provider="scripted", name=str(script), label="model")
        retry = RetryPolicy(max_attempts=1)
        spec = spec_of([model], str(dataset), folder, retry=retry, max_connections=1, **options)
        events = []
        summary = await run_benchmark(spec, watch=events.append)
        return summary, events

    _run.folder = folder
    return _run
