"""Reading and writing a folder that somebody hostile has filled: no link leads out, no special file holds us up.

Every step is taken from an open folder to one of its entries, without following links; so nothing that changes
in the meantime leads anywhere else.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import TaskFile
from tiebreak.sandbox.scratch import remove_tree

MOST_ENTRIES = 200_000
MOST_DEPTH = 100
_MOST_LINKS = 20
_PIECE = 1 << 20
_LONGEST_PATH = 3000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a link met on the way through a folder; usable until the next one is asked for."""

    path: str
    kind: int
    """S_IFREG, S_IFLNK or S_IFDIR; nothing else is handed out."""
    size: int
    mode: int
    """Its permissions."""
    folder: int
    name: str

    @property
    def executable(self) -> bool:
        """Whether its owner may run it."""
        return bool(self.mode & 0o100)

    def read(self, most_bytes: int) -> bytes:
        """The content of a file, the target of a link."""
        if self.kind == stat.S_IFLNK:
            return os.fsencode(os.readlink(self.name, dir_fd=self.folder))
        with _closing(self.open()) as descriptor:
            return _read_all(descriptor, most_bytes)

    def open(self) -> int:
        """A descriptor to read a file by."""
        return os.open(self.name, _READ, dir_fd=self.folder)


def checked_path(path: str) -> str:
    """A path below a workspace in its plain form, or a SandboxError that says what is wrong with it."""
    plain = posixpath.normpath(path)
    parts = plain.split("/")
    if not path or "\0" in path or plain == "." or path.startswith("/") or ".." in path.split("/") or path.endswith("/"):
        raise SandboxError(f"{path!r} is no path of a file below the workspace: write it relative, without '..'")
    if ".git" in (part.lower() for part in parts):
        raise SandboxError(f"{path!r} lies in a git folder: hooks and settings there would run as ours, so none are laid")
    return plain


def walk(root: Path, *, skip: Collection[str] = ()) -> Iterator[Entry]:
    """Files, links and folders below a folder; folders come before what is in them.

    Unreadable folders, special files and names in `skip` are passed over, and so is what lies deeper than
    MOST_DEPTH folders or comes after MOST_ENTRIES entries.
    """
    top = os.open(root, _FOLDER)
    waiting: list[tuple[str, int, Iterator[str]]] = [("", top, _names(top))]
    left = MOST_ENTRIES
    try:
        while waiting and left > 0:
            prefix, folder, names = waiting[-1]
            name = next(names, None)
            if name is None:
                os.close(waiting.pop()[1])
                continue
            left -= 1
            entry = None if name in skip else _entry(prefix, folder, name)
            if entry is None:
                continue
            yield entry
            inner = _listed(folder, name) if entry.kind == stat.S_IFDIR and len(waiting) < MOST_DEPTH else None
            if inner is not None:
                waiting.append((f"{entry.path}/", *inner))
    finally:
        for _, folder, _ in waiting:
            os.close(folder)


def _entry(prefix: str, folder: int, name: str) -> Entry | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    kind = stat.S_IFMT(found.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
        return None
    return Entry(prefix + name, kind, found.st_size, stat.S_IMODE(found.st_mode), folder, name)


def _names(folder: int) -> Iterator[str]:
    return iter(sorted(os.listdir(folder)))


def _listed(folder: int, name: str) -> tuple[int, Iterator[str]] | None:
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return None
    try:
        return descriptor, _names(descriptor)
    except OSError:
        os.close(descriptor)
        return None


def read_file(root: Path, path: str, most_bytes: int, *, inside: str = "") -> bytes:
    """The beginning of a regular file; links are followed as long as they stay below the folder."""
    with _regular_file(root, path, _READ, inside=inside) as descriptor:
        return _read_all(descriptor, most_bytes)


def write_file(root: Path, path: str, content: bytes, *, executable: bool = False, inside: str = "") -> None:
    """Write a regular file, with the folders it needs."""
    mode = 0o755 if executable else 0o644
    with _regular_file(root, path, _WRITE, mode, inside=inside) as descriptor:
        os.ftruncate(descriptor, 0)
        os.fchmod(descriptor, mode)
        _write_all(descriptor, content)


@contextmanager
def _regular_file(root: Path, path: str, flags: int, mode: int = 0, *, inside: str) -> Iterator[int]:
    """A descriptor of a regular file, closed at the end; where it is to be written, its folders are made."""
    folder, name = _find(root, path, inside, make=bool(flags & os.O_CREAT))
    with _closing(folder):
        opened = os.open(name, flags, mode, dir_fd=folder)
        if flags & os.O_CREAT:
            _give(opened, os.fstat(folder))
    with _closing(opened) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, "not a regular file", path)
        yield descriptor


def _give(made: int | Path, folder: os.stat_result) -> None:
    """What root makes belongs to the owner of the folder it lies in, who has to work with it."""
    if os.geteuid() == 0 and folder.st_uid != 0:
        os.chown(made, folder.st_uid, folder.st_gid)


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def place_files(root: Path, files: tuple[TaskFile, ...]) -> None:
    """Put files into a folder, over whatever stands in their place."""
    for file in files:
        path = checked_path(file.path)
        _clear_way(root, path)
        write_file(root, path, file.content, executable=file.executable)


def _clear_way(root: Path, path: str) -> None:
    """Whatever stands on the way, or in place of the file, goes: links are not written through, folders do not stop us."""
    parts = path.split("/")
    folder = os.open(root, _FOLDER)
    try:
        for depth, part in enumerate(parts, 1):
            try:
                kind = stat.S_IFMT(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
            except FileNotFoundError:
                return
            last = depth == len(parts)
            if kind == stat.S_IFDIR and last:
                remove_tree(root / path)
                return
            if kind != stat.S_IFDIR:
                # A hard link shares its content with another name: the file is made anew.
                os.unlink(part, dir_fd=folder)
                return
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def _find(root: Path, path: str, inside: str, *, make: bool = False) -> tuple[int, str]:
    """The open folder and the name that a path leads to, links resolved below the folder."""
    wanted = _below(path, inside)
    for _ in range(_MOST_LINKS):
        found = _descend(root, wanted, make=make)
        if not isinstance(found, str):
            return found
        wanted = _below(found, inside)
    raise OSError(errno.ELOOP, "too many links", path)


def _below(path: str, inside: str) -> str:
    """A path relative to the folder; PermissionError for one that leads out of it."""
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, "no such file", path)
    if inside and (path == inside or path.startswith(f"{inside}/")):
        path = path[len(inside) :].lstrip("/")
    plain = posixpath.normpath(path)
    if plain.startswith(("/", "../")) or plain == "..":
        raise PermissionError(errno.EACCES, "leads out of the workspace", path)
    return plain


def _descend(root: Path, wanted: str, *, make: bool) -> tuple[int, str] | str:
    """Walk down; a link on the way gives the path to go on with instead."""
    parts = wanted.split("/")
    folder = os.open(root, _FOLDER)
    try:
        for depth, part in enumerate(parts):
            target = _link_target(folder, part)
            if target is not None:
                os.close(folder)
                base = posixpath.join(*parts[:depth], target) if depth else target
                return posixpath.join(base, *parts[depth + 1 :])
            if depth < len(parts) - 1:
                inner = _step(folder, part, make=make)
                os.close(folder)
                folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder, parts[-1]


def _link_target(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _step(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        os.mkdir(name, 0o755, dir_fd=folder)
        made = os.open(name, _FOLDER, dir_fd=folder)
        _give(made, os.fstat(folder))
        return made


def _read_all(descriptor: int, most_bytes: int) -> bytes:
    pieces, left = [], most_bytes
    while left > 0 and (piece := os.read(descriptor, min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def copy(source: Path, target: Path, *, skip: Collection[str], most_bytes: int, inside: str = "") -> list[str]:
    """Copy files and folders; a link that stays inside becomes what it leads to. Returns what was left out, with the reason."""
    copying = _Copying(target, most_bytes)
    for entry in walk(source, skip=skip):
        if entry.kind == stat.S_IFLNK:
            copying.add_resolved(source, entry, skip, inside)
        else:
            copying.add(entry, entry.path)
    return copying.left_out


class _Copying:
    """A copy while it is being made."""

    def __init__(self, target: Path, most_bytes: int) -> None:
        self._target, self._room, self.left_out = target, most_bytes, list[str]()

    def add(self, entry: Entry, path: str, *, exact: bool = False) -> None:
        """One file or folder; `exact` keeps all of its permissions."""
        place = self._target / path
        if len(os.fsencode(path)) > _LONGEST_PATH:
            self.left_out.append(f"{path[:60]}…: its path is too long")
        elif entry.kind == stat.S_IFDIR:
            place.mkdir(mode=0o755, exist_ok=True)
            _give(place, place.parent.stat())
        elif entry.size > self._room:
            self.left_out.append(f"{path}: too large to be judged ({entry.size} bytes)")
        elif entry.kind == stat.S_IFREG:
            self._room -= entry.size
            _copy_file(entry, place, entry.mode & 0o777 if exact else 0o755 if entry.executable else 0o644)

    def add_resolved(self, source: Path, link: Entry, skip: Collection[str], inside: str) -> None:
        """What a link leads to, in the link's place; links below it are left out."""
        try:
            folder, name = _find(source, link.path, inside)
        except OSError:
            self.left_out.append(f"{link.path}: a link that leads out, or nowhere")
            return
        with _closing(folder):
            entry = _entry("", folder, name)
            if entry is None or entry.kind == stat.S_IFLNK:
                self.left_out.append(f"{link.path}: a link that leads nowhere")
                return
            self.add(entry, link.path)
            if entry.kind == stat.S_IFDIR:
                for below in walk(Path(f"/proc/self/fd/{folder}", name), skip=skip):
                    if below.kind != stat.S_IFLNK:
                        self.add(below, f"{link.path}/{below.path}")


@contextmanager
def found_at(root: Path, path: str) -> Iterator[Entry | None]:
    """What is at a path, reached without following links; None when there is nothing."""
    parent, _, name = path.rpartition("/")
    try:
        folder = _folder_at(root, parent)
    except OSError:
        yield None
        return
    with _closing(folder):
        yield _entry(f"{parent}/" if parent else "", folder, name)


def transfer(source: Path, target: Path, path: str, *, most_bytes: int) -> None:
    """Make a file or folder below one root what it is below another, permissions and all; links are left out.

    Nobody else may be writing below the target meanwhile.
    """
    plain = checked_path(path)
    parent, _, name = plain.rpartition("/")
    with _closing(_folder_at(source, parent)) as folder:
        entry = _entry("", folder, name)
        if entry is None or entry.kind == stat.S_IFLNK:
            raise FileNotFoundError(errno.ENOENT, "no file or folder of that name", path)
        _clear_way(target, plain)
        os.close(_folder_at(target, parent, make=True))
        copying = _Copying(target, most_bytes)
        copying.add(entry, plain, exact=True)
        if entry.kind == stat.S_IFDIR:
            for below in walk(Path(f"/proc/self/fd/{folder}", name)):
                if below.kind != stat.S_IFLNK:
                    copying.add(below, f"{plain}/{below.path}", exact=True)


def _folder_at(root: Path, path: str, *, make: bool = False) -> int:
    """An open folder below another, reached without following links."""
    folder = os.open(root, _FOLDER)
    for part in filter(None, path.split("/")):
        try:
            inner = _step(folder, part, make=make)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _copy_file(entry: Entry, place: Path, mode: int) -> None:
    try:
        source = entry.open()
    except OSError:
        return
    with _closing(source), _closing(os.open(place, _WRITE | os.O_EXCL, 0o600)) as target:
        left = entry.size
        while left > 0 and (sent := os.sendfile(target, source, None, min(left, _PIECE))):
            left -= sent
        os.fchmod(target, mode)
        _give(target, place.parent.stat())
