"""The yardstick: the loop a competent person writes, which asks the same questions and keeps nothing; prints JSON."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import uvloop
from measure import CLIENT_CORE, Stopwatch, pin, prompts


async def worker(session: aiohttp.ClientSession, url: str, todo: Iterator[str]) -> int:
    """Ask until nothing is left to ask; the answers counted."""
    answers = 0
    for prompt in todo:
        body = {"model": "mock", "messages": [{"role": "user", "content": prompt}]}
        async with session.post(url, json=body) as response:
            reply = await response.json()
        answers += bool(reply["choices"][0]["message"]["content"])
    return answers


async def ask_all(url: str, dataset: Path, connections: int) -> None:
    """Ask every question of the dataset and measure."""
    todo = prompts(dataset)
    watch = Stopwatch()
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector, headers={"Authorization": "Bearer x"}) as session:
        answers = await asyncio.gather(*(worker(session, url, todo) for _ in range(connections)))
    watch.report(rows=sum(answers))


def main() -> None:
    """Ask the questions of a dataset file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base_url")
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--connections", type=int, default=64)
    arguments = parser.parse_args()
    pin(CLIENT_CORE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask_all(f"{arguments.base_url}/chat/completions", arguments.dataset, arguments.connections))


if __name__ == "__main__":
    main()
