"""Records in files: JSON lines, JSON, CSV, Parquet, plain or compressed. Each can be read again from its place."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import csv
import gzip
import hashlib
import io
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

import msgspec

from tiebreak.core.errors import DatasetError
from tiebreak.core.extras import optional

Row = Mapping[str, Any]

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx")
_DELIMITERS = ",;\t|"
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""What a file that is not UTF-8 may begin with to say so; the longer ones first."""
_USUAL = ("cp1252", "cp1251", "shift_jis", "gb18030", "big5", "euc_kr", "mac_roman", "utf-16")
PACKED = (".gz", ".bz2")
_LARGEST_FIELD = 64 * 1024 * 1024
_PARQUET_ROWS = 1000
"""Rows of a Parquet file that are held at once."""


class BadRecord(Exception):
    """A record that cannot be read; said with its place, which the file can name."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason


class Records(Protocol):
    """One file's records."""

    path: Path
    digest: Any
    """Of the content, once all rows were read."""

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Place and content of each record, in order."""
        ...

    def read(self, place: int, end: int | None) -> Row:
        """The record at a place; the next one begins at `end`."""
        ...

    def where(self, place: int) -> str:
        """The place in words: the line, or the row."""
        ...


def is_records(path: Path) -> bool:
    """Whether a file's name says that it holds records."""
    return _kind(path) in SUFFIXES


def open_records(path: Path, *, below: str = "", encoding: str = "") -> Records:
    """The records of a file; of a JSON file, the list found under the key `below`."""
    kind = _kind(path)
    if kind == ".parquet":
        return _Parquet(path)
    if kind == ".xlsx":
        return _Excel(path)
    file = _opened(path)
    try:
        file = _in_utf8(path, file, encoding)
    except DatasetError:
        file.close()
        raise
    if kind in (".csv", ".tsv"):
        return _Csv(path, file, delimiter="\t" if kind == ".tsv" else "")
    if kind == ".json":
        return _Json(path, file, below)
    return _Jsonl(path, file)


def checked_rows(records: Records) -> Iterator[tuple[int, Row]]:
    """Place and content of each record; one that cannot be read is an error that names its file and line."""
    try:
        yield from records.rows()
    except BadRecord as bad:
        raise DatasetError(f"{records.path}, {records.where(bad.place)}: {bad.reason}") from None


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _opened(path: Path) -> BinaryIO:
    """The file, or what is packed in it in an unnamed file that goes with us."""
    try:
        if path.suffix.lower() in PACKED:
            return _unpacked(path)
        return path.open("rb")
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _unpacked(path: Path) -> BinaryIO:
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- it lives as long as the dataset
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else bz2.open(path) as packed:
            shutil.copyfileobj(packed, file)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file  # type: ignore[return-value]


def _in_utf8(path: Path, file: BinaryIO, encoding: str) -> BinaryIO:
    """The file's text in UTF-8: the file itself, or an unnamed copy of one that is encoded otherwise."""
    encoding = encoding or _marked_encoding(file)
    try:
        if not encoding or codecs.lookup(encoding).name == "utf-8":
            return file
        return _transcoded(file, encoding)
    except LookupError:
        usual = ", ".join(_USUAL)
        raise DatasetError(f"--encoding {encoding}: there is no such encoding; often used are {usual}") from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: not readable as {encoding}: {error.reason}; another --encoding may fit") from None


def _marked_encoding(file: BinaryIO) -> str:
    """The encoding that a file's byte order mark names; empty for UTF-8 and for none."""
    start = file.read(4)
    file.seek(0)
    return next((name for mark, name in _MARKS if start.startswith(mark)), "")


def _transcoded(file: BinaryIO, encoding: str) -> BinaryIO:
    copy: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 -- it lives as long as the dataset
    with io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        while chunk := text.read(1 << 20):
            copy.write(chunk.encode())
    copy.seek(0)
    return copy  # type: ignore[return-value]


def _not_utf8(error: UnicodeDecodeError) -> str:
    """What is wrong with bytes that are no UTF-8, and what to say if they are what they most often are."""
    data = error.object
    around = data[max(0, error.start - 12) : error.start + 12].decode("cp1252", "replace").strip()
    return (
        f"not UTF-8: the byte 0x{data[error.start]:02x}. As Windows-1252 it would read {around!r}: if that is right, "
        "say --encoding cp1252, else the encoding the file was saved in"
    )


class _File:
    """What is read from bytes: a file that is closed with the last that uses it."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.digest = hashlib.blake2b(digest_size=16)
        self._file = file
        # A dataset has no end of its own.
        weakref.finalize(self, file.close)

    def where(self, place: int) -> str:
        """The line a place is on; counted only when somebody must be told."""
        lines, left = 1, place
        self._file.seek(0)
        while left > 0 and (chunk := self._file.read(min(left, 1 << 20))):
            lines += chunk.count(b"\n")
            left -= len(chunk)
        return f"line {lines}"

    def _bytes(self, place: int, end: int | None) -> bytes:
        size = (os.fstat(self._file.fileno()).st_size if end is None else end) - place
        return os.pread(self._file.fileno(), size, place)


class _Jsonl(_File):
    """One JSON object per line."""

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Place and content of each line that holds something."""
        offset = 0
        for line in self._file:
            self.digest.update(line)
            start = len(codecs.BOM_UTF8) if not offset and line.startswith(codecs.BOM_UTF8) else 0
            if line[start:].strip():
                yield offset + start, _object(line[start:], offset)
            offset += len(line)

    def read(self, place: int, end: int | None) -> Row:
        """The object that begins at a place."""
        return _object(self._bytes(place, end), place)


class _Csv(_File):
    """A header line, then a record per row; quoted fields may hold line breaks."""

    def __init__(self, path: Path, file: BinaryIO, *, delimiter: str = "") -> None:
        super().__init__(path, file)
        csv.field_size_limit(min(sys.maxsize, _LARGEST_FIELD))
        self._delimiter = delimiter or self._found_delimiter()
        self._header: list[str] = []
        self._consumed = 0

    def _found_delimiter(self) -> str:
        """The one that makes the most columns of the header; a spreadsheet of many countries writes semicolons."""
        line = self._file.readline().decode("utf-8", "replace")
        self._file.seek(0)
        columns = {mark: _columns(line, mark) for mark in _DELIMITERS}
        return max(columns, key=columns.__getitem__)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Place and content of each row that holds something."""
        reader = csv.reader(self._lines(), strict=True, delimiter=self._delimiter)
        offset = 0
        try:
            self._header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
            _refuse_twins(self._header)
            offset = self._consumed
            for values in reader:
                if any(values):
                    yield offset, self._row(values, offset)
                offset = self._consumed
        except csv.Error as error:
            raise BadRecord(max(self._consumed - 1, 0), f"not readable as CSV: {error}") from None

    def read(self, place: int, end: int | None) -> Row:
        """The row that begins at a place."""
        text = self._bytes(place, end).decode("utf-8")
        return self._row(next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter)), place)

    def _lines(self) -> Iterator[str]:
        for line in self._file:
            self.digest.update(line)
            self._consumed += len(line)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise BadRecord(self._consumed - len(line), _not_utf8(error)) from None

    def _row(self, values: list[str], place: int) -> Row:
        named, given = len(self._header), len(values)
        if (given != named and any(values[named:])) or given < named:
            raise BadRecord(place, f"{given} fields, but the header names {named}")
        return {name: value for name, value in zip(self._header, values, strict=False) if name}


def _columns(line: str, delimiter: str) -> int:
    """How many columns a header has; none where it is no CSV at all, which is said when its rows are read."""
    try:
        return len(next(csv.reader([line], delimiter=delimiter), []))
    except csv.Error:
        return 0


def _refuse_twins(header: list[str]) -> None:
    twin = next((name for name, count in Counter(header).items() if name and count > 1), None)
    if twin is not None:
        raise BadRecord(0, f"the header names {twin!r} twice")


class _Json:
    """One JSON list of objects, held whole: for files as people keep them by hand."""

    def __init__(self, path: Path, file: BinaryIO, below: str) -> None:
        self.path = path
        self.digest = hashlib.blake2b(digest_size=16)
        with file:
            data = file.read()
        self.digest.update(data)
        self._rows = _list_in(path, data, below)

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Number and content of each object of the list."""
        for place, row in enumerate(self._rows):
            if not isinstance(row, dict):
                raise BadRecord(place, f"a JSON object is needed, not {type(row).__name__}")
            yield place, row

    def read(self, place: int, end: int | None) -> Row:
        """The object of a number."""
        return self._rows[place]  # type: ignore[no-any-return]

    def where(self, place: int) -> str:
        """The object, counted from 1."""
        return f"record {place + 1}"


def _list_in(path: Path, data: bytes, below: str) -> list[Any]:
    try:
        value = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: {_not_utf8(error)}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise DatasetError(f"{path}: not readable as JSON: {error}") from None
    if isinstance(value, dict):
        lists = [key for key, inside in value.items() if isinstance(inside, list)]
        if below in value or len(lists) == 1:
            value = value[below if below in value else lists[0]]
    if not isinstance(value, list):
        raise DatasetError(f"{path}: a JSON file of samples is a list of objects, or an object with one list in it")
    return value


class _Parquet:
    """A Parquet file, read a thousand rows at a time."""

    def __init__(self, path: Path) -> None:
        parquet = optional("pyarrow.parquet", extra="parquet", needed_by="a Parquet file")
        self.path = path
        self.digest = hashlib.blake2b(digest_size=16)
        try:
            self._file = parquet.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{path}: not readable as Parquet: {error}") from None
        self._starts = [0]
        for group in range(self._file.num_row_groups):
            self._starts.append(self._starts[-1] + self._file.metadata.row_group(group).num_rows)
        self._held: tuple[int, list[Row]] = (-1, [])

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Number and content of each row."""
        with self.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                self.digest.update(chunk)
        place = 0
        for batch in self._file.iter_batches(batch_size=_PARQUET_ROWS):
            for row in batch.to_pylist():
                yield place, _without_none(row)
                place += 1

    def read(self, place: int, end: int | None) -> Row:
        """The row of a number; its neighbours are kept for the next one."""
        held, rows = self._held
        if not held <= place < held + len(rows):
            held, rows = self._rows_around(place)
            self._held = held, rows
        return _without_none(rows[place - held])

    def where(self, place: int) -> str:
        """The row, counted from 1."""
        return f"row {place + 1}"

    def _rows_around(self, place: int) -> tuple[int, list[Row]]:
        group = next(g for g in range(len(self._starts) - 1) if self._starts[g + 1] > place)
        begin = self._starts[group] + (place - self._starts[group]) // _PARQUET_ROWS * _PARQUET_ROWS
        table = self._file.read_row_group(group).slice(begin - self._starts[group], _PARQUET_ROWS)
        return begin, table.to_pylist()


class _Excel:
    """The first sheet of a workbook: a header row, then a record per row."""

    def __init__(self, path: Path) -> None:
        openpyxl = optional("openpyxl", extra="excel", needed_by="an Excel file")
        self.path = path
        self.digest = hashlib.blake2b(path.read_bytes(), digest_size=16)
        try:
            with contextlib.closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
                sheets = book.worksheets[:1]
                self._cells = [[_cell(value) for value in row] for sheet in sheets for row in sheet.iter_rows(values_only=True)]
        except Exception as error:
            raise DatasetError(f"{path}: not readable as an Excel workbook: {error}") from None

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Number and content of each row that holds something."""
        self._header = [name.strip() for name in self._cells[0]] if self._cells else []
        _refuse_twins(self._header)
        for place, values in enumerate(self._cells[1:], start=1):
            if any(values):
                yield place, self.read(place, None)

    def read(self, place: int, end: int | None) -> Row:
        """The row of a number."""
        return {name: value for name, value in zip(self._header, self._cells[place], strict=False) if name}

    def where(self, place: int) -> str:
        """The row as the sheet counts it."""
        return f"row {place + 1}"


def _cell(value: Any) -> str:
    """A cell as a person reads it: 3 rather than 3.0, a date without midnight."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).removesuffix(" 00:00:00").strip()


def _without_none(row: Mapping[str, Any]) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _object(line: bytes, place: int) -> Row:
    try:
        row = msgspec.json.decode(line)
    except UnicodeDecodeError as error:
        raise BadRecord(place, _not_utf8(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRecord(place, f"not readable as JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadRecord(place, f"a JSON object is needed, not {type(row).__name__}")
    return row
