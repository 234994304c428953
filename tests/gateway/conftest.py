"""Trials and gateways against a model that plays a part."""

from __future__ import annotations

import pytest
from support.agent_model import AgentModel


@pytest.fixture
def model(monkeypatch):
    """A scripted model that every provider finds by the environment."""
    with AgentModel() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running
