"""What a run will cost, before anything is paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tiebreak.core.batch import BATCH_PRICE
from tiebreak.core.contestant import Contestant
from tiebreak.core.message import AudioPart, FilePart, MediaPart
from tiebreak.core.model import ModelRef, Price
from tiebreak.core.sample import Sample
from tiebreak.engine.batches import in_batches
from tiebreak.engine.plan import Plan

_LOOKED_AT = 50
_LETTERS_PER_TOKEN = 4
_FEW_WORDS = 5
_PIXELS_PER_TOKEN = 750
_SMALL_IMAGE_TOKENS, _LARGE_IMAGE_TOKENS = 85, 1600
_DOCUMENT_TOKENS = 4000
"""Some two pages, each as text and as an image."""
_AUDIO_BYTES_PER_TOKEN = {"audio/wav": 1000, "audio/mpeg": 500}
"""At 32 tokens a second, of speech at 16 kHz and of MP3 at 128 kbit/s."""
_JUDGING_TOKENS = 400
"""The instructions a judge reads besides the question and the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure nobody knows yet: what is likely, and the ends it will hardly pass."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(low=self.low + other.low, likely=self.likely + other.likely, high=self.high + other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(low=self.low * factor, likely=self.likely * factor, high=self.high * factor)

    def at_most(self, most: float) -> Range:
        """The same where more is not possible."""
        return Range(low=min(self.low, most), likely=min(self.likely, most), high=min(self.high, most))


NOTHING = Range(low=0.0, likely=0.0, high=0.0)

# Tokens of an answer. Models differ by a factor of ten in how much they say to the same question.
_CHOICE = Range(low=2, likely=40, high=400)
_SHORT = Range(low=5, likely=60, high=400)
_LONG = Range(low=50, likely=250, high=1000)
_THOUGHT = Range(low=200, likely=1500, high=8000)
_JUDGED = Range(low=20, likely=100, high=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected cost of a run in dollars, contestant by contestant."""

    dollars: dict[str, Range]
    """By label, of the contestants whose model has a known price, and of the judges."""
    unknown: tuple[str, ...]
    """Contestants, or judges, whose hosted model has no known price."""

    @property
    def total(self) -> Range:
        """What is known of it."""
        return sum(self.dollars.values(), NOTHING)


def estimate(plan: Plan) -> Estimate:
    """Prompts as they are (the first fifty stand for all), answers of the lengths models usually give."""
    paid = [c for c in plan.spec.contestants if not c.model.local and not c.reference]
    dollars = {c.label: _asking(plan, c, c.model.price) for c in paid if c.model.price is not None}
    dollars = {c.label: dollars[c.label] * _share_of_price(plan, c) for c in paid if c.label in dollars}
    unknown = [c.label for c in paid if c.model.price is None]
    judging = _judging(plan) if plan.spec.protocol.judges else Estimate(dollars={}, unknown=())
    return Estimate(dollars=dollars | judging.dollars, unknown=(*unknown, *judging.unknown))


def _share_of_price(plan: Plan, contestant: Contestant) -> float:
    """What is asked in batches costs a part of the price; turns after the first are no part of them."""
    return BATCH_PRICE if in_batches(plan.spec, contestant) and "turns" not in plan.dataset.needs else 1.0


def _asking(plan: Plan, contestant: Contestant, price: Price) -> Range:
    samples = [plan.shown(sample, contestant) for sample in islice(plan.samples, _LOOKED_AT)]
    made = _mean([_answer(sample, contestant.model) for sample in samples])
    return _dollars(_sent(samples), made, price) * plan.trials_per_contestant


def _judging(plan: Plan) -> Estimate:
    """Judges read every question and every answer."""
    samples = list(islice(plan.samples, _LOOKED_AT))
    answers = plan.trials_per_contestant * sum(not c.reference for c in plan.spec.contestants)
    answer = _mean([_length(sample) for sample in samples])
    return estimate_judging(plan.spec.protocol.judges, answers, sent_tokens=_sent(samples), answer_tokens=answer)


def estimate_judging(judges: Sequence[ModelRef], answers: int, *, sent_tokens: float, answer_tokens: Range) -> Estimate:
    """What it costs to have so many answers judged, each to a question of so many tokens."""
    hosted = {f"judge {judge.label}": judge for judge in judges if not judge.local}
    dollars = {}
    for name, judge in hosted.items():
        if judge.price is not None:
            reading = _dollars(sent_tokens + _JUDGING_TOKENS, answer_tokens, _reads(judge.price))
            writing = _dollars(0.0, _JUDGED.at_most(float(judge.sent.get("max_tokens", _JUDGED.high))), judge.price)
            dollars[name] = (reading + writing) * answers
    return Estimate(dollars=dollars, unknown=tuple(name for name, judge in hosted.items() if judge.price is None))


def estimate_kept(judges: Sequence[ModelRef], answers: int, *, prompt_characters: float, answer_characters: float) -> Estimate:
    """The same for answers that are there already, whose lengths are known."""
    length = answer_characters / _LETTERS_PER_TOKEN
    known = Range(low=length, likely=length, high=length)
    return estimate_judging(judges, answers, sent_tokens=prompt_characters / _LETTERS_PER_TOKEN, answer_tokens=known)


def _reads(price: Price) -> Price:
    """What is read of an answer costs as input."""
    return replace(price, output_usd=price.input_usd)


def _sent(samples: list[Sample]) -> float:
    """Mean tokens of a prompt."""
    letters = sum(len(sample.prompt) for sample in samples) / len(samples) / _LETTERS_PER_TOKEN
    return letters + sum(_besides(sample) for sample in samples if sample.exchange is not None) / len(samples)


def _besides(sample: Sample) -> float:
    """Tokens of a sample's images, documents, tools and schema; what was said is sent again with every further turn."""
    assert sample.exchange is not None
    exchange = sample.exchange
    media = sum(_media_tokens(part) for part in sample.media)
    letters = sum(len(tool.description) + len(str(tool.parameters)) for tool in exchange.tools) + len(str(exchange.schema or ""))
    steps = _calls_of(sample)
    return (media + letters / _LETTERS_PER_TOKEN) * steps + (steps - 1) * len(sample.prompt) / _LETTERS_PER_TOKEN / 2


def _calls_of(sample: Sample) -> int:
    """How many model calls an exchange is likely to take."""
    exchange = sample.exchange
    return 1 if exchange is None else 1 + len(exchange.turns) + bool(exchange.tool_results)


def _media_tokens(part: MediaPart) -> float:
    if isinstance(part, AudioPart):
        return part.size_bytes / _AUDIO_BYTES_PER_TOKEN[part.media_type]
    return _DOCUMENT_TOKENS if isinstance(part, FilePart) else _image_tokens(part)


def _image_tokens(part: MediaPart) -> float:
    """By its pixels, as most providers count, which scale large images down."""
    return min(_LARGE_IMAGE_TOKENS, max(_SMALL_IMAGE_TOKENS, part.width * part.height / _PIXELS_PER_TOKEN))


def _answer(sample: Sample, model: ModelRef) -> Range:
    """Tokens of an answer, with what a reasoning model adds to it."""
    tokens = _length(sample) * _calls_of(sample)
    if model.sent.get("reasoning_effort", "none") != "none":
        tokens += _THOUGHT
    return tokens.at_most(float(model.sent.get("max_tokens", tokens.high)))


def _length(sample: Sample) -> Range:
    if sample.choices:
        return _CHOICE
    return _SHORT if sample.target and len(sample.target.split()) <= _FEW_WORDS else _LONG


def _mean(ranges: list[Range]) -> Range:
    return sum(ranges, NOTHING) * (1 / len(ranges))


def _dollars(sent: float, made: Range, price: Price) -> Range:
    """Of one trial."""
    reading = sent * price.input_usd / 1e6
    return made * (price.output_usd / 1e6) + Range(low=reading, likely=reading, high=reading)
