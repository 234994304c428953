"""A real Ray cluster of three nodes: faults at random, a driver that is killed, keys that stay where they are.

`make ray-faults` does the same at length: RAY_FAULTS faults, RAY_DRIVER_KILLS kills, RAY_QUESTIONS questions and RAY_TASKS
coding tasks.
"""

import json
import os
import random
import re
import secrets
import signal
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from support.agent_model import AgentModel
from support.command import ROOT
from support.command import run as run_here
from support.ray_network import RayNetwork, wait_until
from support.server import FakeServer

pytestmark = [pytest.mark.needs("ray", "namespaces", "bubblewrap"), pytest.mark.filterwarnings("ignore")]

FAULTS = int(os.environ.get("RAY_FAULTS", "2"))
KILLS = int(os.environ.get("RAY_DRIVER_KILLS", "1"))
QUESTIONS = int(os.environ.get("RAY_QUESTIONS", "60"))
TASKS = int(os.environ.get("RAY_TASKS", "6"))
SEED = int(os.environ.get("RAY_SEED", "1"))
PER_NODE = 4
CANARY = f"canary-sk-{secrets.token_hex(9)}"
"""Another one every time: a copy of this file is no leak."""
_ENDS_S = 240 + 45 * FAULTS
"""A run ends; this long it may take on a busy computer, faults and restarts of Ray included."""
_WAITS_S = 300
"""For what comes within seconds on a computer that has nothing else to do."""


@pytest.fixture(scope="module")
def network():
    with RayNetwork() as network:
        yield network


@pytest.fixture
def exam(tmp_path):
    path = tmp_path / "exam.jsonl"
    rows = [{"id": f"q{i}", "question": f"What is {i} + {i}?", "answer": "A"} for i in range(QUESTIONS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def tasks(tmp_path):
    folder = tmp_path / "tasks"
    folder.mkdir()
    text = (ROOT / "benchmark" / "tasks" / "easy" / "fix_typo.md").read_text()
    for i in range(TASKS):
        (folder / f"typo_{i}.md").write_text(text.replace("# Demo", f"# Demo {i}"))
    return folder


def results(folder: Path) -> dict[str, tuple]:
    """How each trial ended, by its id."""
    with sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True) as store:
        return {row[0]: row[1:] for row in store.execute("SELECT id, outcome, score, text FROM trials WHERE superseded = 0")}


def committed(folder: Path) -> int:
    """How many results are on disk."""
    try:
        return len(results(folder))
    except sqlite3.Error:
        return 0


def openai(server, *, key=CANARY):
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": key}


class Havoc(threading.Thread):
    """Kills, freezes and cuts off nodes at random, and brings them back, until it has done so often enough or is stopped."""

    def __init__(self, network: RayNetwork, *, faults: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.network, self.faults, self.chance = network, faults, random.Random(seed)
        self.done: list[str] = []
        self.over = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while len(self.done) < self.faults and not self.over.wait(self.chance.uniform(0.5, 3.0)):
                self._one()
        except BaseException as error:
            self.problem = error

    def _one(self) -> None:
        node = self.chance.choice([1, 2])
        fault = self.chance.choice(["kill", "freeze", "blink", "cut", "worker", "head's worker"])
        for_s = self.chance.uniform(1, 4) if fault == "blink" else self.chance.uniform(16, 20)
        self.done.append(f"{fault} {node}")
        if fault == "kill":
            self.network.kill(node)
        elif fault in ("worker", "head's worker"):
            self.network.kill_worker(node if fault == "worker" else 0)
            return
        elif fault in ("freeze", "blink"):
            self.network.freeze(node)
            self.over.wait(for_s)
            self.network.thaw(node)
        else:
            self.network.cut(node)
            self.over.wait(for_s)
            self.network.mend(node)
        time.sleep(2)
        self.network.bring_back(node)


def ended(network, process, *, code):
    """What a run said until its end, which it must come to, with this exit code."""
    try:
        out, _ = process.communicate(timeout=_ENDS_S)
    except BaseException:
        out = killed(process)
        pytest.fail(f"the run did not end within {_ENDS_S} s:\n{network.last_words(process, out)}")
    assert process.returncode == code, network.last_words(process, out)
    return out


def killed(process):
    """What a run had said when it was killed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()[0]


def wait_for(network, process, true, *, what):
    """Wait until something has come true of a run; where it does not, the run's own last words say why."""
    wait_until(lambda: true() or process.poll() is not None, seconds=_WAITS_S)
    if not true():
        pytest.fail(f"{what}, which was waited for, did not come; the run said:\n{network.last_words(process, killed(process))}")


def wait_for_results(network, process, folder, *, more_than):
    wait_for(network, process, lambda: committed(folder) > more_than, what=f"more than {more_than} results")


def test_questions_end_as_on_one_machine_and_keys_stay_where_they_are(network, exam, tmp_path):
    """Every trial ends once; no committed trial is asked again: what is asked twice was in flight at a fault.

    And the key that is handed over in memory is nowhere else: in no log, environment, process list or folder of Ray.
    """
    latency_s = max(0.4, FAULTS * 14 / (QUESTIONS / (3 * PER_NODE)))
    with FakeServer(host=network.host) as server:
        asked_of = ("run", "--model", "openai/gpt-x", "--dataset", str(exam))
        done = run_here(*asked_of, "--output", "one", cwd=tmp_path, **openai(server))
        assert done.returncode == 0, done.stdout + done.stderr
        server.ledger.clear()
        server.latency_s = latency_s
        line = (*asked_of, "--on", "ray", "--per-node", str(PER_NODE))
        line += ("--max-connections", str(3 * PER_NODE), "--send-keys", "--output", "three", "--no-csv")
        process = network.start(*line, cwd=tmp_path, **openai(server))
        wait_for_results(network, process, tmp_path / "three", more_than=3)
        assert keys_of_ray(network, process.pid) == []
        assert keys_of_ray(network, 0) != [], "the driver has the key: who looks for it finds it"
        havoc = Havoc(network, faults=FAULTS, seed=SEED)
        havoc.start()
        try:
            out = ended(network, process, code=0)
        finally:
            havoc.over.set()
            havoc.join(_WAITS_S)
    if havoc.problem:
        raise havoc.problem
    assert results(tmp_path / "three") == results(tmp_path / "one")
    asked = Counter(one.prompt for one in server.ledger)
    lost = len(re.findall(r"node \S+: lost", out))
    print(f"\nquestions: {len(havoc.done)} faults {havoc.done}, {lost} nodes lost, {len(server.ledger)} asked of {QUESTIONS}")
    assert len(asked) == QUESTIONS
    assert len(server.ledger) - QUESTIONS <= PER_NODE * lost
    assert len(havoc.done) >= min(FAULTS, 1)
    # Nothing of Ray, of the run or of what lies in memory files has the key; what is looked for would be found.
    control = network.folder / "ray" / "control"
    control.write_text(CANARY)
    assert files_with_keys(network.folder, tmp_path, Path("/tmp/ray"), Path("/dev/shm")) == [str(control)]
    for node in (1, 2):
        network.bring_back(node)


def test_coding_tasks_and_a_killed_driver_end_as_on_one_machine(network, tasks, tmp_path):
    """The driver is killed and resumed, a node is lost: every task is done, and what was done is not done again."""
    with AgentModel(host=network.host, slow_s=0.4) as server:
        line = ("batch", "--task", str(tasks), "--model", "openai/slow", "--on", "ray", "--per-node", "2", "--send-keys")
        options = ("--max-connections", "6", "--no-csv")
        process = network.start(*line, *options, "--output", "batch", cwd=tmp_path, **openai(server))
        folder, havoc = tmp_path / "batch", Havoc(network, faults=FAULTS // 2, seed=SEED + 1)
        for number in range(KILLS):
            wait_for_results(network, process, folder, more_than=number * TASKS // (KILLS + 1))
            killed(process)
            before = results(folder)
            process = network.start("batch", "--resume", "batch", *line[5:], *options, cwd=tmp_path, **openai(server))
            if number == 0:
                havoc.start()
        try:
            ended(network, process, code=0)
        finally:
            havoc.over.set()
            havoc.join(_WAITS_S)
    if havoc.problem:
        raise havoc.problem
    found = results(folder)
    print(f"\ntasks: {KILLS} drivers killed, {len(havoc.done)} faults {havoc.done}, {len(server.ledger)} calls")
    assert len(found) == TASKS
    assert {row[1] for row in found.values()} == {1.0}
    assert all(found[key] == row for key, row in before.items())
    for node in (1, 2):
        network.bring_back(node)


def test_a_budget_holds_when_a_node_is_lost_with_calls_in_flight(network, tmp_path):
    """What the server could charge for stays below the cap, also by what a resumed run asks: lost calls count at their worst."""
    rows = [{"id": f"q{i}", "question": f"What is {i} + {i}?", "answer": "A"} for i in range(120)]
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "models_config.yaml").write_text(PRICED)
    in_flight = 3 * PER_NODE
    with FakeServer(host=network.host) as server:
        line = (
            "run",
            "--model",
            "gpt-x",
            "--max-tokens",
            "4",
            "--max-cost",
            str(CAP_USD),
            "--on",
            "ray",
            "--send-keys",
            "--no-csv",
        )
        line += ("--per-node", str(PER_NODE), "--max-connections", str(in_flight))
        server.hold()
        process = network.start(*line, "--dataset", "exam.jsonl", "--output", "capped", cwd=tmp_path, **openai(server))
        # No answer comes: the node is lost with all the calls it may have in flight.

        def all_in_flight():
            # A node that was cut off may hear only now that it was given up, and leave.
            for node in (1, 2):
                network.bring_back(node)
            return server.in_flight == in_flight

        # The first request is sent alone, to show what one costs.
        wait_for(network, process, lambda: server.in_flight, what="the first call")
        server.release()
        wait_for(network, process, lambda: len(server.ledger) > 1, what="a second call")
        server.hold()
        wait_for(network, process, all_in_flight, what=f"{in_flight} calls in flight")
        network.kill(2)
        wait_for(network, process, lambda: server.in_flight == in_flight - PER_NODE, what="the end of a node's calls")
        server.release()
        out = ended(network, process, code=2)
        assert "node 10" in out and "lost" in out and "--max-cost" in out, out[-6000:]
        bill = CALL_USD * len(server.ledger)
        print(f"\nbudget: ${bill:.2f} of ${CAP_USD} for {len(server.ledger)} calls, {committed(tmp_path / 'capped')} results")
        assert CAP_USD / 2 < bill <= CAP_USD
        # What was lost is known to whoever resumes the run, here on this machine alone.
        again = run_here("run", "--resume", "capped", "--no-csv", cwd=tmp_path, **openai(server))
        assert again.returncode == 2, again.stdout + again.stderr
        assert CALL_USD * len(server.ledger) <= CAP_USD


CALL_USD, CAP_USD = 0.03, 1.5
"""An answer has three tokens; one more would be the longest that is allowed."""
PRICED = "models:\n  - {name: gpt-x, provider: openai, price: {input: 0, output: 10000}}\n"


def keys_of_ray(network, driver_pid):
    """Processes of Ray that have the key in their environment or their command line; the driver was given it."""
    driver = _family(driver_pid)
    pids = [pid for node in range(3) for pid in set(network.pids(node)) - driver]
    return [f"{name} of {pid}" for pid in pids for name in ("environ", "cmdline") if _has_canary(Path(f"/proc/{pid}/{name}"))]


def files_with_keys(*places):
    """Files below some folders that have the key in them."""
    files = [Path(folder) / name for place in places for folder, _, names in os.walk(place) for name in names]
    return [str(file) for file in files if file.is_file() and _has_canary(file)]


def _family(pid: int) -> set[int]:
    """A process and its children: the driver itself, which was given the key."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return {pid, *(one for child in children for one in _family(int(child)))}


def _has_canary(file: Path) -> bool:
    try:
        return CANARY.encode() in file.read_bytes()
    except OSError:
        return False
