"""What a run and its workers say to each other. Everything travels as bytes of one format; code never does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import FailureKind
from tiebreak.core.events import ContestantState, TrialStep
from tiebreak.core.message import Usage
from tiebreak.core.model import ModelRef
from tiebreak.core.record import Record
from tiebreak.core.run import Pace, TaskRules
from tiebreak.core.trial import KeptAnswer, TrialResult

# --- from the run to a worker -------------------------------------------------------------------------


class Begin(Record, frozen=True, kw_only=True, tag=True):
    """The first order: what holds for every attempt."""

    pace: Pace
    rules: TaskRules
    kinds: tuple[str, ...]
    judges: tuple[ModelRef, ...]
    agents: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    """Agents that the user's configuration describes."""
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Keys by variable, for a node that has none of its own; kept in memory only."""

    def __repr__(self) -> str:
        return "Begin()"


class Serve(Record, frozen=True, kw_only=True, tag=True):
    """Trials of this contestant will come."""

    contestant: Contestant
    connections: int
    tasks_at_once: int
    asks: bool


class Release(Record, frozen=True, kw_only=True, tag=True):
    """No more trials of this contestant will come."""

    label: str


class Parcel(Record, frozen=True, kw_only=True, tag=True):
    """Bytes that orders after it name by their digest."""

    digest: str
    data: bytes


class Attempt(Record, frozen=True, kw_only=True, tag=True):
    """A trial to attempt, on lease."""

    lease: int
    label: str
    """The contestant's."""
    sample: bytes
    """The sample as it is shown, or nothing where a parcel holds it."""
    parcel: str = ""
    repeat: int
    asked: str
    trial: str
    """The trial's id."""
    kept: KeptAnswer | None = None


class Recall(Record, frozen=True, kw_only=True, tag=True):
    """The lease is over: leave the trial."""

    lease: int


class Admit(Record, frozen=True, kw_only=True, tag=True):
    """A call may be sent."""

    call: int
    answers: int
    in_flight: int


class Refuse(Record, frozen=True, kw_only=True, tag=True):
    """A call may not be sent: the contestant is over, or where no state is given, the run is being stopped."""

    call: int
    state: ContestantState | None = None
    message: str = ""


class Halt(Record, frozen=True, kw_only=True, tag=True):
    """The run is being stopped: begin nothing new; where silent, send nothing more either."""

    silent: bool = False


Order = Begin | Serve | Release | Parcel | Attempt | Recall | Admit | Refuse | Halt


# --- from a worker to the run -------------------------------------------------------------------------


class Ask(Record, frozen=True, kw_only=True, tag=True):
    """A call wants to be sent."""

    call: int
    lease: int
    channel: str
    size: int
    """In characters."""
    settings: Mapping[str, Any]
    """Those that say how long the answer may be."""


class Withdrawn(Record, frozen=True, kw_only=True, tag=True):
    """A call that was never sent is not wanted any more."""

    call: int


class Answered(Record, frozen=True, kw_only=True, tag=True):
    """The server answered a call."""

    call: int
    usage: Usage | None


class CallFailed(Record, frozen=True, kw_only=True, tag=True):
    """The server refused a call, or failed."""

    call: int
    kind: FailureKind
    message: str
    retry_after: float | None
    status: int | None


class GaveUp(Record, frozen=True, kw_only=True, tag=True):
    """A call was cancelled after it was sent."""

    call: int


class Parked(Record, frozen=True, kw_only=True, tag=True):
    """A server asks for a longer wait than any call may have."""

    channel: str
    seconds: float
    reason: str


class Waits(Record, frozen=True, kw_only=True, tag=True):
    """A call waits before it is tried again."""

    lease: int
    channel: str
    seconds: float
    reason: str


class Happened(Record, frozen=True, kw_only=True, tag=True):
    """A step of a trial that takes its time."""

    step: TrialStep


class Done(Record, frozen=True, kw_only=True, tag=True):
    """A trial ended. Which trial it was, the run knows by the lease."""

    lease: int
    result: TrialResult


class Left(Record, frozen=True, kw_only=True, tag=True):
    """A trial has no result: the contestant is over, the run is being stopped, or something nobody expected."""

    lease: int
    state: ContestantState | None = None
    message: str = ""
    unexpected: bool = False


class Unable(Record, frozen=True, kw_only=True, tag=True):
    """The contestant's model cannot be used on this machine."""

    label: str
    message: str
    kind: FailureKind


class Beat(Record, frozen=True, kw_only=True, tag=True):
    """The worker is alive: how many batches of orders it has heard, and the leases it works on."""

    heard: int
    leases: tuple[int, ...]


class Farewell(Record, frozen=True, kw_only=True, tag=True):
    """The worker has heard nothing for too long, has left all its trials, and ends."""

    message: str


Word = Ask | Withdrawn | Answered | CallFailed | GaveUp | Parked | Waits | Happened | Done | Left | Unable | Beat | Farewell


_encoder = msgspec.msgpack.Encoder()
_orders = msgspec.msgpack.Decoder(list[Order])
_words = msgspec.msgpack.Decoder(list[Word])


def encode(batch: msgspec.Struct | Sequence[msgspec.Struct]) -> bytes:
    """A batch as it travels. A lone surrogate, which some models emit, has no bytes of its own and becomes a "?"."""
    try:
        return _encoder.encode(batch)
    except UnicodeEncodeError:
        return _encoder.encode(_with_bytes(msgspec.to_builtins(batch, builtin_types=(bytes,))))


def _with_bytes(value: Any) -> Any:
    """A value in which every text can be written as bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_with_bytes(key): _with_bytes(inner) for key, inner in value.items()}
    return [_with_bytes(inner) for inner in value] if isinstance(value, list | tuple) else value


def orders(data: bytes) -> list[Order]:
    """A batch of orders."""
    return _orders.decode(data)


def words(data: bytes) -> list[Word]:
    """A batch of what a worker says."""
    return _words.decode(data)


def judge_channel(label: str) -> str:
    """The gate of a judge; a contestant's has no such beginning."""
    return f"judge {label}"


def contestant_channel(label: str) -> str:
    """The gate of a contestant's model."""
    return f"contestant {label}"


def is_contestants(channel: str) -> bool:
    """Whether a gate is that of a contestant's model."""
    return channel.startswith(contestant_channel(""))
