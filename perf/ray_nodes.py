"""Real Ray nodes in network namespaces: how much faster are 2 and 3 than 1, and what does a trial cost the driver?

Questions wait two seconds on a server, four at once on each node. As root, with `ip` and the packages of `make test-all`:

    python perf/ray_nodes.py
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.ray_network import RayNetwork  # noqa: E402
from support.server import FakeServer  # noqa: E402

ANSWER_S = 2.0
PER_NODE = 4
SECONDS = 40
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of CPU a process has used, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def committed(folder: Path) -> int:
    """How many results are on disk."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.Error:
        return 0


def measure(network: RayNetwork, nodes: int, folder: Path) -> tuple[float, float]:
    """Trials a second and CPU milliseconds of the driver a trial, on so many nodes, from the first results to nearly the last."""
    trials = int(nodes * PER_NODE / ANSWER_S * SECONDS)
    rows = [{"id": i, "question": f"What is {i}?", "answer": "A"} for i in range(trials)]
    (folder / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeServer(host=network.host, latency_s=ANSWER_S) as server:
        line = ("run", "--model", "openai/gpt-x", "--dataset", "exam.jsonl", "--on", "ray", "--per-node", str(PER_NODE))
        line += ("--max-connections", str(nodes * PER_NODE), "--send-keys", "--output", str(nodes), "--no-csv", "--quiet")
        keys = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "perf-key"}
        process = network.start(*line, cwd=folder, **keys)
        marks = []
        for enough in (nodes * PER_NODE, trials - nodes * PER_NODE):
            while (count := committed(folder / str(nodes))) < enough:
                assert process.poll() is None, process.communicate()[0]
                time.sleep(0.02)
            marks.append((time.monotonic(), count, cpu_s(process.pid)))
        process.communicate()
    (began, first, before), (ended, last, after) = marks
    return (last - first) / (ended - began), (after - before) / (last - first) * 1000


def main() -> None:
    """A row for each number of nodes."""
    print("| nodes | trials a second | of ideal | driver CPU a trial |\n|---:|---:|---:|---:|", flush=True)
    for nodes in (1, 2, 3):
        with RayNetwork(nodes) as network, tempfile.TemporaryDirectory() as folder:
            rate, ms = measure(network, nodes, Path(folder))
        print(f"| {nodes} | {rate:.2f} | {rate / (nodes * PER_NODE / ANSWER_S):.0%} | {ms:.1f} ms |", flush=True)


if __name__ == "__main__":
    main()
