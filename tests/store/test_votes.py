"""Votes beside a store: kept before they are confirmed, joined once, never lost and never doubled."""

import contextlib
import sqlite3

import pytest
from support.made import Planted, write_run

from tiebreak.store.folder import DATABASE, owned
from tiebreak.store.store import bring_in_votes
from tiebreak.store.votes import VOTES, Vote, append_vote, read_votes


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "r", [Planted(label="a", planted=[1.0, 0.0]), Planted(label="b", planted=[0.0, 0.0])], 2)


def query(folder, words):
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection:
        return connection.execute(words).fetchall()


def answers(folder):
    return [row[0] for row in query(folder, "SELECT id FROM trials WHERE sample = 's00000' ORDER BY contestant")]


def pair_vote(folder, verdict, person="ann"):
    first, second = answers(folder)
    return Vote(person=person, sample="s00000", first=first, second=second, verdict=verdict, at="2026-01-01")


def standing(folder):
    return query(folder, "SELECT scorer, better FROM preferences WHERE superseded = 0 ORDER BY number")


def test_votes_are_joined_once_however_often_the_run_is_read(folder):
    append_vote(folder, pair_vote(folder, 1))
    bring_in_votes(folder)
    bring_in_votes(folder)
    assert standing(folder) == [("human:ann", 1)]


def test_a_later_vote_replaces_an_earlier_one_also_with_the_sides_turned(folder):
    first, second = answers(folder)
    append_vote(folder, pair_vote(folder, 1))
    bring_in_votes(folder)
    turned = Vote(person="ann", sample="s00000", first=second, second=first, verdict=0, at="2026-01-02")
    append_vote(folder, turned)
    append_vote(folder, pair_vote(folder, 2, person="bob"))
    bring_in_votes(folder)
    assert standing(folder) == [("human:ann", 0), ("human:bob", 2)]


def test_a_vote_that_was_sent_twice_is_one_vote_and_one_taken_back_is_none(folder):
    append_vote(folder, pair_vote(folder, -1))
    append_vote(folder, pair_vote(folder, -1))
    bring_in_votes(folder)
    assert standing(folder) == [("human:ann", -1)]
    append_vote(folder, pair_vote(folder, None))
    bring_in_votes(folder)
    assert standing(folder) == []


def test_votes_on_single_answers_are_verdicts_of_people(folder):
    vote = Vote(person="ann", sample="s00000", first=answers(folder)[0], verdict=1, at="2026-01-01")
    append_vote(folder, vote)
    bring_in_votes(folder)
    assert query(folder, "SELECT scorer, value FROM judgements WHERE superseded = 0") == [("human:ann", 1.0)]
    append_vote(folder, Vote(person="ann", sample="s00000", first=answers(folder)[0], verdict=None, at="2026-01-01"))
    bring_in_votes(folder)
    assert query(folder, "SELECT count(*) FROM judgements WHERE superseded = 0") == [(0,)]


def test_a_line_that_a_kill_cut_off_costs_itself_alone(folder):
    append_vote(folder, pair_vote(folder, 1))
    with (folder / VOTES).open("ab") as file:
        file.write(b'{"person":"a')
    bring_in_votes(folder)
    append_vote(folder, pair_vote(folder, 2, person="bob"))
    bring_in_votes(folder)
    assert standing(folder) == [("human:ann", 1), ("human:bob", 2)]
    assert [vote.person for vote, _ in read_votes(folder)] == ["ann", "bob"]


def test_while_somebody_holds_the_run_votes_wait_beside_it(folder):
    append_vote(folder, pair_vote(folder, 1))
    with owned(folder):
        bring_in_votes(folder)
        assert standing(folder) == []
    bring_in_votes(folder)
    assert standing(folder) == [("human:ann", 1)]
