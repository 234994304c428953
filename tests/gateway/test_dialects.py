"""Every dialect an agent may speak, before every provider's: the official clients understand all that was said."""

from __future__ import annotations

import pytest
from support.agent_model import DONE, USAGE
from support.clients import CLIENTS, FINISH
from support.gateways import OWN, PROVIDERS, url_of


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("dialect", CLIENTS)
async def test_a_conversation_with_tools_keeps_everything(dialect, provider, streamed, opened, model):
    """Words, calls, their arguments and results, what they cost and why they ended, in both directions."""
    gateway = await opened(provider)
    client = CLIENTS[dialect](url_of(gateway), gateway.key, streamed=streamed)

    read, edit, done = await client.work("Fix the typo in README.md.")

    assert (read.text, read.calls[0][1:]) == ("Let me see.", ("read_file", {"path": "README.md"}))
    assert edit.calls[0][1:] == ("edit", {"path": "README.md", "old": "teh", "new": "the"})
    assert (done.text, done.calls) == (DONE, [])
    assert (read.finish, done.finish) == FINISH[dialect]
    assert {(t.sent, t.cached, t.made) for t in (read, edit, done)} == {(1200, 200, 34)}
    assert all(reply.usage == USAGE for reply in gateway.answers.replies)
    last = model.ledger[-1]
    assert (last.dialect, last.request.stream, last.model) == (OWN[provider], streamed, "fix")
    results = [m for m in last.request.messages if m.role == "tool"]
    asked = [call for m in last.request.messages for call in m.tool_calls]
    assert [m.text for m in results] == ["result 1", "result 2"]
    assert [m.tool_call_id for m in results] == [call.id for call in asked]
    assert [call.name for call in asked] == ["read_file", "edit"]


@pytest.mark.parametrize("verbatim", [True, False])
async def test_the_same_dialect_translated_says_the_same_as_passed_on(verbatim, opened):
    """A provider whose answers come from a recording has no bytes to pass on: nothing is lost by that."""
    for provider, dialect in ((name, OWN[name]) for name in PROVIDERS if name != "ollama"):
        gateway = await opened(provider, verbatim=verbatim)
        for streamed in (False, True):
            client = CLIENTS[dialect](url_of(gateway), gateway.key, streamed=streamed)
            turns = await client.work("Fix the typo.")
            assert [(t.text, t.finish, t.sent, t.made) for t in turns][-1] == (DONE, FINISH[dialect][1], 1200, 34)
            assert len(turns) == 3
