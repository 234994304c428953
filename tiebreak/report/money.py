"""Dollars as people read them: no powers of ten, and the price of an answer by the thousand."""

from __future__ import annotations

_ANSWERS = 1000


def per_thousand(usd_per_answer: float | None) -> float | None:
    """What a thousand answers cost."""
    return None if usd_per_answer is None else _ANSWERS * usd_per_answer


def per_thousand_words(usd: float | None) -> str:
    """The price of a thousand answers, in words."""
    return "price unknown" if usd is None else f"{dollars(usd)} per {_ANSWERS:,} answers"


def dollars(usd: float) -> str:
    """At least two digits that say something: $1,250, $3.40, $0.0026."""
    if usd >= 100:
        return f"${usd:,.0f}"
    if usd >= 1 or usd == 0:
        return f"${usd:.2f}"
    places = next(places for places in range(2, 20) if usd * 10**places >= 10 or places == 19)
    return f"${usd:.{places}f}"
