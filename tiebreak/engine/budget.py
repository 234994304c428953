"""What a run may cost: reserved at its worst before a request is sent, settled by what it used."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tiebreak.core.errors import StoreError, UsageError
from tiebreak.core.events import ContestantState
from tiebreak.core.message import AudioPart, FilePart, Part, TextPart, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.engine.buckets import Tell
from tiebreak.engine.stop import ContestantOver, Interrupted, Stop

LONGEST_ANSWER_TOKENS = 4096
"""Assumed where no max_tokens is set."""
_USUAL_ANSWER_TOKENS = 1000
"""Assumed of a model that has not answered yet, where its longest answer does not fit into the budget."""
_MILLION = 1_000_000
_NANO = 1_000_000_000
"""Money is counted in whole billionths of a dollar: sums of floats would drift past the cap."""
_IMAGE_CHARACTERS = 6000
_BYTES_PER_CHARACTER = 8
"""Of a document or sound, encoded: most of it is no text."""
_WORDS = re.compile(r"(?<![A-Za-z])[A-Za-z]{1,24}(?![A-Za-z])|\s+")
_LETTERS_PER_TOKEN = 3
_TOLD_S = 1.0
_FIRST_ANSWER_S = 60.0
"""So long the others wait for the first answer of a model, and no longer: it may hang."""
_STEPS = 64
"""In so many steps what may be spent is written down: few enough to cost no time, and small enough for a kill to cost little."""
CURE = "--max-tokens limits what an answer may cost; resume the run with a larger budget to continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Money and tokens."""

    nano_usd: int = 0
    tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(nano_usd=self.nano_usd + other.nano_usd, tokens=self.tokens + other.tokens)

    def __or__(self, other: Amount) -> Amount:
        """The larger of each."""
        return Amount(nano_usd=max(self.nano_usd, other.nano_usd), tokens=max(self.tokens, other.tokens))

    def __sub__(self, other: Amount) -> Amount:
        return Amount(nano_usd=self.nano_usd - other.nano_usd, tokens=self.tokens - other.tokens)

    @classmethod
    def of(cls, usage: Usage, model: ModelRef) -> Amount:
        """What a usage comes to; a price that is not known counts nothing."""
        cost = cost_of(usage, model) or 0.0
        return cls(nano_usd=math.ceil(cost * _NANO), tokens=usage.input_tokens + usage.output_tokens)


def cost_of(usage: Usage, model: ModelRef) -> float | None:
    """Dollars a usage costs: as the provider says, else by the model's price; None for local models or no price."""
    if usage.cost_usd is not None or model.local or model.price is None:
        return usage.cost_usd
    price = model.price.at(usage.input_tokens)
    read, written = _or(price.cached_usd, price.input_usd), _or(price.cache_write_usd, price.input_usd)
    long = usage.long_cache_write_tokens
    plain = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    cost = plain * price.input_usd + usage.output_tokens * price.output_usd + usage.cached_tokens * read
    cost += (usage.cache_write_tokens - long) * written + long * _or(price.long_cache_write_usd, written)
    return cost / _MILLION


def priced(usage: Usage, model: ModelRef) -> Usage:
    """The usage with what it costs, where that is known."""
    if model.price is None or (cost := cost_of(usage, model)) is None:
        return usage
    return replace(usage, cost_usd=cost)


def _or(price: float | None, other: float) -> float:
    return other if price is None else price


def weight(text: str) -> int:
    """How much a text is to send, in letters of English words.

    Digits, signs, codes and other scripts take about as many tokens as they have characters, or more.
    """
    rest = _WORDS.sub("", text)
    signs = len(rest.encode("ascii", errors="ignore"))
    bytes_beyond = len(rest.encode(errors="replace")) - signs
    return len(text) - len(rest) + _LETTERS_PER_TOKEN * (2 * signs + bytes_beyond) // 2


def characters(request: Request) -> int:
    """How much is sent, in letters of English words."""
    if request.verbatim is not None:
        return len(request.verbatim.body)
    found = 0
    for message in request.messages:
        found += sum(weight(part.text) if isinstance(part, TextPart) else _media_characters(part) for part in message.parts)
        found += sum(weight(str(call.arguments)) for call in message.tool_calls)
    found += 0 if request.schema is None else weight(str(request.schema))
    return found + sum(weight(tool.description) + weight(str(tool.parameters)) for tool in request.tools)


def _media_characters(part: Part) -> int:
    """An image costs what it costs whatever its size; a document or a sound by how much may be in it."""
    if isinstance(part, FilePart | AudioPart):
        return max(_IMAGE_CHARACTERS, len(part.data_base64) // _BYTES_PER_CHARACTER)
    return _IMAGE_CHARACTERS


def worst_usage(sent_characters: int, settings: Mapping[str, Any], attempts: int = 1) -> Usage:
    """The most that so many attempts with these settings can have used."""
    longest = int(settings.get("max_tokens") or LONGEST_ANSWER_TOKENS)
    return Usage(input_tokens=math.ceil(sent_characters / _LETTERS_PER_TOKEN) + 50 * attempts, output_tokens=longest * attempts)


def refuse_unpriced(models: Sequence[ModelRef]) -> None:
    """A cap on the cost means nothing for a model whose price nobody knows."""
    unknown = [model.label for model in models if not model.local and not model.reference and model.price is None]
    if unknown:
        raise UsageError(
            f"--max-cost needs the price of {', '.join(map(repr, unknown))}: give it in models_config.yaml, "
            "as in `price: {input: 2.5, output: 10}` (dollars per million tokens)"
        )


class Budget:
    """What the whole run may spend. Spent and reserved together never pass the cap."""

    def __init__(
        self,
        *,
        max_cost_usd: float | None,
        max_tokens: int | None,
        spent: Amount,
        stop: Stop,
        keep: Callable[[Amount], None] = lambda risked: None,
    ) -> None:
        self._max_nano_usd = None if max_cost_usd is None else math.floor(max_cost_usd * _NANO)
        self._max_tokens = max_tokens
        self._stop = stop
        self._settled = asyncio.Event()
        self._keep = keep
        """Has the most that may have been spent be on disk."""
        self._risked = spent
        self.spent = spent
        self.reserved = Amount()
        self.in_flight = 0

    async def reserve(self, amount: Amount, tell: Tell, *, likely: Callable[[], Amount] | None = None) -> Amount:
        """Set the amount aside, waiting for others to settle; ContestantOver when that cannot help any more.

        Where a likely amount is given, a request that nothing else runs beside need only fit by that: the cap is then
        passed by this one request at most.
        """
        while flag := self.passed_by(amount):
            if self._stop.draining:
                raise Interrupted
            if self.in_flight == 0:
                if likely is not None and not self.passed_by(likely()):
                    break
                raise ContestantOver(ContestantState.OUT_OF_BUDGET, f"the next request may not fit into {flag}; {CURE}")
            tell("budget", _TOLD_S)
            await self.settlement()
        self._risk(self.spent + self.reserved + amount)
        self.reserved += amount
        self.in_flight += 1
        return amount

    def _risk(self, total: Amount) -> None:
        """Before more may be spent than is written down, more is, in steps: a killed run must not forget it."""
        known = self._risked
        in_money = self._max_nano_usd is not None and total.nano_usd > known.nano_usd
        in_tokens = self._max_tokens is not None and total.tokens > known.tokens
        if not (in_money or in_tokens):
            return
        step = Amount(nano_usd=(self._max_nano_usd or 0) // _STEPS, tokens=(self._max_tokens or 0) // _STEPS)
        self._risked = known | (total + step)
        self._keep(self._risked)

    def close(self) -> None:
        """Nothing is sent any more: what was spent is known, at its worst where nobody told."""
        self._risked = self.spent + self.reserved
        with contextlib.suppress(StoreError):  # What is written down then is too much, and no error of this session.
            self._keep(self._risked)

    async def settlement(self) -> None:
        """Wait until some request is over."""
        if self._stop.draining:
            raise Interrupted
        self._settled.clear()
        await self._settled.wait()

    def wake(self) -> None:
        """Have whoever waits look again."""
        self._settled.set()

    def settle(self, reserved: Amount, used: Amount) -> None:
        """The request is over and used so much."""
        self.reserved -= reserved
        self.spent += used
        self.in_flight -= 1
        self._settled.set()

    def passed_by(self, amount: Amount) -> str:
        """The flag of the cap that so much more would pass; empty when it fits."""
        total = self.spent + self.reserved + amount
        if self._max_nano_usd is not None and total.nano_usd > self._max_nano_usd:
            return f"--max-cost {self._max_nano_usd / _NANO:g} (${self.spent.nano_usd / _NANO:.4f} spent)"
        if self._max_tokens is not None and total.tokens > self._max_tokens:
            return f"--max-total-tokens {self._max_tokens} ({self.spent.tokens} used)"
        return ""


@dataclass(slots=True, kw_only=True)
class Purse:
    """One model's way to the budget."""

    budget: Budget
    model: ModelRef
    _answers: int = 0
    _answer_tokens: int = 0
    is_known: bool = False
    """Whether a first answer has shown what requests to this model cost: until then one is sent at a time."""
    _under_way: int = 0
    _patience: asyncio.TimerHandle | None = None
    _beyond_tokens: int = 0
    """By how much a request took more than it can have been: gateways and agents' servers add prompts of their own."""

    async def reserve(self, size: int, settings: Mapping[str, Any], tell: Tell) -> Amount:
        """Set aside the most a request of so many characters can cost.

        Where nobody limited its answer, one at a time may cost more.
        """
        if self._patience is None and not self.is_known:
            self._patience = asyncio.get_running_loop().call_later(_FIRST_ANSWER_S, self.learn)
        while self._under_way and not self.is_known:
            tell("budget", _TOLD_S)
            await self.budget.settlement()
        self._under_way += 1
        try:
            worst = worst_usage(size, {**self.model.sent, **settings})
            worst = replace(worst, input_tokens=worst.input_tokens + self._beyond_tokens)
            limited = "max_tokens" in self.model.settings
            return await self.budget.reserve(self._amount(worst), tell, likely=None if limited else lambda: self._likely(worst))
        except BaseException:
            self._under_way -= 1
            self.budget.wake()
            raise

    def learn(self) -> None:
        """An answer has come, or is waited for no longer: the others go on."""
        if not self.is_known:
            self.is_known = True
            self.budget.wake()

    def _likely(self, worst: Usage) -> Amount:
        """With an answer twice as long as the mean of those so far."""
        usual = 2 * self._answer_tokens // self._answers if self._answers else _USUAL_ANSWER_TOKENS
        return self._amount(replace(worst, output_tokens=min(usual, worst.output_tokens)))

    def _amount(self, usage: Usage) -> Amount:
        return Amount.of(usage, self.model)

    def settle(self, reserved: Amount, usage: Usage | None) -> None:
        """Settle by the usage; where nobody told, all that was set aside counts as spent."""
        self._under_way -= 1
        if usage is not None and usage.output_tokens:
            self._answers += 1
            self._answer_tokens += usage.output_tokens
        if usage is not None:
            self._beyond_tokens += max(0, usage.input_tokens + usage.output_tokens - reserved.tokens)
        self.budget.settle(reserved, reserved if usage is None else self._amount(usage))
