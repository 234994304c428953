#!/usr/bin/env python3
"""Front door for datasets: the same as `tiebreak run`, and takes tiebreak's other commands too."""

import sys

from benchmark.cli import main

if __name__ == "__main__":
    sys.exit(main(default_command="run"))
