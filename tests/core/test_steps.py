"""Tool calls in words."""

import pytest

from tiebreak.core.steps import call_in_words


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("bash", '{"command": "ls -la src"}', "$ ls -la src"),
        ("shell", '{"command": ["bash", "-lc", "echo hi"]}', "$ bash -lc 'echo hi'"),
        ("shell", '{"command": "make", "workdir": "/w"}', "$ make\nshell workdir=/w"),
        ("edit", '{"path": "a.py", "old": "x\\ny", "new": "z"}', "edit path=a.py new=z\nold:\n    x\n    y"),
        ("done", "", "done"),
        ("done", "not json", "done not json"),
        ("list", "[1]", "list [1]"),
        ("set", '{"n": 3, "deep": {"a": [1]}}', 'set n=3 deep={"a": [1]}'),
    ],
)
def test_call_in_words(name, arguments, words):
    assert call_in_words(name, arguments) == words


def test_long_arguments_are_cut():
    assert len(call_in_words("write", '{"text": "' + "a" * 100_000 + '"}')) < 5_000
    assert len(call_in_words("bash", '{"command": "' + "a" * 100_000 + '"}')) < 5_000
