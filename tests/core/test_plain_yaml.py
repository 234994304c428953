"""YAML from anywhere: read as it stands, or refused at once."""

from __future__ import annotations

import time

import pytest
import yaml

from tiebreak.checked_yaml import read_yaml
from tiebreak.core.errors import ConfigError
from tiebreak.core.plain_yaml import load_plain

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)
BOMBS = {
    "laughs": LAUGHS,
    "loop": "a: &a [*a]",
    "deep lists": "[" * 100_000,
    "deep mappings": "a: " + "{a: " * 5_000,
    "long": "x: " + "a" * 5_000_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_what_means_more_than_it_says_is_refused_at_once(tmp_path, text):
    began = time.perf_counter()
    with pytest.raises(yaml.YAMLError):
        load_plain(text)
    path = tmp_path / "models_config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="models_config"):
        read_yaml(path)
    assert time.perf_counter() - began < 4


def test_plain_data_is_read_and_anchors_serve_in_settings(tmp_path):
    assert load_plain("a: {b: [1, 2.5, x, null, true]}") == {"a": {"b": [1, 2.5, "x", None, True]}}
    path = tmp_path / "c.yaml"
    path.write_text("a: &a {x: 1}\nb: *a\n? {x: 1}\n: 2\n")
    with pytest.raises(ConfigError, match="line 3: a key must be a word"):
        read_yaml(path)
    path.write_text("a: &a {x: 1}\nb: {<<: *a}\n")
    with pytest.raises(ConfigError, match="line 2: merge keys"):
        read_yaml(path)
    path.write_text("a: &a {x: 1}\nb: *a\n")
    assert read_yaml(path).data == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize("text", ["a: !!int\n", "a: !!int x", "a: 2024-13-45", "a: !!python/name:os.system x", "a: !x y"])
def test_a_value_that_is_not_what_it_says_is_refused_with_its_line(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(f"b: 1\n{text}\n")
    with pytest.raises(yaml.YAMLError):
        load_plain(text)
    with pytest.raises(ConfigError, match="line 2"):
        read_yaml(path).settle()
