"""Whether a text states another candidate as its answer, and names the accepted one only to say something else of it.

"The capital of France is Lyon, and Paris is its largest city" answers Lyon. Only names are told apart so: with other
words there is no telling a candidate from a description.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tiebreak.scorers.wording import STOP, Accepted
from tiebreak.scorers.words import MARKS, Passage, known, passage_of

_COPULAS = known("is are was were")
_POINTERS = known("it this that he she they him her them")
_JOINTS = known("and but while whereas though although so")
_NO_NAMES = known(
    "yes no sure well ok okay answer certainl indeed hello hi great good thanks so therefore thus note final explanat reason"
    " based accordin in on at the one there here however actually question summary conclusi result step sorry hmm ah oh"
)
"""Words that open a sentence, and so have a capital without being a name."""
_LONGEST_NAME = 4
_MOST_CLAUSES = 40


@dataclass(frozen=True, slots=True)
class _Clause:
    """The words between two marks, as written and as they are compared, and the mark behind them."""

    raw: tuple[str, ...]
    words: tuple[str, ...]
    mark: str


def states_another(text: str, accepted: Accepted) -> bool:
    """Whether another name is stated as the answer, and every mention of an accepted one is about something else."""
    if not any(alias.text[:1].isupper() for alias in accepted.aliases):
        return False
    clauses = list(_clauses(passage_of(text)))
    if not 1 < len(clauses) <= _MOST_CLAUSES:
        return False
    named = [clause for clause in clauses if not accepted.words.isdisjoint(clause.words)]
    if not named or not all(_is_about_something_else(clause, accepted) for clause in named):
        return False
    return any(_states_rival(clause, place, accepted) for place, clause in enumerate(clauses))


def is_other_name(text: str, accepted: Accepted) -> bool:
    """Whether the text is a name, or a number, and no accepted one."""
    passage = passage_of(text)
    raw, words = passage.raw, passage.words
    return accepted.words.isdisjoint(words) and _is_name(raw, words, accepted)


def _clauses(passage: Passage) -> Iterator[_Clause]:
    start = 0
    for place, word in enumerate([*passage.words, "."]):
        if word not in MARKS:
            continue
        if place > start:
            yield _Clause(tuple(passage.raw[start:place]), tuple(passage.words[start:place]), word)
        start = place + 1


def _states_rival(clause: _Clause, place: int, accepted: Accepted) -> bool:
    """A name that the question's own words are said of, or that the text opens with and sets apart."""
    if clause.mark == ":" or not accepted.words.isdisjoint(clause.words):
        return False
    if place == 0 and clause.mark not in ",|" and _is_name(clause.raw, clause.words, accepted):
        return True
    return _is_complement(clause, place, accepted) or _is_subject(clause, accepted)


def _is_complement(clause: _Clause, place: int, accepted: Accepted) -> bool:
    """A name behind the question's words: "the capital of France is Lyon"; at first "it is Lyon" will do."""
    copula = next((at for at, word in enumerate(clause.words) if word in _COPULAS), None)
    if copula is None:
        return False
    subject = [word for word in clause.words[:copula] if word not in STOP]
    echoes = bool(subject) and accepted.asked.issuperset(subject)
    points = place == 0 and bool(clause.words[:copula]) and _POINTERS.issuperset(clause.words[:copula])
    return (echoes or points) and _is_name(clause.raw[copula + 1 :], clause.words[copula + 1 :], accepted)


def _is_subject(clause: _Clause, accepted: Accepted) -> bool:
    """A name before the question's words: "Chekhov wrote it"."""
    end = next((at for at, raw in enumerate(clause.raw) if not raw[0].isupper()), len(clause.raw))
    rest = [word for word in clause.words[end:] if word not in STOP and word not in _POINTERS]
    said_of = bool(rest) and accepted.asked.issuperset(rest) and not _COPULAS.issuperset(rest)
    return said_of and _is_name(clause.raw[:end], clause.words[:end], accepted)


def _is_name(raw: Sequence[str], words: Sequence[str], accepted: Accepted) -> bool:
    """Words with capitals, few of them, that the question does not have; numbers are none."""
    telling = [(one, word) for one, word in zip(raw, words, strict=True) if word and word not in STOP]
    if not 0 < len(telling) <= _LONGEST_NAME or words[0] in _NO_NAMES or all(len(one) < 3 for one, _ in telling):
        return False
    return all(one[0].isupper() and word not in accepted.asked for one, word in telling)


def _is_about_something_else(clause: _Clause, accepted: Accepted) -> bool:
    """The accepted name opens the clause, and what is said of it is not what was asked for."""
    words = [word for word in clause.words if word not in STOP or word in _COPULAS]
    while words and words[0] in _JOINTS:
        words.pop(0)
    end = next((at for at, word in enumerate(words) if word not in accepted.words), len(words))
    predicate = [word for word in words[end:] if word not in _COPULAS and word not in _POINTERS]
    return end > 0 and bool(predicate) and accepted.words.isdisjoint(predicate) and not accepted.asked.issuperset(predicate)
