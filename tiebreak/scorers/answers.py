"""Reading an answer: the part that states it, whether it is one at all, and how it is shown.

Every pattern here has bounded repeats, and a text is read at its two ends only, so no answer takes long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tiebreak.core.text import answer_text, last_match

LONGEST = 60_000
"""Characters that are read; of a longer answer, the first and the last half of that."""
SHOWN = 200
"""Characters of an answer that are kept to be shown."""

_MARKER = re.compile(
    # "the answer is", "**Answer:** ", "### Answer", "ANSWER -", "the answer to that would be", '{"answer": "', "Ans. "
    r"\bans(?:wer)?\b(?:[ \t]{1,4}(?:to|for)[ \t][^.:\n]{1,80}?(?=[ \t*:]))?[*_`\"'”)]{0,4}[ \t]{0,4}"
    r"(?:\b(?:is|would be|should be|must be|will be)\b|[:=]|[-–—](?=\s)|(?<=ans)\.|[*_#]{0,4}[ \t]{0,4}(?=\n))"
    r"(?:[ \t]{0,4}(?:therefore|thus|then|indeed|simply|clearly|definitely|likely|probably|still)\b)?"
    r"[*_`\"'“”\s:=>#]{0,12}(?:[-–—]\s{1,2})?[*_`\"'“”]{0,4}"
)
_OTHER_LANGUAGES = re.compile(
    r"(?:\b(?:r[ée]ponse(?: (?:correcte|finale))?|antwort|respuesta(?: (?:correcta|final))?|risposta(?: corretta)?|resposta)\b"
    r"(?: (?:est|ist|es|è|é|lautet))?|\bответ\b|答案|答え|正解)[ \t]{0,4}(?:[是为は:：=]|(?=[ \t(]))[*_\s(\"']{0,8}",
    re.IGNORECASE,
)
_HASHES = re.compile(r"#### ?(?=\S)")
_BOXED = re.compile(r"\\(?:boxed|fbox)[ \t]{0,4}\{")
_MARKERS = 60
"""Places that are looked at for the last marker."""
_DEEPEST = 400
"""Characters looked at for the end of a box."""
_RUN_ON = re.compile(
    r"\n\s{0,8}(?:(?:Question|Q|Problem)\b[ \t]{0,4}\d{0,4}[:.]"
    r"|[^\n]{0,40}(?:combin\w{1,6}|summari\w{1,6}|considering|总结)[^\n]{0,30}(?:\banswers\b|答案))",
    re.IGNORECASE,
)
_CHANGES_OF_MIND = ("wait", "actually", "correction", "scratch that", "second thought", "sorry", "i mean")
_CORRECTION = re.compile(
    r"(?:^|[.!?…,;:—–?-]\s{1,4}|\n)(?:but |no,? |oh,? |hmm,? ){0,3}"
    r"\b(?:wait|actually|correction|scratch that|on second thought|sorry|i mean)\b[ ,:.—–…-]{0,6}",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:no|nope|not|but|wait|actually|correction|scratch|thought|sorry|mean|rather|instead|however|corrected)\b", re.IGNORECASE
)
_ASSERTS = re.compile(
    r"(?:no[ ,:.]{1,3})?(?:\w+ ){0,6}?(?:is|it['’]s|was|be|means?)\b|\W{0,3}\w+(?: \w+)?\W{0,3}$", re.IGNORECASE
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:St|Dr|Mr|Mrs|Ms|Mt|No|Jr|Sr|Prof|Inc|vs|Ft|Gen|Col|Sgt|Lt|Rev|Vol|ca|c)|\b\w)$", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?](?=[\s*_\"'”)]|$)|\n")
_DECLINED = re.compile(
    r"\b(?:(?:do not|don['’]?t|did not|didn['’]?t) (?:\w+ )?know|(?:not|isn['’]?t|aren['’]?t) (?:\w+ )?(?:sure|certain)|no idea"
    r"|(?:cannot|can['’]?t|can not|unable to|not able to|won['’]?t|could not|couldn['’]?t)"
    r" (?:\w+ )?(?:answer|determine|help|provide|say|choose|tell|assist|solve|recall|confirm|comply|discuss|find|decide|give"
    r"|be determined)"
    r"|(?:do not|don['’]?t) have (?:\w+ )?(?:access|enough|information|an answer)|not enough information|insufficient information"
    r"|(?:as|i am|i['’]?m) an? (?:ai|language model)"
    r"|^\W{0,8}(?:unknown|n/?a|idk|no answer|no comment|not available|not known)\b)",
    re.IGNORECASE,
)
_CUES = ("n't", "n’t", "not", "no ", "unable", "as an", "am an", "’m an", "'m an", "unknown", "n/a", "idk", "na")
"""One of these is in every text that declines."""
_OPENING = 400
"""Characters in which a text that declines says so."""
_STILL_ANSWERED = re.compile(
    r"\b(?:but|however|though|still)\b[^.\n]{0,60}\b(?:is|it['’]s|was|say|guess|believe|think|be)\b"
    r"|\b(?:i (?:think|believe|guess|suspect|would (?:say|guess|go))|i['’]d (?:say|guess|go)"
    r"|best guess|maybe|perhaps|probably|most likely)\b|\bbut[ ,:(*]{1,3}[b-hj-z](?!\w)",
    re.IGNORECASE,
)
_DISOWNING = ("no", "n't", "n’t", "never", "doubt", "wrong", "incorrect", "false")
_DISOWNED = re.compile(
    r"(?:\b(?:wrong|incorrect|false)|\bnot(?: the| an?)?|\bdoubt(?: that| if| whether)?(?: the)?"
    r"|(?:n['’]?t|\bnot|\bnever) (?:\w+ )?(?:think|believe|say|suppose|agree)(?: that)?(?: the)?)"
    r"(?: (?:correct|right|best|final|only|my|your))? $"
)
"""Before "answer", where what follows is not what is called the answer."""
_STRUCK = re.compile(r"~~(?=[^\s~])[^~]{1,400}~~|<(s|del|strike)>[^<]{1,400}</\1>", re.IGNORECASE)
_CROSSES = "❌✗✘"
_CROSSED = re.compile(
    rf"^(?=[^\n]{{0,400}}[{_CROSSES}])(?![^\n]{{0,400}}[✅✔☑✓])(?!\W{{0,8}}no\b)[^\n]*$", re.MULTILINE | re.IGNORECASE
)
"""A line with a cross and no tick; "no" with a cross is a no."""
_LATEX_WORD = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mathsf|operatorname|boxed|fbox|emph|underline|displaystyle)\b[ \t]{0,4}"
)
_LATEX_MARK = re.compile(r"\\[()\[\],;!: ]|[${}]|\\(?:left|right|quad|qquad|displaystyle)\b")


def readable(text: str) -> str:
    """What was said and not only thought; of a very long text its two ends."""
    said = without_struck(answer_text(text))
    if len(said) > LONGEST:
        half = LONGEST // 2
        return f"{said[:half]}\n{said[-half:]}"
    return said


def without_struck(text: str) -> str:
    """The text without what is struck out, and without lines that have a cross and no tick."""
    if "~~" in text or "</" in text:
        text = _STRUCK.sub(" ", text)
    return _CROSSED.sub("", text) if not text.isascii() and any(cross in text for cross in _CROSSES) else text


def statement(text: str) -> str:
    """What the text calls its answer, the last time it does, up to the end of that sentence; empty if nothing."""
    start = _statement_start(text)
    if start < 0:
        return ""
    if start == _last_box(text):
        return boxed(text) or ""
    rest = text[start:].lstrip("*_`\"'“” \t\n:")
    return rest[: sentence_end(rest)].strip(" \t*_`\"'“”")


def stated_before(text: str) -> str:
    """What the sentence just before the last statement calls the answer; empty where it calls nothing so.

    On a line of its own, or after a "no" or "wait", the last statement takes the place of the one before.
    """
    if text.lower().count("ans") < 2:
        return ""
    start = _last_marker(text)
    line = text.rfind("\n", 0, max(start, 0)) + 1
    end = max((text.rfind(mark, line, max(start, 0)) for mark in ".!?;"), default=-1)
    if end < 0 or _TAKEN_BACK.search(text, end, start):
        return ""
    before = text[line:end].rstrip(" \t.!?;*_")
    begin = max(before.rfind(mark) for mark in (". ", "! ", "? ", "; ")) + 1
    return statement(before[begin:])


def _statement_start(text: str) -> int:
    """Where what is called the answer begins, or -1."""
    start = max(_last_box(text), _last_marker(text))
    if "####" in text:
        start = max(start, *(match.end() for match in _HASHES.finditer(text)), -1)
    if not text.isascii() or "esp" in text or "isp" in text or "ntw" in text:
        start = max(start, *(match.end() for match in _OTHER_LANGUAGES.finditer(text) if match.end() < len(text)), -1)
    return start


def _last_marker(text: str) -> int:
    """Where the last "the answer is" or the like ends, or -1; what follows must not be nothing."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    place = lowered.rfind("ans")
    for _ in range(_MARKERS):
        if place < 0:
            break
        found = _MARKER.match(lowered, place)
        if found and found.end() < len(text) and not _is_disowned(lowered[max(0, place - 40) : place]):
            return found.end()
        place = lowered.rfind("ans", 0, place)
    return -1


def _is_disowned(before: str) -> bool:
    for cue in _DISOWNING:
        if cue in before:
            return _DISOWNED.search(before) is not None
    return False


def _last_box(text: str) -> int:
    if "\\" not in text:
        return -1
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    box = _BOXED.match(text, start) if start >= 0 else None
    return box.end() if box else -1


def boxed(text: str) -> str | None:
    """What stands in the last box, its braces balanced; None without one."""
    start = _last_box(text)
    if start < 0:
        return None
    depth = 1
    for place in range(start, min(len(text), start + _DEEPEST)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return None


def sentence_end(text: str) -> int:
    """Where the first sentence or line ends; "Dr." and initials end none."""
    for match in _SENTENCE_END.finditer(text, 0, LONGEST):
        place = match.start()
        if text[place] != "." or not _ABBREVIATED.search(text, max(0, place - 6), place):
            return place
    return len(text)


def before_stops(text: str, metadata: Mapping[str, Any]) -> str:
    """The text as a reference would have it, which has the model stop there; chat models are not told to."""
    said = text.lstrip()
    ends = [place for stop in metadata.get("reference_stops", ()) if (place := said.find(stop)) >= 0]
    return said[: min(ends)] if ends else text


def corrected(text: str) -> str:
    """The text after its last change of mind, where that states something; else the whole text."""
    lowered = text.lower()
    found = last_match(_CORRECTION, text) if any(cue in lowered for cue in _CHANGES_OF_MIND) else None
    if found is None or not _ASSERTS.match(text, found.end()):
        return text
    return text[found.end() :]


def before_run_on(text: str) -> str:
    """The text without the further questions a model makes up and answers after its own."""
    for match in _RUN_ON.finditer(text):
        if _statement_start(text[: match.start()]) >= 0:
            return text[: match.start()]
    return text


def without_latex(text: str) -> str:
    r"""The text with LaTeX's wrappers gone: `$\text{CO}_2$` is CO2."""
    if "\\" not in text and "$" not in text and "_" not in text:
        return text
    text = _LATEX_MARK.sub("", _LATEX_WORD.sub("", text))
    return text.replace("_", "")


def declines(text: str) -> bool:
    """Whether the text gives no answer: it is empty, says that it does not know, or refuses."""
    if not text.strip(" \t\n.…-–—?!*_`'\""):
        return True
    opening = text[:_OPENING].lower()
    if not any(cue in opening for cue in _CUES):
        return False
    found = _DECLINED.search(text, 0, _OPENING)
    return found is not None and _STILL_ANSWERED.search(text, found.end(), found.end() + 400) is None


def shown(text: str) -> str | None:
    """What is shown as the answer where no more of it is known; None when there is none."""
    return None if declines(text) else text.strip()[:SHOWN]
