"""Of a streamed answer two waits are known: to the first thought, and to the first word of the answer."""

import asyncio
import json
import sqlite3

import pytest
from aiohttp import web
from support.command import read_csv, run

from tiebreak.core.contestant import Contestant
from tiebreak.core.model import ModelRef
from tiebreak.core.run import Pace, Protocol, RunSpec
from tiebreak.pipeline import read_summary, run_benchmark, write_reports
from tiebreak.store.schema import MIGRATIONS, OLDEST

THINKS_S = 0.15


async def thinks_then_answers(request):
    """A stream of two thoughts and, later, an answer."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    model = (await request.json())["model"]
    deltas = [{"reasoning_content": "Let me see."}, {"reasoning_content": " Yes."}] if model == "thinker" else []
    for delta in deltas:
        await send(response, model, {"delta": delta})
    await asyncio.sleep(THINKS_S if deltas else 0)
    await send(response, model, {"delta": {"content": "yes"}})
    await send(response, model, {"delta": {}, "finish_reason": "stop"})
    await response.write(b"data: [DONE]\n\n")
    return response


async def send(response, model, choice):
    piece = {"model": model, "choices": [{"index": 0, **choice}]}
    await response.write(b"data: " + json.dumps(piece).encode() + b"\n\n")


@pytest.fixture
async def finished(tmp_path):
    """A run of one model that thinks first and one that does not."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", thinks_then_answers)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"input": f"{i}?", "target": "yes"}) + "\n" for i in range(8)))
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    models = [ModelRef(provider="openai", name=name, label=name, base_url=url) for name in ("thinker", "quick")]
    spec = RunSpec(
        protocol=Protocol(dataset=str(tmp_path / "q.jsonl")),
        contestants=tuple(Contestant(label=model.label, model=model) for model in models),
        pace=Pace(stream=True, max_workers=2),
        results_dir=tmp_path / "run",
    )
    summary = await run_benchmark(spec)
    await runner.cleanup()
    return tmp_path, summary


async def test_thinking_is_told_apart_from_answering(finished):
    folder, summary = finished
    thinker, quick = (next(c.latency for c in summary.contestants if c.label == label) for label in ("thinker", "quick"))
    assert thinker.first_answer_p50_s - thinker.first_token_p50_s >= THINKS_S * 0.9
    assert quick.first_answer_p50_s - quick.first_token_p50_s < THINKS_S / 2
    write_reports(folder / "run", csv_path=folder / "run" / "trials.csv")
    waits = [(float(row["first_token_s"]), float(row["first_answer_s"])) for row in read_csv(folder / "run" / "trials.csv")]
    assert len(waits) == 16
    assert all(0 < first <= answer for first, answer in waits)


async def test_store_without_that_column_is_brought_up_to_date(finished):
    """As runs of an earlier version are: read, reported and resumed as they were."""
    folder, _ = finished
    with sqlite3.connect(folder / "run" / "run.sqlite") as connection:
        connection.execute("ALTER TABLE trials DROP COLUMN first_answer_s")
        connection.execute("DELETE FROM figures")
        for later in ("risked", "unknown_calls"):
            connection.execute(f"DROP TABLE {later}")
        connection.execute(f"PRAGMA user_version = {OLDEST}")
    connection.close()
    summary = await asyncio.to_thread(read_summary, folder / "run")
    assert [c.latency.first_answer_p50_s for c in summary.contestants] == [None, None]
    with sqlite3.connect(folder / "run" / "run.sqlite") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (OLDEST + len(MIGRATIONS) - 1,)
    connection.close()
    done = await asyncio.to_thread(run, "report", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
