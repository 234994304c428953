"""Ollama's ways: it loads first, and it cuts what is too long without a word."""

from __future__ import annotations

import pytest
from support.server import FakeServer

from tiebreak.core.errors import FailureKind, ProviderError
from tiebreak.core.message import Reply, Usage, user
from tiebreak.core.model import ModelRef, Request
from tiebreak.core.protocols import Endpoint
from tiebreak.providers.ollama import Ollama, refuse_truncated
from tiebreak.registry import Catalog


@pytest.mark.parametrize(
    ("letters", "read", "cut"),
    [
        (400, 100, False),
        (20_000, 5_000, False),
        (24_000, 6_100, False),
        (100_000, 8_192, True),
        (40_000, 8_190, True),
        (100_000, 4_096, True),
        (400, 0, False),
        (20_000, 30, False),
    ],
)
def test_prompt_that_was_cut_is_a_failure_and_no_answer(letters: int, read: int, cut: bool) -> None:
    """A few tokens read of a prompt that fits are a cache at work; of one that cannot fit, they are a cut."""
    request = Request(model="m", messages=(user("x" * letters),))
    reply = Reply(text="sure", usage=Usage(input_tokens=read, output_tokens=1))
    if not cut:
        refuse_truncated(request, reply, 8192)
        return
    with pytest.raises(ProviderError, match="was cut to") as caught:
        refuse_truncated(request, reply, 8192)
    assert caught.value.kind is FailureKind.CONTEXT_LENGTH


async def test_weights_are_loaded_before_the_first_question(server: FakeServer) -> None:
    """With the same context size, so that nothing is loaded again; the warm-up is no trial."""
    provider = Ollama(Endpoint(base_url=server.url))
    await provider.open(ModelRef(provider="ollama", name="llama3:latest", label="llama3", settings={"num_ctx": 4096}))
    reply = await provider.generate(Request(model="llama3:latest", messages=(user("hi"),), settings={"num_ctx": 4096}))
    await provider.close()

    assert [a.body["options"]["num_ctx"] for a in server.ledger] == [4096]
    assert reply.model_seconds == pytest.approx(0.001)


def test_weights_behind_a_tag_are_part_of_a_trials_identity() -> None:
    """`ollama pull` may move a tag to other weights: their answers are not those of the old ones."""
    old, new = (Catalog(detected={"llama3:latest": digest}).resolve("llama3") for digest in ("aaa", "bbb"))
    assert (old.name, old.weights_digest) == ("llama3:latest", "aaa")
    assert old.digest != new.digest
    assert Catalog(detected={"llama3:latest": "aaa"}).resolve("ollama/llama3").digest == old.digest
