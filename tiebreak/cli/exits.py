"""What the exit codes mean."""

from __future__ import annotations

DONE = 0
FAILED = 1
PARTIAL = 2
GATE = 3
INTERRUPTED = 130
TERMINATED = 143
