"""Mistakes of ours that end neither a round nor a run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

log = logging.getLogger(__name__)


@contextlib.contextmanager
def going_on(what: str) -> Iterator[None]:
    """A mistake of ours in one step is loud, and does not keep the others from being taken: a run must come to its end."""
    try:
        yield
    except Exception:
        log.exception("%s met an error nobody expected", what)
