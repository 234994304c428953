"""Each rule of `tiebreak check-plugin` finds the mistake it is there for."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from support.compatible import CompatibleServer

from tiebreak.cli.check_plugin import check_plugin, findings
from tiebreak.registry import PLUGINS

HEAD = """
import asyncio
from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply, TextDelta, Usage, user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output, Score
"""
PROVIDER = """
import urllib.error, urllib.request

class Plugin:
    name = "mine"
    url_variables = ("MINE_BASE_URL",)
    local = True
    def __init__(self, endpoint):
        self.endpoint = endpoint
    async def open(self, model):
        pass
    async def list_models(self):
        return ["one"]
    async def close(self):
        pass
    async def fetch(self):
        try:
            urllib.request.urlopen(self.endpoint.base_url, data=b"{}", timeout=5)
        except urllib.error.HTTPError as error:
            with error:
                self.fail(error.code, error.read().decode())
        except OSError as error:
            raise ProviderError(str(error), kind=FailureKind.TRANSIENT)
        raise ProviderError("not to be read", kind=FailureKind.MALFORMED)
    def fail(self, status, body):
        kinds = {401: FailureKind.AUTH, 429: FailureKind.RATE_LIMIT}
        raise ProviderError(f"HTTP {status}", kind=kinds.get(status, FailureKind.TRANSIENT))
    async def generate(self, request, listener=None):
        if self.endpoint.base_url:
            await self.fetch()
        if listener:
            listener.hear(TextDelta("re"))
            listener.hear(TextDelta("ady"))
        return Reply(text="ready", usage=Usage(input_tokens=3, output_tokens=1))
"""
SCORER = """
class Plugin:
    version = 1
    async def score(self, sample, output, context):
        return Score.of(output.text == sample.target, answer=output.text)
"""
AGENT = """
class Plugin:
    works_on = frozenset({"question"})
    async def run(self, sample, context):
        return Output(text=(await context.ask(sample.messages)).text)
"""
DATASET = """
class Rows:
    name = digest = about = "rows"
    scorers = ("match",)
    shuffle = categories = (0, 0)
    def __len__(self):
        return 2
    def __getitem__(self, position):
        return Sample(id=str(position), messages=(user("?"),), targets=("x",))

def Plugin():
    return Rows()
"""
CODE = {"provider": PROVIDER, "scorer": SCORER, "agent": AGENT, "dataset": DATASET}


def problems(tmp_path: Path, kind: str, change: tuple[str, str] = ("", ""), addition: str = "") -> list[str]:
    """What is wrong with the sound plugin of a kind once a piece of it is replaced."""
    assert change[0] in CODE[kind]
    path = tmp_path / "plugin.py"
    path.write_text(textwrap.dedent(HEAD + CODE[kind].replace(*change) + addition))
    return [finding.text for finding in findings(kind, f"{path}:Plugin") if finding.is_wrong]


@pytest.mark.parametrize("kind", CODE)
def test_sound_plugin_has_no_problems(tmp_path: Path, kind: str) -> None:
    assert problems(tmp_path, kind) == []


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("provider", ('name = "mine"', "pass"), "it has no name"),
        ("provider", ('("MINE_BASE_URL",)', '"MINE_BASE_URL"'), "url_variables should be a tuple of strings"),
        ("provider", ("local = True", "local = 1"), "local should be True or False"),
        ("provider", ("async def close", "def close"), "close should be declared with async def"),
        ("provider", ("async def open", "async def begin"), "it has no method open"),
        ("provider", ("request, listener=None", "request"), "generate should take (request, listener)"),
        ("provider", ("raise ProviderError(f", "raise ValueError(f"), "should raise a ProviderError; it raised"),
        ("provider", ("FailureKind.AUTH", "FailureKind.BAD_REQUEST"), "the kind should be auth"),
        ("provider", ("FailureKind.RATE_LIMIT", "FailureKind.QUOTA"), "429): the kind should be one that is tried again"),
        ("provider", ('f"HTTP {status}"', "body"), "the error's text shows the key"),
        (
            "provider",
            ('raise ProviderError("not to be read"', "return dict([]"),
            "should raise a ProviderError; it returned",
        ),
        ("provider", ("usage=Usage(input_tokens=3, output_tokens=1)", "usage=None"), "the Reply has no usage"),
        ("provider", ("input_tokens=3, output_tokens=1", ""), "the usage should count the tokens"),
        ("provider", ('TextDelta("ady")', 'TextDelta("d")'), "the listener heard 'red', and the reply says 'ready'"),
        ("provider", ('return ["one"]', 'return "one"'), "list_models should return a sequence of names"),
        ("provider", ('return ["one"]', "return 1 / 0"), "list_models raised ZeroDivisionError"),
        ("provider", ("return Reply(", "return str("), "a call of one: TypeError"),
        ("scorer", ("version = 1", "pass"), "it has no version"),
        ("scorer", ("version = 1", 'version = "1"'), "version should be a whole number"),
        ("scorer", ("version = 1", 'version = 1; needs = "targets"'), "needs should be a tuple of strings"),
        ("scorer", ("async def score", "def score"), "score should be declared with async def"),
        ("scorer", ("return Score.of(", "return bool("), "score raised TypeError"),
        ("scorer", ("return Score.of(output.text == sample.target, answer=output.text)", "return 1.0"), "should return a Score"),
        (
            "scorer",
            ("Score.of(output.text == sample.target, answer=output.text)", "Score(value=1.5)"),
            "should be from 0 to 1; it is 1.5",
        ),
        (
            "scorer",
            ("        return", "        output.text[0]\n        return"),
            "an empty answer (sample scripted): score raised",
        ),
        ("scorer", ("        return", "        int(output.text or 0)\n        return"), "score raised ValueError"),
        ("scorer", ("        return", "        output.text.encode()\n        return"), "half a character"),
        ("agent", ('frozenset({"question"})', '{"question"}'), "works_on should be a frozenset of question and task"),
        ("agent", ('frozenset({"question"})', 'frozenset({"quiz"})'), "works_on should be a frozenset of question and task"),
        ("agent", ("self, sample, context", "self, sample"), "run should take (sample, context)"),
        ("agent", ("return Output(text=", "return str("), "run should return an Output"),
        ("dataset", ('("match",)', '"match"'), "scorers should be a tuple of strings"),
        ("dataset", ("(0, 0)", "(0,)"), "shuffle should be a sequence with a number for each sample"),
        ("dataset", ("id=str(position)", 'id="1"'), "the id '1' is used twice, at positions 0 and 1"),
        ("dataset", ('messages=(user("?"),)', "messages=()"), "asks nothing"),
        ("dataset", ("return Sample(", "return dict("), "should hold a Sample"),
        ("dataset", ("        return Sample(", "        1 / position\n        return Sample("), "sample 0 cannot be read"),
        ("dataset", ('("match",)', '("mathc",)'), "the dataset's are ('mathc',)"),
        ("dataset", ('user("?")', "user(str(id(object())) + str(time()))"), "is another one when it is read again"),
        ("dataset", ("return Rows()", "rows = Rows(); rows.digest = str(time()); return rows"), "its digest is another one"),
    ],
)
def test_mistake_is_found(tmp_path: Path, kind: str, change: tuple[str, str], told: str) -> None:
    found = problems(tmp_path, kind, change, addition="\nfrom time import perf_counter_ns as time\n")
    assert any(told in problem for problem in found), found


def test_agent_that_answers_for_a_model_that_failed_is_found(tmp_path: Path) -> None:
    """The failure would be counted as a wrong answer."""
    swallowing = "        try:\n            return Output(text=(await context.ask(sample.messages)).text)\n"
    swallowing += '        except Exception:\n            return Output(text="sorry")\n'
    change = ("        return Output(text=(await context.ask(sample.messages)).text)\n", swallowing)
    [found] = problems(tmp_path, "agent", change)
    assert "should let the ProviderError pass" in found


def test_empty_dataset_is_found(tmp_path: Path) -> None:
    change = ("(0, 0)\n    def __len__(self):\n        return 2", "()\n    def __len__(self):\n        return 0")
    assert problems(tmp_path, "dataset", change) == ["it has no samples"]


def test_scorer_that_never_ends_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that never awaits, which nothing can cancel."""
    monkeypatch.setattr("tiebreak.plugin_checks.scorers._DEADLINE_S", 2.0)
    endless = "        while '[[' in output.text:\n            __import__('time').sleep(0.1)\n        return"
    [found] = problems(tmp_path, "scorer", ("        return", endless))
    assert "deep brackets" in found
    assert "no result within 2 s" in found


@pytest.mark.parametrize("name", [name for name in PLUGINS["providers"] if name not in ("llama_cpp", "openai-api", "scripted")])
def test_built_in_providers_hold_what_others_must(name: str) -> None:
    assert [finding.text for finding in findings("provider", name) if finding.is_wrong] == []


def test_provider_is_called_where_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with CompatibleServer() as server:
        monkeypatch.setenv("VLLM_BASE_URL", f"{server.url}/v1")
        texts = [finding.text for finding in findings("provider", "vllm", model="org/large")]
    assert "a call of org/large has an answer of 3 tokens, with its usage" in texts
    assert any("told to the listener" in text for text in texts)
    assert [call.body.get("stream", False) for call in server.asked] == [False, True]


_BUILT_IN = ["match", "exact", "includes", "numeric", "keywords", "choice", "f1", "regex", "gsm8k"]


@pytest.mark.parametrize("name", [*_BUILT_IN, pytest.param("rouge", marks=pytest.mark.needs("scorers"))])
def test_built_in_scorers_hold_what_others_must(name: str) -> None:
    assert [finding.text for finding in findings("scorer", name) if finding.is_wrong] == []


@pytest.mark.parametrize("name", ["direct", "self-consistency", "tools", "likelihood", "nothing"])
def test_built_in_agents_hold_what_others_must(name: str) -> None:
    assert [finding.text for finding in findings("agent", name) if finding.is_wrong] == []


@pytest.mark.parametrize("name", ["warmup", "truthfulness", "fresh"])
def test_built_in_datasets_hold_what_others_must(name: str) -> None:
    assert [finding.text for finding in findings("dataset", name) if finding.is_wrong] == []


def test_what_does_not_exist_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_plugin("scorer", "mathc", model="", dataset="") == 1
    assert "did you mean 'match'" in capsys.readouterr().out
