"""The wheel: what is in it, and that it works where only it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment

from tiebreak import __version__
from tiebreak.core import embedded

IMPORT_S = 0.1


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder the wheel is unpacked into, as an installer does."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(*arguments: str, cwd: Path, site: Path | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the interpreter, with the unpacked wheel if there is one."""
    environment = clean_environment(**({"PYTHONPATH": str(site)} if site else {}))
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def files_below(folder: Path, prefix: str) -> set[str]:
    """Files of a folder under the names they have in the wheel."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{prefix}/{path.relative_to(folder)}" for path in paths}


# --- what is in it


def test_the_wheel_holds_one_package_and_every_file_once(wheel: Path) -> None:
    """The package, the tasks and the configuration; nothing of the checkout's `benchmark`."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    package = [name for name in names if not name.startswith(f"tiebreak-{__version__}.dist-info/")]

    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert set(package) == {
        *files_below(ROOT / "tiebreak", "tiebreak"),
        *files_below(ROOT / "benchmark" / "tasks", "tiebreak/tasks"),
        "tiebreak/models_config.yaml",
    }
    assert sum(Path(name).name == "fix_typo.md" for name in names) == 1
    assert sum(Path(name).name == "models_config.yaml" for name in names) == 1


def test_the_command_is_installed(site: Path) -> None:
    scripts = (site / f"tiebreak-{__version__}.dist-info" / "entry_points.txt").read_text()
    assert "tiebreak = tiebreak.cli:main" in scripts


# --- where only the wheel is installed


def test_help_and_lists_work(site: Path, tmp_path: Path) -> None:
    shown = python("-m", "tiebreak", "--help", cwd=tmp_path, site=site)
    listed = python("-m", "tiebreak", "list", "datasets", cwd=tmp_path, site=site)

    assert shown.returncode == 0 and "check-tasks" in shown.stdout
    assert listed.returncode == 0 and "warmup" in listed.stdout
    assert list(tmp_path.iterdir()) == []


def test_results_go_to_a_folder_of_our_own_name(site: Path, tmp_path: Path) -> None:
    """`benchmark/results` is for a checkout."""
    line = "run --model baseline/random --dataset warmup --limit 3"
    done = python("-m", "tiebreak", *line.split(), cwd=tmp_path, site=site)

    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tiebreak_results"]
    (folder,) = (tmp_path / "tiebreak_results").iterdir()
    assert {"comparison_report.html", "trials.csv", "run.sqlite"} <= {path.name for path in folder.iterdir()}


def test_the_runner_stores_its_runs_in_the_same_place(site: Path, tmp_path: Path) -> None:
    code = "from tiebreak import *; print(MultiModelBenchmarkRunner(None).run(['baseline/random'], 'warmup').results_dir)"
    done = python("-c", code, cwd=tmp_path, site=site)

    assert Path(done.stdout.strip()).parent == tmp_path / "tiebreak_results", done.stderr


def test_the_shipped_configuration_is_used(site: Path, tmp_path: Path) -> None:
    done = python("-c", "from tiebreak.config import load_config; print(load_config().path)", cwd=tmp_path, site=site)

    assert done.stdout.strip() == str(site / "tiebreak" / "models_config.yaml"), done.stderr


@pytest.mark.needs("bubblewrap")
def test_a_shipped_task_can_be_proven(site: Path, tmp_path: Path) -> None:
    task = site / "tiebreak" / "tasks" / "smoke" / "add_comment.md"
    done = python("-m", "tiebreak", "check-tasks", str(task), cwd=tmp_path, site=site, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "add_comment" in done.stdout


def test_there_is_no_other_package(site: Path, tmp_path: Path) -> None:
    """`benchmark` is too common a name to take from whoever installs us."""
    done = python("-c", "import benchmark", cwd=tmp_path, site=site)

    assert "ModuleNotFoundError: No module named 'benchmark'" in done.stderr


# --- a fresh environment, on every Python this machine has


def _starts(python: str) -> bool:
    """Whether it can be run: pyenv leaves programs in the path that only say that there is no such version."""
    return subprocess.run([python, "-V"], capture_output=True, check=False).returncode == 0


def interpreters() -> dict[str, str]:
    """Pythons that can be run here, by version: the one of the tests, and others that are installed. None is fetched."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in ("3.11", "3.12", "3.13"):
        places = [*map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"))), shutil.which(f"python{version}")]
        working = (place for place in places if place and _starts(place))
        if version not in found and (place := next(working, None)):
            found[version] = place
    return found


INTERPRETERS = interpreters()


@pytest.mark.needs("uv", "embedded")
@pytest.mark.parametrize("version", INTERPRETERS)
def test_the_demo_of_an_installed_wheel_reaches_a_verdict(version: str, wheel: Path, tmp_path: Path) -> None:
    """`pip install 'tiebreak[demo]'` into an empty environment, then `tiebreak demo`; the weights are in the cache already."""
    weights = embedded.find_weights()
    assert weights is not None
    cache = tmp_path / "cache" / "tiebreak" / embedded._cache().name
    cache.mkdir(parents=True)
    shutil.copy(weights, cache)
    venv = tmp_path / "venv"
    subprocess.run([INTERPRETERS[version], "-m", "venv", "--without-pip", str(venv)], check=True, capture_output=True)
    install = ["uv", "pip", "install", "--quiet", "--python", str(venv / "bin" / "python"), f"{wheel}[demo]"]
    subprocess.run(install, check=True, capture_output=True, text=True, timeout=300)

    environment = clean_environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    command = [str(venv / "bin" / "tiebreak"), "demo", "--limit", "20"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "tiebreak_results").iterdir()
    report = json.loads((folder / "comparison_report.json").read_text(encoding="utf-8"))
    assert report["claims"][0]["kind"] in ("leads", "tie")
    assert report["claims"][0]["sentence"] in " ".join(done.stdout.split())


# --- imports are cheap


def import_seconds(statement: str, cwd: Path, site: Path | None = None) -> float:
    """What an import takes in a fresh interpreter; the best of five, since the machine may be busy."""
    code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    return min(float(python("-c", code, cwd=cwd, site=site).stdout) for _ in range(5))


def test_importing_the_installed_package_is_quick(site: Path, tmp_path: Path) -> None:
    assert import_seconds("import tiebreak", tmp_path, site) <= IMPORT_S


@pytest.mark.parametrize("module", ["tiebreak", "benchmark", "run_benchmarks"])
def test_importing_from_a_checkout_is_quick(module: str) -> None:
    assert import_seconds(f"import {module}", ROOT) <= IMPORT_S
