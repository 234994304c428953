"""A file of records, reached by position: a run of a million samples holds none of them in memory."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from benchmark.core.digest import order_key
from benchmark.core.errors import DatasetError
from benchmark.core.sample import Sample

Row = Mapping[str, Any]
ToSample = Callable[[Row, int], Sample]
"""Makes a sample of a record and its number; raises ValueError saying what is wrong with which field."""

_LARGEST_FIELD = 64 * 1024 * 1024


class IndexedFile:
    """A dataset whose samples are read from their place in the file when they are needed."""

    def __init__(self, path: Path, to_sample: ToSample, *, name: str, about: str = "") -> None:
        self.name = name
        self.about = about
        self._path = path
        self._to_sample = to_sample
        self._file = _opened(path)
        # A dataset has no end of its own: its file is closed with the last that uses it.
        weakref.finalize(self, self._file.close)
        self._records: _Jsonl | _Csv = _Csv(self._file) if path.suffix.lower() == ".csv" else _Jsonl(self._file)
        self._offsets = array("Q")
        self._ends = array("Q")
        self._lines = array("Q")
        self.shuffle = array("Q")
        self.categories = array("I")
        self._index()

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, position: int) -> Sample:
        row = self._records.read(self._offsets[position], self._ends[position])
        return self._to_sample(row, position + 1)

    def _index(self) -> None:
        """Read the file once: check every record, remember where each begins."""
        numbers: dict[str, int] = {}
        scorers: dict[str, None] = {}
        for offset, end, line, row in self._numbered_rows():
            sample = self._checked(row, line)
            self._offsets.append(offset)
            self._ends.append(end)
            self._lines.append(line)
            self.shuffle.append(order_key(sample.id))
            self.categories.append(numbers.setdefault(sample.category, len(numbers)))
            scorers |= dict.fromkeys(sample.scorers)
        if not self._offsets:
            raise DatasetError(f"{self._path}: the dataset is empty")
        self._refuse_duplicates()
        self.scorers = tuple(scorers)
        self.digest = self._records.digest.hexdigest()

    def _numbered_rows(self) -> Iterator[tuple[int, int, int, Row]]:
        try:
            yield from self._records.rows()
        except _BadLine as bad:
            raise DatasetError(f"{self._path}, line {bad.line}: {bad.reason}") from None

    def _checked(self, row: Row, line: int) -> Sample:
        try:
            return self._to_sample(row, len(self._offsets) + 1)
        except ValueError as error:
            raise DatasetError(f"{self._path}, line {line}: {error}") from None

    def _refuse_duplicates(self) -> None:
        """Two samples of one id cannot be told apart in a result."""
        ordered = sorted(self.shuffle)
        if all(a != b for a, b in pairwise(ordered)):
            return
        seen: dict[int, int] = {}
        for position, key in enumerate(self.shuffle):
            if key in seen:
                twice = self[position].id
                lines = f"lines {self._lines[seen[key]]} and {self._lines[position]}"
                raise DatasetError(f"{self._path}: the id {twice!r} is used twice, on {lines}; every id must be its own")
            seen[key] = position


class _BadLine(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class _Jsonl:
    """One JSON object per line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.blake2b(digest_size=16)

    def rows(self) -> Iterator[tuple[int, int, int, Row]]:
        """Begin, end, line number and content of each record."""
        offset = 0
        for number, line in enumerate(self._file, start=1):
            self.digest.update(line)
            if line.strip():
                yield offset, offset + len(line), number, _object(line, number)
            offset += len(line)

    def read(self, begin: int, end: int) -> Row:
        """The record between two places."""
        return _object(os.pread(self._file.fileno(), end - begin, begin), 0)


class _Csv:
    """A header line, then a record per row; quoted fields may hold line breaks."""

    def __init__(self, file: BinaryIO) -> None:
        csv.field_size_limit(min(sys.maxsize, _LARGEST_FIELD))
        self._file = file
        self.digest = hashlib.blake2b(digest_size=16)
        self._header: list[str] = []
        self._consumed = 0
        self._line = 0

    def rows(self) -> Iterator[tuple[int, int, int, Row]]:
        """Begin, end, line number and content of each record."""
        reader = csv.reader(self._counted(), strict=True)
        try:
            self._header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
            offset, line = self._consumed, self._line + 1
            for values in reader:
                if any(values):
                    yield offset, self._consumed, line, self._row(values, line)
                offset, line = self._consumed, self._line + 1
        except csv.Error as error:
            raise _BadLine(self._line, f"not readable as CSV: {error}") from None

    def read(self, begin: int, end: int) -> Row:
        """The record between two places."""
        text = os.pread(self._file.fileno(), end - begin, begin).decode("utf-8", "replace")
        return self._row(next(csv.reader(io.StringIO(text, newline=""))), 0)

    def _counted(self) -> Iterator[str]:
        for line in self._file:
            self.digest.update(line)
            self._consumed += len(line)
            self._line += 1
            yield line.decode("utf-8", "replace")

    def _row(self, values: list[str], line: int) -> Row:
        if len(values) != len(self._header):
            raise _BadLine(line, f"{len(values)} fields, but the header names {len(self._header)}")
        return {name: value for name, value in zip(self._header, values, strict=True) if value != ""}


def _object(line: bytes, number: int) -> Row:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _BadLine(number, f"not readable as JSON: {error}") from None
    if not isinstance(row, dict):
        raise _BadLine(number, f"a JSON object is needed, not {type(row).__name__}")
    return row


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}") from None
