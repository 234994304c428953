"""A provider whose models answer as planted: right or wrong by model, temperature, prompt and sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Finish, Reply, Usage
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Score

PROVIDER = "support.planted:Planted"
answers: dict[str, Callable[..., Any]] = {}
"""Set by a test. Under `is_right`: whether a model, at a temperature, told so, answers a question rightly. Under `says`: what
a model says to a question; refused and failed are outcomes."""


SCORER = "support.planted:read_twice"


def read_twice(sample: Sample, text: str) -> Score:
    """A scorer whose two rules are said by the answer: what the first makes of it, and the second."""
    first, second = (float(word == "yes") for word in text.split())
    return Score(value=first, answer=text, second=second)


class Planted:
    """Says yes when it is to be right, and else no."""

    name: ClassVar[str] = PROVIDER
    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = False
    reference: ClassVar[bool] = False

    def __init__(self, endpoint: Endpoint) -> None:
        del endpoint

    async def open(self, model: ModelRef) -> None:
        """Nothing to get ready."""

    async def generate(self, request: Request) -> Reply:
        """Answer as planted."""
        if "says" in answers:
            said = answers["says"](request.model, request.messages[-1].text)
            return _reply(await said if inspect.isawaitable(said) else said)
        system = request.messages[0].text if request.messages[0].role == "system" else ""
        right = answers["is_right"](request.model, request.settings.get("temperature", 0.0), system, request.messages[-1].text)
        return Reply(text="yes" if right else "no", usage=Usage(input_tokens=1, output_tokens=1))

    async def list_models(self) -> Sequence[str]:
        """Any name will do."""
        return ()

    async def close(self) -> None:
        """Nothing to let go of."""


def _reply(said: str) -> Reply:
    if said == "failed":
        raise ProviderError("planted failure", kind=FailureKind.BAD_REQUEST)
    refused = said == "refused"
    usage = Usage(input_tokens=1, output_tokens=1)
    return Reply(text="" if refused else said, finish=Finish.REFUSED if refused else Finish.STOP, usage=usage)
