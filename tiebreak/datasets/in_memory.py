"""Samples that a program made itself: held in memory, and kept beside the run's store so that it can go on."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tiebreak.core.digest import order_key
from tiebreak.core.errors import DatasetError
from tiebreak.core.run import IN_MEMORY, Source
from tiebreak.core.sample import Sample
from tiebreak.datasets.files import read_columns, reader_of

_ENCODER = msgspec.json.Encoder(order="deterministic")
_MISSING = ("NAType", "NaTType")
"""What pandas has in cells that are empty, besides NaN."""


class SampleList:
    """A dataset of samples that are there already."""

    name = IN_MEMORY
    about = "samples of your program"

    def __init__(self, samples: Sequence[Sample], ignored: Sequence[str] = ()) -> None:
        if not samples:
            raise DatasetError("the dataset is empty: it has no samples")
        _refuse_duplicates(samples)
        self._samples = samples
        self.ignored = ignored
        numbers: dict[str, int] = {}
        self.lines = [_line(number, sample) for number, sample in enumerate(samples, start=1)]
        """The samples as a file keeps them."""
        self.digest = hashlib.blake2b(b"".join(self.lines), digest_size=16).hexdigest()
        self.scorers = tuple(dict.fromkeys(scorer for sample in samples for scorer in sample.scorers))
        self.shuffle = array("Q", (order_key(sample.id) for sample in samples))
        self.categories = array("I", (numbers.setdefault(sample.category, len(numbers)) for sample in samples))
        self.needs = frozenset(need for sample in samples for need in sample.needs)
        self.kinds = frozenset("question" if sample.task is None else "task" for sample in samples)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, position: int) -> Sample:
        return self._samples[position]


def samples_of(given: Any, source: Source) -> SampleList:
    """The dataset of a list of samples, of rows as dictionaries, or of a data frame; errors name the row, from 1."""
    if hasattr(given, "to_dict"):
        given = [_without_missing(row) for row in given.to_dict("records")]
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise DatasetError(f"a dataset is a name, a file, a list of samples or dictionaries, or a data frame, not {given!r:.80}")
    # Beside nothing but the program: its images and files are looked for where it runs.
    read = reader_of(source.fields, without_target=source.without_target, folder=Path.cwd())
    is_read = read_columns(source.fields)
    samples, columns = [], dict[str, None]()
    for number, row in enumerate(given, start=1):
        if isinstance(row, Sample):
            samples.append(row)
            continue
        if not isinstance(row, Mapping):
            raise DatasetError(f"row {number}: must be a Sample or a dictionary, not {row!r:.80}")
        columns |= dict.fromkeys(map(str, row))
        try:
            samples.append(read(row, number))
        except ValueError as error:
            raise DatasetError(f"row {number}: {error}") from None
    return SampleList(samples, [column for column in columns if not is_read(column)])


def load_samples(path: Path) -> SampleList:
    """The samples that were kept beside a run's store."""
    try:
        lines = path.read_bytes().splitlines()
        return SampleList([msgspec.json.decode(line, type=Sample) for line in lines])
    except OSError as error:
        raise DatasetError(f"{path}: the samples of the run cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise DatasetError(f"{path}: not the samples of a run: {error}") from None


def _line(number: int, sample: Sample) -> bytes:
    try:
        return _ENCODER.encode(sample) + b"\n"
    except (TypeError, UnicodeEncodeError) as error:
        raise DatasetError(f"row {number}: cannot be kept in a file: {error}") from None


def _refuse_duplicates(samples: Sequence[Sample]) -> None:
    """Two samples of one id cannot be told apart in a result."""
    rows: dict[str, int] = {}
    for number, sample in enumerate(samples, start=1):
        if (first := rows.setdefault(sample.id, number)) != number:
            raise DatasetError(f"the id {sample.id!r} is used twice, in rows {first} and {number}; every id must be its own")


def _without_missing(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of a data frame without its empty cells, and with lists in place of arrays."""
    plain = {str(name): value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()}
    return {name: value for name, value in plain.items() if not _is_missing(value)}


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in _MISSING or (isinstance(value, float) and math.isnan(value))
