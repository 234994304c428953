"""From one machine to a cluster in five commands: each is run as docs/cluster.md prints it, on two machines of our own."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.command import ROOT, clean_environment
from support.ray_network import PrintedNetwork

pytestmark = [pytest.mark.needs("ray", "namespaces"), pytest.mark.filterwarnings("ignore")]

QUESTIONS = 12
LIBRARIES = sysconfig.get_path("purelib")
"""What the checkout was installed with: Ray and the rest, that pip would bring."""


@pytest.fixture(scope="module")
def lines():
    page = (ROOT / "docs" / "cluster.md").read_text()
    return re.findall(r"^(pip install .*|ray start .*|tiebreak .*)$", page.partition("\n## What holds")[0], re.MULTILINE)


@pytest.fixture(scope="module")
def path(lines, tmp_path_factory):
    """A new environment in which the first line was run. Its index is a folder with our wheel; libraries are here already."""
    folder = tmp_path_factory.mktemp("machine")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=120)
    path = os.pathsep.join([str(folder / "venv" / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment = clean_environment(PATH=path, PYTHONPATH=LIBRARIES, **index)
    done = subprocess.run(["bash", "-c", lines[0]], env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Successfully installed tiebreak-" in done.stdout
    assert re.search(r"^Requirement already satisfied: ray\b.*\(from tiebreak\[ray\]", done.stdout, re.MULTILINE), done.stdout
    # Ray itself was here already: pip would have brought its command too.
    script = folder / "venv" / "bin" / "ray"
    script.write_text(f"#!{folder}/venv/bin/python\nfrom ray.scripts.scripts import main\nmain()\n")
    script.chmod(0o755)
    return path


def test_the_five_commands_of_the_page_work_as_printed(lines, path, tmp_path):
    """With the token of its warning box: who has none reaches nothing. Keys are those of each node's own shell."""
    install, head, other, doctor, run = lines
    assert shlex.split(install) == ["pip", "install", "tiebreak[ray]"]
    rows = [{"id": f"q{i}", "question": f"What is {i} + {i}?", "answer": "A"} for i in range(QUESTIONS)]
    (tmp_path / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with PrintedNetwork(head, other, PATH=path, PYTHONPATH=LIBRARIES) as network:
        code, said = network.shell(0, doctor, cwd=tmp_path)
        assert code == 0, said
        assert len(re.findall(r"^✓ node ", said, re.MULTILINE)) == 2, said
        code, said = network.shell(0, run, cwd=tmp_path)
        assert code == 0, said
        assert len(network.server.ledger) == QUESTIONS
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        code, said = network.shell(0, doctor, cwd=tmp_path, HOME=str(stranger))
        assert code != 0, said
        assert "Traceback" not in said, said
        assert "token" in said, said
