"""Trials and gateways against a model that plays a part."""

from __future__ import annotations

import contextlib

import pytest
from support.agent_model import KEY, AgentModel
from support.gateways import PROVIDERS, Asking

from tiebreak.core.protocols import Endpoint
from tiebreak.gateway.gateway import Gateway


@pytest.fixture
def model(monkeypatch):
    """A scripted model that every provider finds by the environment."""
    with AgentModel() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
async def opened(model):
    """Opens gateways on a port, each before one model of one provider."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_gateway(provider="openai", name="fix", *, verbatim=True, settings=None, **options):
            made, path = PROVIDERS[provider]
            serving = made(Endpoint(base_url=model.url + path, api_key=KEY))
            stack.push_async_callback(serving.close)
            gateway = Gateway(model=name, **options)
            gateway.answers = Asking(serving, name, verbatim=verbatim, **(settings or {}))
            await stack.enter_async_context(gateway.open(on_port=True))
            return gateway

        yield open_gateway
