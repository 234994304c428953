"""Feed every parser garbage for FUZZ_SECONDS; nothing but a ProviderError may come of it. `make fuzz` runs this."""

from __future__ import annotations

import os
import time

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire.making import FORMATS, Format, bent, hostile, replies, requests, survive

ROUND = 500


@st.composite
def _inputs(draw: st.DrawFn, form: Format) -> bytes:
    """Garbage, good streams gone wrong, and good bodies with bytes missing or changed."""
    kind = draw(st.sampled_from(["hostile", "bent", "reply", "request"]))
    if kind == "hostile":
        return draw(hostile)
    if kind == "bent":
        return draw(bent(form))
    body = form.module.encode_reply(draw(replies(form))) if kind == "reply" else form.module.encode(draw(requests(form)))
    data = bytearray(msgspec.json.encode(body))
    place = draw(st.integers(0, len(data)))
    data[place : place + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
    return bytes(data)


def _round(form: Format) -> None:
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=_inputs(form), size=st.integers(1, 100))
    def attempt(data: bytes, size: int) -> None:
        survive(form, data, size)

    attempt()


def main() -> None:
    """Take the formats in turn until the time is up."""
    end = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    rounds = 0
    while time.monotonic() < end:
        _round(FORMATS[rounds % len(FORMATS)])
        rounds += 1
    print(f"{rounds * ROUND:,} inputs over {len(FORMATS)} formats: nothing but answers and ProviderErrors")


if __name__ == "__main__":
    main()
