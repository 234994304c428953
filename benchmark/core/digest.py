"""Stable digests of plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")


def digest_of(data: Any) -> str:
    """Hex digest of JSON-like data; the order of mapping keys does not matter."""
    return hashlib.blake2b(_ENCODER.encode(data), digest_size=16).hexdigest()


def digest_of_texts(texts: Iterable[str]) -> str:
    """Hex digest of a sequence of strings; where one ends and the next begins matters."""
    state = hashlib.blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def order_key(*texts: str) -> int:
    """A number that looks random but depends on the texts alone: sorts into a fixed shuffle."""
    return int(digest_of_texts(texts)[:16], 16)
