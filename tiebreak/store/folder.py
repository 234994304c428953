"""A run's folder: found, made, checked and owned before anything is asked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from tiebreak.core.errors import StoreBusy, StoreError, StoreFull, UsageError
from tiebreak.core.files import atomic_writer
from tiebreak.core.run import IN_MEMORY, SAMPLES_FILE, Protocol

DATABASE = "run.sqlite"
LABEL = "label.txt"
"""What a person calls the run; beside the store, so that a label changes no result."""
MOST_LABEL = 80
_LOCK = "run.lock"
_LEAST_FREE_BYTES = 16 * 1024 * 1024
_BYTES_PER_TRIAL = 1024
_NETWORK_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs"})


def new_run_folder(root: Path, now: datetime, kind: str = "run") -> Path:
    """Make a folder no other run has, even one started in the same second."""
    stem = f"{kind}_{now:%Y%m%d_%H%M%S}"
    for number in range(1, 10_000):
        folder = root / (stem if number == 1 else f"{stem}_{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(f"cannot make the results folder {folder}: {error.strerror}; choose another with --output") from None
        return folder
    raise StoreError(f"too many runs named {stem} in {root}")


def empty_folder(folder: Path) -> Path:
    """A folder for a new run: made, unless it is there, and refused where a run or what a run writes is in it."""
    if has_database(folder):
        raise UsageError(f"{folder} holds a run already; go on with it by --resume {folder}, or name another folder")
    if found := results_in(folder):
        raise UsageError(f"{folder} holds {found[0]}, which a run would write over; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the results folder {folder}: {error.strerror}; choose another with --output") from None
    return folder


def refuse_other_samples(folder: Path) -> None:
    """Samples that a program has in memory are kept in a file of their own, never in place of the user's."""
    if (folder / SAMPLES_FILE).exists() and not (folder / _LOCK).exists():
        raise UsageError(f"{folder} holds {SAMPLES_FILE}, which a run would write over; name another folder")


def unused_folder(folder: Path) -> Path:
    """A folder for files that are passed on: made, and refused where anything is in it that would go with them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        used = any(folder.iterdir())
    except OSError as error:
        raise StoreError(f"cannot make the folder {folder}: {error.strerror}; name another with --output") from None
    if used:
        raise UsageError(f"{folder} is not empty; name a new folder with --output, so that it holds nothing but this report")
    return folder


def find_run(id_or_path: str, root: Path) -> Path:
    """The folder of an existing run, by path or by id."""
    for folder in (Path(id_or_path).expanduser(), root / id_or_path):
        if has_database(folder):
            return folder
        if folder.name == DATABASE and folder.is_file():
            return folder.parent
        if (folder / _LOCK).is_file() and results_in(folder):
            raise StoreError(f"{folder / DATABASE} is missing or empty: the answers were in it. Bring it back from a copy")
        if (folder / _LOCK).is_file():
            raise StoreError(f"the run in {folder} was stopped before it asked anything; start it again with --output {folder}")
    known = sorted((path.parent.name for path in root.glob(f"*/{DATABASE}")), reverse=True)
    there = f"the runs in {root} are {', '.join(known[:10])}" if known else f"there are no runs in {root} yet"
    raise StoreError(f"there is no run {id_or_path!r}; {there}")


def has_database(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    path = folder / DATABASE
    return path.is_file() and path.stat().st_size > 0


def last_run(root: Path) -> Path:
    """The folder of the run that was written to last."""
    found = [path for path in root.glob(f"*/{DATABASE}") if path.stat().st_size]
    if not found:
        raise StoreError(f"there are no runs in {root} yet")
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.parent.name)).parent


def run_label(folder: Path) -> str:
    """What a person called the run; empty where nobody did."""
    try:
        return " ".join((folder / LABEL).read_text(encoding="utf-8", errors="replace").split())[:MOST_LABEL]
    except OSError:
        return ""


def set_run_label(folder: Path, label: str) -> None:
    """Call the run so; an empty label takes the name away."""
    words = " ".join(label.split())
    if len(words) > MOST_LABEL:
        raise UsageError(f"a label has at most {MOST_LABEL} characters; this one has {len(words)}")
    if not words:
        (folder / LABEL).unlink(missing_ok=True)
        return
    with atomic_writer(folder / LABEL) as file:
        file.write(f"{words}\n".encode())


_RESULTS = re.compile(r"comparison_report\.(html|json|csv)|trials\.csv|attempts")
_OWN_FILES = re.compile(
    r"(run|batches)\.sqlite(-wal|-shm|-journal)?|run\.lock|label\.txt|samples\.jsonl|votes\.jsonl|comparison_report\.(html|json|csv)"
    r"|trials\.(csv|parquet)|junit\.xml|summary\.md|replayed\.json|baseline\.json|.*_result\.json"
)
_OWN_FOLDERS = frozenset({"attempts"})


def results_in(folder: Path) -> list[str]:
    """What lies in a folder under the names that a run gives its results."""
    try:
        return sorted(path.name for path in folder.iterdir() if _RESULTS.fullmatch(path.name))
    except OSError:
        return []


def strangers_in(folder: Path) -> list[str]:
    """What lies in a run's folder and is not of the run: other files and folders, and other runs."""
    found = [
        path.name
        for path in folder.iterdir()
        if path.is_symlink() or not (path.name in _OWN_FOLDERS if path.is_dir() else _OWN_FILES.fullmatch(path.name))
    ]
    return sorted(found) or sorted(str(path.parent.relative_to(folder)) for path in folder.rglob(f"*/{DATABASE}"))


def is_of_run(path: Path) -> bool:
    """Whether a path is one that a run itself writes, in the folder of a run."""
    return has_database(path.parent) and _OWN_FILES.fullmatch(path.name) is not None


def check_writable(folder: Path, trials: int) -> None:
    """Find a read-only, missing or full folder now, not after the first paid answer."""
    needed = max(_LEAST_FREE_BYTES, trials * _BYTES_PER_TRIAL)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A file without a name: nothing is left behind by a kill.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"the disk of {folder} is full; free some space or choose another folder with --output") from None
        raise StoreError(f"cannot write to {folder}: {error.strerror}; choose another folder with --output") from None
    if free < needed:
        raise StoreFull(
            f"the disk of {folder} has {free / 1e6:.0f} MB left and the run may need {needed / 1e6:.0f} MB; "
            "free some space or choose another folder with --output"
        )


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the run for this process. The system lets go of the lock however the process ends."""
    with (folder / _LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreError(f"cannot lock {folder}: {error.strerror}") from None
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise StoreBusy(f"the run {folder.name} is owned by another process (pid {owner}); nothing was done") from None
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def leave_nothing(folder: Path, protocol: Protocol) -> None:
    """Take away what a run that asked nothing wrote, and the folder itself where nothing else is in it."""
    # Of a run from the command line, a file of samples is the user's.
    samples = [SAMPLES_FILE] if protocol.dataset == IN_MEMORY else []
    with contextlib.suppress(OSError):
        for name in (*(f"{DATABASE}{kind}" for kind in ("", "-wal", "-shm", "-journal")), *samples, _LOCK):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


@contextlib.contextmanager
def gone_if_refused(folder: Path, protocol: Protocol) -> Iterator[None]:
    """A folder that was made for a run, which is refused before there is a store, is taken away again."""
    try:
        yield
    except UsageError:
        if not has_database(folder):
            leave_nothing(folder, protocol)
        raise


def at_rest(folder: Path) -> bool:
    """Whether the database is one plain file: nobody writes to it, and nobody was cut down while writing."""
    return not any((folder / f"{DATABASE}-{kind}").exists() for kind in ("wal", "journal"))


def is_running(folder: Path) -> bool:
    """Whether a process is at work on the run; looking never takes the lock, which might keep a run from starting."""
    if not (folder / f"{DATABASE}-wal").exists() and not is_network_file_system(folder):
        return False
    try:
        os.kill(int((folder / _LOCK).read_text(encoding="utf-8")), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def is_network_file_system(folder: Path) -> bool:
    """Whether the folder lies on a network, where SQLite's shared memory does not work."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False  # The system does not tell.
    points = [(mount[1].replace("\\040", " "), mount[2]) for mount in mounts if len(mount) > 2]
    place = folder.resolve()
    holding = [(point, kind) for point, kind in points if place.is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]), default=("", ""))[1] in _NETWORK_SYSTEMS
