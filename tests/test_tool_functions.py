"""Tools answered by Python functions that the command line names, never by anything that data names."""

import contextlib
import json
import sqlite3

import pytest
from support.command import run
from support.server import Calls, FakeServer

TOOLS = """
import time
from math import sqrt

def add(a, b):
    return {"sum": a + b}

async def later(text):
    return text.upper()

def fails(n):
    raise ValueError(f"no {n}")

def leaves():
    raise SystemExit(3)

def interrupts():
    raise KeyboardInterrupt

def long():
    print("said while working")
    return "x" * 10**7

class Helper:
    def __init__(self):
        open("helper", "w")

def sleeps():
    time.sleep(3600)

def _hidden():
    return "secret"
"""
CALLED = {
    "Add 2 and 3.": ("add", {"a": 2, "b": 3}),
    "Say it later.": ("later", {"text": "hello"}),
    "Fail.": ("fails", {"n": 7}),
    "Leave.": ("leaves", {}),
    "Wrong.": ("add", {"c": 1}),
    "Root.": ("sqrt", {"x": 4}),
    "Hidden.": ("_hidden", {}),
    "Interrupt.": ("interrupts", {}),
    "Help.": ("Helper", {}),
}
TOLD = {
    "Add 2 and 3.": '{"sum": 5}',
    "Say it later.": "HELLO",
    "Fail.": "ValueError: no 7",
    "Leave.": "SystemExit",
    "Wrong.": "TypeError: add() got an unexpected keyword argument 'c'",
    "Root.": "no result is scripted for sqrt",
    "Hidden.": "no result is scripted for _hidden",
    "Interrupt.": "RuntimeError: KeyboardInterrupt()",
    "Help.": "no result is scripted for Helper",
}


def answer(prompt):
    """Calls what the question is about, then says what it was told."""
    return Calls((CALLED[prompt],)) if prompt in CALLED else f"I was told: {prompt}"


@pytest.fixture
def place(tmp_path):
    tools = [{"name": name} for name, _ in CALLED.values()]
    rows = [{"id": question, "input": question, "target": TOLD[question], "tools": tools} for question in CALLED]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def ask(place, server, *more, dataset="q.jsonl"):
    line = ("run", "--model", "gpt-4o", "--dataset", dataset, "--output", "out", "--yes", *more)
    return run(*line, cwd=place, **server.environment())


def texts(place):
    with contextlib.closing(sqlite3.connect(place / "out" / "run.sqlite")) as connection:
        return dict(connection.execute("SELECT sample, text FROM trials"))


def test_functions_answer_the_tools_of_their_names(place):
    """Plain and async ones; what they raise is told to the model; what the file imports or hides is no tool."""
    with FakeServer(answer) as server:
        done = ask(place, server, "--agent", "direct@tools=./tools.py")
    assert done.returncode == 0, done.stdout + done.stderr
    said = texts(place)
    assert {question: told in said[question] for question, told in TOLD.items()} == dict.fromkeys(TOLD, True)
    assert len(server.ledger) == 2 * len(CALLED)
    assert "Traceback" not in done.stdout + done.stderr
    assert not (place / "helper").exists()


def test_long_results_are_cut_and_prints_leave_standard_output_alone(place):
    row = {"id": "s", "input": "Long.", "target": "x", "tools": [{"name": "long"}]}
    (place / "one.jsonl").write_text(json.dumps(row))
    with FakeServer(lambda prompt: Calls((("long", {}),)) if prompt == "Long." else f"{len(prompt)}") as server:
        done = ask(place, server, "--agent", "direct@tools=./tools.py", "--json", dataset="one.jsonl")
    assert [json.loads(line) for line in done.stdout.splitlines()]
    assert "said while working" in done.stderr
    assert 100_000 < int(texts(place)["s"]) < 100_020


def test_scripted_results_come_first(place):
    row = {"id": "s", "input": "Add 2 and 3.", "target": "x", "tools": [{"name": "add"}]}
    row |= {"tool_results": [{"name": "add", "arguments": {"a": 2, "b": 3}, "result": "six"}]}
    (place / "one.jsonl").write_text(json.dumps(row))
    with FakeServer(answer) as server:
        ask(place, server, "--agent", "direct@tools=./tools.py", dataset="one.jsonl")
    assert texts(place) == {"s": "I was told: six"}


def test_function_that_never_ends_holds_up_neither_the_run_nor_its_end(place):
    row = {"id": "s", "input": "Sleep.", "target": "x", "tools": [{"name": "sleeps"}]}
    (place / "one.jsonl").write_text(json.dumps(row))
    (place / "slow.py").write_text("import tiebreak.agents.functions as f\nf.LONGEST_S = 0.5\n" + TOOLS)
    with FakeServer(lambda prompt: Calls((("sleeps", {}),)) if prompt == "Sleep." else prompt) as server:
        done = ask(place, server, "--agent", "direct@tools=./slow.py", dataset="one.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert texts(place) == {"s": "sleeps took longer than 0.5 s"}


@pytest.mark.parametrize(
    ("file", "told"),
    [("./none.py", "there is no file"), ("./broken.py", "SyntaxError"), ("q.jsonl", "SyntaxError"), ("", "there is no file")],
)
def test_file_that_is_none_is_refused_before_anything_is_asked(place, file, told):
    (place / "broken.py").write_text("def broken(:\n")
    with FakeServer(answer) as server:
        done = ask(place, server, "--agent", f"direct@tools={file}")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert server.ledger == []
    if file in ("./none.py", "./broken.py"):
        assert told in done.stderr


def test_data_cannot_name_functions(place):
    """A column of that name is ignored, and said to be."""
    row = {"id": "s", "input": "Add 2 and 3.", "target": "x", "tools": [{"name": "add"}], "functions": "./tools.py"}
    (place / "one.jsonl").write_text(json.dumps(row))
    with FakeServer(answer) as server:
        done = ask(place, server, dataset="one.jsonl")
    assert "functions" in done.stdout + done.stderr
    assert len(server.ledger) == 1
