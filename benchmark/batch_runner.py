"""The front door for coding tasks: `uv run benchmark/batch_runner.py --task …` is `tiebreak batch --task …`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, this folder comes first on the path, where `import datasets` would find our own room of that name.
    here = Path(__file__).resolve().parent
    sys.path[:] = [str(here.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() != here)]

    from benchmark.cli.main import run_command_line

    sys.exit(run_command_line(default_command="batch"))
