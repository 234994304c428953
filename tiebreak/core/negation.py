"""Whether the words around a mention deny it: "not Rome", "all but Rome", "I don't think it is Rome", "Rome is ruled out"."""

from __future__ import annotations

import re

NEAR = 80
"""Characters either side of a mention in which a denial is looked for."""

_CUES = (
    " no", "*no", "(no", "{no", "\nno", "canno", "n't", "n’t", "snt ", "ont ", "dnt ", "tnt ", "cant ", "arent ",
    "werent ", "aint ", "never", "neither", "without", "hardly", " than", "instead", "unlike", "contrary", " but",
    "except", "besides", " save ", " from ", "excluding", " out", "doubt", "myth", " trap", "distract", "mistake",
    " lie", "worst", "least", "false", "untrue", "unlikely", "implausible", "error", "invalid", "impossib", "ncorrect",
    "wrong", "misconc", "eliminat", "exclude", "reject", "discard", "dismiss", "avoid", "debunk", "fail",
)  # fmt: skip
"""One of these is near everything that is denied."""
_NEGATION = (
    "not|no|never|neither|nor|without|isnt|arent|wasnt|werent|doesnt|dont|didnt|cant|cannot|couldnt|shouldnt|mustnt|wont|wouldnt"
    "|aint|hardly|mistakenly|rather than|instead of|unlike|contrary to"
)
_FALSE = "false|myth|misconception|incorrect|incorrectly|wrong|wrongly|untrue"
_TURN = "but|because|it|its|instead|rather|only|just|merely|so|then|thus|therefore|hence|doubt|question|wonder|surprise|matter"
"""After one of these a negation is over."""
_NOT = "not|never|dont|doesnt|didnt|cant|cannot|wont|wouldnt|couldnt|shouldnt"
_RULED_OUT = "(?:ruled|crossed) out|eliminated|excluded|rejected|discarded"
_WRONG = (
    "myth|false|wrong|incorrect|untrue|misconception|debunked|mistaken|invalid|impossible|unlikely|implausible"
    "|a (?:distractor|trap|mistake|lie)"
    "|not true|not correct|not right|not accurate|the worst|the least [a-z]+|(?:ruled|crossed) out"
)
_AS_ANSWER = "it|right|correct|true|valid|the|an?|my|one|what|possible|plausible|suitable|appropriate|applicable|accurate"
"""What "it is not" is followed by where an answer is denied, and not something told of it."""

_BEFORE = re.compile(
    rf"(?:^|[\s|])(?:(?:{_NEGATION}) (?:(?!(?:{_TURN}) )[^\s|]+ ){{0,3}}"
    rf"|(?:{_FALSE}) (?:(?!(?:{_TURN}|and) )[^\s|]+ ){{0,3}}|(?:mistake|wrong|error) to (?:[^\s|]+ ){{0,3}}"
    rf"|(?:{_NOT}) (?:[^\s|]+ )?(?:think|believe|suppose|say|agree|feel|buy|convinced)(?: (?!but |because |so )[^\s|]+){{0,6}} "
    r"|(?:rul(?:e|ed|es|ing)|cross(?:ed)?) out (?:[^\s|]+ ){0,2}"
    r"|(?:eliminat|exclud|reject|discard|dismiss|avoid)(?:e|es|ed|ing|s)? (?:[^\s|]+ ){0,2}"
    r"|(?:wrong|incorrect) (?:answer|option|choice)s? (?:is|was|would be|are) (?:[^\s|]+ ){0,2})$"
)
_DOUBTED = re.compile(
    r"(?<!no )(?<!not )(?<!dont )(?<!never )(?<!without )(?<!without a )(?<!beyond )(?<!beyond a )(?<!cannot )(?<!cant )"
    r"\bdoubt (?:[^\s|]+ ){0,5}$"
)
_EXCEPTED = re.compile(
    r"(?:^|[\s|])(?P<of>everything|anything|everyone|anyone|everybody|anybody|all|any|every|each"
    r"|nothing|none|no|nobody|noone)(?: (?!but )[^\s|]+){0,4}? (?:but|except(?: for)?|other(?: [^\s|]+)? than"
    r"|besides|save|apart from|aside from|excluding"
    r"|with the exception of)(?: (?:the|for|option|choice|letter|answer|possibly|perhaps)){0,2} $"
)
_LEFT = frozenset({"nothing", "none", "no", "nobody", "noone"})
_TURNED = re.compile(
    rf"(?:^|[\s|])(?:{_NOT}|isnt|wasnt|wrong to|mistake to|rul(?:e|ed|es|ing) out"
    r"|(?:eliminat|exclud|reject|discard)(?:e|es|ed|ing|s)?)"
    r"(?: [^\s|]+){0,4} ?$"
)
_AFTER = re.compile(
    r" (?:(?:and|or) (?:[^\s|]+ ){1,3}?(?:are|were)"
    r"|(?:(?!because |since |as |and |while |but |so |for |or )[^\s|]+ ){0,5}?(?:is|are|was|were|be|seems|looks|sounds|appears))"
    rf" (?:(?!not |never )[^\s|]+ ){{0,2}}?(?:{_WRONG})(?: |$)"
    rf"| (?:can|could|may|should|must) (?:[^\s|]+ )?be (?:{_RULED_OUT})"
    rf"| (?:is|was) out(?: \|| ?$| of the question)"
    r"| (?:isnt|arent|wasnt|werent|aint|(?:is|are|was|were|seems) (?:[^\s|]+ )?(?:not|never)"
    r"|(?:cant|cannot|couldnt|wont|wouldnt|mustnt|(?:can|could|will|would|must|may|might) (?:[^\s|]+ )?(?:not|never)) be)"
    rf"(?: \|| ?$| (?:{_AS_ANSWER})\b)"
    r"| (?:doesnt|dont|didnt|(?:does|do|did) not) (?:[^\s|]+ )?"
    r"(?:fit|work|apply|match|hold|make sense|answer|belong|qualify|count|add up)\b"
    r"| \| (?:no|nope|not really|not quite|not at all|wrong|incorrect|false)(?: \|| ?$)"
)
_AFTER_A_LETTER = re.compile(
    r"(?: \| which)? (?:also |clearly |definitely |simply |probably )?"
    r"(?:(?:is|was|seems|are|can|could|would|will|must|should)(?:nt| not| never)|cannot|cant|wont|fails|doesnt|does not"
    r"|(?:is|was|be|been) (?:wrong|incorrect|false|eliminated|excluded|rejected|discarded))\b"
    r"(?! (?:only|just|merely|simply|wrong|incorrect|false|untrue|in doubt)\b)"
    rf"|{_AFTER.pattern}"
)
"""Of a letter little is said but whether it is right."""


def may_be_denied(text: str) -> bool:
    """A quick look: whether a text has any word of those that deny."""
    lowered = f" {text.lower()}"
    for cue in _CUES:  # noqa: SIM110 -- a generator takes twice as long
        if cue in lowered:
            return True
    return False


def denied(said: str, start: int, end: int, *, by_predicate: bool = True, is_letter: bool = False) -> bool:
    """Whether what stands at said[start:end], in the words of `clauses`, is denied by the words around it.

    Where the question is what is *not* so, "Rome is wrong" answers it: predicates deny nothing then.
    """
    before, after = said[max(0, start - NEAR) : start], said[end : end + NEAR] if by_predicate else ""
    if not may_be_denied(f"{before} {after}"):
        return False
    of_it = (_AFTER_A_LETTER if is_letter else _AFTER).match(after) is not None
    excepted = _EXCEPTED.search(before)
    if excepted:
        return _is_left_out(before[: excepted.start()], excepted["of"], of_it)
    return bool(of_it or _BEFORE.search(before) or _DOUBTED.search(before))


def _is_left_out(before: str, of: str, of_it: bool) -> bool:
    """What "everything but Rome" says of Rome, turned round by "nothing but", "not anything but" and "all but Rome are wrong"."""
    turns = (of in _LEFT) + bool(_TURNED.search(before)) + of_it
    return turns % 2 == 0
