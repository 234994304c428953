"""Whether a text says yes or no: in so many words, by an "absolutely" or a "not at all", or by both, which is neither."""

from __future__ import annotations

import re
from itertools import pairwise, takewhile

from tiebreak.scorers.words import MARKS, Passage, known

_YES_OR_NO = dict.fromkeys(known("yes yep yeah yup yea aye affirmat"), True) | dict.fromkeys(known("no nope nah nay"), False)
_TRUE_OR_FALSE = dict.fromkeys(known("true correct"), True) | dict.fromkeys(known("false incorrec untrue"), False)
_PLAIN = _YES_OR_NO | _TRUE_OR_FALSE
TARGETS = {"yes": True, "no": False, "true": True, "false": False, "correct": True, "incorrec": False}
"""Accepted answers that are a yes or a no."""
_NO_MORE = known("idea doubt comment opinion answer other 1 question longer")
"""After "no", what makes it no answer: "no idea"."""
_AFTER_NO = (
    known("because since as but and it they he she the not that this there you we i in if unles indeed sir thank") | MARKS | {""}
)
"""After "no", inside a clause, what leaves it an answer: not "there is no simple way"."""
_NEGATIONS = known("not isnt wasnt arent never cant cannot hardly")
_IN_PART = known("partly partiall sometime maybe perhap half possibly either neither nor")
_JOINTS = known("and or nor also but") | {",", "—", "–"}
_CASES = known("in at on if when for during with it depend") | MARKS | {""}
_SHORT = 12
"""Words up to which "correct" answers a question for yes or no, wherever it stands."""
_MOST_WORDS = 4000

_SURE = (
    "absolute|indeed|certainl|definite|undoubte|exactly|precisel|naturall|totally|obviousl|clearly|sure|surely|of course|for sure"
    "|without (?:a |any )?doubt|no doubt|beyond (?:a )?doubt|right|agreed|you bet|by all mean"
)
_END = r"(?= [.!,;:\n—–()?]|$)"
_OPENING = r"^(?:(?:oh|well|why|ah|hmm|yes|no|but|most|very|quite|almost|,) ){0,3}"
_IT = "(?:that|thats|it|its|this|they|he|she|there|i|we|you)"
_DOES = "(?:is|are|doe|do|did|ha|have|can|wa|was|were|will|would|could)"
_SO = re.compile(
    rf"{_OPENING}(?:{_IT} (?:(?:is|are) )?)?(?:{_SURE})(?: (?:{_SURE}|so|thing|it {_DOES}))?{_END}"
    rf"|{_OPENING}i (?:\w+ )?(?:think|believe|guess|suppose|would say|expect) so\b"
    rf"|{_OPENING}{_IT} (?:certainl |definite |indeed |sure |surely |absolute )?{_DOES}{_END}"
)
_NOT_SO = re.compile(
    rf"{_OPENING}(?:{_SURE}|unfortun|im afraid|i am afraid|probably|likely) (?:no\b|not\b(?! only))"
    rf"|{_OPENING}(?:{_IT}(?: {_DOES})? )?(?:not|isnt|arent|doesnt|dont|didnt|hasnt|cant|cannot|wasnt|werent|wont|wouldnt)"
    r"(?: (?:it|so|at all|really|quite|exactly|true|correct|right|the case|in the least|in the slightes|a chance|even close"
    rf"|by any mean|necessar|indeed))?{_END}"
    rf"|{_OPENING}i (?:dont|do not|doubt|wouldnt|would not) (?:think|believe|suppose|say) (?:so|that)\b"
    rf"|{_OPENING}i doubt (?:it|that){_END}"
    rf"|{_OPENING}(?:{_IT} (?:is )?)?(?:wrong|never|hardly|negative|by no mean|on the contrary|far from it|far from){_END}"
    rf"|{_OPENING}(?:under no circum|in no way)"
)


def says_polar(passage: Passage, target: str) -> bool:
    """Whether a text answers as a target of yes or no, true or false does."""
    side = polarity(passage, asked_for_truth=target in _TRUE_OR_FALSE)
    return side is not None and side == TARGETS[target]


def polarity(passage: Passage, *, asked_for_truth: bool) -> bool | None:
    """Yes, no, or neither: what the text opens with, else the last of them it says."""
    words = [word for word in passage.words[:_MOST_WORDS] if word]
    spoken = _spoken(words, _PLAIN)
    if spoken and spoken[0] <= 1:
        return _PLAIN[words[spoken[0]]] == (words[0] not in _NEGATIONS)
    # "Certainly! The answer is no" is a no.
    said = _spoken(words, _PLAIN if len(words) <= _SHORT else _TRUE_OR_FALSE if asked_for_truth else _YES_OR_NO)
    if said:
        place = said[-1]
        before = takewhile(lambda word: word not in MARKS, reversed(words[max(0, place - 3) : place]))
        return _PLAIN[words[place]] == _NEGATIONS.isdisjoint(before)
    opening = " ".join(words[:10])
    return False if _NOT_SO.match(opening) else True if _SO.match(opening) else None


def _spoken(words: list[str], polar: dict[str, bool]) -> list[int]:
    """Where a yes or a no is said that stands: not "no idea", nor both of them at once."""
    found = [place for place, word in enumerate(words) if word in polar and _is_answer(words, place)]
    halves = {place for pair in pairwise(found) if _are_both(words, *pair) for place in pair}
    return [place for place in found if place not in halves]


def _is_answer(words: list[str], place: int) -> bool:
    before = words[place - 1] if place else "."
    after = words[place + 1] if place + 1 < len(words) else ""
    if before in _IN_PART or (after == "?" and place + 2 < len(words)):
        return False
    if words[place] != "no":
        return True
    return after not in _NO_MORE if before in MARKS else after in _AFTER_NO or before == "by"


def _are_both(words: list[str], one: int, other: int) -> bool:
    """Whether two words next to each other say both: "yes and no", "yes in summer, no in winter"."""
    if _PLAIN[words[one]] == _PLAIN[words[other]]:
        return False
    between = words[one + 1 : other]
    after = words[other + 1] if other + 1 < len(words) else ""
    if after not in _CASES:
        return False
    if len(between) <= 2 and _JOINTS.issuperset(between):
        return True
    is_one_sentence = MARKS.isdisjoint(between) or not {".", "!", "?", ";", "\n"}.intersection(between)
    return is_one_sentence and between[-1] in {",", "and", "but"} and words[one + 1] in _CASES - MARKS
