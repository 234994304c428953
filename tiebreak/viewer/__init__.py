"""Live pages over the stores of runs: on this machine alone, with no build step; they change nothing but people's votes."""
