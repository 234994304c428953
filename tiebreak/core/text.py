"""Reading an answer: what it says, what it says only to deny, and what was thought and not said."""

from __future__ import annotations

import re
import unicodedata

from tiebreak.core.negation import denied

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|reasoning|thought)>", re.IGNORECASE)

_TYPOGRAPHIC = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": ";"}
)
"""What most texts that are not plain ASCII have, as its plain counterpart, which means the same here."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POSSESSIVE = re.compile(r"'s\b|'")
_BOUNDARY = re.compile(r"[,!?;:\n()\[\]{}\"|\u2014]+|\.(?!\d)|(?<!\d)\.(?=\d)|\s[-\u2013]\s")
_SYMBOL = re.compile(r"([%$€£°])")
_NOISE = re.compile(r"[^\w.%$€£°+#|\-]+|(?<=\w)-|-(?!\d)|_+")

_PLAIN = re.compile(r"[A-Za-z0-9 ]{1,200}")
_MENTIONS = 1000
"""Mentions of a phrase that are looked at: a megabyte of denials must not take minutes."""


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last place where a pattern matches."""
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def answer_text(text: str) -> str:
    """The text without any reasoning the model wrote into it; an unclosed thought is all thought."""
    if "<" not in text:
        return text
    kept: list[str] = []
    place, thinking = 0, False
    for tag in _THOUGHT.finditer(text):
        if tag[1] and not thinking:
            # Some chat templates print the opening tag themselves: all before a lone closing tag is thought.
            kept.clear()
        elif not tag[1] and not thinking:
            kept.append(text[place : tag.start()])
        thinking = not tag[1]
        place = tag.end()
    return "".join(kept) if thinking else "".join(kept) + text[place:]


def clauses(text: str) -> str:
    """The text as plain lower-case words, with ` | ` where a clause ends.

    Accents, quotes and mark-up are gone; numbers keep their sign and decimal point and lose their
    thousands separators; a percent or currency sign is a word of its own.
    """
    plain = text if text.isascii() else text.translate(_TYPOGRAPHIC)
    if not plain.isascii():
        # Combining marks go first as well: putting a long run of them in order takes quadratic time.
        plain = _without_marks(unicodedata.normalize("NFKD", _without_marks(plain)))
    plain = _THOUSANDS.sub("", plain.casefold())
    plain = _POSSESSIVE.sub("", plain)
    plain = _BOUNDARY.sub(" | ", plain)
    plain = _SYMBOL.sub(r" \1 ", plain)
    return " ".join(_NOISE.sub(" ", plain).split())


def _without_marks(text: str) -> str:
    return "".join(c for c in text if not unicodedata.combining(c))


def words(text: str) -> str:
    """The text as plain lower-case words, clause ends forgotten."""
    return " ".join(clauses(text).replace("|", " ").split())


def says(said: str, phrase: str, *, by_predicate: bool = True) -> bool:
    """Whether clauses() of an answer say the phrase, as whole words, somewhere without denying it; see `denied`."""
    # Most phrases are plain words, which need no more than that.
    wanted = " ".join(phrase.lower().split()) if _PLAIN.fullmatch(phrase) else clauses(phrase).strip("| ")
    if not wanted:
        return False
    padded = f" {said} "
    place = padded.find(f" {wanted} ")
    for _ in range(_MENTIONS):
        if place < 0:
            break
        end = place + len(wanted) + 1
        if not denied(padded, place + 1, end, by_predicate=by_predicate):
            return True
        place = padded.find(f" {wanted} ", end)
    return False
