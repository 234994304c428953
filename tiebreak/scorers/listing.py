"""Whether an answer is nothing but a list of candidates: whoever names ten of them has not answered."""

from __future__ import annotations

import re

_LONGEST = 2000
"""Characters of a list of candidates that is worth looking at; a longer text says more than a list."""
_BETWEEN = re.compile(r"[,;\n|]|(?:(?<=[\w.)] )|^)\(?\d{1,2}[.)](?= )")
_DRESS = " \t-*•·.?!\"'`_()[]0123456789"
_WORKINGS = frozenset(":=(")
"""Signs of steps and sums, the last of which is the answer."""
_SENTENCE = re.compile(r"\b(?:is|are|was|were|be|has|have|had|followed|called|named|it|he|she|they|i|you|we)\b", re.IGNORECASE)
_MOST_WORDS = 4
_FAREWELL = re.compile(r"\b(?:hope|help|let me know|feel free|questions|need)\b", re.IGNORECASE)
_MANY, _MANY_LINES, _SEVERAL = 6, 3, 2
"""Items that make a list of candidates: on one line, on lines of their own, and where they are numbered or called candidates.
"Paris, Île-de-France, France" is one place, and so are "Paris" and "France" on two lines."""
_NAME = r"([A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,2})"
_PAIR = re.compile(rf"\W{{0,4}}(?:[Bb]oth )?{_NAME} (?:and|as well as|plus|and/or|&) {_NAME}\W{{0,4}}")
_SLASHED = re.compile(rf"\W{{0,4}}{_NAME}(?: ?/ ?{_NAME}){{1,9}}\W{{0,4}}")
_ITEM = r"[\w'’-]+(?: [\w'’-]+){0,2}"
_SERIES = re.compile(rf"\W{{0,4}}{_ITEM}(?:, {_ITEM}){{1,20}},? (?:and|or|&) {_ITEM}\W{{0,4}}")
_JOINTS = re.compile(r",? (?:and|or|&) |, | ?/ ?")
_CALLED = re.compile(
    r"\s*(?:[\w']+ ){0,4}(?:possib\w+|candidates?|options?|guess\w*|alternatives?|could be|might be|may be|one of|either)"
    r"(?:(?: [\w']+){0,3}\s*:|(?<=of)|(?<= be)|(?<=either))\s",
    re.IGNORECASE,
)
_HEADED = re.compile(r"[^\n:]{1,80}:(?:[ \t]*\n\s*|[ \t]+(?=1[.)] |[^\n:;]+;[^\n:;]+;))")
_MARKED = re.compile(r"^[ \t]*(?:[-*•·–](?=[ \t])|\(?(?:\d{1,2}|[a-hA-H])[.)])[ \t]*(?=\S)", re.MULTILINE)
_PARTS = re.compile(r" and | & |[,;/\n]")


def candidates(text: str) -> list[str]:
    """The items of a text that is nothing but a list of candidates; none where it is more, or too short for one."""
    if len(text) > _LONGEST or ("\n" not in text and ":" not in text and _SENTENCE.search(text)):
        return []
    if not _BETWEEN.search(text):
        return _series(text)
    called = _CALLED.match(text)
    headed = called or _HEADED.match(text)
    listed = _without_farewell(text[headed.end() :] if headed else text).strip()
    if not _WORKINGS.isdisjoint(listed) or _SENTENCE.search(listed) or ("|" in listed and "\n" in listed):
        return []
    if not listed:
        return []
    lines = [line for line in listed.splitlines() if line.strip()]
    items = [item for part in _BETWEEN.split(_MARKED.sub("", listed)) if (item := part.strip(_DRESS))]
    if called or _MARKED.match(listed):
        enough = _SEVERAL
    elif len({(line.lstrip()[0] == "*", line.rstrip("*_ ")[-1:] in ".!") for line in lines}) > 1:
        # Sentences, and a last line set apart: it is the answer.
        return _series(listed)
    else:
        enough = _MANY_LINES if len(lines) >= len(items) or ";" in listed or "|" in listed else _MANY
    if len(items) < enough or any(len(item.split()) > _MOST_WORDS for item in items):
        return _series(listed)
    return items


def _without_farewell(listed: str) -> str:
    """A list without the courtesy behind it: "I hope this helps!". Anything else there is what it comes to: no list then."""
    marked = list(_MARKED.finditer(listed))
    end = listed.find("\n\n", marked[-1].start()) if len(marked) > 1 else -1
    behind = listed[end:].strip() if end >= 0 else ""
    return listed if not behind else listed[:end] if _FAREWELL.search(behind) else ""


def _series(text: str) -> list[str]:
    """Three in a row, or two names: "oxygen, argon and neon", "Spanish and Portuguese"; "Jack and Jim White" are both White."""
    if _SENTENCE.search(text):
        return []
    if found := _PAIR.fullmatch(text):
        first, second = found.groups()
        return [f"{first} {second.split()[-1]}" if " " in second and " " not in first else first, second]
    if _SLASHED.fullmatch(text) or _SERIES.fullmatch(text):
        return [item.strip(_DRESS) for item in _JOINTS.split(text)]
    return []


def parts(text: str) -> int:
    """How many things an accepted answer may be a list of."""
    return len(_PARTS.split(text))
