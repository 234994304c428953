"""What programs find besides the system's own: environments, packages, tools of this machine."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from tiebreak.core.errors import SandboxError
from tiebreak.core.task import Check, Environment, Task, TaskFile
from tiebreak.core.work import Command
from tiebreak.sandbox.isolation import isolation_at
from tiebreak.sandbox.layers import cached_folder, layer_for
from tiebreak.sandbox.workspace import Workspace

pytestmark = pytest.mark.needs("bubblewrap")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lock(text: str) -> Environment:
    return Environment(pip=(TaskFile(path="requirements.txt", content=text.encode()),))


async def said(task: Task, script: str, scratch: Path) -> str:
    async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=scratch) as workspace:
        return (await workspace.run(Command(argv=("bash", "-c", script)))).output.strip()


async def test_an_environment_of_this_machine_is_seen_and_cannot_be_changed(tmp_path: Path) -> None:
    task = Task(environment=Environment(python=sys.executable))

    script = "p=$(python -c 'import pytest, sys; print(sys.prefix)'); echo $p; touch $p/new || echo no"

    assert (await said(task, script, tmp_path)).splitlines()[0] == sys.prefix
    assert (await said(task, script, tmp_path)).endswith("no")


async def test_what_a_task_calls_its_python_is_not_run_outside(tmp_path: Path) -> None:
    """A task may come from anybody."""
    trap = tmp_path / "venv" / "bin" / "python"
    trap.parent.mkdir(parents=True)
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {secrets}/bin\n")

    with pytest.raises(SandboxError, match="is no interpreter of a virtual environment"):
        layer_for(Environment(python=str(trap)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "line",
    [
        "-e .",
        "--index-url http://127.0.0.1:9/",
        "evil @ file:///etc",
        "git+https://127.0.0.1/evil",
        "./wheel.whl",
        "-r other.txt",
    ],
)
def test_lock_files_name_packages_of_an_index_and_nothing_else(line: str) -> None:
    with pytest.raises(SandboxError, match=r"is no package of an index"):
        layer_for(lock(f"iniconfig==2.0.0\n{line}\n"))


def wheel(folder: Path) -> None:
    """A package as an index would have it."""
    folder.mkdir()
    files = {
        "tiny_one.py": "WORD = 'installed'\n",
        "tiny_one-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-one\nVersion: 1.0\n",
        "tiny_one-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, "tiny_one-1.0.dist-info/RECORD"))
    with zipfile.ZipFile(folder / "tiny_one-1.0-py3-none-any.whl", "w") as packed:
        for name, text in {**files, "tiny_one-1.0.dist-info/RECORD": record}.items():
            packed.writestr(name, text)


async def test_packages_are_installed_once_and_used_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "index")
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(tmp_path / "index"))
    task, script = Task(environment=lock("# a lock\ntiny-one==1.0\n")), "python -c 'import tiny_one; print(tiny_one.WORD)'"

    assert await said(task, script, tmp_path) == "installed"
    monkeypatch.setenv("PATH", "/nowhere")
    assert await said(task, script, tmp_path) == "installed"


def test_a_layer_that_could_not_be_made_leaves_nothing(cache: Path) -> None:
    def broken(folder: Path) -> None:
        (folder / "half").touch()
        raise SandboxError("no")

    with pytest.raises(SandboxError, match="no"):
        cached_folder("pip", ["a"], broken)
    assert [path for path in (cache / "tiebreak" / "layers").iterdir() if path.is_dir()] == []
    assert (cached_folder("pip", ["a"], lambda folder: (folder / "whole").touch()) / "whole").exists()


async def test_a_tool_outside_the_systems_folders_is_brought_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on this machine's PATH, looked for inside: it must be there as well."""
    tool = tmp_path / "opt" / "bin" / "own-tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho here\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")

    assert await said(Task(needs=("own-tool",)), "own-tool", tmp_path) == "here"
    assert "not found" in await said(Task(), "own-tool", tmp_path)


async def test_a_set_up_runs_once_and_is_part_of_the_start(tmp_path: Path) -> None:
    """What it makes is no change of anybody's; a set-up that fails is said to have failed."""
    check = Check(script="test -d empty; grep -q made data.txt")
    setup = "echo made > data.txt; mkdir empty; date +%N > when.txt"
    task = Task(files=(TaskFile(path="a.txt", content=b"a"),), environment=Environment(setup=setup), check=check)
    times = []
    for _ in range(2):
        async with Workspace.open(task, isolation=isolation_at("bubblewrap"), scratch=tmp_path) as workspace:
            assert (await workspace.changes()).files == ()
            assert (await workspace.verify(check)).passed
            times.append(await workspace.read("when.txt"))
    assert times[0] == times[1]

    with pytest.raises(SandboxError, match=r"set-up failed \(exit code 3\)"):
        await said(Task(environment=Environment(setup="exit 3")), "true", tmp_path)


FAKE_NPM = """\
#!/bin/sh
echo "$@" >> {log}
mkdir -p node_modules/.bin
printf '#!/bin/sh\necho jest of the layer\n' > node_modules/.bin/jest
chmod +x node_modules/.bin/jest
"""


@pytest.mark.parametrize(("files", "verb"), [(("package.json",), "install"), (("package.json", "package-lock.json"), "ci")])
async def test_packages_of_npm_are_installed_once_without_their_scripts(
    files: tuple[str, ...], verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a lock file what it says; without one what is found the first time."""
    npm, log = tmp_path / "bin" / "npm", tmp_path / "npm.log"
    npm.parent.mkdir()
    npm.write_text(FAKE_NPM.format(log=log))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    task = Task(environment=Environment(npm=tuple(TaskFile(path=name, content=b"{}") for name in files)))

    assert await said(task, "jest", tmp_path) == "jest of the layer"
    assert await said(task, "jest", tmp_path) == "jest of the layer"

    (call,) = log.read_text().splitlines()
    assert call.split()[:2] == [verb, "--ignore-scripts"]
