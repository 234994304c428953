"""A run's scores in a small file that can be committed, for later runs to be held against."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from benchmark.core.errors import UsageError
from benchmark.core.files import atomic_writer
from benchmark.core.run import Protocol
from benchmark.report.samples import groups_by_sample, scores_by_sample
from benchmark.report.summary import summarise_models
from benchmark.store.folder import find_run
from benchmark.store.reader import StoreReader

BASELINE_VERSION = 1
_DIGITS = 6


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What a run scored, sample by sample, and under which protocol."""

    baseline_version: int = BASELINE_VERSION
    run_id: str
    protocol: Protocol
    models: Mapping[str, Mapping[str, float]]
    """By label, the score of every sample that was answered; references are not among them."""
    groups: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By sample, the group it belongs to."""


def baseline_of(reader: StoreReader) -> Baseline:
    """A run as a baseline."""
    contestants = [model for model in summarise_models(reader) if not model.reference]
    return Baseline(
        run_id=reader.info.run_id,
        protocol=reader.info.protocol,
        models={m.label: scores_by_sample(reader, m.model.label, m.agent) for m in contestants},
        groups=groups_by_sample(reader),
    )


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write the file: a line per sample, in order, so that a difference can be read."""
    scores = {label: {s: round(found[s], _DIGITS) for s in sorted(found)} for label, found in baseline.models.items()}
    data = msgspec.to_builtins(msgspec.structs.replace(baseline, models=scores))
    # Where a dataset lies on one machine says nothing on another; its digest does.
    data["protocol"]["dataset"] = Path(baseline.protocol.dataset).name
    with atomic_writer(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


def read_baseline(file_or_run: str, root: Path) -> Baseline:
    """A baseline file, or any run as a baseline."""
    path = Path(file_or_run).expanduser()
    if not path.is_file() or path.suffix != ".json":
        with StoreReader(find_run(file_or_run, root)) as reader:
            return baseline_of(reader)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} is not a baseline file: {error}; make one with: tiebreak export RUN --to baseline") from None
    if found.baseline_version > BASELINE_VERSION:
        raise UsageError(f"{path} was made by a newer version of this tool; update it, or make the baseline anew")
    return found
