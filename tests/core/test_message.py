"""Messages and what they cost."""

import pytest

from tiebreak.core.message import ImagePart, Message, TextPart, Usage, assistant, system, user


def test_a_messages_text_is_its_text_parts():
    """Images have no words."""
    parts = (TextPart("Look: "), ImagePart(media_type="image/png", url="x"), TextPart("a cat"))
    assert Message(role="user", parts=parts).text == "Look: a cat"


@pytest.mark.parametrize(("make", "role"), [(system, "system"), (user, "user"), (assistant, "assistant")])
def test_plain_messages_have_their_role(make, role):
    """The three short-hands."""
    assert (make("hi").role, make("hi").text) == (role, "hi")


def test_messages_cannot_be_changed():
    """What was said stays said."""
    with pytest.raises(AttributeError, match="immutable"):
        user("hi").role = "system"


def test_usage_adds_up():
    """Every kind of token is added to its own kind."""
    one = Usage(input_tokens=1, cached_tokens=2, output_tokens=3, reasoning_tokens=4, cost_usd=0.5)
    assert one + one == Usage(input_tokens=2, cached_tokens=4, output_tokens=6, reasoning_tokens=8, cost_usd=1.0)


@pytest.mark.parametrize(("one", "other"), [(0.5, None), (None, 0.5), (None, None)])
def test_an_unknown_cost_makes_the_sum_unknown(one, other):
    """A sum with a hole in it is not a sum."""
    assert (Usage(cost_usd=one) + Usage(cost_usd=other)).cost_usd is None


def test_a_cost_of_nothing_is_known():
    """Zero is a price."""
    assert (Usage(cost_usd=0.0) + Usage(cost_usd=0.0)).cost_usd == 0.0
