"""Results of other tools as results of ours: Inspect's logs and lm-eval's samples, scores as they were recorded."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tiebreak.core.errors import UsageError
from tiebreak.imports.inspect_ai import read_inspect
from tiebreak.imports.lm_eval import SAMPLES, read_lm_eval
from tiebreak.imports.logs import Log

_BROKEN = (
    *(OSError, zipfile.BadZipFile, zlib.error, EOFError, msgspec.DecodeError, RecursionError),
    *(KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, NotImplementedError, RuntimeError),
)
"""What reading a file that is damaged, cut short or something else may come to."""


def read_logs(paths: Iterable[Path]) -> Iterator[Log]:
    """The logs in files and folders; what is none of them is named."""
    for path in paths:
        found = sorted([*path.rglob("*.eval"), *path.rglob("samples_*.jsonl")]) if path.is_dir() else [path]
        if not found:
            raise UsageError(f"{path}: there is no .eval file and no samples_*.jsonl in this folder")
        yield from map(read_log, found)


def read_log(path: Path) -> Log:
    """One log, by what its name says it is; one without a single sample is refused."""
    read = read_inspect if path.suffix == ".eval" else read_lm_eval if SAMPLES.fullmatch(path.name) else None
    if read is None:
        raise UsageError(f"{path}: neither an Inspect log (.eval) nor lm-eval's samples (samples_TASK_DATE.jsonl)")
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}")
    try:
        log = read(path)
    except _BROKEN as error:
        raise UsageError(f"{path}: cannot be read as a log: {_reason(error)}") from None
    if not log.results:
        raise UsageError(f"{path}: the log has no samples in it, so there is nothing to import")
    return log


def _reason(error: BaseException) -> str:
    """An error in half a sentence."""
    if isinstance(error, (zipfile.BadZipFile, zlib.error, EOFError)):
        return "it is damaged, cut short, or no log at all"
    if isinstance(error, KeyError):
        return f"it has no {str(error.args[0]).removeprefix('There is no item named ').removesuffix(' in the archive')}"
    if isinstance(error, (TypeError, AttributeError, IndexError)):
        return f"what stands in it is not what such a log holds ({error})"
    return str(error)
