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
_BELIEF = known("think thought once believe say assume suppose mistake confuse call often commonly popular")
_HEDGES = known("either could might may maybe perhap possibly option choice candidat between whether depend dependin")
_EXCEPTED = known("but except beside save than from")
_ALL = known("everythi anything anyone everyone anybody everybod all any every each")
_NOTHING = known("nothing none no nobody")
_OR = known("or alternat")
_MAYBE = known("maybe perhap possibly could might may")
_BESIDE_OR = known("and maybe perhap possibly probably even else ,")
"""Words that may stand between a name and its "or"."""
_GUESSED = [[word] for word in ("maybe", "perhap", "possibly", "even")]
_RETRACTED = known("no , — –")
"""What stands between a name and the "no" that takes it back: "Paris, no, Lyon"."""
_UNDOUBTED = known("no not dont without a beyond never")
_TORN = known("its is torn undecide choosing choose decide split toss up hesitate wavering")
_CUES = _NEGATIONS | _WRONG | _DENYING_COPULAS | _COMPARED | _KIN | _BELIEF | _OR | _MAYBE | {
    "option", "?", "except", "but", "beside", "save", "apart", "aside", "doubt", "between",
}  # fmt: skip
"""Without any of these, what is mentioned is meant."""
_FEW = 20
"""Words of a text that does not decide between two."""
_SHORT = 7
"""Words of a sentence that says nothing but alternatives."""


def stands(passage: Passage, start: int, end: int, *, accepted: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether the mention at words[start:end] is meant; words the question has, or that are accepted, deny nothing."""
    if passage.present.isdisjoint(_CUES):
        return True
    return not (
        _denied_before(passage, start, accepted | asked)
        or _denied_after(passage, end)
        or _excepted(passage, start)
        or _ascribed_to_others(passage, start, end)
        or _among_others(passage, start, end, accepted)
        or _one_of_two_guesses(passage, start, end, accepted)
    )


def _denied_before(passage: Passage, start: int, allowed: frozenset[str]) -> bool:
    """Denied, as in "not Paris", or named for comparison only, as in "the largest after Jupiter"."""
    words = passage.words
    for back in range(start - 1, max(-1, start - 6), -1):
        word = words[back]
        if word == "doubt" and (back == 0 or words[back - 1] not in _UNDOUBTED):
            return True
        if word in MARKS or word in _TURNS or (word == "than" and words[back - 1] == "other"):
            return False
        if word in allowed:
            continue
        if word in _COMPARED and start - back <= 3:
            # "Nothing is larger than Paris" says Paris.
            return _NOTHING.isdisjoint(words[max(0, back - 5) : back])
        if word in _NEGATIONS or (word in _KIN and words[back + 1] == "of"):
            return True
    return False


def _denied_after(passage: Passage, end: int) -> bool:
    """Denied, as in "Paris is not", "Paris is a myth", "Paris? No"."""
    words = passage.words[end : end + 8]
    if words[:1] == ["?"] and len(words) > 1:
        return True
    if "no" in words[:2] and [*words, "."][words.index("no") + 1] in MARKS and words[0] in _RETRACTED:
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


def _excepted(passage: Passage, start: int) -> bool:
    """Left out of all others, as in "everything but Paris"; "nothing but Paris" is Paris, and "not anything but Paris" too."""
    words = passage.words
    place = next((at for at in range(start - 1, max(-1, start - 4), -1) if words[at] in _EXCEPTED), -1)
    if place < 0 or (words[place] in ("than", "from") and words[place - 1] not in ("other", "apart", "aside")):
        return False
    for back in range(place - 1, max(-1, place - 6), -1):
        if words[back] in MARKS or words[back] in _NOTHING:
            return False
        if words[back] in _ALL:
            return _NEGATIONS.isdisjoint(words[max(0, back - 4) : back])
    return False


def _among_others(passage: Passage, start: int, end: int, accepted: frozenset[str]) -> bool:
    """One of several, as in "Paris or Lyon" and "it could be Paris, Lyon or Nice"."""
    if _OR.isdisjoint(passage.present) and "option" not in passage.present:
        return False
    words = passage.words
    first, last = passage.sentence(start, end)
    after, before = _beside(words[end : min(end + 4, last)]), _beside(words[max(first, start - 4) : start][::-1])
    follows, precedes = after >= 0, before >= 0
    if not follows and not precedes and not {"or", "option"}.intersection(words[first:last]):
        return False
    if follows:
        others = words[end + after + 1 : end + after + 3]
    else:
        others = words[max(0, start - before - 3) : start - before - 1] if precedes else []
    if accepted.intersection(others):
        return False
    said = words[first:start]
    return (
        (last - first <= _SHORT and (follows or precedes)) or not _HEDGES.isdisjoint(said) or ("1", "of") in pairwise(said[-4:])
    )


def _beside(words: list[str]) -> int:
    """How far off an "or" is, when nothing but a comma or a "maybe" stands between; -1 without one."""
    for place, word in enumerate(words):
        if word in _OR:
            # ", or" gives a name another name as often as it doubts it.
            return place if words[:place] != [","] or word == "alternat" or words[place + 1 : place + 2] in _GUESSED else -1
        if word not in _BESIDE_OR:
            return -1
    return -1


def _one_of_two_guesses(passage: Passage, start: int, end: int, accepted: frozenset[str]) -> bool:
    """One of two, as in "maybe Paris, maybe Lyon" and "it's between Paris and Lyon"."""
    words = passage.words
    if "between" in passage.present and len(words) <= _FEW:
        at = next((place for place in range(start - 1, max(-1, start - 5), -1) if words[place] == "between"), -1)
        if at >= 0 and (at == 0 or words[at - 1] in _TORN) and "and" in words[at : end + 2]:
            return accepted.isdisjoint(words[at + 1 : start]) and accepted.isdisjoint(words[end : end + 3])
    if _MAYBE.isdisjoint(words[max(0, start - 3) : start]) or len(words) > _FEW:
        return False
    guesses = [place for place, word in enumerate(words) if word in _MAYBE and (place == 0 or words[place - 1] not in _MAYBE)]
    return len(guesses) > 1 and any(
        accepted.isdisjoint(words[place + 1 : place + 6]) and not start - 4 < place < end for place in guesses
    )
