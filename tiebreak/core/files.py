"""Writing files so that a reader finds the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_TEMPORARY = ".tmp"
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_WINDOWS_NAMES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears at `path` complete, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name[:80]}."
    _remove_leftovers(path.parent, prefix)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=_TEMPORARY)
    _lock(descriptor)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    _sync_folder(path.parent)


def _lock(descriptor: int) -> bool:
    """Say that the file is in use, for as long as it is open; False when somebody else's is."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove what a program that was killed in the middle of writing this file has left behind."""
    for path in folder.iterdir():
        if path.name.startswith(prefix) and path.name.endswith(_TEMPORARY):
            with contextlib.suppress(OSError), path.open("rb") as file:
                if _lock(file.fileno()):
                    path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; some file systems cannot, and then there is nothing to do."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def slug(name: str) -> str:
    """A file name for any text: readable, valid everywhere, at most 120 characters.

    A short hash is added where cleaning alone would change more than separators,
    so that names that differ in more than `/`, `:` and `_` never share a file.
    """
    clean = _UNSAFE.sub("_", name).strip("._")[:100] or "unnamed"
    readable = name.replace("/", "_").replace(":", "_")
    if clean == readable and clean.lower().split(".")[0] not in _WINDOWS_NAMES:
        return clean
    return f"{clean}-{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"
