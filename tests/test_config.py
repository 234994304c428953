"""models_config.yaml: what is wrong is named with its line, all of it at once, and nothing else stops."""

from pathlib import Path

import pytest

from tiebreak.config import load_config
from tiebreak.core.errors import ConfigError, ModelError
from tiebreak.registry import make_ref


def config(tmp_path: Path, text: str):
    path = tmp_path / "models_config.yaml"
    path.write_text(text)
    return load_config(path)


WRONG = {
    "models: 3": "line 1: models: expected a list, got a whole number (it is 3)",
    "[1, 2]": "line 1: the file: expected names with values, got a list",
    "models: [3]": "line 1: models.0: expected names with values, got a whole number (it is 3)",
    "models:\n- provider: openai": "line 2: models.0: the field 'name' is missing",
    "models:\n- {name: '', provider: openai}": "line 2: models.0.name: expected a text of length >= 1 (it is '')",
    "models:\n- {name: a, provider: opnai}": "line 2: models.provider: there is no provider 'opnai'; did you mean 'openai'",
    "models:\n- {name: a, provider: openai, enabled: maybe}": "models.0.enabled: expected true or false, got a text",
    "models:\n- name: a\n  provider: openai\n  limits:\n    rpm: 0": "line 5: models.0.limits.rpm: expected a whole number >= 1",
    "models:\n- {name: a, provider: openai, price: {input: 1}}": "models.0.price: the field 'output' is missing",
    "models:\n- {name: a, provider: openai, settings: {top_p: 2}}": "models.0.settings.top_p: expected a number <= 1.0 (it is 2)",
    "models:\n- {name: a, provider: openai, settings: {seed: x}}": "seed: expected a whole number or nothing, got a text",
    "models:\n- {name: a, provider: openai}\n- {name: a, provider: google}": "line 3: models.1.name: 'a' is used twice",
    "models:\n- {name: a, provider: openai, api_key: sk-1}": "models.api_key: name the variable that holds the key",
    "categories: {a: b}": "line 1: categories: expected a list, got a text",
    "agents: {1: {command: x}}": "line 1: agents: expected a text, got a whole number",
    "agents:\n  mine:\n    command: ''": "line 3: agents.mine.command: expected a text of length >= 1 (it is '')",
    "batch_settings: {max_parallel: -1}": "batch_settings.max_parallel: expected a whole number >= 1 (it is -1)",
    "models: []\nmodels: []": "line 2: the key 'models' stands twice",
    "models: [": "not readable as YAML",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_its_place(tmp_path, text):
    with pytest.raises(ConfigError) as raised:
        config(tmp_path, text)
    assert WRONG[text] in str(raised.value)


def test_one_mistake_does_not_hide_the_next(tmp_path):
    with pytest.raises(ConfigError) as raised:
        config(tmp_path, "models:\n- {name: a}\n- {name: b, provider: 3}\nagents:\n  mine: {}\n")
    assert [line.split("line ")[1][0] for line in str(raised.value).splitlines()] == ["2", "3", "5"]


UNKNOWN = """
modles: []
models:
- {name: a, provider: openai, pricee: 3, limits: {rmp: 3}, settings: {reasoning_effort: low}}
agents: {mine: {command: run, instal: x}}
batch_settings: {maxparallel: 2}
"""


def test_a_key_nothing_reads_is_warned_of_and_settings_pass_through(tmp_path):
    found = config(tmp_path, UNKNOWN)
    said = [warning.split("models_config.yaml, ")[1] for warning in found.warnings]
    assert said == [
        "line 2: the key 'modles' is not known; did you mean 'models'?",
        "line 6: the key 'maxparallel' is not known; did you mean 'max_parallel'?",
        "line 4: the key 'pricee' is not known; did you mean 'price'?",
        "line 4: the key 'rmp' is not known; did you mean 'rpm'?",
        "line 5: the key 'instal' is not known; did you mean 'install'?",
    ]
    assert found.models["a"].settings == {"reasoning_effort": "low"}


def test_settings_are_sent_in_their_types_and_only_those_written(tmp_path):
    entry = "models:\n- {name: a, provider: openai, settings: {temperature: 0, max_tokens: 5, top_p: null}}"
    sent = config(tmp_path, entry).models["a"].settings
    assert sent == {"temperature": 0.0, "max_tokens": 5}
    assert type(sent["temperature"]) is float


@pytest.mark.parametrize("text", ["", "models:\n", "# nothing\n", "models:\nagents:\ncategories:\nbatch_settings:\n"])
def test_a_file_with_everything_commented_out_says_nothing(tmp_path, text):
    found = config(tmp_path, text)
    assert (found.models, found.warnings) == ({}, ())


def test_categories_are_those_of_the_file_and_of_its_models(tmp_path):
    text = "categories: {quick: [gpt-4]}\nmodels:\n- {name: a, provider: openai, categories: [quick, cheap]}\n"
    assert config(tmp_path, text).categories == {"quick": ("gpt-4", "a"), "cheap": ("a",)}


@pytest.mark.parametrize("query", ["key=hunter2", "a=1&api_key=hunter2", "access_token=hunter2", "X-Signature=hunter2"])
def test_an_address_holds_no_key_in_its_query(tmp_path, monkeypatch, query):
    url = f"http://127.0.0.1:9/v1?{query}"
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ModelError, match="leave it out, and put the key in its variable") as raised:
        make_ref("openai", "x")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ModelError, match="leave it out"):
        config(tmp_path, f"models: [{{name: a, provider: openai, base_url: '{url}'}}]")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1?api-version=2024-10-21")
    assert make_ref("openai", "x").base_url.endswith("?api-version=2024-10-21")


def test_an_address_is_that_of_a_server(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "file:///etc/passwd")
    with pytest.raises(ModelError, match="is none of a server"):
        make_ref("openai", "x")


@pytest.mark.parametrize("url", ["http://user:hunter2@127.0.0.1:9/v1", "user:hunter2@127.0.0.1:9"])
def test_an_address_holds_no_password(tmp_path, monkeypatch, url):
    """It would be shown and stored; the message does not repeat it either."""
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9 holds a name or a password") as raised:
        make_ref("openai", "x")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ModelError, match="holds a name or a password"):
        config(tmp_path, f"models: [{{name: a, provider: openai, base_url: '{url}'}}]")
