"""Plain English is tested: short sentences, one word for one thing, and a style page that follows its own advice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GLOSSARY = ROOT / "docs" / "glossary.md"
STYLE = ROOT / "docs" / "style.md"
LONGEST_SENTENCE = 35
PAIRS_WANTED = 20
SHOW_AVOIDED_WORDS = {"glossary.md", "style.md"}
"""The pages that name the words we avoid, so that nobody has to guess them."""


def prose(text: str) -> list[str]:
    """Paragraphs and list entries, each on one line; code, tables and headings left out."""
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(\||#|---|!!!|:::).*$", "", text, flags=re.MULTILINE)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )", text)
    return [" ".join(block.split()) for block in blocks if block.strip()]


def sentences(text: str) -> list[str]:
    """What a reader reads between two full stops; code spans count as one word."""
    words = re.sub(r"`[^`]*`", "code", " \n".join(prose(text)))
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words)
    words = re.sub(r"\b(e\.g|i\.e|vs|etc)\.", r"\1", words)
    return re.split(r"(?<=[.!?])[\"”)*]*\s+|\n", words)


def length(sentence: str) -> int:
    return len(re.findall(r"[^\W_][\w'’.,%-]*", sentence))


def pairs(path: Path, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, header and rule left out."""
    section = path.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def avoided_words() -> list[str]:
    return [word for row in pairs(GLOSSARY, "Words we do not use") for word in row[0].split(", ")]


def avoided_in(text: str) -> list[str]:
    """Words we avoid, outside code and outside other projects' names, such as lm-eval."""
    plain = re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return [word for word in avoided_words() if re.search(rf"(?<![\w.-]){re.escape(word)}s?(?![\w-])", plain, re.IGNORECASE)]


def test_long_sentences_are_found() -> None:
    """The counter itself: a long sentence is seen across lines, code and links; tables, fences and lists are not sentences."""
    long = " ".join(["word"] * 20) + " `code with words` \n[a link](https://x.y/z) " + " ".join(["word"] * 20) + "."
    assert [length(s) for s in sentences(long)] == [43]
    assert max(map(length, sentences(f"Short.\n\n| {long.replace(chr(10), ' ')} |\n\n```\n{long}\n```\n"))) == 1
    assert [length(s) for s in sentences("- one two\n- three four\n")] == [2, 2]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_no_sentence_is_longer_than_a_reader_can_hold(path: Path) -> None:
    found = [s for s in sentences(path.read_text(encoding="utf-8")) if length(s) > LONGEST_SENTENCE]
    assert found == []


def test_avoided_words_are_found() -> None:
    assert avoided_in("Three Entrants ran.") == ["entrant"]
    assert avoided_in("`entrant`, lm-eval and logs.eval are other people's words.") == []


@pytest.mark.parametrize("path", [p for p in PAGES if p.name not in SHOW_AVOIDED_WORDS], ids=lambda p: p.name)
def test_pages_use_the_words_of_the_glossary(path: Path) -> None:
    assert avoided_in(path.read_text(encoding="utf-8")) == []


def test_names_in_the_code_use_them_too() -> None:
    """A second word for a contestant would need a second explanation."""
    second_names = re.compile(r"\b\w*(entrant|competitor)\w*\b|\blanes?\b", re.IGNORECASE)
    found = {
        str(p.relative_to(ROOT)): m[0] for p in (ROOT / "tiebreak").rglob("*.py") if (m := second_names.search(p.read_text()))
    }
    assert found == {}


def test_the_glossary_has_the_ten_words() -> None:
    words = [row[0] for row in pairs(GLOSSARY, "Ten words")]
    assert words == ["Sample", "Dataset", "Model", "Agent", "Contestant", "Scorer", "Trial", "Run", "Store", "Report"]


def test_the_style_page_follows_its_own_advice() -> None:
    """Enough pairs, none twice, no pair that changes nothing; no rewritten phrase uses a word we avoid, or is still in use."""
    rows = pairs(STYLE, "Before and after")
    before, after = [row[0] for row in rows], [row[1] for row in rows]
    assert len(rows) >= PAIRS_WANTED
    assert len(set(before)) == len(rows)
    assert [b for b, a in zip(before, after, strict=True) if b == a] == []
    assert [phrase for phrase in after if avoided_in(phrase)] == []
    others = " ".join(" ".join(p.read_text(encoding="utf-8").split()) for p in PAGES if p != STYLE)
    assert [phrase for phrase in before if phrase in others] == []
