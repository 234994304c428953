"""Runs through a storm of faults end as calm ones do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import read_csv
from support.faults import DIALECTS, KEYS, Asked, FaultServer
from support.specs import spec_of

from tiebreak.core.events import ContestantFinished, ContestantState, ContestantWaiting, Event, TrialFinished
from tiebreak.core.model import ModelRef
from tiebreak.core.run import RetryPolicy
from tiebreak.pipeline import TRIALS_CSV, run_benchmark, write_reports
from tiebreak.report.summary import Summary

SAMPLES = 500
SHARE = 0.3
MAX_ATTEMPTS = 10
PROVIDERS = {
    "chat": ("openai", "OPENAI_API_KEY"),
    "responses": ("openai-responses", "OPENAI_API_KEY"),
    "messages": ("anthropic", "ANTHROPIC_API_KEY"),
    "gemini": ("google", "GOOGLE_API_KEY"),
    "ollama": ("ollama", ""),
}
STORM = (
    *("status 408", "status 409", "status 429", "status 500", "status 502", "status 503", "status 504", "status 529"),
    *("reset before the answer", "closed before the answer", "reset mid-body", "half a head", "half a body, then close"),
    *("half a body of unknown length", "malformed JSON", "empty body", "200 text/html", "broken gzip", "half of a gzip"),
    *("error after 200: overloaded", "error after 200: rate limit", "binary rubbish", "not HTTP", "429 zero"),
)
UNLIKE = frozenset({"model_s", "first_token_s", "first_answer_s", "queue_s", "retry_s", "in_flight", "attempts", "finished_at"})
"""Columns that a storm may change."""


def _chance(asked: Asked, number: int) -> random.Random:
    """The same for the same request of the same sample, in whatever order they come."""
    return random.Random(f"{asked.dialect} {asked.prompt} {number}")


def _storm(asked: Asked, number: int) -> str:
    chance = _chance(asked, number)
    return chance.choice(STORM) if chance.random() < SHARE else "fine"


def _latency_s(asked: Asked, number: int) -> float:
    return _chance(asked, number).uniform(0.0, 0.01)


def _letter(prompt: str) -> str:
    return "ABCD"[hashlib.sha256(prompt.encode()).digest()[0] % 4]


@pytest.fixture(autouse=True)
def _canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every provider has a key, which the server repeats in its errors; none is found in any file or log afterwards."""
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    caplog.set_level(logging.DEBUG)
    yield
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.suffix == ".sqlite" for path in kept)
    assert {(name, path) for name, key in KEYS.items() for path, data in kept.items() if key.encode() in data} == set()
    assert {name for name, key in KEYS.items() if key in caplog.text} == set()


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "d.jsonl"
    rows = ({"id": f"s{i}", "input": f"Question {i}", "target": "b", "choices": ["a", "b", "c", "d"]} for i in range(SAMPLES))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _models(server: FaultServer) -> tuple[ModelRef, ...]:
    return tuple(
        ModelRef(
            provider=PROVIDERS[dialect][0],
            name=f"model-{dialect}",
            label=dialect,
            base_url=server.base_url(dialect),
            key_variable=PROVIDERS[dialect][1],
        )
        for dialect in DIALECTS
    )


async def _run(server: FaultServer, dataset: Path, folder: Path, *, request_timeout_s: float = 20) -> tuple[Summary, list[Event]]:
    spec = spec_of(
        _models(server),
        str(dataset),
        folder,
        max_workers=len(DIALECTS),
        max_connections=16,
        request_timeout_s=request_timeout_s,
        retry=RetryPolicy(max_attempts=MAX_ATTEMPTS, first_wait_s=0.002, longest_wait_s=0.02),
    )
    told: list[Event] = []
    summary = await run_benchmark(spec, watch=told.append)
    write_reports(folder, csv_path=folder / TRIALS_CSV)
    assert not [key for key in KEYS.values() for event in told if key in repr(event)]
    return summary, told


def _rows(folder: Path) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name not in UNLIKE} for row in read_csv(folder / TRIALS_CSV)]


def _scores(folder: Path) -> list[dict[str, object]]:
    models = json.loads((folder / "comparison_report.json").read_text())["contestants"]
    return [{name: model[name] for name in ("model", "score")} for model in models]


def _finished(told: list[Event]) -> Counter[tuple[str, str]]:
    results = [event.result for event in told if isinstance(event, TrialFinished)]
    return Counter((result.trial.model.label, result.trial.sample.id) for result in results)


async def test_storm_changes_no_score(tmp_path: Path, dataset: Path) -> None:
    """A third of all answers is a fault; every trial still ends once, and as it would have in a calm."""
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    with FaultServer(_letter, latency_s=_latency_s) as server:
        await _run(server, dataset, calm)
        assert {account.requests for account in server.ledger.values()} == {1}
        server.ledger.clear()
        server.script = _storm
        _, told = await _run(server, dataset, stormy)
        ledger = {asked: account for asked, account in server.ledger.items() if asked[1]}  # loading is no trial

    faults = Counter(name for account in ledger.values() for name in account.answered)
    asked = faults.total()
    assert 0.25 < 1 - faults["fine"] / asked < 0.35
    assert set(faults) == {*STORM, "fine"}

    assert set(_finished(told).values()) == {1}
    assert len(_finished(told)) == SAMPLES * len(DIALECTS)
    ends = [event for event in told if isinstance(event, ContestantFinished)]
    assert {event.state for event in ends} == {ContestantState.FINISHED}
    assert sum(event.done for event in ends) == SAMPLES * len(DIALECTS)
    assert sum(isinstance(event, ContestantWaiting) for event in told) > 0

    assert len(_rows(stormy)) == SAMPLES * len(DIALECTS)
    assert _rows(stormy) == _rows(calm)
    assert _scores(stormy) == _scores(calm)

    attempts = {(row["model"], row["prompt"]): int(row["attempts"]) for row in read_csv(stormy / TRIALS_CSV)}
    counted = Counter[str]()
    for (label, _), number in attempts.items():
        counted[label] += number
    received = Counter[str]()
    for (model, _), account in ledger.items():
        received[model.removeprefix("model-")] += account.requests
    assert counted == received
    assert max(attempts.values()) <= MAX_ATTEMPTS


@pytest.mark.parametrize("fault", ["status 401", "insufficient quota", "status 402", "status 404"])
async def test_model_that_is_cut_off_mid_run_stops_alone(fault: str, tmp_path: Path, dataset: Path) -> None:
    """Within as many further requests as were in flight; what it has is kept, and the others finish."""
    seen = Counter[str]()

    def cut_off(asked: Asked, number: int) -> str:
        seen[asked.dialect] += 1
        return fault if asked.dialect == "messages" and seen["messages"] > 100 else "fine"

    with FaultServer(_letter) as server:
        server.script = cut_off
        _, told = await _run(server, dataset, tmp_path / "run")

    states = {event.contestant: event.state for event in told if isinstance(event, ContestantFinished)}
    assert states == {name: ContestantState.FAILED if name == "messages" else ContestantState.FINISHED for name in DIALECTS}
    assert seen == dict.fromkeys(DIALECTS, SAMPLES) | {"messages": seen["messages"]}
    assert 100 < seen["messages"] <= 100 + 16
    rows = Counter((row["model"], row["outcome"]) for row in read_csv(tmp_path / "run" / TRIALS_CSV))
    assert rows["messages", "answered"] == 100
    assert rows["messages", "failed"] <= 16
    assert all(rows[name, "answered"] == SAMPLES for name in DIALECTS if name != "messages")


async def test_fault_while_a_model_is_loaded_passes(tmp_path: Path, dataset: Path) -> None:
    """A server that is busy for a moment has not lost the model."""
    with FaultServer(_letter) as server:
        server.loading = ("status 503", "reset before the answer", "fine")
        _, told = await _run(server, dataset, tmp_path / "run")

    assert {event.state for event in told if isinstance(event, ContestantFinished)} == {ContestantState.FINISHED}


async def test_model_that_never_loads_does_not_hold_up_the_run(tmp_path: Path, dataset: Path) -> None:
    """Every wait has a deadline."""
    with FaultServer(_letter) as server:
        server.loading = ("never answers",)
        async with asyncio.timeout(30):
            await _run(server, dataset, tmp_path / "run", request_timeout_s=0.5)
