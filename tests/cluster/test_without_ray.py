"""Where Ray is not installed nothing changes; who asks for it is told what to install."""

import ast
import json
import subprocess
import sys

import pytest
from support.command import ROOT, clean_environment, run

import tiebreak
from tiebreak.config import BatchSettings
from tiebreak.core.errors import UsageError
from tiebreak.spec.flags import Flags

HIDDEN = "import sys; sys.modules['ray'] = None; from tiebreak.cli import main; sys.exit(main())"


def without_ray(*arguments, cwd):
    """The program in an environment that has no Ray."""
    command = [sys.executable, "-c", HIDDEN, *arguments]
    environment = clean_environment(PYTHONPATH=str(ROOT))
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def exam(tmp_path):
    (tmp_path / "exam.jsonl").write_text(json.dumps({"id": "1", "question": "What?", "answer": "A"}) + "\n")
    return tmp_path


def test_it_says_what_to_install_and_asks_nothing(exam):
    line = ("run", "--model", "baseline/constant", "--dataset", "exam.jsonl", "--on", "ray", "--output", "out")
    done = without_ray(*line, cwd=exam)
    assert done.returncode == 1
    assert "--on ray needs ray, which is not installed" in done.stderr
    assert "'tiebreak[ray]'" in done.stderr.replace(sys.executable, "").replace(" -m ", "")
    assert not (exam / "out").exists()
    assert without_ray("doctor", "--on", "ray", cwd=exam).returncode == 1


IN_PYTHON = """
import sys
sys.modules["ray"] = None
import tiebreak
try:
    tiebreak.run("baseline/constant", [{"id": "1", "question": "What?", "answer": "A"}], on="ray", results_dir="out")
except tiebreak.UsageError as error:
    print(error)
"""


def test_a_program_that_is_refused_finds_no_folder(exam):
    """Its samples were written down beside the store already: nobody has any use for them."""
    environment = clean_environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", IN_PYTHON], cwd=exam, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "needs ray, which is not installed" in done.stdout, done.stderr
    assert not (exam / "out").exists()


def test_a_run_on_this_machine_needs_no_ray(exam):
    done = without_ray("run", "--model", "baseline/constant", "--dataset", "exam.jsonl", cwd=exam)
    assert done.returncode == 0, done.stderr


def test_one_module_names_ray():
    home = ROOT / "tiebreak"
    named = set()
    for path in home.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == "ray" for alias in node.names):
                named.add(path.name)
            if isinstance(node, ast.Call) and ast.unparse(node).startswith("optional('ray"):
                named.add(str(path.relative_to(home)))
    assert named == {"cluster/ray.py"}


def test_the_cluster_is_loaded_when_it_is_wanted():
    code = "import tiebreak.cli.run, sys; print([m for m in sys.modules if m.startswith(('ray', 'tiebreak.cluster'))])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
    assert tiebreak.__version__


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"nodes_need": ("GPU:1",)}, "--nodes-need goes with --on ray"),
        ({"per_node": 4}, "--per-node goes with --on ray"),
        ({"send_keys": True}, "--send-keys goes with --on ray"),
        ({"on": "ray", "attended": True}, "--attended and --on exclude each other"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags, said):
    with pytest.raises(UsageError, match=said):
        Flags(**flags).completed(BatchSettings())


def test_what_is_bound_to_one_machine_is_refused_before_anything(exam):
    line = ("run", "--model", "baseline/constant", "--dataset", "exam.jsonl", "--output", "out", "--on", "ray", "--cache", "kept")
    done = run(*line, cwd=exam)
    assert done.returncode == 1
    assert "--cache keeps its files on one machine" in done.stderr
    assert not (exam / "out").exists()


@pytest.mark.needs("ray")
@pytest.mark.parametrize(
    ("address", "said"),
    [("127.0.0.1:9", "no Ray cluster answers at 127.0.0.1:9"), ("ray://somewhere:10001", "give the head node's HOST:PORT")],
)
def test_an_address_that_is_none_is_said_at_once(exam, address, said):
    line = ("run", "--model", "baseline/constant", "--dataset", "exam.jsonl", "--on", "ray", "--output", "out")
    done = run(*line, cwd=exam, RAY_ADDRESS=address)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (exam / "out").exists()
