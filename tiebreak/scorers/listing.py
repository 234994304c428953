"""Whether an answer is nothing but a list of candidates: whoever names ten of them has not answered."""

from __future__ import annotations

import re

_LONGEST = 2000
"""Characters of a list of candidates that is worth looking at; a longer text says more than a list."""
_BETWEEN = re.compile(r"[,;\n]")
_DRESS = " \t-*•·.\"'`_()[]0123456789"
_WORKINGS = frozenset(":=(")
"""Signs of steps and sums, the last of which is the answer."""
_SENTENCE = re.compile(r"\b(?:is|are|was|were|be|has|have|had|called|named|it|he|she|they)\b", re.IGNORECASE)
_MOST_WORDS = 4
_MANY, _MANY_LINES, _SEVERAL = 6, 4, 2
"""Items that make a list of candidates: on one line, on lines of their own, and after words that call them candidates.
"Paris, Île-de-France, France" is one place."""
_NAME = r"([A-Z]\w+(?: [A-Z]\w+){0,2})"
_PAIR = re.compile(rf"\W{{0,4}}{_NAME} (?:and|&) {_NAME}\W{{0,4}}")
_CANDIDATES = re.compile(
    r"\s*(?:[\w']+ ){0,4}(?:possib\w+|candidates?|options?|guess\w*|alternatives?|could be|might be|may be|one of)"
    r"(?: [\w']+){0,3}\s*:",
    re.IGNORECASE,
)


def candidates(text: str) -> list[str]:
    """The items of a text that is nothing but a list of candidates; none where it is more, or too short for one."""
    if len(text) > _LONGEST or not _BETWEEN.search(text):
        return []
    intro = _CANDIDATES.match(text)
    listed = text[intro.end() :] if intro else text
    if not _WORKINGS.isdisjoint(listed) or _SENTENCE.search(listed):
        return []
    items = [part.strip(_DRESS) for part in _BETWEEN.split(listed)]
    items = [item for item in items if item]
    lines = sum(bool(line.strip()) for line in text.splitlines())
    enough = _SEVERAL if intro else _MANY_LINES if lines >= len(items) else _MANY
    if len(items) < enough or any(len(item.split()) > _MOST_WORDS for item in items):
        return []
    return items


def pair(text: str) -> list[str]:
    """The two names of a text that is nothing but both of them: "Spanish and Portuguese"; "Jack and Jim White" are two of one name."""
    found = _PAIR.fullmatch(text)
    if found is None or _SENTENCE.search(text):
        return []
    first, second = found.groups()
    return [f"{first} {second.split()[-1]}" if " " in second and " " not in first else first, second]
