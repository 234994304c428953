"""Images of a container engine as machines: the engine makes them, and programs see their files in our own sandbox.

So what is promised of the sandbox holds for images as well: the same limits, the same judge, the gateway as the only way
out. Every attempt has a copy of the image's files, except for the folders of the system itself, which it can only read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import Image
from tiebreak.sandbox import tree
from tiebreak.sandbox.command_line import Folders, Machine
from tiebreak.sandbox.layers import cached_folder

ENGINES = ("podman", "docker")
_BUILD_S = 3600.0
_QUICK_S = 120.0
_READ_ONLY = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "boot")
_EMPTY = ("proc", "sys", "dev", "run", "tmp")
_WORKDIR = "/app"
"""Where one works in an image that names no folder."""
_COPY_S = 600.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine that answers, and the words that its commands begin with."""

    words: tuple[str, ...]

    def run(self, *words: str, seconds: float = _QUICK_S) -> str:
        """Run a command of the engine's; what it printed."""
        try:
            done = subprocess.run(
                [*self.words, *words], capture_output=True, text=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxError(f"{self.words[0]} cannot be run: {error}") from error
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip())[-1000:]
            raise SandboxError(f"{self.words[0]} {words[0]}: {said}")
        return done.stdout


@cache
def engine(name: str) -> Engine:
    """An engine by name. One that is installed and does not answer is none."""
    if name not in ENGINES:
        raise SandboxError(f"{name!r} is no container engine; there are {' and '.join(ENGINES)}")
    if shutil.which(name) is None:
        raise SandboxError(f"{name} is not installed here")
    words = [name]
    if name == "podman" and shutil.which("runc", path=f"{os.defpath}:/usr/sbin:/sbin"):
        # Where control groups are of the old and the new kind at once, crun starts nothing.
        words += ["--runtime", "runc"]
    found = Engine(tuple(words))
    try:
        found.run("version")
    except SandboxError as error:
        raise SandboxError(f"{name} is installed and does not answer: {error}") from error
    return found


def machine_for(image: Image) -> Machine:
    """The machine an image makes; built and unpacked by whoever comes first."""
    parts = (image.reference, *(text for file in image.files for text in (file.path, file.content, str(file.executable))))
    folder = cached_folder("image", parts, lambda place: _unpack(image, place))
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    root = folder / "root"
    system = [name for name in _READ_ONLY if (root / name).is_dir() and not (root / name).is_symlink()]
    return Machine(
        system=tuple((str(root / name), f"/{name}") for name in system),
        workdir=settings["workdir"],
        env=settings["env"],
    )


def _unpack(image: Image, folder: Path) -> None:
    """Build the image and write its files and its settings into a folder."""
    chosen = engine(image.engine)
    name = image.reference or _built(chosen, image)
    container = chosen.run("create", name, "/bin/sh").strip().splitlines()[-1]
    try:
        settings = json.loads(chosen.run("inspect", "--type", "container", container))[0]["Config"]
        chosen.run("export", "-o", str(folder / "files.tar"), container, seconds=_BUILD_S)
    finally:
        chosen.run("rm", "-f", container)
        if not image.reference:
            chosen.run("rmi", "-f", name)
    _extract(folder / "files.tar", folder / "root")
    (folder / "files.tar").unlink()
    (folder / "settings.json").write_text(json.dumps(_settings(settings)), encoding="utf-8")


def _built(chosen: Engine, image: Image) -> str:
    with tempfile.TemporaryDirectory(prefix="tiebreak-image-") as made:
        tree.place_files(Path(made), image.files)
        digest = hashlib.blake2b(repr(image.files).encode(), digest_size=8).hexdigest()
        name = f"localhost/tiebreak-{digest}"
        # The result is kept by us: copies of every step on the way would only cost time and disk.
        whole = ("--layers=false",) if chosen.words[0] == "podman" else ()
        chosen.run("build", "-q", *whole, "-t", name, made, seconds=_BUILD_S)
    return name


def _settings(config: Mapping[str, object]) -> dict[str, object]:
    """The working folder and the environment that an image names."""
    named = config.get("Env")
    pairs = [str(pair).partition("=") for pair in named] if isinstance(named, list) else []
    workdir = str(PurePosixPath("/", str(config.get("WorkingDir") or "/")))
    left_out = ("HOSTNAME", "container", "HOME", "TERM")
    env = {name: value for name, _, value in pairs if name not in left_out}
    return {"workdir": _WORKDIR if workdir == "/" else workdir, "env": env}


def _extract(archive: Path, root: Path) -> None:
    """Unpack as ours: no owners, no devices. Links stay as they are, and nothing is written through them."""
    root.mkdir()
    with tarfile.open(archive) as packed:
        members = (member for member in packed if not member.isdev())
        packed.extractall(root, members=members, filter=_ours)  # noqa: S202 - each member is checked by the filter


def _ours(member: tarfile.TarInfo, destination: str) -> tarfile.TarInfo | None:
    """A member as a file of ours; None for one that would lie elsewhere."""
    parts = PurePosixPath(member.name).parts
    if not parts or ".." in parts or member.name.startswith("/"):
        return None
    # A folder can be entered and a file be read, whoever made them: everything belongs to one user now.
    mode = member.mode & 0o777 | (0o700 if member.isdir() else 0o400)
    return member.replace(mode=mode, uid=os.getuid(), gid=os.getgid(), uname="", gname="", deep=False)


def fresh_root(machine: Machine, folder: Path) -> Folders:
    """New folders with the image's own files in them, except for those of its system."""
    root, source = folder / "root", Path(machine.system[0][0]).parent
    root.mkdir(mode=0o755)
    system = [place.lstrip("/") for _, place in machine.system]
    copied = [str(entry) for entry in source.iterdir() if entry.name not in (*system, *_EMPTY)]
    _copy(copied, root)
    for name in (*system, *_EMPTY):
        (root / name).mkdir(exist_ok=True)
    return _folders(folder, root, machine)


def copied_root(machine: Machine, source: Path, folder: Path) -> Folders:
    """New folders with what an attempt has made of its root."""
    root = folder / "root"
    _copy([str(source)], root)
    return _folders(folder, root, machine)


def _folders(folder: Path, root: Path, machine: Machine) -> Folders:
    workspace = root / machine.workdir.lstrip("/")
    workspace.mkdir(parents=True, exist_ok=True)
    if not workspace.resolve().is_relative_to(root.resolve()):
        raise SandboxError(f"the image's working folder {machine.workdir} is a link that leads out of it")
    home, temporary = folder / "home", folder / "temporary"
    for place in (home, temporary):
        place.mkdir(mode=0o700)
    (root / "home" / "agent").mkdir(parents=True, exist_ok=True)
    return Folders(workspace, home, temporary, root)


def _copy(sources: Sequence[str], target: Path) -> None:
    """Copy files with their permissions and links; no link is followed."""
    words = ["cp", "-a", "--no-preserve=ownership", "--reflink=auto", "--", *sources, str(target)]
    try:
        done = subprocess.run(words, env={"PATH": os.defpath}, capture_output=True, text=True, check=False, timeout=_COPY_S)
    except subprocess.SubprocessError as error:
        raise SandboxError(f"an image's files cannot be copied: {error}") from error
    if done.returncode != 0:
        raise SandboxError(f"an image's files cannot be copied: {done.stderr.strip()[-300:]}")
