"""The report page: what is in it, what it weighs, and that nothing in it is anything but text."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.hostile_texts import PAYLOADS, hostile_run
from support.made import Planted, Trials, samples, summary_of, write_run

from tiebreak.pipeline import write_reports
from tiebreak.report import html
from tiebreak.report.browse import in_order, pick, sample_facts
from tiebreak.report.table import cells
from tiebreak.report.verdict import verdict
from tiebreak.store.reader import StoreReader

WORDS = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split()


class Page(HTMLParser):
    """What a browser finds in a page."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._inside: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        kind = self._inside[-1] if self._inside else ""
        if kind == "script":
            self.scripts.append(data)
        elif kind == "style":
            self.styles.append(data)
        elif {"td", "th"} & set(self._inside):
            self.rows[-1][-1] += data
        self.texts.append(data)

    @property
    def data(self) -> list[dict[str, Any]]:
        """The samples the page carries."""
        found: list[dict[str, Any]] = json.loads(zlib.decompress(base64.b64decode(self.scripts[0]), -zlib.MAX_WBITS))
        return found


def page_of(folder: Path) -> Page:
    write_reports(folder, csv_path=None)
    return Page(folder / "comparison_report.html")


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten models, a thousand samples, answers of three hundred characters."""
    chance = random.Random(1)

    def prose() -> str:
        return " ".join(chance.choices(WORDS, k=80))[:300]

    contestants = [
        Planted(
            label=f"maker/model-{skill}",
            planted=["timeout" if chance.random() < 0.002 else float(chance.random() < skill / 10) for _ in range(1000)],
            seconds=[chance.lognormvariate(0, 0.5) for _ in range(1000)],
            cost_usd=0.001 * skill,
            texts=[prose() for _ in range(1000)],
        )
        for skill in range(10)
    ]
    kinds = [f"kind {number % 7}" for number in range(1000)]
    folder = tmp_path_factory.mktemp("big") / "run"
    return write_run(folder, contestants, Trials(samples(1000, categories=kinds)))


def test_ten_models_on_a_thousand_samples_stay_below_three_megabytes(big: Path) -> None:
    """With every answer in the page, whole."""
    page = page_of(big)
    assert len(page.source.encode()) < 3_000_000
    assert len(page.data) == 1000
    assert {len(row["answers"]) for row in page.data} == {10}
    texts = [answer["text"] for row in page.data for own in row["answers"] for answer in own if answer["mark"] != "failed"]
    assert min(map(len, texts)) > 250


def test_the_verdict_comes_first_and_the_table_has_the_words_of_the_terminal(big: Path) -> None:
    page, summary = page_of(big), summary_of(big)
    text = re.sub(r"\s+", " ", " ".join(page.texts))
    assert [text.index(re.sub(r"\s+", " ", sentence)) for sentence in verdict(summary)] == sorted(
        text.index(re.sub(r"\s+", " ", sentence)) for sentence in verdict(summary)
    )
    assert text.index(verdict(summary)[0]) < text.index("Tier")
    for model in summary.contestants:
        row = next(row for row in page.rows if len(row) > 12 and row[1] == model.label)
        assert tuple(row[1:10]) == cells(model, note=True)
        assert row[0] == str(model.tier)


def test_only_scripts_and_styles_of_ours_may_act(big: Path) -> None:
    """The policy names each by its hash, nothing is loaded from anywhere, and no element has a style or a handler."""
    page = page_of(big)
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    for kind, text in (("script", page.scripts[1]), ("style", page.styles[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag, attributes in page.elements:
        assert not {name for name in attributes if name.startswith("on") or name in ("style", "src")}, tag
        assert not (attributes.get("href") or "#").removeprefix("#").startswith(("http", "//", "javascript", "data"))


def test_the_page_can_be_read_without_seeing_it(big: Path) -> None:
    """Language, one h1, landmarks, captions and scopes, names for drawings and fields."""
    page = page_of(big)
    tags = [tag for tag, _ in page.elements]
    assert next(a for tag, a in page.elements if tag == "html")["lang"] == "en"
    assert tags.count("h1") == tags.count("main") == tags.count("header") == tags.count("footer") == 1
    assert tags.count("caption") == tags.count("table")
    assert all(a.get("scope") in ("col", "row") for tag, a in page.elements if tag == "th")
    assert all(a.get("aria-label") and a.get("role") == "img" for tag, a in page.elements if tag == "svg")
    assert tags.count("title") > tags.count("svg")
    sections = [a for tag, a in page.elements if tag == "section"]
    known = {a.get("id") for _, a in page.elements}
    assert all(a.get("aria-labelledby") in known for a in sections)
    assert {(a.get("href") or "")[1:] for tag, a in page.elements if tag == "a"} <= known


def test_long_answers_are_cut_and_said_to_be(tmp_path: Path) -> None:
    """Two thousand characters are in the page, the rest in the JSON; a cut is told with the whole length."""
    folder = write_run(tmp_path / "r", [Planted(label="a", planted=[1.0], texts=["x" * 50_000])], 1)
    answer = page_of(folder).data[0]["answers"][0][0]
    assert (len(answer["text"]), answer["length"]) == (2000, 50_000)
    assert "x" * 50_000 in (folder / "comparison_report.json").read_text()


def test_a_run_too_large_for_a_page_keeps_the_samples_that_tell_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on which models differ; the page says how many there are, and where the others can be seen."""
    monkeypatch.setattr(html, "_MOST_TRIALS", 20)
    contestants = [Planted(label="a", planted=[1.0] * 40), Planted(label="b", planted=[1.0, 0.0, 1.0, 1.0] * 10)]
    page = page_of(write_run(tmp_path / "r", contestants, 40))
    assert [row["sample"] for row in page.data] == [f"s{number:05}" for number in range(1, 40, 4)]
    assert "10 of 40 samples are in this page" in " ".join(page.texts)


@pytest.mark.parametrize(
    "contestants",
    [
        [Planted(label="alone", planted=[1.0, 0.0])],
        [Planted(label="a", planted=[]), Planted(label="b", planted=[])],
        [Planted(label="a", planted=["timeout"] * 3), Planted(label="b", planted=["refused"] * 3)],
        [Planted(label="only a line", planted=[0.0, 1.0], reference=True)],
        [
            Planted(label="free", planted=[0.0, 1.0], cost_usd=0.0, seconds=0.0),
            Planted(label="b", planted=[0.5, 1.0], cost_usd=None),
        ],
        [Planted(label="same", planted=[1.0] * 4, seconds=1.0), Planted(label="b", planted=[1.0] * 4, seconds=1.0)],
    ],
    ids=["one model", "nothing asked", "nobody answered", "references only", "free and unknown", "all the same"],
)
def test_every_kind_of_run_has_a_page(contestants: list[Planted], tmp_path: Path) -> None:
    """However little there is to show."""
    page = page_of(write_run(tmp_path / "r", contestants, max(1, *(len(e.planted) for e in contestants), 2)))
    assert "How it was made" in page.source
    assert "nan" not in " ".join(page.texts)


def test_filters_find_what_they_say(tmp_path: Path) -> None:
    """Each by hand: references do not count, a failure is not a wrong answer."""
    contestants = [
        Planted(label="a", planted=[1.0, 0.0, 1.0, "timeout", "timeout", 0.5]),
        Planted(label="b", planted=[1.0, 0.0, 0.0, 1.0, "timeout", 0.5]),
        Planted(label="line", planted=[0.0, 1.0, 1.0, 0.0, 1.0, 1.0], reference=True),
    ]
    folder = write_run(tmp_path / "r", contestants, 6)
    with StoreReader(folder) as reader:
        facts = list(sample_facts(reader, summary_of(folder)))

    def found(only: str) -> list[int]:
        return [int(f.sample[1:]) for f in pick(facts, only=only)]

    assert found("disagree") == [2]
    assert found("all_wrong") == [1, 5]
    assert found("one_right") == [2]
    assert found("failed") == [3, 4]
    assert found("all_right") == [0, 3]
    assert in_order(facts, "apart")[0].sample == "s00002"
    assert [int(f.sample[1:]) for f in in_order(facts, "hardest")][:2] == [1, 4]
    assert {f["sample"]: f["filters"] for f in page_of(folder).data} == {f.sample: list(f.filters) for f in facts}


def test_no_payload_becomes_an_element_or_an_attribute(tmp_path: Path) -> None:
    """The page has the elements of a page without payloads, and every payload is in it as text."""
    page = Page(hostile_run(tmp_path / "hostile") / "comparison_report.html")
    allowed = {"html", "head", "meta", "title", "style", "body", "a", "header", "p", "h1", "nav", "ul", "li", "main", "div",
               "section",
               "h2", "h3", "span", "aside", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption",
               "strong",
               "svg", "desc", "g", "text", "line", "circle", "path", "b", "small", "noscript", "code", "form", "label", "input",
               "select", "option", "ol", "button", "dl", "dt", "dd", "footer", "script"}  # fmt: skip
    assert {tag for tag, _ in page.elements} <= allowed
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert PAYLOADS[0] in "".join(page.texts)
    said = {answer.get("text") for row in page.data for own in row["answers"] for answer in own}
    assert set(PAYLOADS) <= said


def test_any_text_can_be_in_a_page(tmp_path: Path) -> None:
    """Lone surrogates, NUL, bidi marks and a megabyte of emoji."""
    nasty = ["\ud800x", "\x00\x01\x1b[31m", "\u202eabc\u2066", "🏆" * 250_000]
    page = page_of(write_run(tmp_path / "r", [Planted(label="\u202ea\x00", planted=[1.0] * 4, texts=nasty)], 4))
    assert len(page.data) == 4
