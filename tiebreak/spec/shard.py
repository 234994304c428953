"""Which part of a run this process is to ask: said, or told by the scheduler that started it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tiebreak.core.errors import UsageError
from tiebreak.core.run import Shard

_SHARD = re.compile(r"(?P<number>\d+|auto)/(?P<of>\d+)|auto")
_MOST = 10_000


def shard_of(typed: str, environment: Mapping[str, str]) -> Shard:
    """`3/8`, `auto/8` with the number from Slurm or Kubernetes, or `auto` where Slurm says how many there are."""
    found = _SHARD.fullmatch(typed.strip())
    if found is None:
        raise UsageError(f"--shard {typed}: it should read like 3/8, auto/8 or auto")
    of = int(found["of"]) if found["of"] else _count(typed, environment)
    number = int(found["number"]) if found["number"] not in (None, "auto") else _number(typed, environment)
    if not 1 <= number <= of <= _MOST:
        raise UsageError(f"--shard {typed}: this is shard {number} of {of}; shards are counted from 1, up to {_MOST:,}")
    return Shard(number=number, of=of)


def _number(typed: str, environment: Mapping[str, str]) -> int:
    """Slurm's tasks begin where the user says, Kubernetes' at 0; ours at 1."""
    if task := environment.get("SLURM_ARRAY_TASK_ID", ""):
        return _whole(typed, task) - _whole(typed, environment.get("SLURM_ARRAY_TASK_MIN", "0")) + 1
    if index := environment.get("JOB_COMPLETION_INDEX", ""):
        return _whole(typed, index) + 1
    raise UsageError(f"--shard {typed}: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set; say which one, as in 3/8")


def _count(typed: str, environment: Mapping[str, str]) -> int:
    if not (count := environment.get("SLURM_ARRAY_TASK_COUNT", "")):
        raise UsageError(f"--shard {typed}: SLURM_ARRAY_TASK_COUNT is not set; say how many shards there are, as in auto/8")
    return _whole(typed, count)


def _whole(typed: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"--shard {typed}: the scheduler says {text!r}, which is no number")
    return int(text)
