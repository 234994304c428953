"""Whether what a text mentions is its answer: not denied, questioned, ascribed to others, or one of several."""

from __future__ import annotations

from itertools import pairwise

from tiebreak.scorers.words import MARKS, Passage, known

_NEGATIONS = known(
    "not no never neither nor without isnt arent wasnt werent doesnt dont didnt cant cannot wont wouldnt shouldnt unlike"
    " false myth misconce incorrec wrong wrongly untrue mistaken"
)
_TURNS = known("but because instead rather only just however actually doubt question surprise other idea")
"""After one of these a negation is over."""
_WRONG = known("myth false wrong incorrec untrue misconce debunked")
_COPULAS = known("is are was were be")
_DENYING_COPULAS = known("isnt arent wasnt werent")
_COMPARED = known("after behind than unlike followed beat ahead")
_KIN = known(
    "friend wife husband son daughter brother sister student colleagu contempo rival pupil disciple mentor cousin nephew niece"
)
_BELIEF = known("think believe say assume suppose mistake confuse call often commonly popular")
_HEDGES = known("either could might may maybe perhaps possibly option choice candidat between whether")
_CUES = _NEGATIONS | _WRONG | _DENYING_COPULAS | _COMPARED | _KIN | _BELIEF | {"or", "option", "?"}
"""Without any of these, what is mentioned is meant."""
_SHORT = 7
"""Words of a sentence that says nothing but alternatives."""


def stands(passage: Passage, start: int, end: int, *, accepted: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether the mention at words[start:end] is meant; words the question has, or that are accepted, deny nothing."""
    if passage.present.isdisjoint(_CUES):
        return True
    return not (
        _denied_before(passage, start, accepted | asked)
        or _denied_after(passage, end)
        or _ascribed_to_others(passage, start, end)
        or _among_others(passage, start, end, accepted)
    )


def _denied_before(passage: Passage, start: int, allowed: frozenset[str]) -> bool:
    """Denied, as in "not Paris", or named for comparison only, as in "the largest after Jupiter"."""
    words = passage.words
    for back in range(start - 1, max(-1, start - 6), -1):
        word = words[back]
        if word in MARKS or word in _TURNS:
            return False
        if word in allowed:
            continue
        if word in _NEGATIONS or (word in _COMPARED and start - back <= 3) or (word in _KIN and words[back + 1] == "of"):
            return True
    return False


def _denied_after(passage: Passage, end: int) -> bool:
    """Denied, as in "Paris is not", "Paris is a myth", "Paris? No"."""
    words = passage.words[end : end + 8]
    if words[:1] == ["?"] and len(words) > 1:
        return True
    for place, (word, following) in enumerate(pairwise([*words, "", ""])):
        if word in MARKS:
            return False
        if word in _DENYING_COPULAS or (word in _COPULAS and following == "not"):
            return words[place + 2 : place + 3] not in (["only"], ["just"], ["merely"])
        if word in _COPULAS and _WRONG.intersection(words[place + 1 : place + 4]):
            return True
    return False


def _ascribed_to_others(passage: Passage, start: int, end: int) -> bool:
    """What others say and the text does not, as in "many people think it is Paris, but …"."""
    words = passage.words
    for back in range(start - 1, max(-1, start - 10), -1):
        word = words[back]
        if word in (".", "!", "?", "\n") or word in _TURNS:
            return False
        if word in _BELIEF:
            return not {"but", "however", "actually"}.isdisjoint(words[end : end + 25])
    return False


def _among_others(passage: Passage, start: int, end: int, accepted: frozenset[str]) -> bool:
    """One of several, as in "Paris or Lyon" and "it could be Paris, Lyon or Nice"."""
    if "or" not in passage.present and "option" not in passage.present:
        return False
    words = passage.words
    first, last = passage.sentence(start, end)
    follows, precedes = words[end : end + 1] == ["or"], start > 0 and words[start - 1] == "or"
    if not follows and not precedes and not {"or", "option"}.intersection(words[first:last]):
        return False
    others = words[end + 1 : end + 3] if follows else words[max(0, start - 3) : start - 1] if precedes else []
    if accepted.intersection(others):
        return False
    return (last - first <= _SHORT and (follows or precedes)) or not _HEDGES.isdisjoint(words[first:start])
