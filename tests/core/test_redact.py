"""Secrets never get through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.redact import HIDDEN, Redactor


@pytest.mark.parametrize(
    "variable",
    [
        *("OPENAI_API_KEY", "api-key", "HF_TOKEN", "DB_PASSWORD", "MY_SECRET", "AWS_SECRET_ACCESS_KEY", "SIGNING_PRIVATE_KEY"),
        *("GOOGLE_CREDENTIALS", "GITHUB_TOKENS", "openai_apikey"),
    ],
)
def test_the_environments_secrets_are_hidden(monkeypatch, variable):
    """The value of a variable whose name says it is a secret is replaced."""
    monkeypatch.setenv(variable, "hunter2hunter2")
    assert Redactor.from_environment()("said hunter2hunter2 aloud") == f"said {HIDDEN} aloud"


def test_other_variables_are_not_secrets(monkeypatch):
    """An ordinary value stays readable."""
    monkeypatch.setenv("FAVOURITE_CITY", "Vladivostok")
    assert Redactor.from_environment()("Vladivostok") == "Vladivostok"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a1B2" * 8,
        "sk-ant-api03-" + "x_-Y" * 8,
        "AIza" + "0123456789abcdefghijABCDEFGHIJ_-xyz",
        "ghp_" + "a" * 36,
        "hf_" + "B" * 34,
    ],
)
def test_what_looks_like_a_key_is_hidden(secret):
    """A key we were never told of is hidden by its shape."""
    assert secret not in Redactor([])(f"Incorrect API key provided: {secret}.")


def test_tokens_in_headers_and_addresses_are_hidden():
    """Bearer tokens and passwords in addresses go; what is around them stays."""
    redact = Redactor([])
    assert redact("Authorization: Bearer abc.def-123456") == f"Authorization: Bearer {HIDDEN}"
    assert redact("http://me:pass@host:80/x") == f"http://{HIDDEN}@host:80/x"


@pytest.mark.parametrize("text", ["risk-free", "sk-short", "task-based work", "http://host:8080/path", "Bearer of news", ""])
def test_ordinary_text_is_left_alone(text):
    """Nothing is hidden that is no secret."""
    assert Redactor([])(text) == text


def test_short_values_are_not_taken_for_secrets():
    """A token of one letter would blank out every word."""
    assert Redactor(["a", "", "yes"])("yes, a banana") == "yes, a banana"


def test_a_secret_inside_another_leaves_no_rest():
    """The longest is replaced first."""
    assert Redactor(["secret", "secret-and-more"])("secret-and-more") == HIDDEN


@given(st.text(), st.text(min_size=6), st.text())
def test_no_text_lets_a_secret_through(before, secret, after):
    """Wherever it stands, whatever it is made of."""
    if secret not in HIDDEN:
        assert secret not in Redactor([secret])(f"{before} {secret} {after}").replace(HIDDEN, "\0")
