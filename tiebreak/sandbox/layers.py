"""What a task's programs find besides the system's: an environment of this machine, or packages installed once for all.

A layer of packages is made from lock files, by the installers of this machine, and is only read from then on: attempts
are offline. A package.json without a lock is locked by its layer. Nothing that is downloaded runs while it is installed:
wheels only, and no scripts of npm's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import Environment, TaskFile
from tiebreak.sandbox.command_line import python_inside
from tiebreak.sandbox.scratch import remove_tree

_INSTALL_S = 1800.0
_COMPLETE = ".complete"
_WHEELS_ONLY = ("install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
_NODE_MODULES = "/node_modules"
"""Where node looks last, from whatever folder it starts."""
_FOREIGN = re.compile(r"^\s*-|://|\s@\s|^\s*\.{0,2}/")
_GIT_PACKAGE = re.compile(r'"(?:resolved|version)"\s*:\s*"(?:git|file|ssh)')
_Install = Callable[[Path, tuple[TaskFile, ...]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Folders of this machine that programs inside may read, and where they find programs among them."""

    readable: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Folders that come first on their PATH, as they see them."""
    mounts: tuple[tuple[str, str], ...] = ()
    """A folder of this machine, and where it is shown."""
    python: str = ""
    """The interpreter that has the packages."""


def cache_folder() -> Path:
    """Where layers are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiebreak"


def layer_for(environment: Environment, needs: Sequence[str] = (), *, with_pytest: bool = False) -> Layer:
    """The layer a task asks for, made first where it has not been. `with_pytest`: without a wish, one that has pytest."""
    layers = [_program(name) for name in needs]
    if environment.python:
        layers.append(_installed(Path(environment.python)))
    if environment.pip:
        layers.append(_installed(_made("pip", environment.pip, _install_wheels) / "bin" / "python"))
    if environment.npm:
        modules = _made("npm", environment.npm, _install_node_modules) / "node_modules"
        layers.append(Layer(path=(f"{_NODE_MODULES}/.bin",), mounts=((str(modules), _NODE_MODULES),)))
    if with_pytest and not (environment.python or environment.pip) and importlib.util.find_spec("pytest"):
        layers.append(_installed(Path(sys.executable)))
    return _together(layers)


def _together(layers: Sequence[Layer]) -> Layer:
    both = Layer()
    for layer in layers:
        both = replace(
            both,
            readable=(*both.readable, *layer.readable),
            path=(*layer.path, *both.path),
            mounts=(*both.mounts, *layer.mounts),
            python=layer.python or both.python,
        )
    return both


@cache
def _installed(python: Path) -> Layer:
    """A virtual environment, or any other installation of Python, as it is."""
    folder = python.parent.parent
    # Read, not asked: a task may come from anybody, and nothing that it names is run outside the sandbox.
    base = _base_of(folder)
    if not python.exists() or base is None or not any((base / "lib").glob("python3*/os.py")):
        raise SandboxError(f"{python} is no interpreter of a virtual environment, or of an installation of Python")
    places = dict.fromkeys((str(folder), str(base), str(base.resolve())))
    readable = tuple(place for place in places if place != "/usr" and not place.startswith("/usr/"))
    if "/" in readable:
        raise SandboxError(f"{python} lies in the root folder, which cannot be shown inside a sandbox")
    return Layer(readable=readable, path=(str(python.parent),), python=str(python))


_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib")


@cache
def _program(name: str) -> Layer:
    """A program that this machine has outside the system's folders, with the installation it is part of."""
    found = shutil.which(name)
    if found is None:
        raise SandboxError(f"the task needs {name}, which is not installed here")
    real = _behind_rustup(Path(found))
    if str(real).startswith(_SYSTEM_FOLDERS):
        return Layer()
    folder = real.parent.parent if real.parent.name == "bin" else real.parent
    home = Path.home().resolve()
    shared = home.is_relative_to(folder) or folder == home / ".local"
    return Layer(readable=(str(real if shared else folder),), path=(str(real.parent),))


def _behind_rustup(program: Path) -> Path:
    """The program that rustup would start in its own place, by its name."""
    real = program.resolve()
    if real.name != "rustup":
        return real
    home = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    settings = home / "settings.toml"
    text = settings.read_text(encoding="utf-8", errors="replace") if settings.is_file() else ""
    chosen = re.search(r'^default_toolchain\s*=\s*"([^"/]+)"', text, re.MULTILINE)
    own = (home / "toolchains" / (chosen[1] if chosen else "stable") / "bin" / program.name).resolve()
    if not own.is_file():
        raise SandboxError(f"{program.name} is rustup's, and no toolchain of it is chosen: rustup default stable")
    return own


def _base_of(folder: Path) -> Path | None:
    """The installation that a virtual environment was made from; the folder itself where it is none."""
    settings = folder / "pyvenv.cfg"
    if not settings.is_file():
        return folder
    text = settings.read_text(encoding="utf-8", errors="replace")
    home = re.search(r"^home\s*=\s*(.+?)\s*$", text, re.MULTILINE)
    return Path(home[1]).parent if home else None


def _made(kind: str, files: tuple[TaskFile, ...], install: _Install) -> Path:
    """A folder that holds what the files lock."""
    parts = (python_inside(), *(text for file in files for text in (file.path, file.content)))
    return cached_folder(kind, parts, lambda folder: install(folder, files))


def cached_folder(kind: str, parts: Iterable[str | bytes], make: Callable[[Path], None]) -> Path:
    """A folder for these parts, made by whoever comes first while others wait; one that was not finished is made again."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    folder = cache_folder() / "layers" / f"{kind}-{digest.hexdigest()}"
    if (folder / _COMPLETE).is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not (folder / _COMPLETE).is_file():
            remove_tree(folder)
            folder.mkdir()
            try:
                make(folder)
                (folder / _COMPLETE).touch()
            except BaseException:
                remove_tree(folder)
                raise
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install_wheels(folder: Path, files: tuple[TaskFile, ...]) -> None:
    names = []
    for number, file in enumerate(files):
        _refuse_foreign(file)
        (folder / f"requirements-{number}.txt").write_bytes(file.content)
        names += ["-r", str(folder / f"requirements-{number}.txt")]
    python = folder / "bin" / "python"
    if uv := shutil.which("uv"):
        _run([uv, "venv", "--quiet", "--allow-existing", "--python", python_inside(), str(folder)])
        _run([uv, "pip", "install", "--quiet", "--no-build", "--compile-bytecode", "--python", str(python), *names])
    elif pip := shutil.which("pip"):
        _run([python_inside(), "-m", "venv", "--without-pip", str(folder)])
        _run([pip, "--python", str(python), *_WHEELS_ONLY, *names])
    else:
        _run([python_inside(), "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", *_WHEELS_ONLY, *names])


def _refuse_foreign(file: TaskFile) -> None:
    """A lock file names packages of the index that this machine uses, and nothing else."""
    text = file.content.decode("utf-8", "replace").replace("\\\n", " ")
    for line in text.splitlines():
        if _FOREIGN.search(line.partition("#")[0]):
            raise SandboxError(f"{file.path}: {line.strip()[:80]!r} is no package of an index; write NAME==VERSION")


def _install_node_modules(folder: Path, files: tuple[TaskFile, ...]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SandboxError("npm is not installed here, and the task has packages of npm's")
    for file in files:
        if _GIT_PACKAGE.search(file.content.decode("utf-8", "replace")):
            raise SandboxError(f"{file.path} locks a package that is in no registry")
        (folder / Path(file.path).name).write_bytes(file.content)
    # Without a lock file, the versions that are found now are locked by being kept.
    verb = "ci" if any(Path(file.path).name == "package-lock.json" for file in files) else "install"
    _run([npm, verb, "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=folder)


def _run(words: list[str], cwd: Path | None = None) -> None:
    """Run an installer of this machine, as its user has set it up; keys of models are none of its business."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN"))}
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the packages of a task cannot be installed: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-800:]
        raise SandboxError(f"the packages of a task cannot be installed: {Path(words[0]).name}: {said}")
