"""Private folders: made where nobody else can look, locked while in use, removed however their content resists."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import stat
import subprocess
import tempfile
from pathlib import Path

from tiebreak.core.errors import SandboxError
from tiebreak.sandbox import cgroups

_LOCK = ".lock"
_REMOVE_S = 300.0


class Scratch:
    """One private folder. A lock says that its owner lives; when the owner is killed, the kernel lets go of it."""

    def __init__(self, root: Path | None = None) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="w-", dir=root or default_root()))
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            # Who removes what we leave may be in another group, and would not find ours by itself.
            os.write(self._lock, "\n".join(map(str, cgroups.controllers().folders)).encode())
        except OSError as error:
            raise SandboxError(f"no folder to work in can be made below {root or tempfile.gettempdir()}: {error}") from error
        self.name = self.path.name

    def folder(self, name: str) -> Path:
        """A new folder inside."""
        made = self.path / name
        made.mkdir(mode=0o700)
        return made

    async def remove(self) -> None:
        """Take everything away; what the work left cannot prevent it."""
        await asyncio.to_thread(remove_tree, self.path)
        os.close(self._lock)


def default_root() -> Path:
    """Below the system's temporary folder, ours alone."""
    root = Path(tempfile.gettempdir()) / f"tiebreak-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        # Somebody else made it first: a folder of a name nobody could guess does as well.
        return Path(tempfile.mkdtemp(prefix="tiebreak-"))
    return root


def remove_stale(root: Path | None = None) -> int:
    """Remove what killed owners left: their folders and their control groups. Returns how many there were."""
    removed = 0
    for folder in (root or default_root()).glob("w-*"):
        if _abandoned(folder):
            places = (folder / _LOCK).read_text(encoding="utf-8").splitlines()
            # The folder says where the groups are: it goes last, or stays for the next who looks.
            if cgroups.remove_stale(folder.name, [Path(place) for place in places]):
                remove_tree(folder)
                removed += 1
    return removed


def _abandoned(folder: Path) -> bool:
    """Whether nobody holds the lock any more."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def remove_tree(path: Path) -> None:
    """Remove a folder of any depth and any permissions. Links are removed, never followed."""
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    for attempt in (["rm", "-rf", "--one-file-system", "--"], ["chmod", "-R", "u+rwx", "--"], ["rm", "-rf", "--"]):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([*attempt, str(path)], env=environment, capture_output=True, check=False, timeout=_REMOVE_S)
        if not path.exists():
            return
