"""A provider in forty lines, and an agent in ten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tiebreak.core.message import Reply, Usage, user
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import AskContext, Endpoint, Listener
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output


class Echo:
    """Repeats what it is told: `echo/parrot`; `echo/loud` in capitals."""

    name: ClassVar[str] = "echo"
    key_variables: ClassVar[tuple[str, ...]] = ()
    url_variables: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = True
    reference: ClassVar[bool] = False
    unsupported: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def open(self, model: ModelRef) -> None:
        """Nothing to get ready."""

    async def generate(self, request: Request, listener: Listener | None = None) -> Reply:
        """Answer with the last thing said."""
        said = request.messages[-1].text
        text = said.upper() if request.model == "loud" else said
        return Reply(text=text, usage=Usage(input_tokens=len(said), output_tokens=len(text)), model=request.model)

    async def list_models(self) -> Sequence[str]:
        """The two of them."""
        return ("parrot", "loud")

    async def close(self) -> None:
        """Nothing to let go of."""


class Twice:
    """Asks, then asks to think again, and takes the second answer."""

    works_on: ClassVar[frozenset[str]] = frozenset({"question"})

    async def run(self, sample: Sample, context: AskContext) -> Output:
        """Ask twice."""
        first = await context.ask(sample.messages)
        again = (*sample.messages, first.as_message(), user("Are you sure? Answer again."))
        return Output(text=(await context.ask(again)).text)
