"""The one address of the viewer that is written to: who may, what may be written, and what becomes of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import run, start
from support.made import Planted, write_run
from support.server import FakeServer
from support.viewing import TOKEN, Serving, serving

from tiebreak.store.votes import read_votes
from tiebreak.viewer.voting import answer_offers, pair_offers, voting_key

RUN = f"/vote/{voting_key('r')}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    planted = [
        Planted(label="a", planted=[1.0, 0.0, 1.0, 0.0], texts=["yes 0", "yes 1", "yes 2", "same"]),
        Planted(label="b", planted=[0.0, 0.0, 1.0, 0.0], texts=["no 0", "no 1", "no 2", "same"]),
        Planted(label="chance", planted=[0.0] * 4, texts=["c"] * 4, reference=True),
    ]
    write_run(tmp_path / "results" / "r", planted, 4)
    return tmp_path / "results"


@pytest.fixture
def server(root: Path) -> Iterator[Serving]:
    with serving(root) as running:
        yield running


def ask(server: Serving, method: str, path: str, body: object = None, **headers: str | None) -> tuple[int, str]:
    """A request as the page sends it, save for what is given; a header of None is left out."""
    own = f"http://127.0.0.1:{server.port}"
    sent: dict[str, str | None] = {"Cookie": f"tiebreak_{server.port}={TOKEN}", "Origin": own, "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        text = body if isinstance(body, str) else json.dumps(body)
        shown = {name: value for name, value in sent.items() if value is not None}
        connection.request(method, path, text if method == "POST" else None, shown)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def offered(server: Serving, person: str = "ann", kind: str = "pair") -> dict[str, object]:
    status, text = ask(server, "GET", f"{RUN}/next?person={person}&kind={kind}")
    assert status == 200, text
    return dict(json.loads(text))


def vote(server: Serving, ticket: object, verdict: str = "left", person: str = "ann", **headers: str | None) -> tuple[int, str]:
    return ask(server, "POST", f"{RUN}/votes", {"ticket": ticket, "person": person, "verdict": verdict}, **headers)


def test_answers_that_differ_in_score_come_first_equal_ones_and_references_never(server: Serving, root: Path) -> None:
    first = offered(server)
    assert (first["left"], first["question"]) == (3, "Question 0?")
    assert sorted(first["answers"]) == ["no 0", "yes 0"]
    assert offered(server, kind="answer")["left"] == 8


def test_names_are_told_once_the_vote_is_on_disk(server: Serving, root: Path) -> None:
    first = offered(server)
    assert "names" not in first
    status, text = vote(server, first["ticket"])
    names = json.loads(text)["names"]
    assert (status, sorted(names)) == (200, ["a", "b"])
    ((kept, _),) = read_votes(root / "r")
    assert (kept.person, kept.verdict, kept.sample) == ("ann", 1, "s00000")
    assert first["answers"] == (["yes 0", "no 0"] if names == ["a", "b"] else ["no 0", "yes 0"])
    assert offered(server)["left"] == 2
    assert offered(server, "bob")["left"] == 3


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Cookie": None}, 403),
        ({"Cookie": "tiebreak_1=wrong"}, 403),
        ({"Content_Type": "text/plain"}, 403),
        ({"Content_Type": None}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_nobody_else_may_vote(server: Serving, root: Path, headers: dict[str, str | None], status: int) -> None:
    ticket = offered(server)["ticket"]
    assert vote(server, ticket, **headers)[0] == status
    assert not list(read_votes(root / "r"))


@pytest.mark.parametrize("path", ["/", "/run/r", RUN, f"{RUN}/next", f"{RUN}/votes/", "/vote/x/votes", "//vote/votes"])
def test_nothing_else_is_written_to(server: Serving, path: str) -> None:
    assert ask(server, "POST", path, {})[0] == 405


def test_what_is_no_vote_is_refused(server: Serving, root: Path) -> None:
    ticket = offered(server)["ticket"]
    single = offered(server, kind="answer")["ticket"]
    bodies = ["", "{", "[]", '{"ticket": 1}', json.dumps({"ticket": ticket, "person": "ann", "verdict": "left", "more": 1})]
    assert {ask(server, "POST", f"{RUN}/votes", body)[0] for body in bodies} == {400}
    refused = [(ticket, "right!", "ann"), ("nothing", "left", "ann"), (ticket, "left", ""), (ticket, "left", "x" * 61)]
    assert {vote(server, *one)[0] for one in [*refused, (single, "left", "ann"), (ticket, "left", "a\u202eb")]} == {400}
    assert ask(server, "POST", f"{RUN}/votes", " " * 20_000)[0] == 413
    assert not list(read_votes(root / "r"))


def test_single_answers_are_drawn_by_contestant_and_verdict_alone(root: Path) -> None:
    """By turns of every contestant one that passed and one that failed: else votes could not correct the scores."""
    from tiebreak.viewer.voting import _Answer

    answers = [
        _Answer(trial=f"{c}-{i}", contestant=c, sample=f"s{i}", repeat=0, score=float(i % 4 == 0), text=b"")
        for c in (1, 2)
        for i in range(40)
    ]
    offers = answer_offers(answers)
    first = [(offer.contestants[0], int(offer.sample[1:]) % 4 == 0) for offer in offers[:12]]
    assert sorted(set(first)) == [(1, False), (1, True), (2, False), (2, True)]
    assert {first.count(kind) for kind in first} == {3}
    assert len(offers) == 80


def test_sides_are_drawn_and_do_not_depend_on_the_order_of_contestants() -> None:
    from tiebreak.viewer.voting import _Answer

    answers = [
        _Answer(trial=f"{c}-{i}", contestant=c, sample=f"s{i:03}", repeat=0, score=None, text=bytes([c]))
        for i in range(200)
        for c in (1, 2)
    ]
    first = sum(offer.contestants[0] == 1 for offer in pair_offers(answers))
    assert 70 < first < 130


def test_votes_on_a_run_that_goes_on_join_it_when_it_is_over(tmp_path: Path) -> None:
    """Its store has one writer; the votes wait beside it."""
    rows = [{"id": f"q{i}", "input": f"Say w{i}", "target": f"w{i}"} for i in range(30)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "other.json").write_text(json.dumps({"answers": [], "default": "no idea"}))
    root = tmp_path / "benchmark" / "results"
    folder = root / "r"
    with FakeServer(lambda prompt: prompt.split()[-1], latency_s=0.2) as models, serving(root) as server:
        line = "--models scripted/other.json,openai/good --dataset d.jsonl --max-connections 1 --output benchmark/results/r --yes"
        process = start("run", *line.split(), cwd=tmp_path, **models.environment())
        deadline = time.monotonic() + 60
        while len(models.ledger) < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        shown = offered(server)
        assert vote(server, shown["ticket"], "bad")[0] == 200
        assert process.poll() is None, "the run was over before the vote"
        assert process.wait(120) == 0
        process.communicate()
    run("report", "r", cwd=tmp_path)
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        assert connection.execute("SELECT scorer, better FROM preferences").fetchall() == [("human:ann", -1)]
