"""Numbers as people and models write them: where they stand in a text, and what they are worth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tiebreak.scorers.words import ONES, TENS

_SCALES = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
    "dozen": 12, "dozens": 12,
    "k": 1e3, "m": 1e6, "b": 1e9, "bn": 1e9, "mn": 1e6,
}  # fmt: skip
_WORDS = {word: float(value) for value, word in enumerate(ONES.split())} | {
    word: float(value * 10) for value, word in enumerate(TENS.split(), start=2)
}
_PARTS = {"half": 2.0, "halves": 2.0, "third": 3.0, "thirds": 3.0, "quarter": 4.0, "quarters": 4.0, "fifth": 5.0, "fifths": 5.0}
_VULGAR = {"½": " 1/2", "¼": " 1/4", "¾": " 3/4", "⅓": " 1/3", "⅔": " 2/3", "⅛": " 1/8", "⅕": " 1/5", "⅖": " 2/5"}
_SIGNS = str.maketrans({
    "\u2212": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\ufe0f": "", "\u20e3": "", "’": "'", **_VULGAR,
})  # fmt: skip
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUPERSCRIPT = re.compile("[⁻⁰¹²³⁴-⁹]{1,4}")
_POWER = re.compile(r"\*\*(?<=\w\*\*)(?=[-+]?\d{1,3}(?!\d|\*\*))| \*\* (?=[-+]?\d)")
_IN_WORDS = re.compile(r"[ \t]to the power(?: of)?[ \t](?=[-+]?\d)")
_DASHED = re.compile(r"(?<![\w)\]%])[–—](?=[$€£]?\.?\d)")
_FRACTION = re.compile(r"\\[dt]?frac[ \t]{0,2}(?:\{([^{}]{1,40})\}|(\d))[ \t]{0,2}(?:\{([^{}]{1,40})\}|(\d))")
_LATEX = (
    (re.compile(r"\{,\}|,\\!"), ","),
    (re.compile(r"\\times|\\cdot|\\ast"), "×"),
    (re.compile(r"\\(?:approx|simeq|sim)"), "≈"),
    (re.compile(r"\\[,;:! ]"), ""),
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|mbox|left|right|boxed|fbox|quad|displaystyle)\b"), " "),
    (re.compile(r"\^[ \t]{0,2}\{[ \t]{0,2}([-+]?\d{1,3})[ \t]{0,2}\}"), r"^\1"),
    (re.compile(r"[{}\\]"), " "),
)
_NUMBER = (
    r"(?:[-+]|\b(?:minus|negative)[ ])?(?:[$€£][ \t]?)?"
    r"(?:\d{1,3}(?:\.\d{3}){1,9},\d{1,2}(?!\d)|\d{1,3}(?:,\d{3}){1,9}(?:\.\d{1,30})?(?![\d])|\d{1,3}(?:\.\d{3}){2,9}(?!\d)"
    r"|\d{1,3}(?:[ ']\d{3}){1,9}(?:[.,]\d{1,2})?(?!\d)"
    r"|\d{1,400}(?:[.,]\d{1,400})?|\.\d{1,400})"
    r"(?:[eE][-+]?\d{1,3}(?!\d)|[ \t]?[×x*·][ \t]?10[ \t]?\^[ \t]?\(?[-+]?\d{1,3}\)?|[ \t]?\^[ \t]?\(?[-+]?\d{1,3}\)?)?"
    r"(?:[ \t]\d{1,3}/\d{1,3}(?![\d/])|[ \t]?/[ \t]?\d{1,30}(?:\.\d{1,9})?(?![\d/]))?"
)
_AFTER = r"(?:[ \t]?(?:%|percent\b|per cent\b)|[ \t]?(?:hundred|thousand|million|billion|trillion|dozens?)\b|(?:k|K|M|B|bn)\b)?"
FIGURE = re.compile(rf"(?<![\w.^])(?<!\d[,/])(?:{_NUMBER})(?:{_AFTER})")
_SPELLED_WORD = "|".join(
    sorted((*_WORDS, *_PARTS, "hundred", "thousand", "million", "billion", "dozens", "dozen", "and", "a"), key=len, reverse=True)
)
SPELLED = re.compile(
    rf"\b(?:(?:minus|negative)[ -])?(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))}"
    rf"|half|a (?:half|hundred|thousand|million|dozen|couple|pair)|dozen|hundred|thousand)\b"
    rf"(?:[ -]{{1,2}}(?:{_SPELLED_WORD})\b){{0,9}}",
    re.IGNORECASE,
)
_RAISED_TO = re.compile(r"[ \t]?\^[ \t]?\(?([-+]?\d{1,3})\)?")
_TIMES_TEN = re.compile(r"[ \t]?[×x*·][ \t]?10[ \t]?\^[ \t]?\(?([-+]?\d{1,3})\)?")
_DATE = re.compile(r"(?<![\d-])(\d{4})-\d{2}-\d{2}(?![\d-])")
_NOT_FREE = re.compile(r"(?:st|nd|rd|th)\b|s\b(?<=\d{4}s)|-[A-Za-z]|[a-zA-Z_]\w{0,3}(?:[ \t]?[=+*^/]|\()|[xyzn]\b")
"""What follows a figure that is no number of its own: an ordinal, a decade, "4-week", the factor of "2x"."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in a text, and where it stands."""

    text: str
    start: int
    end: int


def plain(text: str) -> str:
    """The text with one sign for each thing: LaTeX, typographic signs and dates are put plainly."""
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda found: f"^{found[0].translate(_RAISED)}", text)
        text = _DASHED.sub("-", text.translate(_SIGNS))
    if "\\" in text or "{" in text:
        text = _FRACTION.sub(lambda found: f" {found[1] or found[2]}/{found[3] or found[4]}", text)
        for pattern, plainly in _LATEX:
            text = pattern.sub(plainly, text)
    if "**" in text:
        text = _POWER.sub("^", text)
    if "power" in text:
        text = _IN_WORDS.sub("^", text)
    return _DATE.sub(r"\1", text) if "-" in text else text


def figures(text: str) -> list[Figure]:
    """The numbers of a plain text, in digits; in words where there are none."""
    found = [Figure(match[0].strip(), match.start(), match.end()) for match in FIGURE.finditer(text)]
    free = [figure for figure in found if not _NOT_FREE.match(text, figure.end)]
    if free or found:
        return free or found
    return [Figure(match[0], match.start(), match.end()) for match in SPELLED.finditer(text)]


@lru_cache(maxsize=8192)
def readings(text: str) -> tuple[float, ...]:
    """What a number may be worth: 50% is 50 and a half, 70.000 is seventy and seventy thousand."""
    value = to_number(text)
    if value is None:
        return ()
    more = []
    if "%" in text or "cent" in text.lower():
        more.append(value / 100)
    if re.fullmatch(r"[-+$€£ ]{0,4}[1-9]\d{0,2}\.\d{3}", text.strip()):
        more.append(value * 1000)
    return (value, *more)


def to_number(text: str) -> float | None:
    """The value of a number as people write it, or None."""
    body = plain(text).strip().lower()
    sign = -1.0 if re.match(r"(?:minus|negative)\b", body) else 1.0
    body = re.sub(r"^(?:minus|negative)[ -]", "", body)
    try:
        value = _digits(body) if any(map(str.isdecimal, body)) else _spelled(body)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return None if value is None else sign * value


def _digits(body: str) -> float:
    body, scale = _scaled(
        body.translate({ord(sign): None for sign in "$€£%"}).replace("percent", "").replace("per cent", "").strip()
    )
    power = _TIMES_TEN.search(body)
    if power:
        return float(_decimal(body[: power.start()])) * 10.0 ** int(power[1]) * scale
    power = _RAISED_TO.search(body)
    if power:
        return float(float(_decimal(body[: power.start()])) ** int(power[1])) * scale
    top, slash, bottom = body.partition("/")
    if not slash:
        return float(_decimal(top)) * scale
    whole, _, top = top.strip().rpartition(" ")
    value = float(_decimal(top)) / float(_decimal(bottom))
    return (float(_decimal(whole)) + value if whole else value) * scale


def _scaled(body: str) -> tuple[str, float]:
    found = re.search(r"[ \t]?([a-z]{1,8})$", body)
    if found and found[1] in _SCALES and body[: found.start()].strip():
        return body[: found.start()], _SCALES[found[1]]
    return body, 1.0


def _decimal(text: str) -> str:
    """Digits with a decimal point and nothing else: separators go, a decimal comma becomes a point."""
    text = text.strip().replace(" ", "").replace("'", "")
    if "." in text and text.rfind(",") > text.rfind("."):
        return text.replace(".", "").replace(",", ".")
    if text.count(".") > 1:
        return text.replace(".", "")
    if text.count(",") == 1 and len(text.rpartition(",")[2]) != 3 and "." not in text:
        return text.replace(",", ".")
    return text.replace(",", "").rstrip(".")


def _spelled(body: str) -> float | None:
    """A number in words, up to billions: "two and a half million"."""
    total = current = 0.0
    seen = joined = False
    for word in re.split(r"[ -]+", body):
        if word in _WORDS:
            current += _WORDS[word]
        elif word in _PARTS:
            current = current + 1 / _PARTS[word] if joined or not current else current / _PARTS[word]
        elif word in ("hundred", "dozen", "dozens"):
            current = (current or 1.0) * _SCALES[word]
        elif word in ("couple", "pair"):
            current += 2
        elif word in _SCALES:
            total, current = total + (current or 1.0) * _SCALES[word], 0.0
        elif word not in ("a", "and"):
            return None
        seen, joined = seen or word not in ("a", "and"), joined or word == "and"
    return total + current if seen else None
