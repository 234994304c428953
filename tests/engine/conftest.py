"""Time that passes when told to, and a provider that does what it is told."""

import asyncio
from datetime import UTC, datetime

import pytest


class FakeClock:
    """Stands still until moved."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)


class FakeProvider:
    """Answers with the next of its replies: an error is raised, None is never answered."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.calls = 0

    async def generate(self, request, listener=None):
        self.calls += 1
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply is None:
            await asyncio.Event().wait()
        if isinstance(reply, Exception):
            raise reply
        return reply


@pytest.fixture
def clock():
    """A clock under our control."""
    return FakeClock()


@pytest.fixture
def fake_provider():
    """The class of providers that do what they are told."""
    return FakeProvider
