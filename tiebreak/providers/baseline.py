"""Models that know nothing: the floor every table should show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from tiebreak.core.digest import order_key
from tiebreak.core.errors import MissingModel
from tiebreak.core.message import Likelihood, Message, Reply, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint, Listener

_WORD = re.compile(r"[^\W\d_]{3,}")
_NAMES = ("random", "always-first", "constant")


class Baseline:
    """`random` guesses, `always-first` takes the first choice, `constant` always says the same."""

    name: ClassVar[str] = "baseline"
    local: ClassVar[bool] = True
    reference: ClassVar[bool] = True
    tells_likelihood: ClassVar[bool] = True

    def __init__(self, endpoint: Endpoint) -> None:
        del endpoint

    async def open(self, model: ModelRef) -> None:
        """Check that the baseline exists."""
        if model.name not in _NAMES:
            raise MissingModel(f"there is no baseline {model.name!r}; there are {', '.join(_NAMES)}")

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Answer without reading for meaning. Free text: a word of the question, or "yes"."""
        options = request.options or tuple(_WORD.findall(request.messages[-1].text)) or ("yes",)
        if request.model == "random":
            text = options[order_key("random", request.nonce) % len(options)]
        elif request.model == "always-first":
            text = options[0]
        else:
            text = request.options[-1] if request.options else "yes"
        return Reply(text=text, usage=Usage(), model=request.model)

    async def likelihood(self, model: str, messages: Sequence[Message], continuation: str, *, raw: bool = False) -> Likelihood:
        """Weigh without reading: `random` by chance, the others all alike, of which the first counts."""
        chance = order_key("random", *(message.text for message in messages), continuation) / 2**64 if model == "random" else 0.5
        return Likelihood(tokens=(0,), logprobs=(-1.0 - chance,))

    async def list_models(self) -> Sequence[str]:
        """The three of them."""
        return _NAMES

    async def close(self) -> None:
        """Nothing to let go of."""
