"""Digests that stay the same and tell everything apart."""

from hypothesis import given
from hypothesis import strategies as st

from tiebreak.core.digest import digest_of, digest_of_texts, order_key

ANY_TEXT = st.text(st.characters(exclude_categories=()))


def test_the_order_of_keys_does_not_matter():
    """Two mappings that are equal have one digest."""
    assert digest_of({"a": 1, "b": [2, {"d": 1, "c": 2}]}) == digest_of({"b": [2, {"c": 2, "d": 1}], "a": 1})


def test_values_and_types_matter():
    """One is not "1", nor None absent."""
    seen = {digest_of(data) for data in ({"a": 1}, {"a": "1"}, {"a": None}, {}, {"a": [1]}, {"a": True})}
    assert len(seen) == 6


def test_digests_never_change():
    """A digest is kept on disk and compared years later."""
    assert digest_of({"a": 1}) == digest_of({"a": 1})
    assert digest_of_texts(["a", "b"]) == "3a3a2c87d1e59582f0e50019d3178a28"


@given(st.lists(ANY_TEXT, max_size=4), st.lists(ANY_TEXT, max_size=4))
def test_different_texts_have_different_digests(one, other):
    """Also where the same letters are cut in other places; surrogates included."""
    assert (digest_of_texts(one) == digest_of_texts(other)) == (one == other)


@given(st.lists(ANY_TEXT, min_size=1, max_size=3))
def test_an_order_key_fits_sixty_four_bits(texts):
    """It is kept in an array of such numbers."""
    assert 0 <= order_key(*texts) < 2**64
    assert order_key(*texts) == order_key(*texts)
