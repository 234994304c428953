"""IFEval: were the instructions that can be checked followed? Kinds and rules are those of the reference code."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from benchmark.core.errors import MissingExtra, UsageError
from benchmark.core.protocols import Context
from benchmark.core.sample import Sample
from benchmark.core.text import answer_text
from benchmark.core.trial import Output, Score

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

    async def score(self, sample: Sample, output: Output, context: Context) -> Score:
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


def _existence(text: str, keywords: list[str]) -> bool:
    return all(re.search(keyword, text, re.IGNORECASE) for keyword in keywords)


def _frequency(text: str, keyword: str, frequency: int, relation: str = "at least") -> bool:
    return _holds(len(re.findall(keyword, text, re.IGNORECASE)), relation, frequency)


def _forbidden(text: str, forbidden_words: list[str]) -> bool:
    return not any(re.search(rf"\b{word}\b", text, re.IGNORECASE) for word in forbidden_words)


def _letters(text: str, letter: str, let_frequency: int, let_relation: str = "at least") -> bool:
    return _holds(text.lower().count(letter.lower()), let_relation, let_frequency)


def _language(text: str, language: str) -> bool:
    return _detected(text) in (language, "")


def _sentences(text: str, num_sentences: int, relation: str = "at least") -> bool:
    return _holds(len(_nltk().tokenize.sent_tokenize(text)), relation, num_sentences)


def _paragraphs(text: str, num_paragraphs: int) -> bool:
    parts = re.split(r"\s?\*\*\*\s?", text)
    if any(not part.strip() for part in parts[1:-1]):
        return False
    return sum(bool(part.strip()) for part in parts) == num_paragraphs


def _words(text: str, num_words: int, relation: str = "at least") -> bool:
    return _holds(len(re.findall(r"\w+", text)), relation, num_words)


def _first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    parts = re.split(r"\n\n", text)
    count = sum(bool(part.strip()) for part in parts)
    if nth_paragraph > count or nth_paragraph > len(parts) or not parts[nth_paragraph - 1].strip():
        return False
    word = parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    end = next((i for i, letter in enumerate(word) if letter in _NO_WORD), len(word))
    return count == num_paragraphs and word[:end].lower() == first_word.lower()


def _placeholders(text: str, num_placeholders: int) -> bool:
    return len(re.findall(r"\[.*?\]", text)) >= num_placeholders


def _postscript(text: str, postscript_marker: str) -> bool:
    known = {"P.P.S": r"\s*p\.\s?p\.\s?s.*$", "P.S.": r"\s*p\.\s?s\..*$"}
    pattern = known.get(postscript_marker, rf"\s*{postscript_marker.lower()}.*$")
    return re.search(pattern, text.lower(), re.MULTILINE) is not None


def _bullets(text: str, num_bullets: int) -> bool:
    stars = re.findall(r"^\s*\*[^\*].*$", text, re.MULTILINE)
    return len(stars) + len(re.findall(r"^\s*-.*$", text, re.MULTILINE)) == num_bullets


def _constrained(text: str) -> bool:
    return any(answer in text.strip() for answer in _ANSWERS)


def _highlights(text: str, num_highlights: int) -> bool:
    single = [found for found in re.findall(r"\*[^\n\*]*\*", text) if found.strip("*").strip()]
    double = [found for found in re.findall(r"\*\*[^\n\*]*\*\*", text) if found.removeprefix("**").removesuffix("**").strip()]
    return len(single) + len(double) >= num_highlights


def _sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.split(rf"\s?{section_spliter}\s?\d+\s?", text)) - 1 >= num_sections


def _json(text: str) -> bool:
    bare = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        bare = bare.removeprefix(opening)
    try:
        json.loads(bare.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str) -> bool:
    return any(title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", text))


def _two_responses(text: str) -> bool:
    parts = text.split("******")
    if any(not part.strip() for part in parts[1:-1]):
        return False
    said = [part for part in parts if part.strip()]
    return len(said) == 2 and said[0].strip() != said[1].strip()


def _repeats(text: str, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _ends(text: str, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _quoted(text: str) -> bool:
    bare = text.strip()
    return len(bare) > 1 and bare[0] == bare[-1] == '"'


def _capital_words(text: str, capital_frequency: int, capital_relation: str = "at least") -> bool:
    capitals = [word for word in _nltk().tokenize.word_tokenize(text) if word.isupper()]
    return _holds(len(capitals), capital_relation, capital_frequency)


def _capitals(text: str) -> bool:
    return text.isupper() and _detected(text) in ("en", "")


def _lower_case(text: str) -> bool:
    return text.islower() and _detected(text) in ("en", "")


def _no_comma(text: str) -> bool:
    return "," not in text


KINDS: Mapping[str, Check] = {
    "keywords:existence": _existence,
    "keywords:frequency": _frequency,
    "keywords:forbidden_words": _forbidden,
    "keywords:letter_frequency": _letters,
    "language:response_language": _language,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_paragraphs": _paragraphs,
    "length_constraints:number_words": _words,
    "length_constraints:nth_paragraph_first_word": _first_word,
    "detectable_content:number_placeholders": _placeholders,
    "detectable_content:postscript": _postscript,
    "detectable_format:number_bullet_lists": _bullets,
    "detectable_format:constrained_response": _constrained,
    "detectable_format:number_highlighted_sections": _highlights,
    "detectable_format:multiple_sections": _sections,
    "detectable_format:json_format": _json,
    "detectable_format:title": _title,
    "combination:two_responses": _two_responses,
    "combination:repeat_prompt": _repeats,
    "startend:end_checker": _ends,
    "startend:quotation": _quoted,
    "change_case:capital_word_frequency": _capital_words,
    "change_case:english_capital": _capitals,
    "change_case:english_lowercase": _lower_case,
    "punctuation:no_comma": _no_comma,
}


def _detected(text: str) -> str:
    """The language of a text; nothing where it cannot be told, which the reference counts as followed."""
    langdetect = _library("langdetect")
    langdetect.DetectorFactory.seed = 0
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return ""


def _nltk() -> Any:
    return _library("nltk")


def _require() -> None:
    """Raise before anything is asked where a library or its data is missing."""
    _library("langdetect")
    try:
        _nltk().data.find("tokenizers/punkt_tab/english")
    except LookupError:
        raise MissingExtra("ifeval counts sentences with data that is not here: python -m nltk.downloader punkt_tab") from None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra(f"ifeval needs {name}, which is not installed: pip install 'tiebreak[scorers]'") from None
