"""The front doors of a checkout: `from benchmark import …` is `from tiebreak import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiebreak import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import tiebreak

    return getattr(tiebreak, name)


def __dir__() -> list[str]:
    import tiebreak

    return dir(tiebreak)
