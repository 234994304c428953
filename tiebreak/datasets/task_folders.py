"""Coding tasks written as folders: our own layout, Harbor's and Exercism's."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebreak.core.task import Check, Environment, Image, Solution, Task, TaskFile, TaskLimits
from tiebreak.datasets.task_markdown import FrontMatter, check_of, limits_of, servers_of, split_front_matter

_LARGEST_FILE = 16 * 1024 * 1024
_NEVER = frozenset({".git", "__pycache__", ".DS_Store", "node_modules"})
_INSTEAD = {
    ".git": "every attempt begins in a new repository with one commit; `repo` and `commit` name another start",
    "node_modules": "name the lock file it is installed from, as in packages: {npm: [package-lock.json]}",
}
"""Of folders that are left out, those that somebody may miss."""


class CannotRunHere(Exception):
    """The task is sound and needs something this machine does not have."""


# --- our own: task.md, workspace/, verify/, solution/ ------------------------------------------------


def read_folder(folder: Path) -> tuple[FrontMatter, str, Task]:
    """A task of our own layout."""
    front, prompt, _ = split_front_matter(_text(folder / "task.md", folder))
    verify, solution, cheat = (folder / name for name in ("verify", "solution", "cheat"))
    task = Task(
        title=front.title,
        tags=tuple(front.tags),
        files=files_below(folder / "workspace", root=folder),
        check=check_of(front, _read(verify / "check.sh", folder), files_below(verify, root=folder, leave_out=("check.sh",)))
        if verify.is_dir()
        else None,
        solution=_overlay(solution, folder),
        cheat=_overlay(cheat, folder),
        limits=limits_of(front),
        needs=tuple(front.needs),
        mcp=servers_of(front),
    )
    return front, prompt.strip(), task


def _overlay(folder: Path, root: Path) -> Solution | None:
    if not folder.is_dir():
        return None
    script = folder / "solve.sh"
    files = files_below(folder, root=root, leave_out=("solve.sh",))
    return Solution(script=_text(script, root) if script.exists() else "", files=files)


def files_below(folder: Path, *, root: Path, prefix: str = "", leave_out: tuple[str, ...] = ()) -> tuple[TaskFile, ...]:
    """Every file below a folder of the task at `root`, by its path there; version control, caches and links are left out."""
    if not inside(folder, root).is_dir():
        return ()
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    relative = [path.relative_to(folder) for path in paths]
    return tuple(
        task_file(folder / path, f"{prefix}{path.as_posix()}", root=root)
        for path in relative
        if not _NEVER & set(path.parts) and path.as_posix() not in leave_out
    )


def left_out(folder: Path) -> list[tuple[Path, str]]:
    """Folders of a task that are no part of it, though somebody may have meant them to be; and what to do instead."""
    found = []
    for place, names, _ in os.walk(folder):
        found += [(Path(place, name), _INSTEAD[name]) for name in sorted(_INSTEAD.keys() & set(names))]
        names[:] = [name for name in names if name not in _NEVER]
    return sorted(found)


def inside(path: Path, root: Path) -> Path:
    """A path of a task, which may lie nowhere but in the task's own folder, links followed."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise ValueError(f"{path} leads out of the task's folder, to {real}: a task brings its own files and no others")
    return real


def task_file(source: Path, path: str, *, root: Path) -> TaskFile:
    """A file of the task at `root` as a file of a workspace."""
    source = inside(source, root)
    if not source.is_file():
        raise ValueError(f"{source} is no file")
    if source.stat().st_size > _LARGEST_FILE:
        raise ValueError(f"{source} is larger than {_LARGEST_FILE >> 20} MB")
    return TaskFile(path=path, content=source.read_bytes(), executable=bool(source.stat().st_mode & 0o100))


def _seconds(settings: Mapping[str, Any], part: str) -> float | None:
    """The limit that task.toml sets a part of the work, where it sets one."""
    if (given := settings.get(part, {}).get("timeout_sec")) is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= _LONGEST_S:
        raise ValueError(f"timeout_sec of [{part}] in task.toml is {given!r}: it must be a number of seconds")
    return float(given)


def _read(path: Path, root: Path) -> str:
    if not path.is_file():
        raise ValueError(f"{path.parent.name}/{path.name} is missing: the script that judges the work")
    return _text(path, root)


def _text(path: Path, root: Path) -> str:
    return inside(path, root).read_text(encoding="utf-8")


# --- Harbor: task.toml, instruction.md, environment/Dockerfile, tests/test.sh, solution/solve.sh -----

_LONGEST_S = 1e9
_PLAIN_IMAGE = re.compile(r"(?:docker\.io/(?:library/)?)?(debian|ubuntu|python|alpine|bash|busybox)(?::[\w.-]+)?$")
_DOWNLOADS = re.compile(r"\b(apt-get|apt|apk|curl|wget|pip3? install|uv (?:pip|add|tool)|uvx|npm (?:i|install|ci)|git clone)\b")
_HARBOR_CHECK = """\
mkdir -p /logs/verifier /logs/agent
code=0
bash /tests/test.sh || code=$?
reward=/logs/verifier/reward.txt
[ -f "$reward" ] && exec awk '{ exit !($1 >= 1) }' "$reward"
exit $code
"""
_HIDDEN = ".harbor-tests"
_DPKG = Path("/var/lib/dpkg/info")
_TESTS_IN_IMAGE = f"""\
rm -rf /tests && mv {_HIDDEN} /tests
"""


@dataclass(slots=True)
class _Image:
    """What a Dockerfile says that can be done without Docker."""

    workdir: str = "/app"
    env: tuple[tuple[str, str], ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()
    """What its RUN lines do in the working folder."""
    pip: tuple[str, ...] = ()


def read_harbor(folder: Path, engine: str = "") -> tuple[FrontMatter, str, Task]:
    """A Harbor task, its image made by a container engine. Without one, raises CannotRunHere when it needs one."""
    if engine:
        return _in_container(folder, engine)
    settings = tomllib.loads(_text(folder / "task.toml", folder))
    image = _dockerfile(folder / "environment" / "Dockerfile", folder)
    test, solve = _read(folder / "tests" / "test.sh", folder), folder / "solution" / "solve.sh"
    if found := _DOWNLOADS.search(test):
        raise CannotRunHere(f"its tests/test.sh uses {found[1]!r}, and checks have no network")
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in image.env)
    check = Check(
        script=exports + _HARBOR_CHECK,
        files=files_below(folder / "tests", root=folder, prefix=f"{_HIDDEN}/"),
        timeout_s=_seconds(settings, "verifier") or 120.0,
    )
    environment = settings.get("environment", {})
    meta = settings.get("task", {}) | settings.get("metadata", {})
    task = Task(
        title=str(meta.get("title") or meta.get("name") or folder.name),
        tags=tuple(map(str, meta.get("tags", ()))),
        files=_copied(folder / "environment", image, folder),
        check=check,
        solution=Solution(script=exports + _text(solve, folder)) if solve.is_file() else None,
        limits=TaskLimits(
            timeout_s=_seconds(settings, "agent"),
            memory_mb=int(environment.get("memory_mb", 2048)),
        ),
        links=((image.workdir, "."), ("/tests", _HIDDEN), ("/logs", "")),
        environment=_environment_of(image, exports),
    )
    return FrontMatter(title=task.title), _text(folder / "instruction.md", folder).strip(), task


def _environment_of(image: _Image, exports: str) -> Environment:
    """The packages and the set-up that an image's RUN lines come to."""
    pinned = "".join(f"{name}\n" for name in image.pip).encode()
    commands = "".join(f"{command}\n" for command in image.commands)
    return Environment(
        pip=(TaskFile(path="packages.txt", content=pinned),) if pinned else (), setup=exports + commands if commands else ""
    )


def _in_container(folder: Path, engine: str) -> tuple[FrontMatter, str, Task]:
    """A Harbor task as it is: its own image, its test script in it."""
    settings = tomllib.loads(_text(folder / "task.toml", folder))
    context, solve = folder / "environment", folder / "solution" / "solve.sh"
    environment = settings.get("environment", {})
    meta = settings.get("task", {}) | settings.get("metadata", {})
    reference = str(environment.get("docker_image") or "")
    if not reference and not (context / "Dockerfile").is_file():
        raise CannotRunHere("it has neither environment/Dockerfile nor an image")
    _read(folder / "tests" / "test.sh", folder)
    task = Task(
        title=str(meta.get("title") or meta.get("name") or folder.name),
        tags=tuple(map(str, meta.get("tags", ()))),
        check=Check(
            script=_TESTS_IN_IMAGE + _HARBOR_CHECK,
            files=files_below(folder / "tests", root=folder, prefix=f"{_HIDDEN}/"),
            timeout_s=_seconds(settings, "verifier") or 120.0,
            in_image=True,
        ),
        solution=Solution(script=_text(solve, folder)) if solve.is_file() else None,
        limits=TaskLimits(
            timeout_s=_seconds(settings, "agent"),
            memory_mb=int(environment.get("memory_mb", 2048)),
        ),
        environment=Environment(
            image=Image(engine=engine, files=() if reference else files_below(context, root=folder), reference=reference)
        ),
    )
    return FrontMatter(title=task.title), _text(folder / "instruction.md", folder).strip(), task


def _dockerfile(path: Path, root: Path) -> _Image:
    image = _Image()
    text = _text(path, root).replace("\\\n", " ") if path.is_file() else ""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            _instruction(image, word.upper(), rest.strip())
    return image


def _instruction(image: _Image, word: str, rest: str) -> None:
    """Take note of one line; what only a container can do makes the task one that cannot run here."""
    if word == "FROM" and not _PLAIN_IMAGE.match(rest.split(maxsplit=1)[0]):
        raise CannotRunHere(f"it is built on the image {rest!r}; {_NEEDS_ENGINE}")
    if word == "RUN":
        _note_commands(image, rest)
    if word == "WORKDIR":
        image.workdir = rest
    elif word == "ENV":
        pairs = shlex.split(rest) if "=" in rest else [rest.replace(" ", "=", 1)]
        image.env += tuple((key, value) for key, _, value in (pair.partition("=") for pair in pairs))
    elif word in ("COPY", "ADD"):
        *sources, target = [part for part in shlex.split(rest) if not part.startswith("--")]
        image.copies += tuple((source, target) for source in sources)


_NOTHING_TO_DO = re.compile(
    r"apt(?:-get)? (?:-\S+ )*(?:update|clean|autoremove).*|rm -rf? (?:/var/lib/apt/lists/?\S*|/root/\.cache)|true"
)
_ENGINE_ONLY = re.compile(
    r"\b(?:useradd|adduser|usermod|groupadd|chown|su|service|systemctl|curl|wget|git clone|npm|update-\w+)\b"
)
_NEEDS_ENGINE = "it needs podman or docker (--sandbox)"
_APT = re.compile(r"apt(?:-get)? (?:-\S+ )*install (.*)")
_PIP = re.compile(r"(?:python3? -m )?pip3? (?:-\S+ )*install (.*)")
_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?==[\w.!+-]+")
_ABSOLUTE = re.compile(r"(?<![\w.$~}])/[\w.-]+[\w./-]*")
_HARMLESS = ("/dev/null", "/usr/bin/", "/bin/")


def _note_commands(image: _Image, line: str) -> None:
    """What a RUN line does, as far as this machine can do the same: packages that are here, and work in the folder."""
    for command in map(str.strip, re.split(r"&&|;(?=\s)", line)):
        if not command or _NOTHING_TO_DO.fullmatch(command):
            continue
        if found := _APT.fullmatch(command):
            _refuse_absent(word for word in found[1].split() if not word.startswith("-"))
        elif found := _PIP.fullmatch(command):
            names = [word.strip("'\"") for word in found[1].split() if not word.startswith("-")]
            if loose := [name for name in names if not _PINNED.fullmatch(name)]:
                raise CannotRunHere(f"its Dockerfile installs {loose[0]!r} without a version; {_NEEDS_ENGINE}")
            image.pip += tuple(names)
        else:
            _refuse_outside(command.removesuffix("|| true"), image.workdir)
            image.commands += (command,)


def _refuse_absent(packages: Iterable[str]) -> None:
    """Debian's packages that this machine does not have."""
    listed = [package.partition("=")[0] for package in packages]
    if absent := [name for name in listed if not any(_DPKG.glob(f"{glob.escape(name)}*.list")) and shutil.which(name) is None]:
        raise CannotRunHere(f"its Dockerfile installs {', '.join(absent)}, not installed here; {_NEEDS_ENGINE}")


def _refuse_outside(command: str, workdir: str) -> None:
    if found := _ENGINE_ONLY.search(command):
        raise CannotRunHere(f"its Dockerfile runs {found[0]!r}; {_NEEDS_ENGINE}")
    for path in _ABSOLUTE.findall(command):
        if not (path.startswith(_HARMLESS) or path == workdir or path.startswith(f"{workdir.rstrip('/')}/")):
            raise CannotRunHere(f"its Dockerfile runs {command!r} outside {workdir}; {_NEEDS_ENGINE}")


def _copied(context: Path, image: _Image, root: Path) -> tuple[TaskFile, ...]:
    """What the image's COPY lines put below its working folder; all of it when there are none."""
    if not image.copies:
        return files_below(context, root=root, leave_out=("Dockerfile", "docker-compose.yaml"))
    found: dict[str, TaskFile] = {}
    for source, target in image.copies:
        below = _below(target, image.workdir)
        # As Docker has it, a source is looked up in the context, whatever it begins with.
        path = inside(context / source.lstrip("/"), context)
        if path.is_dir():
            prefix = "" if below in ("", ".") else f"{below}/"
            files = files_below(path, root=root, prefix=prefix, leave_out=("Dockerfile", "docker-compose.yaml"))
        else:
            into = target.endswith("/") or below in ("", ".")
            name = f"{below}/{path.name}".lstrip("./") if into else below
            files = (task_file(path, name, root=root),)
        found |= {file.path: file for file in files}
    return tuple(found.values())


def _below(target: str, workdir: str) -> str:
    if not target.startswith("/"):
        return target.removeprefix("./").rstrip("/")
    if target.rstrip("/") == workdir.rstrip("/"):
        return ""
    if not target.startswith(workdir.rstrip("/") + "/"):
        raise CannotRunHere(f"it puts files at {target}, outside its working folder {workdir}; {_NEEDS_ENGINE}")
    return target[len(workdir.rstrip("/")) + 1 :].rstrip("/")


# --- Exercism: .docs/instructions.md, .meta/config.json, a stub, tests -------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    """How exercises of one language are tested."""

    needs: tuple[str, ...]
    test: str
    """The script; {tests} stands for the test files."""
    processes: int = TaskLimits().processes
    """Most processes and threads."""
    packages: bytes = b""
    """A package.json of what the tests need from npm."""
    settings: tuple[str, ...] = ()
    """Globs of files that steer the runner of tests: the work does not decide what is in them."""
    refused: str = ""
    """Why its tests cannot run here, whatever is installed."""


_CMAKE = """\
mkdir "$TMPDIR"/{name} && cp -r . "$TMPDIR"/{name} && cd "$TMPDIR"/{name}
cmake -S . -B build -DEXERCISM_RUN_ALL_TESTS=1 && cmake --build build"""
"""Their CMakeLists.txt names everything by the folder it lies in."""
_PYTEST = 'python3 -I "$RUN_PYTEST" {tests}'
_JEST = 'python3 -I "$RUN_SUITE" env CI=true jest --runTestsByPath {tests}'
_JEST_SETTINGS = ("package.json", "jest.config.*", "babel.config.*", ".babelrc*")
_NO_TEST_NEEDS = re.compile(r"eslint|prettier|^@types/")
_PUBLISHED = re.compile(r"[~^]?\d[\w.+-]*")
_PUT_OFF = re.compile(r"\bx(test|it|describe)\b")
"""Tests that learners are to switch on one by one."""
_LANGUAGES = {
    # The sandbox always has the Python that runs us.
    ".py": _Language(needs=(), test='python3 -I "$RUN_TESTS" {tests}'),
    ".go": _Language(needs=("go",), test='python3 -I "$RUN_SUITE" env GOFLAGS=-mod=mod GOPROXY=off go test ./...'),
    ".rs": _Language(needs=("cargo",), test='python3 -I "$RUN_SUITE" cargo test --offline -- --include-ignored'),
    ".sh": _Language(needs=("bats",), test="BATS_RUN_SKIPPED=true bats {tests}"),
    ".bats": _Language(needs=("bats",), test="BATS_RUN_SKIPPED=true bats {tests}"),
    ".js": _Language(needs=("node",), test='python3 -I "$RUN_SUITE" node --test {tests}'),
    ".java": _Language(needs=("java",), test="", refused="its tests want Gradle and what it downloads"),
    # Tests of concurrency start a thousand threads.
    ".cpp": _Language(needs=("cmake", "g++"), test=_CMAKE, processes=2048),
}


def read_exercism(folder: Path) -> tuple[FrontMatter, str, Task]:
    """An exercise in Exercism's layout, as aider's polyglot set has them."""
    config = json.loads(_text(folder / ".meta" / "config.json", folder))
    files = config["files"]
    solutions, tests, examples = (tuple(files.get(key, ())) for key in ("solution", "test", "example"))
    language = _language(folder, solutions, tests)
    hidden = tuple(_switched_on(task_file(folder / path, path, root=folder)) for path in tests)
    extra = tuple(file for file in files_below(folder, root=folder) if not file.path.startswith((".meta/", ".docs/")))
    script = language.test.format(tests=" ".join(map(shlex.quote, tests)), name=shlex.quote(folder.name)) + "\n"
    task = Task(
        title=f"{folder.name}: {config.get('blurb', '')}".rstrip(": "),
        files=tuple(file for file in extra if file.path not in tests),
        check=Check(script=script, files=hidden, restore=language.settings, timeout_s=180.0),
        solution=_example(folder, examples, solutions),
        needs=language.needs,
        limits=TaskLimits(processes=language.processes),
        environment=Environment(npm=(TaskFile(path="package.json", content=language.packages),) if language.packages else ()),
    )
    documents = [folder / ".docs" / f"{name}.md" for name in ("introduction", "instructions", "instructions.append")]
    texts = [_text(document, folder).strip() for document in documents if document.is_file()]
    names = ", ".join(solutions)
    rules = f"Write your solution in {names}. Keep the names that are there; use only the standard library."
    return FrontMatter(title=task.title), "\n\n".join((*texts, rules)), task


def _language(folder: Path, solutions: tuple[str, ...], tests: tuple[str, ...]) -> _Language:
    suffix = Path(solutions[0]).suffix if solutions else ""
    language = _LANGUAGES.get(suffix)
    if language is None:
        raise CannotRunHere(f"exercises in {suffix or 'an unknown language'} cannot be tested here")
    text = "".join(inside(folder / path, folder).read_text(encoding="utf-8", errors="replace") for path in tests)
    if language.refused:
        raise CannotRunHere(language.refused)
    if suffix == ".js" and "node:test" not in text:
        return _Language(needs=language.needs, test=_JEST, packages=_packages(folder), settings=_JEST_SETTINGS)
    if suffix == ".py" and re.search(r"^\s*(?:import|from) pytest", text, re.MULTILINE):
        return _Language(needs=language.needs, test=_PYTEST)
    return language


def _switched_on(file: TaskFile) -> TaskFile:
    """A file of tests with those of JavaScript switched on that are put off."""
    if not file.path.endswith(".js"):
        return file
    return TaskFile(path=file.path, content=_PUT_OFF.sub(r"\1", file.content.decode("utf-8", "replace")).encode())


def _packages(folder: Path) -> bytes:
    """What an exercise's tests need from npm. The same for all of a set, so that it is installed once."""
    listed = json.loads(_text(folder / "package.json", folder)) if (folder / "package.json").is_file() else {}
    named = {**(listed.get("devDependencies") or {}), **(listed.get("dependencies") or {})}
    needed = {name: str(version) for name, version in sorted(named.items()) if not _NO_TEST_NEEDS.search(name)}
    if "jest" not in needed or not all(map(_PUBLISHED.fullmatch, needed.values())):
        raise CannotRunHere("its package.json does not say which jest from npm its tests need")
    return json.dumps({"private": True, "dependencies": needed}, indent=1).encode()


def _example(folder: Path, examples: tuple[str, ...], solutions: tuple[str, ...]) -> Solution | None:
    """The reference: each example stands for the next solution file with the same ending."""
    pairs = []
    for suffix in dict.fromkeys(Path(example).suffix for example in examples):
        alike = [[path for path in paths if path.endswith(suffix)] for paths in (examples, solutions)]
        pairs += list(zip(*alike, strict=False))
    return Solution(files=tuple(task_file(folder / example, path, root=folder) for example, path in pairs)) if pairs else None
