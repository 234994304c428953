"""Stable digests of plain data."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")
_EIGHT = struct.Struct(">8Q").unpack


def digest_of(data: Any) -> str:
    """Hex digest of JSON-like data; the order of mapping keys does not matter."""
    return hashlib.blake2b(_ENCODER.encode(data), digest_size=16).hexdigest()


def digest_of_texts(texts: Iterable[str]) -> str:
    """Hex digest of a sequence of strings; where one ends and the next begins matters."""
    # ascii() quotes each text and escapes what else would be ambiguous, alike in every version of Python.
    return hashlib.blake2b(ascii(tuple(texts)).encode(), digest_size=16).hexdigest()


def order_key(*texts: str) -> int:
    """A number that looks random but depends on the texts alone: sorts into a fixed shuffle."""
    return int.from_bytes(hashlib.blake2b(ascii(texts).encode(), digest_size=8).digest())


def shuffled_range(count: int, *texts: str) -> list[int]:
    """The numbers below count in an order that looks random but depends on the texts alone."""
    blocks = [hashlib.blake2b(ascii((block, *texts)).encode(), digest_size=64).digest() for block in range(0, count, 8)]
    keys = [key for block in blocks for key in _EIGHT(block)]
    return sorted(range(count), key=keys.__getitem__)


def positions_by(keys: Sequence[int], *, bits: int = 64) -> Iterator[int]:
    """Positions in the order of their keys, equal keys in their own order; keys are spread over `bits` bits.

    Sorted a part at a time: a list of a million Python numbers would weigh more than the run it is for.
    """
    parts = [array("Q") for _ in range(256)]
    shift = bits - 8
    for position, key in enumerate(keys):
        parts[key >> shift].append(position)
    for number, part in enumerate(parts):
        yield from sorted(part, key=keys.__getitem__)
        parts[number] = array("Q")
