"""The notebook of the examples runs from its first cell to its last, and shows what it says it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command import ROOT, clean_environment

NOTEBOOK = ROOT / "examples" / "data_frame_to_verdict.ipynb"


def cells(kind: str, notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_no_output_is_committed() -> None:
    """Outputs would show the machine and the day they were made on."""
    for cell in cells("code", json.loads(NOTEBOOK.read_text(encoding="utf-8"))):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)


EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": "."}}).execute()
nbformat.write(notebook, "executed.ipynb")
"""


@pytest.mark.needs("notebook")
def test_the_notebook_goes_from_a_data_frame_to_a_verdict(tmp_path: Path) -> None:
    """A real kernel, in a process of its own: started, cancelled, resumed, shown."""
    homes = {name: str(tmp_path / "home") for name in ("HOME", "IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    environment = clean_environment(PYTHONPATH=str(ROOT)) | homes
    command = [sys.executable, "-c", EXECUTE, str(NOTEBOOK)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    notebook = json.loads((tmp_path / "executed.ipynb").read_text(encoding="utf-8"))

    outputs = [output for cell in cells("code", notebook) for output in cell["outputs"]]
    pages = ["".join(output["data"]["text/html"]) for output in outputs if "text/html" in output.get("data", {})]
    printed = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    assert len(pages) == 3, "the frame, the run that was stopped, the run that was resumed"
    assert "careful.json is better than scripted/hasty.json" in printed
    assert "careful.json is better than" in pages[2]
    trials = (tmp_path / "sums" / "trials.csv").read_text(encoding="utf-8").splitlines()
    assert len(trials) == 81
