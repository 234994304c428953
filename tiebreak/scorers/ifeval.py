"""IFEval: were the instructions that can be checked followed? Kinds and rules are those of the reference code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from tiebreak.core.errors import MissingExtra, UsageError
from tiebreak.core.extras import optional
from tiebreak.core.protocols import AskContext
from tiebreak.core.sample import Sample
from tiebreak.core.text import answer_text
from tiebreak.core.trial import Output, Score
from tiebreak.scorers.patterns import compiled

Check = Callable[..., bool]
_RULES = ("strict", "loose", "instructions", "instructions-loose")
_LONGEST = 200_000
_NO_WORD = ".,?!'\""
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


class IfEval:
    """All instructions followed, `ifeval:strict` or `:loose`, or their share, `:instructions` or `:instructions-loose`."""

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("instructions",)

    def __init__(self, rule: str = "strict") -> None:
        if rule not in _RULES:
            raise UsageError(f"there is no ifeval:{rule}; there are {', '.join(_RULES)}")
        self._rule = rule
        _require()

    async def score(self, sample: Sample, output: Output, context: AskContext) -> Score:
        """Check each instruction of the sample."""
        text = answer_text(output.text)[:_LONGEST]
        kinds = sample.metadata.get("instructions", ())
        arguments = sample.metadata.get("arguments", ())
        following = followed_loosely if self._rule.endswith("loose") else followed
        done = [following(kind, text, told) for kind, told in zip(kinds, arguments, strict=False)]
        broken = [kind for kind, is_done in zip(kinds, done, strict=False) if not is_done]
        because = f"not followed: {', '.join(broken)}" if broken else "all followed"
        share = sum(done) / len(done) if done else 0.0
        value = share if self._rule.startswith("instructions") else float(share == 1.0)
        return Score(value=value, answer=f"{sum(done)} of {len(done)}", because=because)


def followed(kind: str, text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a text follows one instruction; an empty one follows none."""
    check = KINDS.get(kind)
    if check is None:
        raise UsageError(f"there is no instruction {kind!r}; there are {', '.join(KINDS)}")
    told = {name: value for name, value in arguments.items() if value not in (None, "", [])}
    return bool(text.strip()) and check(text, **told)


def followed_loosely(kind: str, text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the text follows the instruction, or would without its first or last line or its asterisks."""
    lines = text.split("\n")
    cuts = ("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))
    return any(followed(kind, variant, arguments) for cut in (text, *cuts) for variant in (cut, cut.replace("*", "")))


# --- the kinds --------------------------------------------------------------------------------------


def _holds(count: int, relation: str, wanted: int) -> bool:
    return count < wanted if relation == "less than" else count >= wanted


def _paragraphs(text: str, num_paragraphs: int) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    if any(not part.strip() for part in parts[1:-1]):
        return False
    return sum(bool(part.strip()) for part in parts) == num_paragraphs


def _first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = re.split(r"\n\n", text)
    count = sum(bool(part.strip()) for part in parts)
    if nth_paragraph > count or nth_paragraph > len(parts) or not parts[nth_paragraph - 1].strip():
        return False
    word = parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    end = next((i for i, letter in enumerate(word) if letter in _NO_WORD), len(word))
    return count == num_paragraphs and word[:end].lower() == first_word.lower()


def _postscript(text: str, postscript_marker: str) -> bool:
    # The reference's patterns begin with white space and end with the rest of the line, which finds the same in more time.
    known = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    pattern = known.get(postscript_marker, postscript_marker.lower())
    return compiled(pattern, re.MULTILINE).search(text.lower()) is not None


def _bullets(text: str, num_bullets: int) -> bool:
    stars = re.findall(r"^[^\S\n]*\*[^\*].*$", text, re.MULTILINE)
    return len(stars) + len(re.findall(r"^[^\S\n]*-.*$", text, re.MULTILINE)) == num_bullets


def placeholders(text: str) -> int:
    r"""How often the pattern `\[.*?\]` is found, in linear time."""
    count = 0
    for line in text.split("\n"):
        end = 0
        while (start := line.find("[", end)) >= 0 and (end := line.find("]", start) + 1):
            count += 1
    return count


def titles(text: str) -> Iterator[str]:
    r"""What the pattern `<<[^\n]+>>` finds, in linear time."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start <= end - 3:
            yield line[start : end + 2]


def _highlights(text: str, num_highlights: int) -> bool:
    single = [found for found in re.findall(r"\*[^\n\*]*\*", text) if found.strip("*").strip()]
    double = [found for found in re.findall(r"\*\*[^\n\*]*\*\*", text) if found.removeprefix("**").removesuffix("**").strip()]
    return len(single) + len(double) >= num_highlights


def _json(text: str) -> bool:
    bare = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        bare = bare.removeprefix(opening)
    try:
        json.loads(bare.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _two_responses(text: str) -> bool:
    parts = text.split("******")
    if any(not part.strip() for part in parts[1:-1]):
        return False
    said = [part for part in parts if part.strip()]
    return len(said) == 2 and said[0].strip() != said[1].strip()


def _quoted(text: str) -> bool:
    bare = text.strip()
    return len(bare) > 1 and bare[0] == bare[-1] == '"'


def _capital_words(text: str, capital_frequency: int, capital_relation: str = "at least") -> bool:
    capitals = [word for word in _nltk().tokenize.word_tokenize(text) if word.isupper()]
    return _holds(len(capitals), capital_relation, capital_frequency)


KINDS: Mapping[str, Check] = {
    "keywords:existence": lambda text, keywords: all(compiled(word, re.IGNORECASE).search(text) for word in keywords),
    "keywords:frequency": lambda text, keyword, frequency, relation="at least": _holds(
        sum(1 for _ in compiled(keyword, re.IGNORECASE).matches(text)), relation, frequency
    ),
    "keywords:forbidden_words": lambda text, forbidden_words: (
        not any(compiled(rf"\b{word}\b", re.IGNORECASE).search(text) for word in forbidden_words)
    ),
    "keywords:letter_frequency": lambda text, letter, let_frequency, let_relation="at least": _holds(
        text.lower().count(letter.lower()), let_relation, let_frequency
    ),
    "language:response_language": lambda text, language: _detected(text) in (language, ""),
    "length_constraints:number_sentences": lambda text, num_sentences, relation="at least": _holds(
        len(_nltk().tokenize.sent_tokenize(text)), relation, num_sentences
    ),
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": lambda text, num_words, relation="at least": _holds(
        len(re.findall(r"\w+", text)), relation, num_words
    ),
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": lambda text, num_placeholders: placeholders(text) >= num_placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": lambda text: any(answer in text for answer in _ANSWERS),
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": lambda text, section_spliter, num_sections: (
        sum(1 for _ in compiled(rf"\s?{section_spliter}\s?\d+\s?").matches(text)) >= num_sections
    ),
    "detectable_format:json_format": _json,
    "detectable_format:title": lambda text: any(title.lstrip("<").rstrip(">").strip() for title in titles(text)),
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": lambda text, prompt_to_repeat: text.strip().lower().startswith(prompt_to_repeat.strip().lower()),
    "startend:end_checker": lambda text, end_phrase: text.strip().strip('"').lower().endswith(end_phrase.strip().lower()),
    "startend:quotation": _quoted,
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": lambda text: text.isupper() and _detected(text) in ("en", ""),
    "change_case:english_lowercase": lambda text: text.islower() and _detected(text) in ("en", ""),
    "punctuation:no_comma": lambda text: "," not in text,
}
"""Each kind's check, with its arguments named as the set names them."""


def _detected(text: str) -> str:
    """The language of a text; nothing where it cannot be told, which the reference counts as followed."""
    langdetect = _langdetect()
    langdetect.DetectorFactory.seed = 0
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return ""


def _langdetect() -> Any:
    return optional("langdetect", extra="scorers", needed_by="ifeval")


def _nltk() -> Any:
    return optional("nltk", extra="scorers", needed_by="ifeval")


def _require() -> None:
    """Raise before anything is asked where a library or its data is missing."""
    _langdetect()
    try:
        _nltk().data.find("tokenizers/punkt_tab/english")
    except LookupError:
        raise MissingExtra("ifeval counts sentences with data that is not here: python -m nltk.downloader punkt_tab") from None
