"""Live pages over the stores of runs: read-only, on this machine alone, with no build step."""
