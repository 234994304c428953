"""Blind votes: which of two answers is better, or whether one is right; nobody's name is told before the vote is kept."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain, combinations, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.preference import BOTH_BAD, FIRST, SECOND, TIE
from tiebreak.core.text import answer_text
from tiebreak.store.judgements import HUMAN
from tiebreak.store.reader import StoreReader
from tiebreak.store.votes import Vote, append_vote, read_votes

PAIR_VERDICTS = {"left": FIRST, "right": SECOND, "tie": TIE, "bad": BOTH_BAD}
ANSWER_VERDICTS = {"right": 1, "wrong": 0}
MOST_NAME = 60
_CUT = 50_000
"""Most characters of a text that are sent to the page."""
_ANSWERS = """
    SELECT id, contestant, sample, repeat, score, text FROM trials
    WHERE superseded = 0 AND text IS NOT NULL AND (outcome <> 'failed' OR unjudged IS NOT NULL OR failure_kind = 'unchecked')
    ORDER BY sample, repeat, contestant
"""
_SHOWN = "SELECT s.prompt, s.target, t.text FROM trials t JOIN samples s USING (asked) WHERE NOT t.superseded AND t.id = ?"
_PAIRS_VOTED = "SELECT first, second FROM preferences WHERE superseded = 0 AND scorer = ?"
_ANSWERS_VOTED = "SELECT trial, '' FROM judgements WHERE superseded = 0 AND scorer = ?"


class BadVote(Exception):
    """A vote that cannot be kept; says why."""


class SentVote(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A vote as a page sends it."""

    ticket: str
    person: str
    verdict: str
    """left, right, tie or bad; of one answer right or wrong; undo takes back what was said of the same answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    trial: str
    contestant: int
    sample: str
    repeat: int
    score: float | None
    text: bytes
    """A digest of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One or two answers that can be voted on, in the order they are shown."""

    ticket: str
    """Stands for them in the page, and tells nothing of them."""
    sample: str
    trials: tuple[str, ...]
    contestants: tuple[int, ...]

    @property
    def subject(self) -> tuple[str, str]:
        """The answers whatever their order, as votes on them are known."""
        first, second = sorted((*self.trials, ""))[-2:]
        return first, second


class VotingDesk:
    """Offers a run's answers for votes, and keeps the votes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._answered = -1
        self._offers: dict[str, list[Offer]] = {"pair": [], "answer": []}
        self._by_ticket: dict[str, Offer] = {}
        self._labels: dict[int, str] = {}

    def next_offer(self, person: str, kind: str) -> dict[str, Any]:
        """What a person is shown next, without a name in it; and how many votes they have given and can still give."""
        name = checked_name(person)
        with self._lock, StoreReader(self._folder, check=False) as reader:
            self._refresh(reader)
            voted = _voted(reader, self._folder, name)
            offers = self._offers[kind]
            left = [offer for offer in offers if offer.subject not in voted]
            shown = {} if not left else _shown(reader, left[0])
        return {"kind": kind, "voted": len(offers) - len(left), "left": len(left), **shown}

    def keep(self, sent: SentVote) -> dict[str, Any]:
        """Keep a vote on disk, and only then say whose answers they were."""
        name = checked_name(sent.person)
        with self._lock:
            offer = self._find(sent.ticket)
            verdicts: dict[str, int | None] = {**(PAIR_VERDICTS if len(offer.trials) == 2 else ANSWER_VERDICTS), "undo": None}
            if sent.verdict not in verdicts:
                raise BadVote("This is not a vote on these answers.")
            vote = Vote(
                person=name,
                sample=offer.sample,
                first=offer.trials[0],
                second=offer.trials[1] if len(offer.trials) == 2 else None,
                verdict=verdicts[sent.verdict],
                at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            )
            append_vote(self._folder, vote)
        return {"names": [] if sent.verdict == "undo" else [self._labels[number] for number in offer.contestants]}

    def _find(self, ticket: str) -> Offer:
        if ticket not in self._by_ticket:
            with StoreReader(self._folder, check=False) as reader:
                self._refresh(reader)
        if ticket not in self._by_ticket:
            raise BadVote("These answers are not in the run any more.")
        return self._by_ticket[ticket]

    def _refresh(self, reader: StoreReader) -> None:
        """Look again when the run has more answers than before."""
        answered = next(reader.rows("SELECT count(*) FROM trials WHERE superseded = 0 AND text IS NOT NULL"))[0]
        if answered == self._answered:
            return
        references = {contestant.label for contestant in reader.info.contestants if contestant.reference}
        self._labels = {number: label for label, number in reader.numbers.items() if label not in references}
        answers = [
            _Answer(trial=t, contestant=c, sample=s, repeat=r, score=score, text=_digest(answer_text(text).strip()))
            for t, c, s, r, score, text in reader.rows(_ANSWERS)
            if c in self._labels
        ]
        self._offers = {"pair": pair_offers(answers), "answer": answer_offers(answers)}
        self._by_ticket = {offer.ticket: offer for offers in self._offers.values() for offer in offers}
        self._answered = answered


def checked_name(person: str) -> str:
    """The name a person votes under."""
    name = " ".join(person.split())
    if not 0 < len(name) <= MOST_NAME or not name.isprintable():
        raise BadVote(f"A vote needs a name of at most {MOST_NAME} characters.")
    return name


def pair_offers(answers: Sequence[_Answer]) -> list[Offer]:
    """Two different answers to one sample at a time; those that were scored differently first, else in a random order."""
    by_sample: dict[tuple[str, int], list[_Answer]] = defaultdict(list)
    for answer in answers:
        by_sample[answer.sample, answer.repeat].append(answer)
    pairs = [pair for own in by_sample.values() for pair in combinations(own, 2) if pair[0].text != pair[1].text]
    offers = []
    for one, other in pairs:
        drawn = _digest(f"{one.sample}\0{one.trial}\0{other.trial}")
        # Sides by hash: a person who is shown the same two again sees them in the same places.
        shown = (one, other) if drawn[0] & 1 else (other, one)
        alike = (one.score or 0.0) == (other.score or 0.0)
        offer = Offer(
            ticket=_ticket(drawn),
            sample=one.sample,
            trials=(shown[0].trial, shown[1].trial),
            contestants=(shown[0].contestant, shown[1].contestant),
        )
        offers.append((alike, drawn, offer))
    return [offer for _, _, offer in sorted(offers, key=lambda row: row[:2])]


def answer_offers(answers: Sequence[_Answer]) -> list[Offer]:
    """One answer at a time: of every contestant in turn, one that passed and one that failed, each drawn at random.

    Which answers are voted on depends on nothing but the contestant and the verdict on the answer itself: otherwise the
    votes could not correct the scores.
    """
    strata: dict[tuple[int, bool], list[tuple[bytes, Offer]]] = defaultdict(list)
    for answer in answers:
        drawn = _digest(f"answer\0{answer.trial}")
        offer = Offer(ticket=_ticket(drawn), sample=answer.sample, trials=(answer.trial,), contestants=(answer.contestant,))
        strata[answer.contestant, (answer.score or 0.0) >= 0.5].append((drawn, offer))
    columns = [[offer for _, offer in sorted(own, key=lambda row: row[0])] for _, own in sorted(strata.items())]
    return [offer for offer in chain.from_iterable(zip_longest(*columns)) if offer is not None]


def _voted(reader: StoreReader, folder: Path, person: str) -> set[tuple[str, str]]:
    """What a person has voted on, in the store or beside it, and has not taken back."""
    scorer = f"{HUMAN}{person}"
    rows: Iterator[tuple[Any, ...]] = chain(reader.rows(_PAIRS_VOTED, scorer), reader.rows(_ANSWERS_VOTED, scorer))
    voted = {(min(row), max(row)) for row in rows}
    for vote, _ in read_votes(folder):
        if vote.person == person:
            (voted.discard if vote.verdict is None else voted.add)(vote.subject[1:])
    return voted


def _shown(reader: StoreReader, offer: Offer) -> dict[str, Any]:
    rows = [next(reader.rows(_SHOWN, trial)) for trial in offer.trials]
    return {
        "ticket": offer.ticket,
        "question": rows[0][0][:_CUT],
        "target": rows[0][1][:_CUT],
        "answers": [answer_text(text).strip()[:_CUT] for _, _, text in rows],
    }


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _ticket(drawn: bytes) -> str:
    return blake2b(drawn, digest_size=12).hexdigest()


def voting_key(name: str) -> str:
    """Stands for a run in the addresses of its votes: a run's name may tell who is in it."""
    return blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()
