"""Images, files, tools, schemas and turns from a dataset's row to five dialects, the store and the report."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sqlite3
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.media import jpeg, mp3, pdf, png, wav
from support.server import Asked, Calls, FakeServer
from support.specs import spec_of
from support.viewing import TOKEN, Serving, serving

from tiebreak.core.errors import DatasetError, UsageError
from tiebreak.core.model import Price
from tiebreak.pipeline import estimate, make_plan, rebuild, rescore, run_benchmark
from tiebreak.registry import Catalog
from tiebreak.report.browse import Previews, sample_facts, view_samples
from tiebreak.report.summary import Summary
from tiebreak.store.folder import DATABASE
from tiebreak.store.reader import StoreReader

MODELS = {
    "chat": "openai/gpt-4o",
    "responses": "openai-responses/gpt-4o",
    "messages": "anthropic/claude-sonnet-4-5",
    "gemini": "google/gemini-2.5-flash",
    "ollama": "ollama/llama3:latest",
}
WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string"}},
    "required": ["capital"],
    "additionalProperties": False,
}
ROWS: list[dict[str, Any]] = [
    {"id": "text", "input": "What is 1 + 1?", "target": "2"},
    {"id": "red", "input": "Which colour?", "target": "red", "image": "red.png"},
    {"id": "blue", "input": "Which colour?", "target": "blue", "image": "pictures/blue.jpg"},
    {"id": "turns", "turns": ["My name is Ada.", "What is my name?"], "target": "Ada"},
    {
        "id": "tool",
        "input": "How is the weather in Paris?",
        "tools": [WEATHER],
        "expected_calls": [{"name": "weather", "arguments": {"city": ["Paris", "Paris, France"]}}],
        "tool_results": [{"name": "weather", "arguments": {"city": "Paris"}, "result": {"sky": "clear"}}],
    },
    {"id": "schema", "input": "The capital of France, as JSON.", "response_schema": SCHEMA, "target": {"capital": "Paris"}},
]


def answer(prompt: str) -> str | Calls:
    """What a good model says; it is shown one picture or the other, which the server does not look at."""
    replies: dict[str, str | Calls] = {
        "What is 1 + 1?": "2",
        "Which colour?": "red",
        "My name is Ada.": "Hello Ada.",
        "What is my name?": "Ada",
        "How is the weather in Paris?": Calls((("weather", {"city": "Paris"}),)),
        "The capital of France, as JSON.": '{"capital": "Paris"}',
    }
    return replies.get(prompt, "Clear.")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    (tmp_path / "data" / "pictures").mkdir(parents=True)
    (tmp_path / "data" / "red.png").write_bytes(png(colour=1))
    (tmp_path / "data" / "pictures" / "blue.jpg").write_bytes(jpeg())
    path = tmp_path / "data" / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def scores(folder: Path) -> dict[str, float | None]:
    with StoreReader(folder) as reader:
        return dict(reader.rows("SELECT sample, score FROM trials WHERE superseded = 0"))


def run(server: FakeServer, monkeypatch: pytest.MonkeyPatch, dataset: Path, folder: Path, model: str, **options: Any) -> Summary:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return asyncio.run(run_benchmark(spec_of([Catalog().resolve(model)], str(dataset), folder, **options)))


def asked_about(server: FakeServer, words: str) -> list[Asked]:
    return [asked for asked in server.ledger if asked.prompt == words]


def image_shape(dialect: str, media_type: str, data: bytes) -> Any:
    """How each dialect's documentation writes an image beside a text."""
    encoded = base64.b64encode(data).decode()
    url = f"data:{media_type};base64,{encoded}"
    return {
        "chat": {"type": "image_url", "image_url": {"url": url}},
        "responses": {"type": "input_image", "image_url": url, "detail": "auto"},
        "messages": {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded}},
        "gemini": {"inlineData": {"mimeType": media_type, "data": encoded}},
        "ollama": encoded,
    }[dialect]


def parts_sent(asked: Asked) -> Any:
    if asked.dialect == "gemini":
        return asked.body["contents"][-1]["parts"]
    last = asked.body["input" if asked.dialect == "responses" else "messages"][-1]
    return last["images"] if asked.dialect == "ollama" else last["content"]


def schema_sent(asked: Asked) -> Any:
    body = asked.body
    return {
        "chat": lambda: body["response_format"]["json_schema"]["schema"],
        "responses": lambda: body["text"]["format"]["schema"],
        "messages": lambda: body["output_config"]["format"]["schema"],
        "gemini": lambda: body["generationConfig"]["responseJsonSchema"],
        "ollama": lambda: body["format"],
    }[asked.dialect]()


def tool_sent(asked: Asked) -> str:
    tool = asked.body["tools"][0]
    return {
        "chat": lambda: tool["function"]["name"],
        "responses": lambda: tool["name"],
        "messages": lambda: tool["name"],
        "gemini": lambda: tool["functionDeclarations"][0]["name"],
        "ollama": lambda: tool["function"]["name"],
    }[asked.dialect]()


@pytest.mark.parametrize("dialect", MODELS)
def test_every_kind_of_row_is_asked_in_every_dialect(dialect, dataset, tmp_path, monkeypatch):
    """Text, images, turns, tools and schemas go out as documented, and are judged; the same words twice are two trials."""
    with FakeServer(answer) as server:
        run(server, monkeypatch, dataset, tmp_path / "run", MODELS[dialect])
        shown = asked_about(server, "Which colour?")
        assert {asked.dialect for asked in server.ledger} == {dialect}
        for media_type, data in (("image/png", png(colour=1)), ("image/jpeg", jpeg())):
            assert any(image_shape(dialect, media_type, data) in parts_sent(asked) for asked in shown)
        assert len(shown) == 2
        assert schema_sent(asked_about(server, "The capital of France, as JSON.")[0]) == SCHEMA
        assert tool_sent(asked_about(server, "How is the weather in Paris?")[0]) == "weather"
        told = asked_about(server, "What is my name?")[0].body
        assert "Hello Ada." in json.dumps(told)
        assert "sky" in json.dumps([asked.body for asked in server.ledger])
        assert len(server.ledger) == 8
    assert scores(tmp_path / "run") == {"text": 1, "red": 1, "blue": 0, "turns": 1, "tool": 1, "schema": 1}


def test_media_and_messages_are_stored_once_and_shown(dataset, tmp_path, monkeypatch):
    """Each image is in the store once; the page shows it, with what was called and said."""
    with FakeServer(answer) as server:
        summary = run(server, monkeypatch, dataset, tmp_path / "run", MODELS["chat"], repeats=2)
    with StoreReader(tmp_path / "run") as reader:
        assert sorted(kind for (kind,) in reader.rows("SELECT media_type FROM blobs")) == ["image/jpeg", "image/png"]
        views = {v.sample: v for v in view_samples(reader, summary, list(sample_facts(reader, summary)), 1000)}
    assert views["red"].media[0].name == "red.png"
    assert views["tool"].answers[0][0].said[:2] == (("assistant", 'weather({"city": "Paris"})'), ("tool", '{"sky": "clear"}'))
    assert [role for role, _ in views["turns"].answers[0][0].said] == ["assistant", "user", "assistant"]
    page = next(path for path in rebuild(tmp_path / "run") if path.suffix == ".html").read_text()
    assert "img-src data:" in page


def test_a_run_with_content_is_resumed_replayed_cached_and_judged_again(dataset, tmp_path, monkeypatch):
    """Nothing is asked twice, and what was called is judged from the store alone."""
    with FakeServer(answer) as server:
        run(server, monkeypatch, dataset, tmp_path / "run", MODELS["messages"], record_dir=str(tmp_path / "tape"))
        asked = len(server.ledger)
        run(server, monkeypatch, dataset, tmp_path / "run", MODELS["messages"])
        run(server, monkeypatch, dataset, tmp_path / "played", MODELS["messages"], replay_dir=str(tmp_path / "tape"))
        assert len(server.ledger) == asked
        run(server, monkeypatch, dataset, tmp_path / "first", MODELS["messages"], cache_dir=str(tmp_path / "cache"))
        run(server, monkeypatch, dataset, tmp_path / "second", MODELS["messages"], cache_dir=str(tmp_path / "cache"))
        assert len(server.ledger) == 2 * asked
    before = scores(tmp_path / "run")
    assert scores(tmp_path / "played") == scores(tmp_path / "second") == before
    assert asyncio.run(rescore(tmp_path / "run")) == len(ROWS)
    assert scores(tmp_path / "run") == before


def test_another_picture_under_the_same_name_is_another_dataset(dataset, tmp_path, monkeypatch):
    """A picture is part of the dataset's identity and of its trials'."""
    model = Catalog().resolve("scripted/none.json")
    first = make_plan(spec_of([model], str(dataset), tmp_path / "run"))
    ids = {trial.sample.id: trial.id for trial in first.trials(first.spec.contestants[0])}
    (dataset.parent / "red.png").write_bytes(png(colour=9))
    second = make_plan(spec_of([model], str(dataset), tmp_path / "run"))
    others = {trial.sample.id: trial.id for trial in second.trials(second.spec.contestants[0])}
    assert first.dataset.digest != second.dataset.digest
    assert [name for name in ids if ids[name] != others[name]] == ["red"]


@pytest.mark.parametrize(
    ("model", "row", "words"),
    [
        ("openai/gpt-3.5-turbo", {"input": "x", "target": "y", "image": "red.png"}, "gpt-3.5-turbo cannot take images"),
        ("ollama/llama3", {"input": "x", "target": "y", "file": "paper.pdf"}, "cannot take files"),
        ("openai/gpt-4o", {"input": "x", "target": "y", "audio": "said.wav"}, "gpt-4o cannot take sounds"),
        ("anthropic/claude-sonnet-4-5", {"input": "x", "target": "y", "audio": "said.wav"}, "cannot take sounds"),
        ("openai-responses/gpt-4o", {"input": "x", "target": "y", "audio": "said.wav"}, "cannot take sounds"),
    ],
)
def test_what_a_model_cannot_take_is_refused_before_anything_is_asked(model, row, words, dataset, tmp_path, monkeypatch):
    """The sentence names the model and the sample."""
    (dataset.parent / "paper.pdf").write_bytes(pdf())
    (dataset.parent / "said.wav").write_bytes(wav())
    path = dataset.parent / "one.jsonl"
    path.write_text(json.dumps({"id": "shown", **row}))
    with FakeServer(answer) as server, pytest.raises(UsageError, match=f"{words}, which the sample 'shown' has"):
        run(server, monkeypatch, path, tmp_path / "run", model)
    assert server.ledger == []


def test_an_agent_that_asks_in_its_own_way_is_refused(dataset, tmp_path):
    """Tools and turns are never dropped silently."""
    with pytest.raises(UsageError, match="'self-consistency' cannot take tools, which the sample 'tool' has"):
        make_plan(spec_of([Catalog().resolve("openai/gpt-4o")], str(dataset), tmp_path, agents=["self-consistency"]))


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "gemini"])
def test_a_document_goes_out_as_each_dialect_has_it(dialect, dataset, tmp_path, monkeypatch):
    """A PDF by its bytes, whatever its name says."""
    (dataset.parent / "paper.png").write_bytes(pdf())
    path = dataset.parent / "one.jsonl"
    path.write_text(json.dumps({"input": "Read.", "target": "2", "file": "paper.png"}))
    encoded = base64.b64encode(pdf()).decode()
    url = f"data:application/pdf;base64,{encoded}"
    expected = {
        "chat": {"type": "file", "file": {"filename": "paper.png", "file_data": url}},
        "responses": {"type": "input_file", "filename": "paper.png", "file_data": url},
        "messages": {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": encoded},
            "title": "paper.png",
        },
        "gemini": {"inlineData": {"mimeType": "application/pdf", "data": encoded}},
    }
    with FakeServer(lambda prompt: "2") as server:
        run(server, monkeypatch, path, tmp_path / "run", MODELS[dialect])
        assert expected[dialect] in parts_sent(server.ledger[0])


@pytest.mark.parametrize(("dialect", "model"), [("chat", "openai/gpt-4o-audio-preview"), ("gemini", MODELS["gemini"])])
def test_a_sound_goes_out_as_each_dialect_has_it(dialect, model, dataset, tmp_path, monkeypatch):
    """From a column, and from a content part as OpenAI writes it; resumed and stored like anything else."""
    (dataset.parent / "said.bin").write_bytes(wav())
    encoded = {kind: base64.b64encode(data).decode() for kind, data in (("wav", wav()), ("mp3", mp3()))}
    content = [
        {"type": "text", "text": "Read."},
        {"type": "input_audio", "input_audio": {"data": encoded["mp3"], "format": "mp3"}},
    ]
    rows = [{"id": "a", "input": "What is said?", "target": "2", "audio": "said.bin"}]
    rows += [{"id": "b", "messages": [{"role": "user", "content": content}], "target": "2"}]
    path = dataset.parent / "one.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = {
        "chat": [{"type": "input_audio", "input_audio": {"data": data, "format": kind}} for kind, data in encoded.items()],
        "gemini": [
            {"inlineData": {"mimeType": f"audio/{'mpeg' if kind == 'mp3' else kind}", "data": data}}
            for kind, data in encoded.items()
        ],
    }[dialect]
    with FakeServer(lambda prompt: "2") as server:
        run(server, monkeypatch, path, tmp_path / "run", model)
        run(server, monkeypatch, path, tmp_path / "run", model)
        sent = [part for asked in server.ledger for part in parts_sent(asked)]
    assert len(server.ledger) == 2
    assert all(part in sent for part in expected)
    with contextlib.closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as connection:
        assert sorted(kind for (kind,) in connection.execute("SELECT media_type FROM blobs")) == ["audio/mpeg", "audio/wav"]


def test_a_sound_by_a_wrong_name_is_refused(dataset, tmp_path):
    path = dataset.parent / "one.jsonl"
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(wav()).decode(), "format": "mp3"}}
    path.write_text(json.dumps({"messages": [{"role": "user", "content": [part]}], "target": "2"}))
    with pytest.raises(DatasetError, match="is called audio/mp3, and its bytes are audio/wav"):
        make_plan(spec_of([Catalog().resolve("scripted/none.json")], str(path), tmp_path / "run"))


def test_the_viewer_serves_media_by_digest_and_as_what_they_are(dataset, tmp_path, monkeypatch):
    """With nosniff and a policy that runs nothing; bytes that are no image are not served, whatever the store calls them."""
    (dataset.parent / "paper.pdf").write_bytes(pdf())
    path = dataset.parent / "two.jsonl"
    path.write_text(json.dumps({"input": "x", "target": "y", "images": ["red.png", "paper.pdf"]}))
    with FakeServer(answer) as server:
        run(server, monkeypatch, path, tmp_path / "results" / "run", MODELS["chat"])
    with contextlib.closing(sqlite3.connect(tmp_path / "results" / "run" / DATABASE)) as connection, connection:
        kept = dict(connection.execute("SELECT media_type, digest FROM blobs"))
        connection.execute("INSERT INTO blobs VALUES ('bad', 'image/png', ?)", (b"<svg><script>alert(1)</script></svg>",))
    with serving(tmp_path / "results") as viewer:
        replies = {kind: fetched(viewer, f"/run/run/media/{digest}") for kind, digest in kept.items()}
        assert replies["image/png"][0] == png(colour=1)
        for kind, (_, headers) in replies.items():
            assert headers["content-type"] == kind
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in headers["content-security-policy"]
        assert replies["application/pdf"][1]["content-disposition"] == "attachment"
        for digest in ("bad", "missing", "..%2f..%2fetc%2fpasswd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetched(viewer, f"/run/run/media/{digest}")


def fetched(viewer: Serving, path: str) -> tuple[bytes, dict[str, str]]:
    request = urllib.request.Request(viewer.address(path, key=False), headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read(), {name.lower(): value for name, value in reply.headers.items()}


def test_previews_never_weigh_more_than_a_page_can_carry(dataset, tmp_path, monkeypatch):
    """A large image is named with its size; the small ones are shown until the room is used up."""
    (dataset.parent / "large.png").write_bytes(png(colour=5) + b"\0" * 60_000)
    rows = [{"id": str(n), "input": "x", "target": "y", "image": f"{n}.png"} for n in range(20)]
    for n in range(20):
        (dataset.parent / f"{n}.png").write_bytes(png(colour=n) + bytes(40_000))
    path = dataset.parent / "many.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, {"id": "large", "input": "x", "target": "y", "image": "large.png"}])))
    with FakeServer(answer) as server:
        summary = run(server, monkeypatch, path, tmp_path / "run", MODELS["chat"])
    with StoreReader(tmp_path / "run") as reader:
        facts = list(sample_facts(reader, summary))
        views = view_samples(reader, summary, facts, 1000, Previews(reader))
    shown = [view.media[0] for view in views]
    assert 0 < sum(len(media.src) for media in shown) < 1_000_000
    assert [media.src for media in shown if media.name == "large.png"] == [""]
    assert sum(bool(media.src) for media in shown) == 14
    assert all(media.size_bytes > 40_000 for media in shown)


def test_a_run_that_was_cut_short_asks_only_what_is_left(dataset, tmp_path, monkeypatch):
    """A longer run extends a shorter one, image by image and turn by turn."""
    with FakeServer(answer) as server:
        run(server, monkeypatch, dataset, tmp_path / "run", MODELS["gemini"], limit=3)
        run(server, monkeypatch, dataset, tmp_path / "run", MODELS["gemini"])
        assert len(server.ledger) == 8
    assert scores(tmp_path / "run") == {"text": 1, "red": 1, "blue": 0, "turns": 1, "tool": 1, "schema": 1}


def test_images_tools_and_turns_count_in_the_estimate(dataset, tmp_path):
    """A row that sends more is expected to cost more."""
    price = Price(input_usd=1.0, output_usd=0.0)
    model = replace(Catalog().resolve("openai/gpt-4o"), price=price)

    def expected(name: str) -> float:
        (dataset.parent / "one.jsonl").write_text(json.dumps(next(row for row in ROWS if row["id"] == name)))
        plan = make_plan(spec_of([model], str(dataset.parent / "one.jsonl"), tmp_path))
        return estimate(plan).total.likely * 1e6

    assert expected("text") == pytest.approx(len("What is 1 + 1?") / 4)
    assert expected("red") == pytest.approx(len("Which colour?") / 4 + 85)
    assert expected("tool") > len(str(WEATHER["parameters"])) / 4
    assert expected("turns") > len("My name is Ada.What is my name?") / 4


def turned(prompt: str) -> str:
    """Knows the name, and not the sum."""
    return {"What is my name?": "Your name is Ada.", "And 6 times 7?": "It is 41."}.get(prompt.strip().splitlines()[-1], "Hello.")


@pytest.mark.parametrize("dialect", MODELS)
def test_turns_are_judged_one_by_one(dialect, dataset, tmp_path, monkeypatch):
    """A share of the turns is right; judged again it is the same, and nobody is asked."""
    path = dataset.parent / "one.jsonl"
    said = ["My name is Ada.", "What is my name?", "And 6 times 7?"]
    rows = [{"id": "all", "turns": said, "turn_targets": [None, "Ada", 42]}]
    rows += [{"id": "last", "turns": said, "target": 42}]
    rows += [{"id": "name", "turns": said, "turn_targets": [None, ["Bob", "Ada"], None]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeServer(turned) as server:
        run(server, monkeypatch, path, tmp_path / "run", MODELS[dialect])
        assert len(server.ledger) == 9
    assert scores(tmp_path / "run") == {"all": 0.5, "last": 0, "name": 1}
    with contextlib.closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as connection:
        (because,) = connection.execute("SELECT because FROM trials WHERE sample = 'all'").fetchone()
        assert because.startswith("turn 3: ")
        connection.execute("UPDATE trials SET score = 0.25")
        connection.commit()
    asyncio.run(rescore(tmp_path / "run"))
    assert scores(tmp_path / "run") == {"all": 0.5, "last": 0, "name": 1}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"turn_targets": ["x"]}, "has 1 targets, and the model answers 2 times"),
        ({"turn_targets": [None, None]}, "has no target at all"),
        ({"turn_targets": [None, {}]}, "must list texts, numbers, lists of them, or null"),
        ({"turn_targets": "x"}, "'turn_targets' is not readable as JSON"),
        ({"turn_targets": ["x", " "]}, "has an empty target; null says"),
        ({"turn_targets": [None, "x"], "target": "x"}, "put 'target' into it"),
    ],
)
def test_targets_of_turns_that_make_no_sense_are_refused(more, words, dataset, tmp_path):
    path = dataset.parent / "one.jsonl"
    path.write_text(json.dumps({"turns": ["Hello.", "What?"], **more}))
    with pytest.raises(DatasetError, match=words):
        make_plan(spec_of([Catalog().resolve("scripted/none.json")], str(path), tmp_path / "run"))
