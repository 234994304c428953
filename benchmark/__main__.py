"""`python -m benchmark` is `python -m tiebreak`."""

from __future__ import annotations

import sys

from tiebreak.cli import main

if __name__ == "__main__":
    sys.exit(main())
