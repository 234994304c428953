"""A scorer of the user's own: whatever it does is its own trial's failure, and nobody else's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tiebreak.core.errors import ScorerError
from tiebreak.core.message import user
from tiebreak.core.sample import Sample
from tiebreak.core.trial import Output
from tiebreak.scorers import own_functions as module
from tiebreak.scorers.function import Function

SAMPLE = Sample(id="s", messages=(user("?"),), targets=("x",))


async def score(function: Any, text: str = "x") -> float:
    return (await Function(function).score(SAMPLE, Output(text=text), None)).value  # type: ignore[arg-type]


async def _async_right(sample: Sample, text: str) -> bool:
    await asyncio.sleep(0)
    return text in sample.targets


def _returns_a_coroutine(sample: Sample, text: str) -> Any:
    return _async_right(sample, text)


class _Callable:
    async def __call__(self, sample: Sample, text: str) -> bool:
        return text in sample.targets


def _right(sample: Sample, text: str) -> bool:
    return text in sample.targets


@pytest.mark.parametrize("function", [_right, _async_right, _returns_a_coroutine, _Callable()])
async def test_functions_of_every_kind_are_called(function: Any) -> None:
    assert (await score(function), await score(function, "y")) == (1.0, 0.0)


async def test_one_that_never_returns_costs_its_own_trial_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 0.3)

    def hangs_on_one(sample: Sample, text: str) -> bool:
        time.sleep(30 if text == "hang" else 0)
        return True

    scorer = Function(hangs_on_one)
    outputs = [Output(text="hang" if n == 3 else "x") for n in range(10)]
    scores = await asyncio.gather(*(scorer.score(SAMPLE, one, None) for one in outputs), return_exceptions=True)  # type: ignore[arg-type]
    assert [isinstance(found, ScorerError) for found in scores] == [n == 3 for n in range(10)]
    assert str(scores[3]) == "the scorer hangs_on_one took longer than 0.3 s"


async def test_an_async_one_that_never_returns_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_ASYNC_S", 0.2)

    async def hangs(sample: Sample, text: str) -> bool:
        await asyncio.sleep(60)
        return True

    with pytest.raises(ScorerError, match=r"the scorer hangs took longer than 0.2 s"):
        await score(hangs)


async def test_a_time_out_of_its_own_is_told_as_its_own() -> None:
    async def gives_up(sample: Sample, text: str) -> bool:
        raise TimeoutError("the database does not answer")

    def gives_up_too(sample: Sample, text: str) -> bool:
        raise TimeoutError("the database does not answer")

    for function in (gives_up, gives_up_too):
        with pytest.raises(ScorerError, match="raised TimeoutError: the database does not answer"):
            await score(function)
