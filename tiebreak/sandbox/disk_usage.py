"""What a program has on the disk, however it hides it: deep down, behind closed folders, or in files without a name."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def in_folder(folder: Path, most_files: int) -> tuple[int, int]:
    """Bytes really taken below a folder, and the number of entries; counting ends where there are too many of them.

    One folder is open at a time, so that no depth is too deep. Who moves folders about meanwhile is counted wrong.
    """
    used = files = 0
    here = os.open(folder, _FOLDER)
    above: list[tuple[tuple[int, int], Iterator[os.DirEntry[str]]]] = []
    entries = _entries(here)
    try:
        while files < most_files:
            entry = next(entries, None)
            if entry is None:
                if not above:
                    break
                identity, entries = above.pop()
                here = _opened("..", here)
                if _identity(here) != identity:
                    break
                continue
            files += 1
            with contextlib.suppress(OSError):
                found = os.stat(entry.name, dir_fd=here, follow_symlinks=False)
                used += found.st_blocks * 512
                if stat.S_ISDIR(found.st_mode):
                    identity, inner = _identity(here), _entered(entry.name, here)
                    above.append((identity, entries))
                    here, entries = inner, _entries(inner)
    finally:
        os.close(here)
    return used, files


def _entries(folder: int) -> Iterator[os.DirEntry[str]]:
    # Read at once: an iterator would hold a descriptor for every level.
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return iter(list(found))
    return iter(())


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def _opened(name: str, folder: int) -> int:
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def _entered(name: str, folder: int) -> int:
    """Open a folder, also one that its owner has closed."""
    try:
        return _opened(name, folder)
    except PermissionError:
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            # By its descriptor: the name could mean something else by now.
            Path(f"/proc/self/fd/{place}").chmod(0o700)
        finally:
            os.close(place)
        return _opened(name, folder)


def without_name(process: int, device: int) -> int:
    """Bytes of files on a device that have no name any more, and that a process or one it started holds open."""
    sizes: dict[int, int] = {}
    waiting = [process]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            waiting += [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _children(task)]
        for found in _open_files(pid):
            if found.st_nlink == 0 and found.st_dev == device and stat.S_ISREG(found.st_mode):
                sizes[found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())


def _children(task: Path) -> list[int]:
    return [int(child) for child in (task / "children").read_text(encoding="ascii").split()]


def _open_files(pid: int) -> Iterator[os.stat_result]:
    """What a process has open, or has mapped into its memory where we may see that."""
    for kind in ("fd", "map_files"):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/{kind}"):  # noqa: PTH208 -- names alone, of a folder that changes
                with contextlib.suppress(OSError):
                    yield os.stat(f"/proc/{pid}/{kind}/{name}")  # noqa: PTH116
