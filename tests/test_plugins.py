"""Packages of other people get nothing less than ours do: the examples are really installed, and used."""

import importlib.util
import os
import subprocess
import sys
import zipfile

import pytest
from support.command import ROOT, clean_environment, only_run, read_csv

EXAMPLES = ROOT / "examples"


def installed(target, name):
    """Build an example and put it where Python finds it, as an installer does; nothing is downloaded."""
    wheels = target / "wheels"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=EXAMPLES / name, check=True, capture_output=True, timeout=120)
    [wheel] = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    if importlib.util.find_spec("pip"):
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
        subprocess.run([*install, str(wheel)], check=True, capture_output=True, timeout=120)
    else:
        # Some systems ship Python without pip; a wheel of plain Python is installed by unpacking it.
        zipfile.ZipFile(wheel).extractall(target)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    for name in ("tiebreak-echo", "tiebreak-haiku"):
        installed(target, name)
    return target


def tiebreak(place, cwd, *arguments):
    environment = clean_environment(PYTHONPATH=os.pathsep.join((str(ROOT), str(place))))
    command = [sys.executable, "-m", "tiebreak", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_a_provider_a_dataset_and_a_scorer_from_outside_run_together(place, tmp_path):
    done = tiebreak(place, tmp_path, "run", "--models", "echo/parrot,echo/loud", "--dataset", "haiku", "--scorer", "lines:1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_csv(only_run(tmp_path) / "trials.csv")
    assert {row["model"] for row in rows} == {"echo/parrot", "echo/loud"}
    assert {row["score"] for row in rows} == {"1.0"}


@pytest.mark.parametrize(("what", "name"), [("providers", "echo"), ("datasets", "haiku"), ("scorers", "lines")])
def test_they_are_listed_with_ours(place, tmp_path, what, name):
    listed = tiebreak(place, tmp_path, "list", what).stdout
    assert name in [line.split()[0] for line in listed.splitlines() if line.strip()]


def test_a_provider_takes_at_most_sixty_lines():
    lines = (EXAMPLES / "tiebreak-echo" / "tiebreak_echo" / "__init__.py").read_text().splitlines()
    assert len(lines) <= 60


def test_the_examples_have_what_an_installer_needs():
    assert {path.parent.name for path in EXAMPLES.glob("*/pyproject.toml")} >= {"tiebreak-echo", "tiebreak-haiku"}
