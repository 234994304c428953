"""A run's scores in a small file that can be committed, for later runs to be held against."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from tiebreak.core.contestant import Contestant
from tiebreak.core.errors import UsageError
from tiebreak.core.files import atomic_writer
from tiebreak.core.run import Protocol
from tiebreak.report.samples import groups_by_sample, scores_by_sample
from tiebreak.store.folder import find_run
from tiebreak.store.reader import StoreReader

BASELINE_VERSION = 2
_DIGITS = 6
_REMEMBERED = "SELECT count(*) FROM trials WHERE superseded = 0 AND cached AND outcome <> 'failed' AND contestant = ?"


class BaselineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant's scores, and what it was."""

    factors: Mapping[str, str]
    """Its model, settings, prompt and agent, as tables show them."""
    parts: Mapping[str, str]
    """The same, each by its digest."""
    scores: Mapping[str, float]
    """Of every sample that was answered."""
    remembered: int = 0
    """Answers that were given in an earlier run."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What a run scored, sample by sample, and under which protocol."""

    baseline_version: int = BASELINE_VERSION
    run_id: str
    protocol: Protocol
    contestants: Mapping[str, BaselineEntry]
    """By label; references are not among them."""
    groups: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By sample, the group it belongs to."""


def baseline_of(reader: StoreReader) -> Baseline:
    """A run as a baseline."""
    info = reader.info
    return Baseline(
        run_id=info.run_id,
        protocol=info.protocol,
        contestants={c.label: _entry(reader, c) for c in info.contestants if not c.reference},
        groups=groups_by_sample(reader),
    )


def _entry(reader: StoreReader, contestant: Contestant) -> BaselineEntry:
    scores = scores_by_sample(reader, contestant.label)
    remembered = next(reader.rows(_REMEMBERED, reader.numbers[contestant.label]))[0]
    return BaselineEntry(factors=contestant.factors, parts=contestant.parts, scores=scores, remembered=remembered)


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write the file: a line per sample, in order, so that a difference can be read."""
    data = msgspec.to_builtins(baseline)
    for entry in data["contestants"].values():
        entry["scores"] = {sample: round(score, _DIGITS) for sample, score in sorted(entry["scores"].items())}
    # Where a dataset lies on one machine says nothing on another; its digest does.
    data["protocol"]["dataset"] = Path(baseline.protocol.dataset).name
    with atomic_writer(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


def is_baseline_file(file_or_run: str) -> bool:
    """Whether a file is meant, and not a run."""
    path = Path(file_or_run).expanduser()
    return path.is_file() and path.suffix == ".json"


def read_baseline(file_or_run: str, root: Path) -> Baseline:
    """A baseline file, or any run as a baseline."""
    path = Path(file_or_run).expanduser()
    if not is_baseline_file(file_or_run):
        with StoreReader(find_run(file_or_run, root)) as reader:
            return baseline_of(reader)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} is not a baseline file: {error}; make one with: tiebreak export RUN --to baseline") from None
    if any(not 0 <= score <= 1 for entry in found.contestants.values() for score in entry.scores.values()):
        raise UsageError(f"{path} is not a baseline file: its scores must be from 0 to 1")
    if found.baseline_version != BASELINE_VERSION:
        raise UsageError(f"{path} was made by another version of tiebreak; make it again with: tiebreak export RUN --to baseline")
    return found
