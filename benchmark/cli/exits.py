"""What the exit codes mean."""

from __future__ import annotations

FAILED = 1
PARTIAL = 2
INTERRUPTED = 130
TERMINATED = 143
