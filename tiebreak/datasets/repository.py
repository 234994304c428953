"""Reads commits of a git repository: files, patches, messages. Nothing of a repository is executed, its settings least of all."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tiebreak.core.errors import DatasetError
from tiebreak.core.task import TaskFile

TEST_FILES = (
    *("**/tests/**", "**/test/**", "**/__tests__/**", "**/conftest.py", "**/test_*.py", "**/*_test.py"),
    *("**/*_test.go", "**/*.test.[cm]js", "**/*.test.[jt]s", "**/*.test.[jt]sx", "**/*.spec.[jt]s", "**/*.spec.[jt]sx"),
)
"""Globs of the files that tests are made of: the work does not decide what is in them."""
RUNNER_SETTINGS = frozenset({"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"})
_GIT_S = 120.0
_LARGEST_FILE = 16 << 20
_MOST_BYTES = 512 << 20
_HEX = re.compile(r"[0-9a-f]{7,64}")
_REGULAR, _EXECUTABLE, _LINK = "100644", "100755", "120000"
_MOST_LINKS = 10
_CACHES = frozenset({".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


class _Git(Protocol):
    """Runs one git command and returns what it printed."""

    def __call__(self, *words: str, stdin: bytes = b"") -> bytes: ...


class RepositoryError(ValueError):
    """A repository that cannot be read, or does not hold what is asked for."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that has a parent."""

    id: str
    parent: str
    message: str


@dataclass(frozen=True, slots=True)
class Patched:
    """What a patch makes of a commit's files."""

    files: tuple[TaskFile, ...]
    """New and changed ones, whole."""
    deleted: tuple[str, ...]


def folder_files(folder: Path) -> tuple[TaskFile, ...]:
    """The files of a folder as they are: in a git repository those that it does not ignore, elsewhere all but caches."""
    if not folder.is_dir():
        raise DatasetError(f"there is no folder {folder}")
    try:
        listed = Repository(folder).working_files()
    except RepositoryError:
        listed = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*"))]
    files, total = [], 0
    for name in listed:
        path = folder / name
        if _CACHES & set(name.split("/")) or path.is_symlink() or not path.is_file():
            continue
        total += path.stat().st_size
        if total > _MOST_BYTES:
            raise DatasetError(f"{folder} holds more than {_MOST_BYTES >> 20} MB; name a smaller folder, or ignore files")
        files.append(TaskFile(path=name, content=path.read_bytes(), executable=bool(path.stat().st_mode & 0o100)))
    return tuple(files)


def is_test_file(path: str) -> bool:
    """Whether a file belongs to the tests rather than to what is tested."""
    return any(fnmatch.fnmatchcase(f"/{path}", glob.replace("**/", "*/", 1).replace("/**", "/*")) for glob in TEST_FILES)


class Repository:
    """A git repository on this machine; a folder below it does as well."""

    def __init__(self, path: Path) -> None:
        if shutil.which("git") is None:
            raise RepositoryError("git is not installed here, and the task's files are in a git repository")
        self.path = path
        self._blobs: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"Repository({str(self.path)!r})"

    # --- where things are ---------------------------------------------------------------------------

    @cached_property
    def objects(self) -> str:
        """The folder of its objects; all that reading needs."""
        if (self.path / "objects").is_dir() and (self.path / "HEAD").is_file():
            return str((self.path / "objects").resolve())
        place = self._run("rev-parse", "--git-path", "objects").decode().strip()
        return str((self.path / place).resolve())

    def resolve(self, revision: str) -> str:
        """The whole name of a commit."""
        if not revision or revision.startswith("-"):
            raise RepositoryError(f"{revision!r} is no commit")
        self._run("rev-parse", "--git-dir")
        try:
            return self._run("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
        except RepositoryError:
            raise RepositoryError(f"there is no commit {revision!r}") from None

    def commits(self, revisions: str) -> Iterator[Commit]:
        """Commits with one parent, the newest first."""
        if revisions.startswith("-"):
            raise RepositoryError(f"{revisions!r} names no commits")
        form = "--format=%H %P%x00%B%x00"
        listed = self._run("log", "--no-merges", "--min-parents=1", form, "--end-of-options", revisions)
        fields = listed.decode("utf-8", "replace").split("\0")
        for names, message in zip(fields[::2], fields[1::2], strict=False):
            name, parent = names.split()[:2]
            yield Commit(name, parent, message.strip())

    def working_files(self) -> list[str]:
        """Files of the folder itself that are not ignored, by their paths there."""
        return _split(self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"))

    def range(self, revisions: str) -> Commit:
        """All that a range of commits changed, as one: from where it left the other branch to its end."""
        base, dots, head = revisions.partition("..")
        if not dots or not base or not head.lstrip("."):
            raise RepositoryError(f"{revisions!r} is no range: write BASE..HEAD, as in main..feature")
        base, head = self.resolve(base), self.resolve(head.lstrip("."))
        start = self._run("merge-base", base, head).decode().strip()
        said = self._run("log", "--no-merges", "--reverse", "--format=%B", f"{start}..{head}").decode("utf-8", "replace")
        return Commit(head, start, said.strip())

    # --- what is in a commit ------------------------------------------------------------------------

    def changed(self, before: str, after: str) -> list[str]:
        """Paths that differ between two commits."""
        with self._reading() as git:
            return _split(git("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after))

    def patch(self, before: str, after: str, paths: Iterable[str]) -> bytes:
        """How some paths differ between two commits, as a patch that can be applied."""
        named = list(paths)
        if not named:
            return b""
        words = (
            "diff-tree",
            "-r",
            "-p",
            "--binary",
            "--full-index",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            before,
            after,
        )
        with self._reading() as git:
            return git(*words, "--", *(f":(literal,top){path}" for path in named))

    def files(self, commit: str) -> tuple[TaskFile, ...]:
        """Every file of a commit; links become what they lead to, and submodules are left out."""
        with self._reading() as git:
            listed = [_tree_entry(line) for line in _split(git("ls-tree", "-r", "-z", "--full-tree", _checked(commit)))]
            return self._read(git, listed)

    def applied(self, commit: str, patch: bytes) -> Patched:
        """The files that a patch changes, as it leaves them."""
        if not patch.strip():
            return Patched((), ())
        with self._reading() as git:
            git("read-tree", _checked(commit))
            git("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
            rows = _split(git("diff-index", "--cached", "-z", "--raw", "--no-renames", "--abbrev=64", commit))
            changes = [(row.split(), path) for row, path in zip(rows[::2], rows[1::2], strict=True)]
            kept = [(words[1], words[3], path) for words, path in changes if words[4] != "D"]
            return Patched(self._read(git, kept), tuple(path for words, path in changes if words[4] == "D"))

    def pack(self, commits: Iterable[str], target: Path) -> None:
        """Write a repository of these commits alone, without their past: it can be read like this one."""
        chosen = [_checked(commit) for commit in dict.fromkeys(commits)]
        with self._reading() as git:
            names = dict.fromkeys(chosen)
            for commit in chosen:
                names |= dict.fromkeys(
                    line.split()[2].partition("\t")[0] for line in _split(git("ls-tree", "-r", "-t", "-z", commit))
                )
                names[git("rev-parse", f"{commit}^{{tree}}").decode().strip()] = None
            packed = git("pack-objects", "--stdout", "-q", stdin="\n".join(names).encode())
        known = (target / "shallow").read_text(encoding="ascii") if (target / "shallow").is_file() else ""
        for name in ("objects/info", "objects/pack", "refs"):
            (target / name).mkdir(parents=True, exist_ok=True)
        (target / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
        (target / "shallow").write_text(
            known + "".join(f"{commit}\n" for commit in chosen if commit not in known), encoding="ascii"
        )
        with Repository(target)._reading(writing=True) as git:
            git("index-pack", "--stdin", stdin=packed)

    def _read(self, git: _Git, entries: Iterable[tuple[str, str, str]]) -> tuple[TaskFile, ...]:
        """Files by mode, blob and path. Contents are kept: many commits share most of theirs."""
        listed = [entry for entry in entries if entry[0] in (_REGULAR, _EXECUTABLE, _LINK) and _is_text(entry[2])]
        missing = dict.fromkeys(blob for _, blob, _ in listed if blob not in self._blobs)
        if missing:
            self._blobs |= dict(_contents(git("cat-file", "--batch", "--buffer", stdin="\n".join(missing).encode() + b"\n")))
        by_path = {path: (mode, self._blobs[blob]) for mode, blob, path in listed}
        files = []
        for path in by_path:
            real = _followed(path, by_path)
            if real is not None:
                files.append(TaskFile(path=path, content=real[1], executable=real[0] == _EXECUTABLE))
        return tuple(files)

    # --- git ------------------------------------------------------------------------------------------

    def _run(self, *words: str) -> bytes:
        """A command that needs the repository's names; its settings are overruled where they would run anything."""
        return _git(("-C", str(self.path), *_HARMLESS, *words), _ENVIRONMENT)

    @contextmanager
    def _reading(self, *, writing: bool = False) -> Iterator[_Git]:
        """Git on the repository's objects, and on nothing else of it: not its settings, not its names, not its hooks."""
        with tempfile.TemporaryDirectory(prefix="tiebreak-git-") as made:
            folder = Path(made)
            for name in ("objects", "refs"):
                (folder / name).mkdir()
            (folder / "HEAD").write_text("ref: refs/heads/main\n", encoding="ascii")
            own, theirs = str(folder / "objects"), self.objects
            places = {"GIT_OBJECT_DIRECTORY": theirs if writing else own, "GIT_ALTERNATE_OBJECT_DIRECTORIES": theirs}
            environment = {**_ENVIRONMENT, **places, "GIT_DIR": made, "GIT_INDEX_FILE": str(folder / "index")}

            def git(*words: str, stdin: bytes = b"") -> bytes:
                return _git((*_HARMLESS, *words), environment, stdin)

            yield git


_HARMLESS = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null"),
    *("-c", "protocol.allow=never", "-c", "safe.directory=*", "-c", "core.quotePath=false", "--no-pager"),
)
_ENVIRONMENT: Mapping[str, str] = {
    "PATH": os.defpath,
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}


def _git(words: tuple[str, ...], environment: Mapping[str, str], stdin: bytes = b"") -> bytes:
    command = [shutil.which("git") or "git", *words]
    try:
        done = subprocess.run(command, input=stdin, env=dict(environment), capture_output=True, check=False, timeout=_GIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise RepositoryError(f"git cannot be run: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        verb = words[words.index(_HARMLESS[-1]) + 1]
        raise RepositoryError(f"git {verb}: {said[0][:300]}")
    return done.stdout


def _checked(commit: str) -> str:
    if not _HEX.fullmatch(commit):
        raise RepositoryError(f"{commit!r} is no commit: write its hexadecimal name, seven characters of it or more")
    return commit


def _split(data: bytes) -> list[str]:
    """Fields that end with a zero byte, as text that names the same files again."""
    return [part.decode("utf-8", "surrogateescape") for part in data.split(b"\0") if part]


def _is_text(path: str) -> bool:
    """Whether a name can be written down; others are left out, as submodules are."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tree_entry(line: str) -> tuple[str, str, str]:
    head, _, path = line.partition("\t")
    mode, _, blob = head.split()[:3]
    return mode, blob, path


def _contents(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What `cat-file --batch` printed: for each blob a line of its name, kind and size, then its content."""
    place = total = 0
    while place < len(data):
        end = data.index(b"\n", place)
        name, kind, *size = data[place:end].decode("ascii", "replace").split()
        if kind != "blob":
            raise RepositoryError(f"the repository does not hold {name}: was it cloned without its files?")
        length = int(size[0])
        total += length
        if length > _LARGEST_FILE or total > _MOST_BYTES:
            raise RepositoryError(f"the commit's files are too large: {length >> 20} MB in one file, {total >> 20} MB so far")
        yield name, data[end + 1 : end + 1 + length]
        place = end + length + 2


def _followed(path: str, files: Mapping[str, tuple[str, bytes]]) -> tuple[str, bytes] | None:
    """The file at a path, links followed while they stay in the commit; None for one that leads elsewhere."""
    for _ in range(_MOST_LINKS):
        mode, content = files[path]
        if mode != _LINK:
            return mode, content
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), content.decode("utf-8", "surrogateescape")))
        if path not in files:
            return None
    return None
