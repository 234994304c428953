"""The front door for coding tasks: `uv run benchmark/batch_runner.py --task …` is `tiebreak batch --task …`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, this folder is the first place where imports are looked for; the checkout's own folder belongs there.
    here = Path(__file__).resolve().parent
    sys.path[:] = [str(here.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() != here)]

    from tiebreak.cli import main

    sys.exit(main(default_command="batch"))
